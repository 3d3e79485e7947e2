"""Tries a mutant: changes a module in a copy of the checkout and runs the tests there."""

import ast
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.seen import marked

ROOT = Path(__file__).resolve().parents[2]
SLOW_S = 0.5
"""A test that takes longer than this (in seconds) may fail because of a timeout, so it is run again
if it fails."""


@dataclass(frozen=True, slots=True)
class Module:
    """A module of ``modules.toml``, and the paths of the tests that judge its mutants."""

    name: str
    source: str
    nearest: tuple[str, ...]
    room: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a mutant: ``killed``, ``survived`` or ``timed out``."""

    status: str
    by: str
    seconds: float
    tests: int


class TestsFail(Exception):
    """The tests fail without a mutant, or could not be run."""


class Copy:
    """A copy of the checkout in another folder, without the files that git ignores."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            check=True,
            capture_output=True,
        ).stdout.decode()
        wanted = {name for name in listed.split("\0") if name and (ROOT / name).is_file()}
        for name in wanted:
            self._copy(name)
        for path in [*folder.rglob("*")]:
            inside = path.relative_to(folder)
            if path.is_file() and str(inside) not in wanted and "__pycache__" not in inside.parts:
                path.unlink()

    def _copy(self, name: str) -> None:
        there, here = self.folder / name, ROOT / name
        if there.exists() and there.read_bytes() == here.read_bytes():
            return
        there.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(here, there)

    def write(self, module: Module, code: str | None = None) -> None:
        """Write ``code`` into the module's file, or without ``code`` the original text."""
        path = self.folder / module.source
        if code is None:
            code = (ROOT / module.source).read_text(encoding="utf-8")
        path.write_text(code, encoding="utf-8")
        # Python would use cached code for a mutant of the same length written in the same second.
        for cached in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
            cached.unlink()

    def pytest(
        self, paths: Sequence[str], *, most_s: float, tests: Sequence[str] = (), stop: bool = True
    ) -> tuple[int | None, str, dict[str, dict[str, object]]]:
        """Run tests. Returns the exit code (None: a timeout), the output and the reached lines."""
        seen, wanted = self.folder / ".seen.json", self.folder / ".tests.json"
        seen.unlink(missing_ok=True)
        wanted.write_text(json.dumps(list(tests)))
        environment = {
            **os.environ,
            "PYTHONPATH": str(self.folder),
            "MUTANTS_SEEN": str(seen),
            "MUTANTS_TESTS": str(wanted) if tests else "",
        }
        command = [
            sys.executable, "-m", "pytest", "-q", "--no-header", "--tb=line", "-m", "not long",
            "-p", "no:cacheprovider", "-p", "tests.mutants.seen", *(["-x"] if stop else []), *paths,
        ]  # fmt: skip
        with subprocess.Popen(
            command, cwd=self.folder, env=environment, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True,
        ) as process:  # fmt: skip
            try:
                said, _ = process.communicate(timeout=most_s)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                said, _ = process.communicate()
                return None, said, {}
        return process.returncode, said, json.loads(seen.read_text()) if seen.exists() else {}


def reached(copy: Copy, modules: Sequence[Module], most_s: float) -> dict[str, dict[str, object]]:
    """Find which tests of these modules' rooms reach which lines, and how long each test takes.
    Raises `TestsFail` if the tests cannot be run or more than three fail without a mutant."""
    for module in modules:
        source = (ROOT / module.source).read_text(encoding="utf-8")
        copy.write(module, marked(source, module.name))
    try:
        paths = tuple(dict.fromkeys(path for module in modules for path in module.room))
        code, said, found = copy.pytest(paths, most_s=most_s, stop=False)
    finally:
        for module in modules:
            copy.write(module)
    if code:
        failing = [line for line in said.splitlines() if line.startswith("FAILED")]
        # A test that fails here fails without a mutant, so it cannot judge mutants.
        if code != 1 or len(failing) > 3:
            raise TestsFail(said[-3000:])
        for line in failing:
            print(f"  fails without any mutant, so it judges none: {line}")
            found.pop(line.removeprefix("FAILED ").partition(" - ")[0], None)
    elif code is None:
        raise TestsFail(f"the tests did not end within {most_s:g} s")
    return found


def judges(
    module: Module, source: str, line: int, found: dict[str, dict[str, object]]
) -> list[str]:
    """The tests that reach the line: first those of the nearest files, and in each file the fastest
    first."""
    statement = _statement_at(source, line)
    rows = []
    for test, row in found.items():
        lines = row["lines"].get(module.name, ())  # type: ignore[attr-defined]
        file = test.partition("::")[0]
        # If a constant or class default changes, a test may notice it without calling a function of
        # the module.
        at_import = statement is None and (lines or file in module.nearest)
        if at_import or statement in lines:
            near = module.nearest.index(file) if file in module.nearest else len(module.nearest)
            rows.append((near, float(str(row["seconds"])), test))
    return [test for *_, test in sorted(rows)]


def _statement_at(source: str, line: int) -> int | None:
    """The first line of the innermost statement in a function that contains the line. None if the
    line is outside functions: such code runs at import, and any test of the module may notice a
    change."""
    inside: int | None = None
    for function in ast.walk(ast.parse(source)):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for each in function.body:
            if each.lineno <= line <= (each.end_lineno or each.lineno):
                for deeper in ast.walk(each):
                    if isinstance(deeper, ast.stmt) and deeper.lineno <= line <= (
                        deeper.end_lineno or deeper.lineno
                    ):
                        inside = max(inside or 0, deeper.lineno)
    return inside


def judge(
    copy: Copy, module: Module, mutant: dict[str, object], found: dict[str, dict[str, object]]
) -> Verdict:
    """Write the mutant into the copy of its module and run the tests that reach it."""
    began = time.monotonic()
    source = (ROOT / module.source).read_text(encoding="utf-8")
    tests = judges(module, source, int(str(mutant["line"])), found)
    many = len(tests)
    copy.write(module, str(mutant["code"]))
    try:
        while tests:
            files = [*dict.fromkeys(test.partition("::")[0] for test in tests)]
            takes = sum(float(str(found[test]["seconds"])) for test in tests)
            code, said, _ = copy.pytest(files, most_s=45 + 5 * takes, tests=tests)
            passed = time.monotonic() - began
            if code is None:
                return Verdict("timed out", "", passed, many)
            if code in (0, 5):
                return Verdict("survived", "", passed, many)
            if code == 3:
                raise TestsFail(said[-3000:])
            by = _failed(said)
            if by in found and float(str(found[by]["seconds"])) > SLOW_S:
                again, _, _ = copy.pytest([by.partition("::")[0]], most_s=120, tests=[by])
                if again == 0:  # the test was only too slow; run the other tests
                    tests = tests[tests.index(by) + 1 :]
                    continue
            return Verdict("killed", by, passed, many)
        return Verdict("survived", "", time.monotonic() - began, many)
    finally:
        copy.write(module)


def _failed(said: str) -> str:
    for line in said.splitlines():
        if line.startswith(("FAILED ", "ERROR ")):
            return line.partition(" ")[2].partition(" - ")[0]
    return said.strip().splitlines()[-1] if said.strip() else ""
