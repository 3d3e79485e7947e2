"""Builds the BPF programs with which the kernel filters system calls.

`nekro_core.system.confinement.jail_filter` (boxes) and
`nekro_core.system.confinement.decoder_filter` (decoders) decide which calls are allowed. A program
first checks the processor. Then it finds the rule for the number of the system call. If there are
few rules, the program compares one number after another. Otherwise it uses a binary search
(`choose`). Sources: `man 2 seccomp`, the kernel's ``syscall_64.tbl`` and ``asm-generic/unistd.h``.
"""

import errno
import struct
from collections.abc import Iterable, Mapping

MACHINES = ("x86_64", "aarch64")
"""The processors for which filters can be built, as `os.uname` names them."""

LOAD, EQUAL, AT_LEAST, ANY_BIT, GIVE = 0x20, 0x15, 0x35, 0x45, 0x06
ALLOW, ERRNO, KILL = 0x7FFF0000, 0x00050000, 0x80000000

_NUMBER, _ARCHITECTURE = 0, 4
_AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_X32_BIT = 0x40000000
_INSTRUCTION = 8  # bytes
_FURTHEST = 255


def op(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    """Return one instruction: its code and its value. If it is a test, ``if_true`` and ``if_false``
    say how many of the next instructions are skipped after each outcome."""
    return struct.pack("HBBI", code, if_true, if_false, value)


def deny(error: int = errno.EPERM) -> list[bytes]:
    """Return instructions that let the call fail with ``error``. The process continues."""
    return [op(GIVE, ERRNO | error)]


def only(values: tuple[int, ...], error: int) -> list[bytes]:
    """Return instructions that let the call fail with ``error``, unless the loaded argument is one
    of ``values``."""
    count = len(values)
    tests = [op(EQUAL, value, count - place, 0) for place, value in enumerate(values)]
    return [*tests, *deny(error)]


def argument(place: int, check: list[bytes]) -> list[bytes]:
    """Return instructions that load the low half of the argument with the index ``place`` (from 0),
    run ``check``, then allow the call.

    Use them for an argument that the kernel reads as 32 bits, or whose tested bits are in the low
    half.
    """
    return [op(LOAD, 16 + 8 * place), *check, op(GIVE, ALLOW)]


def check_argument(number: int, place: int, check: list[bytes]) -> list[bytes]:
    """Return the instructions that check one argument of the system call ``number``, see
    `argument`. Other calls skip them."""
    body = argument(place, check)
    return [op(EQUAL, number, 0, len(body)), *body]


def choose(blocks: Mapping[int, list[bytes]], otherwise: list[bytes]) -> list[bytes]:
    """Return instructions that find the block for the loaded number by binary search. Numbers that
    are not in ``blocks`` get the block ``otherwise``.

    Each block must end the program. For 300 numbers, a binary search needs eight comparisons.
    Comparing one number after another would need 150 on average. Raises `ValueError` if a jump
    would have to skip more than 255 instructions.
    """
    # Ranges of neighbouring numbers with the same block: the first number of each, and the block.
    ends: list[tuple[int, bytes]] = [(0, b"".join(blocks.get(0, otherwise)))]
    for number in sorted({edge for known in blocks for edge in (known, known + 1)}):
        block = b"".join(blocks.get(number, otherwise))
        if block != ends[-1][1]:
            ends.append((number, block))
    nodes: list[tuple[int, int | bytes, int | bytes]] = []

    def lay(low: int, high: int) -> int | bytes:
        """Return the place of the first instruction that searches ``ends[low:high]``. If this is a
        single range, return its block."""
        if high - low == 1:
            return ends[low][1]
        middle, place = (low + high) // 2, len(nodes)
        nodes.append((0, 0, 0))
        below = lay(low, middle)
        nodes[place] = (ends[middle][0], lay(middle, high), below)
        return place

    lay(0, len(ends))
    laid: dict[bytes, int] = {}
    size = len(nodes)
    for _, block in ends:
        if block not in laid:
            laid[block] = size
            size += len(block) // _INSTRUCTION
    jumps = []
    for place, (number, above, below) in enumerate(nodes):
        skips = [(laid[to] if isinstance(to, bytes) else to) - place - 1 for to in (above, below)]
        if max(skips) > _FURTHEST:
            raise ValueError(f"a jump over {max(skips)} instructions: at most {_FURTHEST}")
        jumps.append(op(AT_LEAST, number, *skips))
    return [*jumps, *laid]


def program(machine: str, rules: Iterable[bytes], *, otherwise: int | None = None) -> bytes:
    """Return a whole filter.

    A call in the format of another processor ends the process. Before ``rules`` run, the call's
    number is loaded. If no rule decides about a call, the filter returns ``otherwise``. It may be
    None if the rules decide about all calls. Raises `KeyError` if ``machine`` is not in `MACHINES`.
    """
    start = [
        op(LOAD, _ARCHITECTURE),
        op(EQUAL, _AUDIT[machine], 1, 0),
        op(GIVE, KILL),
        op(LOAD, _NUMBER),
    ]
    if machine == "x86_64":
        start += [op(AT_LEAST, _X32_BIT, 0, 1), op(GIVE, KILL)]
    end = [] if otherwise is None else [op(GIVE, otherwise)]
    return b"".join((*start, *rules, *end))
