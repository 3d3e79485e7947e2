"""Runs the checks of layout, names, imports and docstrings on the project itself."""

import importlib
from functools import cache
from pathlib import Path

import pytest

from tests.house import layout, names, ratchet
from tests.house.checks import CHECKS, House, read_justified, stale_reasons

ROOT = Path(__file__).parents[2]
MOST_SHARED_NAMES = 5


@cache
def house() -> House:
    return House(ROOT)


@pytest.mark.parametrize("name", CHECKS)
def test_a_check_finds_exactly_what_not_yet_toml_allows(name: str) -> None:
    outcome = CHECKS[name](house())
    allowed = ratchet.read().get(name, 0)
    lines = "\n".join(outcome.lines)
    assert outcome.count <= allowed, (
        f"{name} counts {outcome.count}, and tests/house/not_yet.toml allows {allowed}. "
        f"What is new: python -m tests.house --base main\n{lines}"
    )
    assert outcome.count == allowed, (
        f"{name} counts {outcome.count} now, fewer than the {allowed} of tests/house/not_yet.toml: "
        "run python -m tests.house --lower"
    )


def test_not_yet_toml_lists_only_existing_checks() -> None:
    counts = ratchet.read()
    assert counts.keys() <= CHECKS.keys()
    assert all(count > 0 for count in counts.values())


def test_each_exception_has_a_reason_and_is_still_needed() -> None:
    justified = read_justified()
    assert len(justified["class_names"]) <= MOST_SHARED_NAMES
    assert all(reason.strip() for table in justified.values() for reason in table.values())
    assert not stale_reasons(house())


def test_old_names_are_listed_once_each_with_what_replaced_them() -> None:
    table = names.old_names()
    assert all(old.words and old.now for old in table)
    keys = [(old.words, old.whole, old.kinds, old.below) for old in table]
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize("name", layout.API)
def test_every_path_of_the_api_can_be_imported(name: str) -> None:
    assert importlib.import_module(f"nekro_core.api.{name}").__doc__


def test_the_checks_read_the_whole_project() -> None:
    """A check that reads no files finds no faults. So the checks must have read many files."""
    assert len(house().tree.modules) > 300
    assert len(house().arrows) > 2000
    assert len(house().api) > 300
