"""Sends the supervisor's code into a container through the container's standard input.

No folder is mounted and no file is written. So this works with an engine on another machine, and
with a read-only root file system. The container's command is `BOOT`, a few lines of Python that
read pieces from standard input: the length of each, then its bytes. The first piece is a program,
which reads the other pieces.
"""

import json
from pathlib import Path

from nekro_core.sandbox import guest

BOOT = """
import os
def receive():
    def take(size):
        data = bytearray()
        while len(data) < size:
            piece = os.read(0, size - len(data))
            if not piece:
                raise SystemExit("the host is gone")
            data += piece
        return bytes(data)
    return take(int.from_bytes(take(4), "big"))
exec(compile(receive(), "<boot>", "exec"))
"""

_INSIDE = Path(__file__).parent / "inside"


def command(python: str) -> list[str]:
    """Return the command of a container: ``python`` executes `BOOT`."""
    return [python, "-I", "-S", "-c", BOOT]


def pieces(*parts: bytes) -> bytes:
    """Join parts in the format that ``receive`` in `BOOT` reads."""
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)


def program(name: str) -> bytes:
    """Return the source of one of the programs in ``inside/``."""
    return (_INSIDE / f"{name}.py").read_bytes()


def compile_guest() -> bytes:
    """Return the input of a container that compiles the supervisor with the Python of an image."""
    folder = Path(guest.__file__).parent
    sources = {
        path.stem: path.read_text() for path in folder.glob("*.py") if path.stem != "__init__"
    }
    return pieces(program("compile_guest"), json.dumps(sources).encode())


def begin(fd_socket: str) -> bytes:
    """Return the first input of a box's container. ``fd_socket`` is the path of the descriptor
    socket to connect to, or empty."""
    return pieces(program("load_guest"), fd_socket.encode())


def go_on(call_filter: bytes, limits: dict[str, object], modules: bytes) -> bytes:
    """Return the rest of the boot input: the seccomp filter ``call_filter``, and the supervisor's
    ``limits`` and ``modules``. When the container has read this input, its supervisor runs, and
    host and supervisor send each other frames."""
    return pieces(call_filter, json.dumps(limits).encode(), modules)
