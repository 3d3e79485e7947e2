"""Sets the limits of the supervisor's process, before untrusted code runs in its child processes.

The host has already restricted namespaces, capabilities and system calls. This module sets the
limits that a process can set on itself. The supervisor is process 1 of its PID namespace, so
signals from inside the box cannot end or stop it. It is not dumpable, so other processes with its
user id cannot read its memory.
"""

from __future__ import annotations

import _socket
import os
import resource
import sys

from guest_minimal_stdlib import filter_calls, prctl, suppress

# This name is not imported from `typing`, because that import takes 4 ms.
TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from typing import Any

_PR_SET_DUMPABLE = 4
_AGENT_SCORE, _GUEST_SCORE = b"500", b"800"
_PR_SET_CHILD_SUBREAPER = 36


def set_dumpable(dumpable: bool) -> None:
    """Set whether processes of the same user may read this process's memory and descriptors."""
    prctl(_PR_SET_DUMPABLE, int(dumpable))


def adopt_orphans() -> None:
    """Make this process a subreaper: orphans among its descendants become its children.

    The process stays a subreaper if it executes another program. Its child processes do not become
    subreapers.
    """
    prctl(_PR_SET_CHILD_SUBREAPER, 1)


def set_limits(memory: int, processes: int, files: int) -> None:
    """Set limits for the supervisor and all processes that it forks: ``memory`` in bytes for each
    process, the number of ``processes`` of the user, and the number of open ``files`` of each
    process.

    The limits cannot be raised again. Only the limit on open descriptors can: `send_descriptor`
    raises it for a moment. `Confinement.enter` makes this limit final too. The memory limit is for
    each process. It counts the data segment and the private writable memory of the process
    (RLIMIT_DATA). The host limits the memory of all processes together. The limit of the address
    space is higher, because threads and malloc arenas reserve far more than they use.
    """
    wanted = {
        resource.RLIMIT_DATA: memory,
        resource.RLIMIT_AS: memory * 2 + 2 * 1024**3,
        resource.RLIMIT_NPROC: processes,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_MEMLOCK: 0,
        resource.RLIMIT_MSGQUEUE: 0,
        resource.RLIMIT_SIGPENDING: 1024,
    }
    for name, value in wanted.items():
        hard = resource.getrlimit(name)[1]
        if hard != resource.RLIM_INFINITY:
            value = min(value, hard)  # noqa: PLW2901 - a limit cannot be raised
        resource.setrlimit(name, (value, value))
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if most == resource.RLIM_INFINITY or most > files:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, most))


def send_descriptor(sock: socket.socket, message: bytes, descriptor: int) -> None:
    """Send ``message`` with a descriptor. Raises `OSError`.

    The kernel counts, for each user id, the descriptors that wait in sockets to be received. If
    there are more than the sender's limit of open descriptors, sending fails with ETOOMANYREFS
    (`man 7 unix`). Code in a box can fill this count up to its own limit, and boxes may share a
    user id. So while the supervisor sends, it raises its own limit above the limit of the code.
    """
    limit, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    ancillary = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, descriptor.to_bytes(4, sys.byteorder))]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    try:
        sock.sendmsg([message], ancillary)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, most))


class Confinement:
    """The confinement of runs and commands in addition to the supervisor's limits: a lower
    processor priority and another seccomp filter. ``limits`` has the filter's program in
    hexadecimal."""

    def __init__(self, limits: dict[str, Any], score: int = -1) -> None:
        """``score`` is the descriptor that `lower_priority` returned."""
        self._score = score
        self._nice = limits.get("guest_nice", 0)
        self._filter = bytes.fromhex(limits.get("guest_filter", ""))

    def fork(self) -> int:
        """Fork like `os.fork`. If memory runs out, the kernel kills the child before this process.
        The kernel chooses by the memory of each process, and files of the box in memory belong to
        no process. So without this preference, the kernel might choose this process when files fill
        most of the memory."""
        _say(self._score, _GUEST_SCORE)
        pid = -1
        try:
            pid = os.fork()
        finally:
            # Only the parent does this. The descriptor always means the parent's file, so a write
            # in the child would set the parent's score.
            if pid:
                _say(self._score, _AGENT_SCORE)
        return pid

    def enter(self) -> None:
        """Confine this process, a forked child. This cannot be undone. Raises `OSError`."""
        os.nice(self._nice)
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
        if self._filter:
            filter_calls(self._filter)


def lower_priority(nice: int) -> int:
    """Give this process a lower priority for processors (by the nice value ``nice``) and memory
    than the host's processes have.

    If memory runs out, the kernel first kills this process's children (`Confinement.fork`), then
    this process, and the bot last. Undoing this needs a privilege that these processes of the box
    do not have. Return the descriptor of this process's ``oom_score_adj``, or -1. The file must be
    opened before the process is made not dumpable, because afterwards it cannot be opened.
    """
    os.nice(nice)
    try:
        score = os.open("/proc/self/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        return -1
    _say(score, _AGENT_SCORE)
    return score


def _say(score: int, wanted: bytes) -> None:
    with suppress(OSError):
        os.write(score, wanted)
