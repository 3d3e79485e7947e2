"""The limits that the supervisor sets on itself before any code of the AI runs below it.

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
    """Whether processes of the same user may look into this one's memory and descriptors."""
    prctl(_PR_SET_DUMPABLE, int(dumpable))


def adopt_orphans() -> None:
    """Have whatever this process's descendants leave behind become its own children.

    It stays so when this process executes another program; no child inherits it.
    """
    prctl(_PR_SET_CHILD_SUBREAPER, 1)


def set_limits(memory: int, processes: int, files: int) -> None:
    """Bounds that hold for the supervisor and all that it forks, and cannot be raised again; the
    one on open descriptors is fixed in `Confinement.enter` only, see `send_descriptor`.

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
    """What runs and commands get beyond the supervisor's own limits: they come later on a
    processor, and have a further filter of system calls, whose program is given as hexadecimal
    digits."""

    def __init__(self, limits: dict[str, Any], score: int = -1) -> None:
        """``score`` is what `lower_priority` gave."""
        self._score = score
        self._nice = limits.get("guest_nice", 0)
        self._filter = bytes.fromhex(limits.get("guest_filter", ""))

    def fork(self) -> int:
        """As `os.fork`: a child that the kernel kills before this process where memory is short.
        Of a box whose memory is in nobody's own pages it would else take either."""
        _say(self._score, _GUEST_SCORE)
        pid = -1
        try:
            pid = os.fork()
        finally:
            if pid:  # the descriptor is this process's own also in the child
                _say(self._score, _AGENT_SCORE)
        return pid

    def enter(self) -> None:
        """In the forked child, for good. Raises `OSError`."""
        os.nice(self._nice)
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
        if self._filter:
            filter_calls(self._filter)


def lower_priority(nice: int) -> int:
    """Where processors or memory are short, everything else of the machine goes first.

    When the kernel must kill, it takes this process before it takes the bot, and what is below it
    first of all (`Confinement.fork`); none of them can take that back without a privilege. Gives
    the descriptor that says so, or -1: once this process is not dumpable, it cannot be opened.
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
