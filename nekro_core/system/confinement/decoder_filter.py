"""Filters the system calls of a decoder, a process that decodes untrusted media. A decoder may only
use memory, use its open pipes, and end.

A decoder loads all files that it needs before the filter is installed. With the filter, any other
call fails with ``EPERM``. So a library that asks for optional information, such as the number of
processors, continues without it.
"""

import ctypes
import errno
import os

from nekro_core.system.confinement.bpf import (
    ALLOW,
    ANY_BIT,
    EQUAL,
    ERRNO,
    GIVE,
    MACHINES,
    check_argument,
    deny,
    op,
    program,
)

# Each entry has a name, the number on x86_64 and the number on aarch64.
_ALLOWED: tuple[tuple[str, int, int], ...] = (
    ("read", 0, 63),
    ("write", 1, 64),
    ("close", 3, 57),
    ("munmap", 11, 215),
    ("mremap", 25, 216),
    ("brk", 12, 214),
    ("madvise", 28, 233),
    ("futex", 202, 98),
    ("sched_yield", 24, 124),
    ("sched_getaffinity", 204, 123),
    ("clock_gettime", 228, 113),
    ("gettimeofday", 96, 169),
    ("getrandom", 318, 278),
    ("getpid", 39, 172),
    ("gettid", 186, 178),
    ("rt_sigreturn", 15, 139),
    ("restart_syscall", 219, 128),
    ("exit", 60, 93),
    ("exit_group", 231, 94),
)
_NO_NEW_CODE = (("mmap", 9, 222), ("mprotect", 10, 226))
"""These calls are allowed only without ``PROT_EXEC``. So a decoder gets memory, but it cannot
execute what it writes there."""
_PROT_EXEC = 4
_READ_FILES = (
    ("newfstatat", 262, 79),
    ("fstat", 5, 80),
    ("statx", 332, 291),
    ("lseek", 8, 62),
    ("pread64", 17, 67),
)
_OPEN = {"x86_64": 257, "aarch64": 56}
_NOT_READING = 0o1 | 0o2 | 0o100 | 0o1000 | 0o2000
"""Flags of ``openat``. When a file is opened only to read it, none of them is set."""

_SECCOMP = {"x86_64": 317, "aarch64": 277}
_SET_MODE_FILTER, _ALL_THREADS = 1, 1


def build_filter(machine: str, *, files_read: bool = False) -> bytes:
    """Return the filter's program for a processor. With ``files_read`` the process may also open
    files to read them. Raises `KeyError` if ``machine`` is not in `MACHINES`."""
    rules: list[bytes] = []
    for _, *numbers in (*_ALLOWED, *(_READ_FILES if files_read else ())):
        number = dict(zip(MACHINES, numbers, strict=True))[machine]
        rules += [op(EQUAL, number, 0, 1), op(GIVE, ALLOW)]
    for _, *numbers in _NO_NEW_CODE:
        number = dict(zip(MACHINES, numbers, strict=True))[machine]
        rules += check_argument(number, 2, [op(ANY_BIT, _PROT_EXEC, 0, 1), *deny()])
    if files_read:
        rules += check_argument(_OPEN[machine], 2, [op(ANY_BIT, _NOT_READING, 0, 1), *deny()])
    return program(machine, rules, otherwise=ERRNO | errno.EPERM)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def install(library: ctypes.CDLL, *, files_read: bool = False) -> bool:
    """Install the filter for all threads of this process. It cannot be removed. Returns False if
    the kernel does not support filters or if there is no filter for this processor. The process
    must have set ``no_new_privs`` before. For ``files_read`` see `build_filter`."""
    machine = os.uname().machine
    if machine not in MACHINES:
        return False
    instructions = build_filter(machine, files_read=files_read)
    filled = _Program(len(instructions) // 8, instructions)
    done = library.syscall(_SECCOMP[machine], _SET_MODE_FILTER, _ALL_THREADS, ctypes.byref(filled))
    return bool(done == 0)
