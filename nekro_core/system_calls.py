"""Filters of system calls, piece by piece: instructions of the BPF programs that the kernel runs.

What a filter allows stands where it is used: `nekro_core.sandbox.jail.seccomp` (boxes: everything
but) and `nekro_core.media.allowed_calls` (decoders: nothing but). A program checks the processor,
then each system call in turn, then gives its last word. Sources: `man 2 seccomp`, the kernel's
``syscall_64.tbl`` and ``asm-generic/unistd.h``.
"""

import errno
import struct
from collections.abc import Iterable

MACHINES = ("x86_64", "aarch64")
"""The processors whose system calls are known here, as `os.uname` names them."""

LOAD, EQUAL, AT_LEAST, ANY_BIT, GIVE = 0x20, 0x15, 0x35, 0x45, 0x06
ALLOW, ERRNO, KILL = 0x7FFF0000, 0x00050000, 0x80000000

_NUMBER, _ARCHITECTURE = 0, 4
_AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_X32_BIT = 0x40000000


def op(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    """One instruction: what it does, with which value, and how many to skip then."""
    return struct.pack("HBBI", code, if_true, if_false, value)


def deny(error: int = errno.EPERM) -> list[bytes]:
    """The call fails with ``error``; the process goes on."""
    return [op(GIVE, ERRNO | error)]


def only(values: tuple[int, ...], error: int) -> list[bytes]:
    """Instructions that deny unless the loaded argument is one of ``values``."""
    count = len(values)
    tests = [op(EQUAL, value, count - place, 0) for place, value in enumerate(values)]
    return [*tests, *deny(error)]


def check_argument(number: int, argument: int, check: list[bytes]) -> list[bytes]:
    """For one system call: load the low half of an argument, run ``check``, then allow.

    For arguments that the kernel reads as 32 bits, or whose tested bits lie in these.
    """
    body = [op(LOAD, 16 + 8 * argument), *check, op(GIVE, ALLOW)]
    return [op(EQUAL, number, 0, len(body)), *body]


def program(machine: str, rules: Iterable[bytes], *, otherwise: int) -> bytes:
    """The whole filter: another processor's calls end the process, ``rules`` see the number
    loaded, and ``otherwise`` is done with what none of them decided. Raises `KeyError` for a
    ``machine`` that is not in `MACHINES`."""
    start = [
        op(LOAD, _ARCHITECTURE),
        op(EQUAL, _AUDIT[machine], 1, 0),
        op(GIVE, KILL),
        op(LOAD, _NUMBER),
    ]
    if machine == "x86_64":
        start += [op(AT_LEAST, _X32_BIT, 0, 1), op(GIVE, KILL)]
    return b"".join((*start, *rules, op(GIVE, otherwise)))
