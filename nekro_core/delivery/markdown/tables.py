"""Writes tables as text whose columns are aligned."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

_GAP = "  "
"""The space between two columns."""
_TELEPHONE = 32
"""Maximum width of a line that most chat programs show on a telephone without a break."""


@dataclass(frozen=True, slots=True)
class TextTable:
    """A table of texts. The first row is the head.

    Attributes:
        rows: The rows, each with the same number of cells.
        alignments: ``left``, ``right`` or ``center`` for each column.
    """

    rows: tuple[tuple[str, ...], ...]
    alignments: tuple[str, ...]

    @property
    def widths(self) -> tuple[int, ...]:
        """The width of each column."""
        return tuple(max(map(display_width, column)) for column in zip(*self.rows, strict=True))

    @property
    def is_narrow(self) -> bool:
        """Return True if a line of the aligned table fits on a telephone."""
        return sum(self.widths) + len(_GAP) * (len(self.widths) - 1) <= _TELEPHONE


def display_width(text: str) -> int:
    """Return how many columns of a terminal a text takes. A Chinese character takes two, a
    combining mark none."""
    return sum(
        0 if unicodedata.combining(each) else 2 if unicodedata.east_asian_width(each) in "WF" else 1
        for each in text
    )


def aligned_table(table: TextTable) -> str:
    """Write a table with aligned columns and a line below the head. Lines have no spaces at their
    end."""
    widths = table.widths
    lines = [_line(row, widths, table.alignments) for row in table.rows]
    rule = _GAP.join("─" * width for width in widths)
    return "\n".join([lines[0], rule, *lines[1:]])


def _line(cells: Sequence[str], widths: Sequence[int], alignments: Sequence[str]) -> str:
    padded = []
    for cell, width, alignment in zip(cells, widths, alignments, strict=True):
        missing = width - display_width(cell)
        before = {"right": missing, "center": missing // 2}.get(alignment, 0)
        padded.append(" " * before + cell + " " * (missing - before))
    return _GAP.join(padded).rstrip()


def listed_table(table: TextTable) -> str:
    """Write each row of a table as a group of lines: its first cell, then the other cells with the
    heads of their columns. Rows are separated by empty lines."""
    head, *rows = table.rows
    groups = []
    for row in rows:
        lines = [row[0] or "-"]
        lines += [f"  {name}: {cell}" for name, cell in zip(head[1:], row[1:], strict=True) if cell]
        groups.append("\n".join(lines))
    return "\n\n".join(groups) or " / ".join(head)
