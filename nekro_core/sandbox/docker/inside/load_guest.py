"""Confine this process further, and then run the supervisor in it.

`boot.BOOT` defines ``receive`` and executes this program. The engine's seccomp filter is already
active. This program adds a second filter; a system call must pass both. Adding a filter needs no
privilege, because the container has ``no-new-privileges``.
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
        """Read the next piece of the input."""


_PR_SET_SECCOMP, _MODE_FILTER, _INSTRUCTION = 22, 2, 8


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p)]


class _Guest:
    """Imports the supervisor's modules from memory, because a container has no files of the
    host."""

    def __init__(self, modules: dict[str, CodeType]) -> None:
        self.modules = modules

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        del path, target
        if name not in self.modules:
            return None
        return ModuleSpec(name, self)  # type: ignore[arg-type]  # it has the methods that are used

    def create_module(self, spec: ModuleSpec) -> None:
        """Return None: the import system then makes the module."""

    def exec_module(self, module: ModuleType) -> None:
        """Run a module's code."""
        exec(self.modules[module.__name__], module.__dict__)  # noqa: S102 - the supervisor


def filter_calls(program: bytes) -> None:
    """Add a seccomp filter to this process. Raises OSError.

    `guest_minimal_stdlib` has the same function. It cannot be used here, because the filter must be
    active before the supervisor's modules are unmarshalled. These modules are not trusted: a
    container of the image compiled them. ``tests/system/confinement/test_jail_filter.py`` checks
    that both functions do the same.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    wanted = _Program(len(program) // _INSTRUCTION, program)
    if libc.prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.byref(wanted), 0, 0):
        raise OSError(ctypes.get_errno(), "the kernel refused the seccomp filter")


def link_shared() -> None:
    """Make the link ``/app/shared`` if the image has none. In this case ``/app`` is a tmpfs that
    belongs to this user."""
    with contextlib.suppress(OSError):
        Path("/app/shared").symlink_to("/home/user")
        Path("/app").chmod(0o555)


def main() -> None:
    """Receive the address of the descriptor socket, the filter, the supervisor's limits and its
    modules. Then run the supervisor."""
    link_shared()
    address = receive()
    fd_socket = []
    if address:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        connection.connect(address)
        fd_socket.append(str(connection.detach()))
    filter_calls(receive())
    sys.argv = ["supervisor", receive().decode(), "0,1", *fd_socket]
    modules = marshal.loads(receive())  # noqa: S302 - the host sent them
    sys.meta_path.insert(0, _Guest(modules))
    import guest_main  # type: ignore[import-not-found]  # noqa: PLC0415 - imported from memory

    guest_main.main()


main()
