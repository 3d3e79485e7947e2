"""An upgrade that could not end well is refused before anything is made."""

import os
from pathlib import Path

import pytest

from nekro_core.app.upgrade.checks import check_container, check_owner, check_programs
from nekro_core.app.upgrade.programs import UpgradeRefused
from tests.sandbox.jail.test_container import machine


def test_only_the_user_of_the_bot_may_upgrade_it(tmp_path: Path) -> None:
    check_owner(tmp_path)
    check_owner(tmp_path / "of a bot that was never started")
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder to another user")
    os.chown(tmp_path, 12345, -1)
    with pytest.raises(
        UpgradeRefused, match=r"belongs to the user #12345, .* sudo -u #12345 nekro"
    ):
        check_owner(tmp_path)


def test_without_the_client_programs_no_bot_on_postgres_is_upgraded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    check_programs("sqlite:///data/nekro.sqlite3")
    with pytest.raises(UpgradeRefused, match="pg_dump is not installed here"):
        check_programs("asyncpg://nekro@127.0.0.1/nekro")


def test_in_a_container_the_error_says_to_make_a_new_image(tmp_path: Path) -> None:
    with pytest.raises(UpgradeRefused, match="make a new image"):
        check_container(machine(tmp_path / "container"))
    check_container(machine(tmp_path / "machine", mark=""))
