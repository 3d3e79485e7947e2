"""Measures the memory of an idle box, and frees a part of it.

Half a second after its last use, a box has only the supervisor's process, unless it keeps globals
or has background processes. After a longer time the supervisor restarts itself with `os.execv`,
which frees a third of its memory. Its process id, limits, seccomp filter and descriptors stay the
same.
"""

from __future__ import annotations

import os
import sys

import guest_wire as wire
from guest_minimal_stdlib import dumps, suppress

# This name is not imported from `typing`, because that import takes 4 ms.
TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from typing import Any


def idle_memory_kb() -> int:
    """Return how many kilobytes all processes and files of the box use.

    A page that N processes map counts 1/N for each of them (PSS). If the kernel does not show the
    PSS of a process, all pages of the process count, except pages of files."""
    used = 0
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError, ValueError, IndexError):
                used += _of_process(f"/proc/{name}")
    disk = os.stat("/").st_dev
    for device, path in {os.stat(path).st_dev: path for path in wire.FOLDERS}.items():
        if device != disk:
            told = os.statvfs(path)
            used += (told.f_blocks - told.f_bfree) * told.f_frsize // 1024
    return used


def _of_process(folder: str) -> int:
    try:
        return _sum(f"{folder}/smaps_rollup", b"Pss:")
    except OSError:
        return _sum(f"{folder}/status", b"RssAnon:", b"RssShmem:")


def _sum(path: str, *fields: bytes) -> int:
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        lines = os.read(file, 16384).splitlines()
    finally:
        os.close(file)
    return sum(int(line.split()[1]) for line in lines if line.startswith(fields))


def trim() -> None:
    """Have the C library return unused memory to the kernel. Only glibc can do this. With another C
    library, this call does nothing."""
    with suppress(Exception):
        from _ctypes import call_function, dlopen, dlsym

        call_function(dlsym(dlopen(None, 0), "malloc_trim"), (0,))


def restart_supervisor(
    limits: dict[str, Any], host: wire.BlockingChannel, fd_socket: socket.socket | None
) -> None:
    """Restart the supervisor in this process, with the same channel. Returns only if that fails."""
    told = dumps({**limits, "nice": 0, "restarted": True})
    descriptors = [host.incoming, host.outgoing] + ([fd_socket.fileno()] if fd_socket else [])
    here = os.path.dirname(os.path.abspath(__file__))
    begin = f"import sys; sys.path.insert(0, {here!r}); from guest_main import main; main()"
    words = [sys.executable, "-I", "-S", "-c", begin, told, f"{host.incoming},{host.outgoing}"]
    words += [str(fd_socket.fileno())] if fd_socket else []
    for number in descriptors:
        os.set_inheritable(number, True)
    try:
        os.execv(words[0], words)  # noqa: S606 - none of the words comes from a guest
    except OSError:
        for number in descriptors:
            os.set_inheritable(number, False)
