"""Writes tables as CSV (RFC 4180) for spreadsheet programs."""

import csv
import io
from collections.abc import Iterable, Sequence

Cell = str | int | float | None
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""If a text begins with one of these characters, a spreadsheet program runs the text as a
formula."""


def csv_of(columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    """Write a table as CSV.

    A text that a spreadsheet program would run as a formula gets an apostrophe before it. Otherwise
    the name of a chat, which anybody may choose, could run code on the operator's machine. Numbers
    stay as they are.

    Args:
        columns: The names of the columns.
        rows: The cells of each row. None is an empty cell.

    Returns:
        The text, with ``\\r\\n`` after each line.
    """
    file = io.StringIO()
    writer = csv.writer(file)
    writer.writerow([_safe(name) for name in columns])
    writer.writerows([_safe(cell) for cell in row] for row in rows)
    return file.getvalue()


def _safe(cell: Cell) -> Cell:
    if isinstance(cell, str) and cell.lstrip(" ").startswith(_FORMULA):
        return f"'{cell}"
    return cell
