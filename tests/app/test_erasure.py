"""An erasure deletes the copies of the database, because they contain everybody's messages."""

from pathlib import Path

from nekro_core.app.erasure import delete_copies


def test_no_copy_of_the_database_outlives_an_erasure(tmp_path: Path) -> None:
    kept = (tmp_path / "nekro.sqlite3", tmp_path / "uploads" / "x-before-upgrade")
    of_upgrades = (
        tmp_path / "copies" / "nekro-20261129-000000-before-0018_x.sqlite3",
        tmp_path / "copies" / "nekro-20261129-000000-of-failed-upgrade.sqlite3",
        tmp_path / "nekro.sqlite3-before-upgrade",
        tmp_path / ".upgrade-abc" / "nekro.sqlite3",
    )
    for path in (*kept, *of_upgrades):
        path.parent.mkdir(exist_ok=True)
        path.touch()
    assert delete_copies(tmp_path) == 4
    assert [path.exists() for path in kept] == [True, True]
    assert [path.exists() for path in of_upgrades] == [False] * 4
    assert not (tmp_path / ".upgrade-abc").exists()
    assert delete_copies(tmp_path) == 0
