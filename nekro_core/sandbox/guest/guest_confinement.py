"""Sets the supervisor's limits on itself, before any code of the AI runs below it.

The host has already restricted namespaces, capabilities and system calls. This module sets the
limits that a process sets on itself. The supervisor is process 1 of its namespace, so the kernel
lets no signal from inside end or stop it, and it is not dumpable, so no process of its own user id
can read its memory.
"""

from __future__ import annotations

import _socket
import os
import resource
import sys

from guest_minimal_stdlib import filter_calls, prctl, suppress

TYPE_CHECKING = False  # `typing` costs 4 ms of a cold start
if TYPE_CHECKING:
    import socket
    from typing import Any

_PR_SET_DUMPABLE = 4
_AGENT_SCORE, _GUEST_SCORE = b"500", b"800"
_PR_SET_CHILD_SUBREAPER = 36


def set_dumpable(dumpable: bool) -> None:
    """Set whether processes of the same user may read this one's memory and descriptors."""
    prctl(_PR_SET_DUMPABLE, int(dumpable))


def adopt_orphans() -> None:
    """Make orphans among this process's descendants its own children.

    This stays in force when the process executes another program. Children do not inherit it.
    """
    prctl(_PR_SET_CHILD_SUBREAPER, 1)


def set_limits(memory: int, processes: int, files: int) -> None:
    """Set limits on the supervisor and all that it forks, which cannot be raised again.

    The limit on open descriptors becomes final only in `Confinement.enter`; see `send_descriptor`.
    Memory is counted as data (what a process writes to), for each process; the host adds up the
    whole tree. The address space is wider, since threads and arenas reserve far more than they use.
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
            value = min(value, hard)  # noqa: PLW2901 - the bound that is already there
        resource.setrlimit(name, (value, value))
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if most == resource.RLIM_INFINITY or most > files:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, most))


def send_descriptor(sock: socket.socket, message: bytes, descriptor: int) -> None:
    """Send ``message`` with a descriptor. Raises `OSError`.

    The kernel counts the descriptors that wait in sockets for each user, not for each process or
    box. It refuses to send one (ETOOMANYREFS) where they are more than the open descriptors that
    the sender may have. Code in a box can have that many wait, and boxes of an ordinary user share
    the count. So the supervisor sends under a higher limit than code has (`man 7 unix`).
    """
    limit, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    ancillary = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, descriptor.to_bytes(4, sys.byteorder))]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    try:
        sock.sendmsg([message], ancillary)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, most))


class Confinement:
    """What runs and commands get beyond the supervisor's limits: a lower processor priority and
    another seccomp filter, whose program is given in hexadecimal."""

    def __init__(self, limits: dict[str, Any], score: int = -1) -> None:
        """``score`` is what `lower_priority` returned."""
        self._score = score
        self._nice = limits.get("guest_nice", 0)
        self._filter = bytes.fromhex(limits.get("guest_filter", ""))

    def fork(self) -> int:
        """Like `os.fork`, but when memory is short the kernel kills the child before this process.
        Otherwise it might kill either, if the box's memory is in no process's own pages."""
        _say(self._score, _GUEST_SCORE)
        pid = -1
        try:
            pid = os.fork()
        finally:
            if pid:  # also in the child the descriptor sets the score of this process
                _say(self._score, _AGENT_SCORE)
        return pid

    def enter(self) -> None:
        """Confine this process, a forked child. It cannot be undone. Raises `OSError`."""
        os.nice(self._nice)
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
        if self._filter:
            filter_calls(self._filter)


def lower_priority(nice: int) -> int:
    """Lower this process's priority for processors and memory below the rest of the machine.

    When memory is short, the kernel kills this process before the bot, and its children first of
    all (`Confinement.fork`). None of them can undo that without a privilege. Return the descriptor
    of this process's ``oom_score_adj``, or -1. It must be opened now: once the process is not
    dumpable, it cannot be.
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
