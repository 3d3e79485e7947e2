"""Compares the figures of an older commit and of this code: ``make compare BASE=e6237b0``.

The speed of a machine changes from minute to minute. So both commits are measured in turn in each
round, and the medians of the rounds are printed side by side. The older code is checked out from
git and uses the packages that are installed here. A figure counts as worse if two things are true:
its median is worse by more than ``--noise``, and even the best round of this code was worse than
the worst round of the older code. Both codes are compiled before, as an installed one is::

    make compare BASE=e6237b0 ARGS="--rounds 3 bot store"
    make compare BASE=402f53e ARGS="--database postgres bot"

``--now NAME=VALUE`` sets an environment variable for this code only. With it, what this code does
and the older code does not can be switched off::

    make compare ARGS="--now NEKRO_MEMORY__SUMMARIES=false --now NEKRO_MEMORY__NOTES=false bot"

Commits before 402f53e cannot measure the bot on PostgreSQL: their bench reads SQLite's file.
"""

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import anyio

from tests.e2e.upgrade import ROOT, old_code
from tests.peers.postgres import PostgresServer

_END = re.compile(r"^\d+ figures, \d+ short", re.MULTILINE)
_NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"
_NUMBER = re.compile(r"-?[\d,]+(?:\.\d+)?(?:e[+-]?\d+)?")

Samples = Mapping[str, Sequence[float]]
"""For each figure, its values: one value for each round."""


@dataclass(frozen=True, slots=True)
class Compared:
    """One figure of both commits: the medians of the rounds, and whether the figure of this code is
    worse."""

    name: str
    unit: str
    before: float
    now: float
    worse: bool

    def __str__(self) -> str:
        ratio = self.now / self.before if self.before else float("nan")
        figures = f"{self.name:60} {self.before:>10.3g} {self.now:>10.3g} {ratio:>6.2f}x"
        return f"{figures}  {self.unit}{'  WORSE' if self.worse else ''}"


_COLUMNS = ("figure", "p50", "p95", "p99", "to reach")


def read_table(text: str) -> Iterator[tuple[str, str, float, float | None]]:
    """Parse the output of ``python -m bench``: name, unit, p50 and p99 of each figure."""
    names: list[str] = []
    columns: list[int] = []
    for line in text.splitlines():
        if line.startswith("figure "):
            # An older commit prints no p95.
            names = [each for each in _COLUMNS if f" {each} " in f" {line} "]
            columns = [line.index(each) for each in names]
        elif not line.strip():
            columns = []
        elif columns:
            cells = (
                line[start:end].strip()
                for start, end in zip(columns, [*columns[1:], None], strict=True)
            )
            row = dict(zip(names, cells, strict=True))
            value, _, unit = row["p50"].partition(" ")
            yield row["figure"], unit, float(value.replace(",", "")), _number(row["p99"])


def compare(
    before: Samples, now: Samples, units: Mapping[str, str], noise: float
) -> Iterator[Compared]:
    """Compare each figure that both commits have. A unit with ``/s`` is a rate: higher is
    better."""
    for name in before:
        if name not in now:
            continue
        old, new = list(before[name]), list(now[name])
        if rate := units[name].endswith("/s"):
            old, new = [-each for each in old], [-each for each in new]
        was, is_ = statistics.median(old), statistics.median(new)
        worse = is_ - was > noise * abs(was) and min(new) > max(old)
        sign = -1 if rate else 1
        yield Compared(name, units[name], sign * was, sign * is_, worse)


async def main() -> int:
    """Parse the command line and measure. Returns 1 if a figure is worse."""
    parser = argparse.ArgumentParser(
        prog="make compare", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("base", help="the older commit")
    parser.add_argument("rooms", nargs="*", default=["bot", "store", "sandbox"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--noise", type=float, default=0.1, help="share of the older figure")
    parser.add_argument("--database", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--now", action="append", default=[], metavar="NAME=VALUE")
    options = parser.parse_intermixed_args()
    only_now = dict(each.partition("=")[::2] for each in options.now)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        places = {"before": old_code(options.base, folder / "old"), "now": ROOT}
        for place in places.values():
            _compile(place)
        server = stack.enter_context(PostgresServer()) if options.database == "postgres" else None
        found: dict[str, dict[str, list[float]]] = {each: defaultdict(list) for each in places}
        units: dict[str, str] = {}
        for number in range(options.rounds):
            # Every second round begins with this code: a machine may be faster for the second one.
            for which, place in [*places.items()][:: -1 if number % 2 else 1]:
                url = await server.empty_database() if server else ""
                settings = only_now if which == "now" else {}
                table = _measure(place, options.rooms, settings, url)
                for name, unit, p50, p99 in read_table(table):
                    units[name] = units[f"{name}, p99"] = unit
                    found[which][name].append(p50)
                    if p99 is not None:
                        found[which][f"{name}, p99"].append(p99)
            print(f"round {number + 1} of {options.rounds} is measured", flush=True)
    rows = list(compare(found["before"], found["now"], units, options.noise))
    print(f"\n{'medians on ' + options.database:60} {options.base:>10} {'now':>10}")
    print(*rows, sep="\n")
    only = sorted(set(found["before"]) ^ set(found["now"]))
    print(*(f"{name}: measured by one of the two only" for name in only), sep="\n")
    worse = [each.name for each in rows if each.worse]
    print(f"{len(rows)} figures, {len(worse)} worse beyond noise")
    return 1 if worse else 0


def _compile(place: Path) -> None:
    """Write the bytecode of all modules. Otherwise a bot would compile them at each start, if
    Python may not write bytecode or the checkout is new."""
    environment = {name: os.environ[name] for name in os.environ if name != _NO_BYTECODE}
    parts = ("nekro_core", "adapters", "plugins", "tests", "bench")
    command = [sys.executable, "-m", "compileall", "-q", *parts]
    subprocess.run(command, cwd=place, env=environment, stdout=subprocess.DEVNULL, check=False)


def _measure(
    place: Path, rooms: Sequence[str], settings: Mapping[str, str], database_url: str
) -> str:
    environment = {**os.environ, **settings, "PYTHONPATH": str(place)}
    if database_url:
        environment["NEKRO_DATABASE_URL"] = database_url
    ran = subprocess.run(
        [sys.executable, "-m", "bench", *rooms],
        cwd=place,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if not _END.search(ran.stdout):
        raise SystemExit(f"the bench of {place} printed no table:\n{ran.stdout[-4000:]}")
    return ran.stdout


def _number(text: str) -> float | None:
    found = _NUMBER.match(text)
    return float(found[0].replace(",", "")) if found else None


if __name__ == "__main__":
    raise SystemExit(anyio.run(main))
