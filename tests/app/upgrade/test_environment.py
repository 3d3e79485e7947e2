"""What can be installed as another version, and which extras go with it."""

import sys
from pathlib import Path

import pytest

from nekro_core import __version__
from nekro_core.app.upgrade.environment import (
    checked_source,
    installed_extras,
    program_of,
    switch_current,
    version_of,
)
from nekro_core.app.upgrade.programs import UpgradeRefused

ROOT = Path(__file__).parents[3]


def test_a_wheel_or_a_folder_with_the_source_can_be_installed(tmp_path: Path) -> None:
    wheel = tmp_path / "nekro_core-0.2.0-py3-none-any.whl"
    wheel.touch()
    assert checked_source(str(wheel)) == wheel
    assert checked_source(str(ROOT)) == ROOT


@pytest.mark.parametrize("name", ["missing.whl", "other-1.0-py3-none-any.whl", "empty", ""])
def test_anything_else_is_refused_with_what_was_expected(tmp_path: Path, name: str) -> None:
    (tmp_path / "other-1.0-py3-none-any.whl").touch()
    (tmp_path / "empty").mkdir()
    with pytest.raises(UpgradeRefused, match=r"expected a wheel .* or a folder"):
        checked_source(str(tmp_path / name))


def test_the_extras_in_use_are_taken_over_and_those_of_developers_are_not() -> None:
    extras = installed_extras()
    assert "telegram" in extras
    assert not {"dev", "kit"} & {*extras}


def test_the_version_is_that_of_the_environment_and_not_of_the_present_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout = tmp_path / "nekro_core"
    checkout.mkdir()
    (checkout / "__init__.py").write_text('__version__ = "of the checkout"')
    monkeypatch.chdir(tmp_path)
    assert version_of(Path(sys.executable)) == __version__


def test_a_service_starts_the_environment_in_use_through_the_link(tmp_path: Path) -> None:
    older, newer = (tmp_path / name / "bin" / "python" for name in ("1", "2"))
    for each in (older, newer):
        each.parent.mkdir(parents=True)
    assert program_of(newer) == newer.with_name("nekro")
    switch_current(tmp_path, newer)
    assert program_of(newer) == tmp_path / "current/bin/nekro"
    assert program_of(older) == older.with_name("nekro")


def test_the_link_leads_to_the_newest_environment(tmp_path: Path) -> None:
    for name in ("20261129-000000", "20261129-000001"):
        (tmp_path / name / "bin").mkdir(parents=True)
        link = switch_current(tmp_path, tmp_path / name / "bin" / "python")
        assert link.resolve() == tmp_path / name
    assert sorted(each.name for each in tmp_path.iterdir()) == [
        "20261129-000000",
        "20261129-000001",
        "current",
    ]
