"""What the agent does to itself and to each run before any strange code runs.

The host has already taken away namespaces, capabilities and system calls. Here come the limits that
a process sets on itself, and the guard that keeps a run from signalling the agent, which has the
same user id.
"""

from __future__ import annotations

import ctypes
import os
import resource
import struct

_PR_SET_DUMPABLE, _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 4, 22, 2
_libc = ctypes.CDLL(None, use_errno=True)

# kill, tkill, tgkill, rt_sigqueueinfo, rt_tgsigqueueinfo, prlimit64.
_SIGNALS = {
    "x86_64": (62, 200, 234, 129, 297, 302),
    "aarch64": (129, 130, 131, 138, 240, 261),
}
_PIDFD_SEND_SIGNAL = 424
_ALLOW, _DENY = 0x7FFF0000, 0x00050001  # errno 1, EPERM


def set_dumpable(dumpable: bool) -> None:
    """Whether processes of the same user may look into this one's memory and descriptors."""
    _libc.prctl(_PR_SET_DUMPABLE, int(dumpable), 0, 0, 0)


def set_limits(memory: int, processes: int, files: int = 512) -> None:
    """Bounds that hold for the agent and all that it forks, and cannot be raised again.

    Memory is counted as data (what a process writes to), for each process; the host adds up the
    whole tree. The address space is wider, since threads and arenas reserve far more than they use.
    """
    wanted = {
        resource.RLIMIT_DATA: memory,
        resource.RLIMIT_AS: memory * 2 + 2 * 1024**3,
        resource.RLIMIT_NPROC: processes,
        resource.RLIMIT_NOFILE: files,
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


def _instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("HBBI", code, if_true, if_false, value & 0xFFFFFFFF)


def signal_filter(machine: str, agent: int) -> bytes:
    """A seccomp program that refuses signals to the agent, to its group and to everyone.

    The architecture was checked by the filter that the host installed; both must allow a call.
    """
    numbers = _SIGNALS.get(machine)
    if numbers is None:
        return b""
    load, equal, give = 0x20, 0x15, 0x06
    program = [
        _instruction(load, 0),
        _instruction(equal, _PIDFD_SEND_SIGNAL, 0, 1),
        _instruction(give, _DENY),
    ]
    for number in numbers[:5]:
        program += [
            _instruction(equal, number, 0, 6),
            _instruction(load, 16),  # the low half of the first argument
            _instruction(equal, agent, 3, 0),
            _instruction(equal, -agent, 2, 0),
            _instruction(equal, -1, 1, 0),
            _instruction(give, _ALLOW),
            _instruction(give, _DENY),
        ]
    program += [
        _instruction(equal, numbers[5], 0, 3),
        _instruction(load, 16),
        _instruction(equal, agent, 0, 1),
        _instruction(give, _DENY),
        _instruction(give, _ALLOW),
    ]
    return b"".join(program)


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


def install_filter(program: bytes) -> None:
    """Confine this process and all that it starts. It has the no-new-privileges bit."""
    if not program:
        return
    described = _Program(len(program) // 8, program)
    if _libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(described), 0, 0):
        raise OSError(ctypes.get_errno(), "the filter was refused")


def machine() -> str:
    """The processor's name as the kernel says it."""
    return os.uname().machine
