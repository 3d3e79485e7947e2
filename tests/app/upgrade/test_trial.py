"""The migration of another version is tried on a copy of the database."""

import os
import shutil
import sqlite3
import sys
from collections.abc import Generator
from contextlib import closing
from pathlib import Path

import anyio.from_thread
import anyio.to_thread
import asyncpg
import pytest

from nekro_core.app.upgrade.programs import UpgradeRefused
from nekro_core.app.upgrade.trial import (
    copy_of_file,
    copy_on_server,
    seconds_to_answer,
    try_migration,
)
from tests.peers.postgres import PostgresServer

NOW = 1_795_000_000.0


def test_the_copy_is_migrated_by_the_new_version_and_not_by_code_of_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout = tmp_path / "nekro_core"
    checkout.mkdir()
    (checkout / "__init__.py").touch()
    (checkout / "__main__.py").write_text("print('the code of the present folder')")
    (tmp_path / "anyio.py").write_text("raise SystemExit('a package of the old version')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    # The Python of these tests has this version installed.
    copy = f"sqlite://{tmp_path}/copy.sqlite3"
    assert "the tables are those of" in try_migration(Path(sys.executable), copy)


@pytest.mark.long
@pytest.mark.parametrize("cannot_be_dropped", [False, True])
async def test_the_error_of_a_trial_is_raised_even_if_the_copy_on_the_server_cannot_be_dropped(
    tmp_path: Path, postgres: PostgresServer, *, cannot_be_dropped: bool
) -> None:
    url = await postgres.database()
    said: list[str] = []
    opened: list[asyncpg.Connection] = []

    async def leave_a_connection(copy: str) -> str:
        connection = await asyncpg.connect(copy.replace("asyncpg://", "postgres://"))
        opened.append(connection)
        return str(await connection.fetchval("SELECT current_database()"))

    names: list[str] = []

    def trial() -> None:
        with copy_on_server(url, tmp_path, say=said.append, now=NOW) as copy:
            names.append(anyio.from_thread.run(leave_a_connection, copy))
            if cannot_be_dropped:
                drop = f"ALTER DATABASE {names[0]} IS_TEMPLATE true"
                anyio.from_thread.run(postgres.run, drop)
            raise UpgradeRefused("the new version cannot use a copy")

    try:
        with pytest.raises(UpgradeRefused, match="the new version cannot use a copy"):
            await anyio.to_thread.run_sync(trial)
    finally:
        for connection in opened:
            connection.terminate()
    left = await postgres.run(f"SELECT 1 FROM pg_database WHERE datname = '{names[0]}'")
    assert len(left) == cannot_be_dropped
    assert [names[0] in each for each in said] == [True] * cannot_be_dropped
    if cannot_be_dropped:
        await postgres.run(f"ALTER DATABASE {names[0]} IS_TEMPLATE false")
        await postgres.run(f"DROP DATABASE {names[0]} WITH (FORCE)")


@pytest.mark.long
async def test_copies_that_killed_trials_of_this_database_left_on_the_server_are_dropped(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    url, other = await postgres.database(), await postgres.database()
    said: list[str] = []

    def begin(url: str, folder: str) -> Generator[str]:
        """Begin a trial in a data folder of its own."""
        with copy_on_server(url, tmp_path / folder, say=said.append, now=NOW) as copy:
            yield copy

    def databases() -> set[str]:
        found = anyio.from_thread.run(postgres.run, "SELECT datname FROM pg_database")
        return {row["datname"] for row in found}

    def trials() -> None:
        first, of_another_bot = begin(url, "first"), begin(other, "second")
        left, foreign = (next(each).rpartition("/")[2] for each in (first, of_another_bot))
        # The first trial runs: nothing is dropped, however long it takes.
        for now in (NOW + 60, NOW + 36_000):
            with copy_on_server(url, tmp_path, say=said.append, now=now):
                assert {left, foreign} <= databases()
        # The first process is killed: its connection ends.
        kill = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{left}'"
        assert len(anyio.from_thread.run(postgres.run, kill)) == 1
        with copy_on_server(url, tmp_path, say=said.append, now=NOW + 60):
            assert left in databases(), "it may just have been made"
        with copy_on_server(url, tmp_path, say=said.append, now=NOW + 3600):
            assert left not in databases()
            assert foreign in databases()
        first.close()
        of_another_bot.close()

    await anyio.to_thread.run_sync(trials)
    assert len(said) == 1
    assert said[0].startswith("dropped the database nekro_upgrade_")
    found = await postgres.run("SELECT 1 FROM pg_database WHERE datname LIKE 'nekro_upgrade%'")
    assert found == []


def test_a_second_upgrade_does_not_remove_the_copy_of_the_first(tmp_path: Path) -> None:
    database = tmp_path / "nekro.sqlite3"
    with closing(sqlite3.connect(database)) as made:
        made.execute("CREATE TABLE messages (seq INTEGER PRIMARY KEY)")
    with copy_of_file(database) as copy:
        with pytest.raises(UpgradeRefused, match="another `nekro upgrade`"), copy_of_file(database):
            pass
        assert Path(copy.removeprefix("sqlite://")).is_file()
    with copy_of_file(database):
        pass
    assert [each.name for each in tmp_path.iterdir()] == [database.name]


def test_a_version_with_a_long_migration_gets_more_time_to_answer() -> None:
    assert seconds_to_answer(None, 0.0) == 60.0
    assert seconds_to_answer(None, 1000.0) == 3060.0
    assert seconds_to_answer(20.0, 1000.0) == 20.0, "the operator said so"


def test_a_copy_that_could_fill_the_disk_is_not_begun(tmp_path: Path) -> None:
    database = tmp_path / "nekro.sqlite3"
    database.touch()
    # A file with a hole takes no room.
    os.truncate(database, shutil.disk_usage(tmp_path).free // 2)
    with (
        pytest.raises(UpgradeRefused, match=r"MB free, and to try .* takes \d+ MB: make room"),
        copy_of_file(database),
    ):
        pass
    assert [each.name for each in tmp_path.iterdir()] == [database.name]


def test_the_copy_of_a_trial_that_was_killed_is_removed_by_the_next_one(tmp_path: Path) -> None:
    database = tmp_path / "nekro.sqlite3"
    with closing(sqlite3.connect(database)) as made:
        made.execute("CREATE TABLE messages (seq INTEGER PRIMARY KEY)")
    left = tmp_path / ".upgrade-abc"
    left.mkdir()
    (left / database.name).write_text("messages")
    with copy_of_file(database):
        assert not left.exists()
    assert [each.name for each in tmp_path.iterdir()] == [database.name]
