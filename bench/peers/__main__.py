"""``python -m bench.peers [--runs 3] [--only NAME ...]``: measure nekro-core and two other bots,
and print one table that compares them."""

import argparse
import platform
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import anyio

from bench.peers.bots import AstrBot, Bot, LangBot, Nekro
from bench.peers.measure import FIGURES, measure

COLUMNS: dict[str, tuple[type[Bot], bool]] = {
    "nekro-core, words": (Nekro, False),
    "nekro-core, code": (Nekro, True),
    "AstrBot": (AstrBot, False),
    "LangBot": (LangBot, False),
}
"""The columns of the table. Each has its bot, and a flag that is True if the model answers in code.
Only nekro-core runs code."""


async def main(runs: int, wanted: list[str]) -> None:
    """Measure the bots one after another, ``runs`` times each, and print the medians."""
    there: dict[str, str] = {}
    for column in wanted:
        try:
            there[column] = COLUMNS[column][0]().version
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"{column} is left out, it is not installed: {error}", file=sys.stderr)
    found: dict[str, list[dict[str, float]]] = {column: [] for column in there}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(runs):
            for column in there:
                kind, in_code = COLUMNS[column]
                place = Path(folder) / f"{number}-{column.replace(' ', '')}"
                try:
                    figures = await measure(kind(), place, in_code=in_code)
                except Exception:
                    log = place / "log"
                    if log.exists():
                        print(log.read_text(errors="replace")[-4000:], file=sys.stderr)
                    raise
                found[column].append(figures)
                told = ", ".join(f"{name} {value:.3g}" for name, value in figures.items())
                print(f"run {number + 1}, {column}: {told}", file=sys.stderr, flush=True)
    print(f"Python {platform.python_version()}, {platform.machine()}; medians of {runs}\n")
    print(table(there, found))


def table(versions: dict[str, str], found: dict[str, list[dict[str, float]]]) -> str:
    """Return the medians as a table in Markdown."""
    rows = [["", *(f"{column} ({version})" for column, version in versions.items())]]
    for name, unit in FIGURES.items():
        medians = [statistics.median([run[name] for run in runs]) for runs in found.values()]
        rows.append([name, *(f"{median:,.4g} {unit}".strip() for median in medians)])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "| " + " | ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) + " |"
        for row in rows
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.peers")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=COLUMNS, default=[*COLUMNS], metavar="NAME")
    options = parser.parse_args()
    anyio.run(main, options.runs, options.only, backend_options={"use_uvloop": True})
