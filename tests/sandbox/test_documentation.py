"""The operators' page names every setting of `SandboxSettings` with its default."""

import re
from pathlib import Path

import pytest

from nekro_core.sandbox.settings import SandboxSettings
from tests.sandbox.attacks import TABLE

PAGE = Path(__file__).parents[2] / "docs" / "isolation.md"
ROWS = {
    name.lower(): default
    for name, default in re.findall(r"^\| `([A-Z_]+)` \| (.*?) \|", PAGE.read_text(), re.MULTILINE)
}


def test_the_page_names_every_setting_and_no_other() -> None:
    assert set(ROWS) == set(SandboxSettings.model_fields)


@pytest.mark.parametrize("name", SandboxSettings.model_fields)
def test_the_page_has_the_true_default(name: str) -> None:
    default = getattr(SandboxSettings(), name)
    unset = default is None or default in ("", (), {})
    assert ROWS[name] == ("unset" if unset else f"`{default}`")


def test_the_report_has_every_attack() -> None:
    report = (PAGE.parent / "attacks.md").read_text()
    missing = [str(row) for row in TABLE if f". {row.name} |" not in report]
    assert not missing, "make it again: python -m tests.sandbox.attacks --write docs/attacks.md"
