"""The migration of another version is tried on a copy of the database."""

import os
import shutil
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import anyio.from_thread
import anyio.to_thread
import asyncpg
import pytest

from nekro_core.app.upgrade.environment import UpgradeRefused
from nekro_core.app.upgrade.trial import (
    copy_of_file,
    copy_on_server,
    seconds_to_answer,
    try_migration,
)
from tests.peers.postgres import PostgresServer


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


@pytest.mark.long
@pytest.mark.parametrize("cannot_be_dropped", [False, True])
async def test_what_a_trial_on_a_server_found_counts_even_if_the_copy_cannot_be_dropped(
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
        with copy_on_server(url, tmp_path, say=said.append) as copy:
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


def test_a_version_with_a_long_migration_gets_longer_to_answer() -> None:
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
