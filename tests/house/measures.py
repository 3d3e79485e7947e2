"""Makes the report: the findings of the checks and the size of the code, for one or two
checkouts."""

import ast
import io
import statistics
import subprocess
import tarfile
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from tests.house.checks import CHECKS, House, Outcome
from tests.house.ratchet import without_lines
from tests.house.tree import Function, Module

SHORT = 60
"""The report counts the files with fewer lines than this. Such a file may be too small: it may
hold one function instead of one idea."""
NO_CODE = frozenset(
    (
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENDMARKER,
    )
)


@dataclass(frozen=True)
class Lines:
    """The number of lines of a file or a room."""

    all: int = 0
    without_docstrings: int = 0
    code: int = 0
    """The number of lines that are no docstring, no comment and not blank."""

    def __add__(self, other: "Lines") -> "Lines":
        return Lines(
            self.all + other.all,
            self.without_docstrings + other.without_docstrings,
            self.code + other.code,
        )


@dataclass(frozen=True)
class Measures:
    """The measures of one checkout."""

    figures: dict[str, float]
    rooms: dict[str, Lines]
    outcomes: dict[str, Outcome]

    @property
    def counts(self) -> dict[str, float]:
        """The number of findings of each check."""
        return {name: outcome.count for name, outcome in self.outcomes.items()}


def lines_of(module: Module) -> Lines:
    """How many lines a file has, with and without its docstrings, comments and blank lines.

    Texts below fields are docstrings, too.
    """
    in_docstrings: set[int] = set()
    for node in module.nodes:
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                in_docstrings |= set(range(node.lineno, (node.end_lineno or 0) + 1))
            case _:
                pass
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(module.text).readline):
        if token.type not in NO_CODE:
            code |= set(range(token.start[0], token.end[0] + 1))
    every = len(module.text.splitlines())
    return Lines(every, every - len(in_docstrings), len(code - in_docstrings))


def measured(house: House) -> Measures:
    """All measures of a checkout."""
    files = {module.path: lines_of(module) for module in house.tree}
    sizes = [lines.all for lines in files.values()]
    functions = sorted(
        (node.end_lineno or 0) - node.lineno + 1
        for module in house.tree
        for node in module.nodes
        if isinstance(node, Function)
    )
    rooms: defaultdict[str, Lines] = defaultdict(Lines)
    for path, lines in files.items():
        parts = PurePosixPath(path).parts
        if lines.all:
            rooms["/".join(parts[:2]) if len(parts) > 2 else f"{parts[0]} (loose files)"] += lines
        rooms[f"= {parts[0]}"] += lines
    documented = sum(not each.lacks for each in house.api)
    return Measures(
        figures={
            "files": len(files),
            "median lines of a file": statistics.median(sizes),
            f"files under {SHORT} lines": sum(size < SHORT for size in sizes),
            "functions": len(functions),
            "median lines of a function": statistics.median(functions),
            "p95 lines of a function": functions[int(len(functions) * 0.95)],
            "longest function": functions[-1],
            "classes and functions of the public API": len(house.api),
            "of them fully documented": documented,
            "public class names that several classes bear": len(house.shared_class_names),
        },
        rooms=dict(rooms),
        outcomes={name: check(house) for name, check in CHECKS.items()},
    )


def unpack(commit: str, repository: Path, into: Path) -> None:
    """Write the files of a commit into an empty folder."""
    packed = subprocess.run(
        ["git", "archive", commit], cwd=repository, check=True, stdout=subprocess.PIPE
    ).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(into, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))


def report(now: Measures, base: Measures | None = None) -> Iterator[str]:
    """The lines of a report. If a base is given, each line has the base's figure and then the
    present one."""
    yield from _table(now.figures, base.figures if base else None)
    yield "\nchecks: how much does not hold"
    yield from _table(now.counts, base.counts if base else None)
    yield "\nlines of code (no docstrings, comments, blank lines) | without docstrings | all"
    every = base.rooms if base else {}
    for room in sorted({*now.rooms, *every}, key=lambda room: (room.startswith("="), room)):
        here, there = now.rooms.get(room, Lines()), every.get(room, Lines())
        columns = [
            _figures(getattr(here, kind), getattr(there, kind) if base else None)
            for kind in ("code", "without_docstrings", "all")
        ]
        yield f"{' |'.join(columns)}  {room}"


def new_findings(now: Measures, base: Measures) -> Iterator[str]:
    """The findings that the base does not have. A finding that only changed its line is not new."""
    for name, outcome in now.outcomes.items():
        known = Counter(map(without_lines, base.outcomes[name].lines))
        for line in outcome.lines:
            if known[without_lines(line)] > 0:
                known[without_lines(line)] -= 1
            else:
                yield f"{name}: {line}"


def _table(now: Mapping[str, float], base: Mapping[str, float] | None) -> Iterator[str]:
    for name, figure in now.items():
        yield f"{_figures(figure, base.get(name, 0) if base is not None else None)}  {name}"


def _figures(here: float, there: float | None) -> str:
    if there is None:
        return f"{here:>9,.9g}"
    change = f"{here - there:+,.9g}" if here != there else ""
    return f"{there:>9,.9g}{here:>9,.9g}{change:>8}"
