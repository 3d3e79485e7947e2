"""The database is kept as it is before another version starts, and put back if it was migrated."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from nekro_core.app.upgrade.kept_database import KeptFile

NOW = 1_795_000_000.0


def database(path: Path, *texts: str) -> Path:
    with closing(sqlite3.connect(path)) as made:
        made.execute("CREATE TABLE messages (seq INTEGER PRIMARY KEY, text TEXT)")
        made.executemany("INSERT INTO messages (text) VALUES (?)", [(each,) for each in texts])
        made.commit()
    return path


def texts(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as opened:
        return [text for (text,) in opened.execute("SELECT text FROM messages ORDER BY seq")]


def add(path: Path, text: str) -> None:
    with closing(sqlite3.connect(path)) as opened:
        opened.execute("INSERT INTO messages (text) VALUES (?)", (text,))
        opened.commit()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return database(tmp_path / "nekro.sqlite3", "one")


def migrate(file: Path) -> None:
    """Do what a start of a new version does: a migrated copy replaces the file, and the old file
    goes to ``copies``."""
    fresh = file.with_name("fresh")
    database(fresh, *texts(file), "of the new version")
    copies = file.parent / "copies"
    copies.mkdir()
    (copies / "nekro-20261129-000000-before-0018_x.sqlite3").hardlink_to(file)
    fresh.replace(file)


def test_without_a_migration_put_back_keeps_the_messages_that_came_in_meanwhile(file: Path) -> None:
    kept = KeptFile(file)
    add(file, "two")
    assert kept.put_back() == ""
    assert texts(file) == ["one", "two"]
    assert [each.name for each in file.parent.iterdir()] == [file.name]


def test_put_back_puts_a_migrated_database_aside_and_counts_its_newer_messages(file: Path) -> None:
    kept = KeptFile(file, clock=lambda: NOW)
    migrate(file)
    aside = "nekro-20261118-110640-of-failed-upgrade.sqlite3"
    assert kept.put_back() == f"1 messages that came in meanwhile are only in copies/{aside}"
    assert texts(file) == ["one"]
    add(file, "two")
    assert texts(file.parent / "copies" / aside) == ["one", "of the new version"]
    assert [each.name for each in (file.parent / "copies").iterdir()] == [aside], (
        "the copy from before the migration is the file in use again, so it is no copy"
    )


def test_forget_deletes_the_second_name_of_the_old_database_and_keeps_the_migrated_one(
    file: Path,
) -> None:
    kept = KeptFile(file)
    migrate(file)
    kept.forget()
    assert sorted(each.name for each in file.parent.iterdir()) == ["copies", "nekro.sqlite3"]
    assert texts(file) == ["one", "of the new version"]


def test_if_the_old_database_is_gone_put_back_fails_and_the_migrated_one_stays_in_use(
    file: Path,
) -> None:
    kept = KeptFile(file)
    migrate(file)
    file.with_name(f"{file.name}-before-upgrade").unlink()
    with pytest.raises(FileNotFoundError):
        kept.put_back()
    assert texts(file) == ["one", "of the new version"]


def test_the_write_ahead_log_of_an_unclosed_database_is_written_into_it_before_it_is_kept(
    file: Path,
) -> None:
    with closing(sqlite3.connect(file)) as opened:
        opened.execute("PRAGMA journal_mode = WAL")
        opened.execute("INSERT INTO messages (text) VALUES ('in the log')")
        opened.commit()
        log = file.with_name(f"{file.name}-wal").read_bytes()
    file.with_name(f"{file.name}-wal").write_bytes(log)
    kept = KeptFile(file)
    migrate(file)
    kept.put_back()
    assert texts(file) == ["one", "in the log"]
