"""Reads from the ``cmap`` table of a font file which characters the font has.

For a character that a font lacks, Pillow draws a box and reports nothing. Source: the OpenType
specification, "cmap - Character to Glyph Index Mapping Table", formats 4 and 12.
fontTools can read the table too, but it is ten times slower (see docs/decisions/0003).
"""

import struct
from bisect import bisect_right
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

_MOST_TABLE_BYTES = 4_000_000
_PREFERRED = ((3, 10), (0, 6), (0, 4), (3, 1), (0, 3), (0, 2), (0, 1), (0, 0))


@dataclass(frozen=True, slots=True)
class Coverage:
    """The characters of a font, as sorted ranges. Each range includes its first and last
    character."""

    firsts: tuple[int, ...] = ()
    lasts: tuple[int, ...] = ()

    def __contains__(self, character: str) -> bool:
        code = ord(character)
        position = bisect_right(self.firsts, code) - 1
        return position >= 0 and code <= self.lasts[position]


def read_coverage(path: Path, index: int = 0) -> Coverage:
    """Read the coverage of face ``index``. It is empty if the file is not a readable font."""
    try:
        with path.open("rb") as file:
            return _read(file, index)
    except (OSError, struct.error, ValueError):
        return Coverage()


def _read(file: BinaryIO, index: int) -> Coverage:
    start = 0
    if file.read(4) == b"ttcf":
        file.seek(12 + 4 * index)
        (start,) = struct.unpack(">I", file.read(4))
    file.seek(start + 4)
    (tables,) = struct.unpack(">H", file.read(2))
    file.seek(start + 12)
    for _ in range(tables):
        tag, _, offset, length = struct.unpack(">4sIII", file.read(16))
        if tag == b"cmap":
            file.seek(offset)
            return _read_cmap(file.read(min(length, _MOST_TABLE_BYTES)))
    return Coverage()


def _read_cmap(table: bytes) -> Coverage:
    (count,) = struct.unpack_from(">H", table, 2)
    found: dict[tuple[int, int], int] = {}
    for number in range(count):
        platform, encoding, offset = struct.unpack_from(">HHI", table, 4 + 8 * number)
        found[platform, encoding] = offset
    for wanted in _PREFERRED:
        if wanted in found:
            offset = found[wanted]
            (kind,) = struct.unpack_from(">H", table, offset)
            if kind == 12:
                return _from_groups(table, offset)
            if kind == 4:
                return _from_segments(table, offset)
    return Coverage()


def _from_groups(table: bytes, offset: int) -> Coverage:
    (count,) = struct.unpack_from(">I", table, offset + 12)
    groups = [struct.unpack_from(">II", table, offset + 16 + 12 * n) for n in range(count)]
    return Coverage(tuple(g[0] for g in groups), tuple(g[1] for g in groups))


def _from_segments(table: bytes, offset: int) -> Coverage:
    (double,) = struct.unpack_from(">H", table, offset + 6)
    count = double // 2
    lasts = struct.unpack_from(f">{count}H", table, offset + 14)
    firsts = struct.unpack_from(f">{count}H", table, offset + 16 + double)
    # The last segment, 0xFFFF, only marks the end of the table. It is not a character.
    return Coverage(
        tuple(first for first in firsts if first != 0xFFFF),
        tuple(last for first, last in zip(firsts, lasts, strict=True) if first != 0xFFFF),
    )
