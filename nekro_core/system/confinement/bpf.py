"""Builds the BPF programs with which the kernel filters system calls.

What a filter allows is in `nekro_core.system.confinement.jail_filter` (boxes) and
`nekro_core.system.confinement.decoder_filter` (decoders). A program checks the processor, then
finds the rule for a system call: by comparing one number after another if there are few, else by
binary search (`choose`). Sources: `man 2 seccomp`, the kernel's ``syscall_64.tbl`` and
``asm-generic/unistd.h``.
"""

import errno
import struct
from collections.abc import Iterable, Mapping

MACHINES = ("x86_64", "aarch64")
"""The processors whose system calls are known here, as `os.uname` names them."""

LOAD, EQUAL, AT_LEAST, ANY_BIT, GIVE = 0x20, 0x15, 0x35, 0x45, 0x06
ALLOW, ERRNO, KILL = 0x7FFF0000, 0x00050000, 0x80000000

_NUMBER, _ARCHITECTURE = 0, 4
_AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_X32_BIT = 0x40000000
_INSTRUCTION = 8  # bytes
_FURTHEST = 255


def op(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    """One instruction: its code, its value, and how many instructions a jump skips."""
    return struct.pack("HBBI", code, if_true, if_false, value)


def deny(error: int = errno.EPERM) -> list[bytes]:
    """Instructions that let the call fail with ``error``. The process continues."""
    return [op(GIVE, ERRNO | error)]


def only(values: tuple[int, ...], error: int) -> list[bytes]:
    """Instructions that deny unless the loaded argument is one of ``values``."""
    count = len(values)
    tests = [op(EQUAL, value, count - place, 0) for place, value in enumerate(values)]
    return [*tests, *deny(error)]


def argument(place: int, check: list[bytes]) -> list[bytes]:
    """Instructions that load the low half of an argument, run ``check``, then allow the call.

    Use it for arguments that the kernel reads as 32 bits, or whose tested bits are in that half.
    """
    return [op(LOAD, 16 + 8 * place), *check, op(GIVE, ALLOW)]


def check_argument(number: int, place: int, check: list[bytes]) -> list[bytes]:
    """Instructions that do what `argument` does for one system call, and nothing for others."""
    body = argument(place, check)
    return [op(EQUAL, number, 0, len(body)), *body]


def choose(blocks: Mapping[int, list[bytes]], otherwise: list[bytes]) -> list[bytes]:
    """Instructions that find the loaded number's block by binary search; ``otherwise`` is the block
    of all other numbers.

    A block ends the program. 300 numbers take eight comparisons; a list would take half its length
    on average. Raises `ValueError` for more blocks than a jump can span (255 instructions).
    """
    ends: list[tuple[int, bytes]] = [(0, b"".join(blocks.get(0, otherwise)))]
    for number in sorted({edge for known in blocks for edge in (known, known + 1)}):
        block = b"".join(blocks.get(number, otherwise))
        if block != ends[-1][1]:
            ends.append((number, block))
    nodes: list[tuple[int, int | bytes, int | bytes]] = []

    def lay(low: int, high: int) -> int | bytes:
        """The place of the node for the ranges ``low`` to ``high``, or the block of a single
        range."""
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
    """The whole filter. Calls of another processor end the process. ``rules`` run with the call's
    number loaded. ``otherwise`` is returned if no rule decides; None if the rules decide all calls.
    Raises `KeyError` for a ``machine`` that is not in `MACHINES`."""
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
