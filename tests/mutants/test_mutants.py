"""The table of modules is valid, and the runner records which tests reach a line."""

import textwrap
import tomllib
from pathlib import Path
from typing import Any

from tests.mutants.__main__ import equivalents, modules
from tests.mutants.judging import Module, judges
from tests.mutants.seen import marked

SOURCE = textwrap.dedent('''\
    """Its head."""

    from __future__ import annotations

    LIMIT = 3


    class Counter:
        step = 1

        def add(self, number: int) -> int:
            """Adds."""
            if number > LIMIT:
                return LIMIT
            elif number:
                number += (
                    self.step
                )
            return number


    def outer() -> int:
        def inner() -> int:
            return 7

        return inner()
    ''')


def run_with_notes(tail: str) -> set[int]:
    """Run ``tail`` after the marked source and return the lines that were reached."""
    space: dict[str, Any] = {}
    exec(compile(marked(SOURCE, "it"), "marked", "exec"), space)
    lines: set[int] = set()
    space["_a_line_was_seen"] = lambda _, line: lines.add(line)
    exec(tail, space)
    return lines


def test_a_marked_module_records_which_lines_were_reached() -> None:
    assert run_with_notes("") == set()
    assert run_with_notes("assert Counter().add(9) == 3") == {13, 14}
    assert run_with_notes("assert Counter().add(1) == 2") == {13, 15, 16, 19}
    assert run_with_notes("assert Counter().add(0) == 0") == {13, 15, 19}
    assert run_with_notes("assert outer() == 7") == {23, 24, 26}


def test_a_marked_module_works_without_the_plugin() -> None:
    space: dict[str, Any] = {}
    exec(compile(marked(SOURCE, "it"), "marked", "exec"), space)
    assert space["__doc__"] == "Its head."
    assert (space["Counter"]().add(1), space["outer"]()) == (2, 7)


MODULE = Module("it", "it.py", nearest=("tests/b.py", "tests/a.py"), room=("tests",))
REACHED = {
    "tests/a.py::slow": {"seconds": 2.0, "lines": {"it": [13, 15, 19]}},
    "tests/a.py::quick": {"seconds": 0.1, "lines": {"it": [13, 14]}},
    "tests/b.py::one": {"seconds": 9.0, "lines": {"it": [13, 15, 16, 19]}},
    "tests/a.py::constant": {"seconds": 3.0, "lines": {}},
    "tests/c.py::far": {"seconds": 0.0, "lines": {"it": [13, 14], "other": [16]}},
    "tests/c.py::elsewhere": {"seconds": 0.0, "lines": {"other": [13]}},
}


def test_a_lines_mutants_are_judged_first_by_the_nearest_tests_that_reach_the_line() -> None:
    in_order = ["tests/b.py::one", "tests/a.py::quick", "tests/a.py::slow", "tests/c.py::far"]
    assert judges(MODULE, SOURCE, 13, REACHED) == in_order
    assert judges(MODULE, SOURCE, 14, REACHED) == ["tests/a.py::quick", "tests/c.py::far"]
    assert judges(MODULE, SOURCE, 17, REACHED) == ["tests/b.py::one"], "a statement of three lines"
    assert judges(MODULE, SOURCE, 26, REACHED) == []
    at_import = [*in_order[:3], "tests/a.py::constant", in_order[3]]
    assert judges(MODULE, SOURCE, 5, REACHED) == at_import, (
        "tests that only read a constant also judge it"
    )


def test_every_path_of_the_table_exists() -> None:
    table = modules()
    assert len({module.source for module in table}) == len(table) > 10
    assert all(Path(path).suffix == ".py" for module in table for path in module.nearest)


def test_each_equivalent_mutant_has_a_reason() -> None:
    rows = tomllib.loads((Path(__file__).parent / "equivalent.toml").read_text(encoding="utf-8"))
    assert len(equivalents()) == len(rows["mutant"])
    names = {module.name for module in modules()}
    for row in rows["mutant"]:
        assert row.keys() == {"id", "becomes", "why"}
        assert row["id"].rpartition("-")[0] in names
        assert len(row["why"].split()) > 5
