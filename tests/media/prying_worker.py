"""A decoder child that behaves as if an attacker ran machine code in it. ``deed`` selects the
attack."""

import ctypes
import mmap
import os
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any

from nekro_core.media.child import Answer, serve_once
from nekro_core.system.confinement import child

_C = ctypes.CDLL(None, use_errno=True)
_PTRACE_TRACEME = 0
_OUT = 3
"""The file descriptor of the pipe for the answer. It was duplicated before stdout was
redirected."""


def _called(outcome: int) -> Answer:
    """Return the result of a C function as an answer. If it is negative, raise its errno."""
    if outcome < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return {"got": outcome}, b""


def handle(request: dict[str, Any]) -> Answer:
    match request["deed"]:
        case "read":
            return {"got": Path(request["path"]).read_text()}, b""
        case "list":
            return {"got": [each.name for each in Path(request["path"]).iterdir()]}, b""
        case "write":
            with Path(request["path"]).open("w") as file:
                file.write("here I was")
            return {"got": "written"}, b""
        case "connect":
            with socket.socket() as line:
                line.connect(("127.0.0.1", request["port"]))
                return {"got": "connected"}, b""
        case "socket":
            with socket.socket(socket.AF_UNIX) as line:
                return {"got": line.fileno()}, b""
        case "load":
            return {"got": os.open(os.__file__, os.O_RDONLY)}, b""
        case "stat":
            return {"got": Path("/etc/passwd").stat().st_size}, b""
        case "fork":
            if not (child := os.fork()):
                os._exit(0)
            return {"got": os.waitpid(child, 0)[1]}, b""
        case "thread":
            try:
                threading.Thread(target=print).start()
            except RuntimeError as error:
                return {"refused": str(error)}, b""
        case "exec":
            os.dup2(_OUT, 1)
            os.execv("/bin/echo", ["echo", '{"got": "another program", "length": 0}'])
        case "kill":
            os.kill(os.getppid(), 0)
        case "trace":
            return _called(_C.ptrace(_PTRACE_TRACEME, 0, None, None))
        case "code":
            mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_EXEC)
        case "hidden file":
            return {"got": os.memfd_create("hidden")}, b""
        case "memory":
            return {"got": len(bytearray(4 * 1024 * 1024 * 1024))}, b""
        case "spin":
            while True:
                pass
        case "sleep":
            time.sleep(60)
        case "crash":
            ctypes.string_at(0)
        case "flood":
            for _ in range(1_000):
                os.write(_OUT, b"x" * 1024 * 1024)
        case "gibberish":
            os.write(_OUT, b"no JSON\nno JSON")
        case "environment":
            return {"got": sorted(os.environ)}, b""
    return {"got": ""}, b""


class Prying:
    """Handles one request: tries its ``deed`` without the defences that ``without`` lists."""

    def __init__(self) -> None:
        self._request: dict[str, Any] = {}

    def prepare(self, request: dict[str, Any]) -> Any:
        self._request = request
        return self.pry

    def confine(self, **limits: int) -> None:
        off = dict.fromkeys(self._request.get("without", ()), False)
        child.confine(**limits, **off)

    def pry(self, _: bytes) -> Answer:
        if deeds := self._request.get("deeds"):
            return {each: self._try({"deed": each})[0] for each in deeds}, b""
        return self._try(self._request)

    def _try(self, request: dict[str, Any]) -> Answer:
        try:
            return handle(request)
        except OSError as error:
            return {"refused": error.strerror or str(error)}, b""


if __name__ == "__main__":
    prying = Prying()
    sys.exit(serve_once(prying.prepare, prying.confine))
