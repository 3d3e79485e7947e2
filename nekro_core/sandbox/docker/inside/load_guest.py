"""Stage two of a box: confine this process further, then become the supervisor.

Runs after `boot.BOOT`, which defines ``receive``. The engine's own filter of system calls is
already in force. A second one is added to it; a call must pass both. Loading a filter needs no
privilege, since the container cannot gain any.
"""

from __future__ import annotations

import contextlib
import ctypes
import marshal
import socket
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, ModuleType

    def receive() -> bytes:
        """Read the next piece of the stream."""


_PR_SET_SECCOMP, _MODE_FILTER, _INSTRUCTION = 22, 2, 8


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p)]


class _Guest:
    """Imports the supervisor's modules from memory: a container gets no file from the host."""

    def __init__(self, modules: dict[str, CodeType]) -> None:
        self.modules = modules

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        del path, target
        if name not in self.modules:
            return None
        return ModuleSpec(name, self)  # type: ignore[arg-type]  # as much of a loader as is used

    def create_module(self, spec: ModuleSpec) -> None:
        """Let the import system make the module."""

    def exec_module(self, module: ModuleType) -> None:
        """Run a module's code."""
        exec(self.modules[module.__name__], module.__dict__)  # noqa: S102 - the supervisor


def filter_calls(program: bytes) -> None:
    """Put a filter of system calls in force. Raises OSError.

    `guest_minimal_stdlib` has the same function. This copy is here because the filter must be in
    force before the supervisor's modules, which a container of the image compiled, are
    unmarshalled. ``tests/system/confinement/test_jail_filter.py`` holds both to the same result.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    wanted = _Program(len(program) // _INSTRUCTION, program)
    if libc.prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.byref(wanted), 0, 0):
        raise OSError(ctypes.get_errno(), "the filter of system calls was not taken")


def link_shared() -> None:
    """Make ``/app/shared`` if the image has none: ``/app`` is then a folder of this user."""
    with contextlib.suppress(OSError):
        Path("/app/shared").symlink_to("/home/user")
        Path("/app").chmod(0o555)


def main() -> None:
    """Receive the address of the descriptor socket, the filter, the supervisor's limits and its
    modules. Then become the supervisor."""
    link_shared()
    address = receive()
    fd_socket = []
    if address:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        connection.connect(address)
        fd_socket.append(str(connection.detach()))
    filter_calls(receive())
    sys.argv = ["supervisor", receive().decode(), "0,1", *fd_socket]
    modules = marshal.loads(receive())  # noqa: S302 - from the host
    sys.meta_path.insert(0, _Guest(modules))
    import guest_main  # type: ignore[import-not-found]  # noqa: PLC0415 - it is one of them

    guest_main.main()


main()
