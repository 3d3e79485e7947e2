"""Reads and lowers the counts of findings that are still allowed. ``not_yet.toml`` has a count for
each check, and the counts may only fall."""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

HERE = Path(__file__).parent
FILE = HERE / "not_yet.toml"
HEAD = """\
# How much each check may still find. A change that mends something lowers its count here:
#   python -m tests.house --lower
# A count never rises, and a check that finds nothing more leaves this list. Where two branches
# lowered one count, take either side and run it again.
"""


def read(path: Path = FILE) -> dict[str, int]:
    """The allowed count of each check. A check that the file does not list may find nothing."""
    return tomllib.loads(path.read_text("utf-8"))


def lower(counts: Mapping[str, int], path: Path = FILE) -> list[str]:
    """Write the counts that fell.

    Returns:
        A line for each check whose count rose. The file keeps the old count of such a check.
    """
    listed = read(path)
    lowest = {name: min(count, listed.get(name, 0)) for name, count in counts.items()}
    lines = [f"{name} = {count}" for name, count in lowest.items() if count]
    path.write_text("\n".join([HEAD, *lines, ""]), "utf-8")
    return [
        f"{name} rose from {listed.get(name, 0)} to {count}"
        for name, count in counts.items()
        if count > listed.get(name, 0)
    ]


def without_lines(finding: str) -> str:
    """A finding without its line number, so that lines added above it do not change it."""
    return re.sub(r"(\.\w+):\d+", r"\1", finding)
