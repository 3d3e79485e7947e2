"""Compile the supervisor's modules with the Python of an image, in a separate container.

`boot.BOOT` defines ``receive`` and executes this program. The host stores the compiled modules and
sends them to each box of the image, so that no box has to compile them. The host never decodes
them.
"""

from __future__ import annotations

import json
import marshal
import os
import site
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:

    def receive() -> bytes:
        """Read the next piece of the input."""


_OLDEST = (3, 9)


def glibc() -> str:
    """Return the version of the C library, or an empty string if it is not glibc."""
    try:
        name, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
    except (OSError, ValueError):
        return ""
    return version if name == "glibc" else ""


def main() -> None:
    """Print a line of JSON, then the compiled modules."""
    sources = json.loads(receive())
    compiled = b""
    if sys.version_info >= _OLDEST:
        modules = {
            name: compile(source, f"<{name}>", "exec", dont_inherit=True)
            for name, source in sources.items()
        }
        compiled = marshal.dumps(modules)
    folders = map(Path, site.getsitepackages())
    found = {
        "size": len(compiled),
        "executable": os.path.realpath(sys.executable),
        "version": list(sys.version_info[:3]),
        "packages": [str(path) for path in folders if path.is_dir() and any(path.iterdir())],
        "suffix": EXTENSION_SUFFIXES[0],
        "glibc": glibc(),
        "shared": os.path.realpath("/app/shared") == "/home/user",
    }
    os.write(1, json.dumps(found).encode() + b"\n")
    while compiled:
        compiled = compiled[os.write(1, compiled) :]
    # Wait for the end of the input: the host closes it after it has read the answer.
    while os.read(0, 1):
        pass


main()
