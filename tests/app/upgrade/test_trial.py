"""The migration of another version is tried on a copy of the database."""

import sys
from pathlib import Path

import pytest

from nekro_core.app.upgrade.trial import try_migration


def test_the_copy_is_migrated_by_the_new_version_and_not_by_code_of_the_present_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout = tmp_path / "nekro_core"
    checkout.mkdir()
    (checkout / "__init__.py").touch()
    (checkout / "__main__.py").write_text("print('the code of the present folder')")
    monkeypatch.chdir(tmp_path)
    # The Python of these tests has this version installed.
    copy = f"sqlite://{tmp_path}/copy.sqlite3"
    assert "the tables are those of" in try_migration(Path(sys.executable), copy)
