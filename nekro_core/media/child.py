"""Defines how a confined child process reads one request and writes one answer."""

import importlib
import json
import os
import pkgutil
import sys
from collections.abc import Callable, Sequence
from typing import Any

from nekro_core.media.errors import CodecMissing, UnusableMedia
from nekro_core.system.confinement.child import confine

Answer = tuple[dict[str, Any], bytes]


def load_packages(*names: str) -> None:
    """Load packages with all their modules, because a confined process cannot load modules.

    ``encodings``, Python's package of text encodings, belongs to every library that reads text: it
    loads the module of an encoding only when a file uses this encoding. Of lxml, only the modules
    that the other packages need are loaded, because some modules of lxml are for doctests and
    cannot be loaded. Raises `ImportError` if a package is not installed. ``encodings`` takes 50 ms.
    """
    for name in names:
        if name == "lxml":
            importlib.import_module("lxml.etree")
            importlib.import_module("lxml._elementpath")
            continue
        package = importlib.import_module(name)
        for part in pkgutil.walk_packages(package.__path__, f"{name}."):
            if "test" not in part.name and "__main__" not in part.name:
                try:
                    importlib.import_module(part.name)
                except ImportError:  # the module needs another library or system
                    continue


def encode_answer(handle: Callable[[], Answer]) -> bytes:
    """Build a child's answer: one line of JSON, which contains the length, and then the bytes."""
    try:
        fields, made = handle()
    except CodecMissing as error:
        fields, made = {"missing": str(error)}, b""
    except UnusableMedia as error:
        fields, made = {"unusable": str(error)}, b""
    except MemoryError:
        fields, made = {"unusable": "it takes more memory than one file may"}, b""
    return json.dumps({**fields, "length": len(made)}).encode() + b"\n" + made


def serve_once(
    prepare: Callable[[dict[str, Any]], Callable[[bytes], Answer]],
    confine: Callable[..., object] = confine,
    *,
    readable: Callable[[], Sequence[str]] = tuple,
) -> None:
    """Read one request from standard input, answer it on standard output, and end.

    ``prepare`` is called with the request without the bytes, and loads all libraries. It returns a
    function. Then the process is confined, and this function is called with the bytes. ``readable``
    returns the files that the confined process may still open.
    """
    # Send text that a library prints to stderr, so that it does not get into the answer.
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    line, _, data = sys.stdin.buffer.read().partition(b"\n")
    request = json.loads(line)

    def handle() -> Answer:
        work = prepare(request)
        confine(memory=request["memory"], seconds=request["seconds"], readable=readable())
        return work(data)

    output.write(encode_answer(handle))
    output.flush()
