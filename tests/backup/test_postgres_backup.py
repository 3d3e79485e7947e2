"""A PostgreSQL database is backed up with pg_dump and restored with pg_restore."""

import os
import time
from pathlib import Path

import pytest

from nekro_core.app.documents import copy_documents, settle_before_start
from nekro_core.app.restore import carry_out_prepared, restore_backup
from nekro_core.app.settings import Settings
from nekro_core.backup.errors import BackupRefused, InvalidBackup, RestoreRefused
from nekro_core.backup.make import BackupSource, make_backup
from nekro_core.backup.prepared import prepare_restore, prepared_restore
from nekro_core.backup.progress import BackupWork
from nekro_core.backup.stage import check_backup
from nekro_core.chat import Text
from nekro_core.store import DatabaseInUse, Store
from tests.backup.conftest import CONDUCT
from tests.peers.postgres import PostgresServer
from tests.store.conftest import GROUP, say

pytestmark = pytest.mark.long


async def texts(url: str) -> list[str]:
    async with Store.open(url) as store:
        return [
            segment.text
            for record in await store.messages.newest(GROUP, 100)
            for segment in record.segments
            if isinstance(segment, Text)
        ]


def settings_for(url: str, data: Path) -> Settings:
    return Settings(_env_file=None, nekro_database_url=url, nekro_data_dir=data)  # type: ignore[call-arg]


async def test_a_postgresql_bot_is_backed_up_while_it_runs_and_restored(
    postgres: PostgresServer, data: Path, tmp_path: Path
) -> None:
    url, other, empty = (
        await postgres.database(),
        await postgres.database(),
        await postgres.empty_database(),
    )
    backup = tmp_path / "b.zip"
    async with Store.open(url) as store:
        await say(store, "before")
        made = make_backup(BackupSource(data=data, database_url=url), backup, BackupWork())
        await say(store, "after")
        assert made.manifest.engine == "postgres"
        assert check_backup(backup, BackupWork()) == made.manifest
        with pytest.raises(DatabaseInUse):
            await restore_backup(settings_for(url, data), backup, tmp_path / "no", replace=True)
    await restore_backup(settings_for(empty, data), backup, tmp_path / "first")
    assert await texts(empty) == ["before"]
    new = tmp_path / "new"
    with pytest.raises(RestoreRefused, match="--replace"):
        await restore_backup(settings_for(other, new), backup, new)
    assert not new.exists()
    await restore_backup(settings_for(other, new), backup, new, replace=True)
    assert await texts(other) == ["before"]
    assert (new / "conduct.toml").read_bytes() == CONDUCT
    # Restore over the present database, which is first saved to a file.
    report = await restore_backup(settings_for(url, data), backup, data, replace=True)
    assert await texts(url) == ["before"]
    (dump,) = tmp_path.glob("data-database-before-restore-*.dump")
    assert str(dump) in " ".join(report.sentences)


async def test_a_restore_that_was_prepared_while_the_bot_ran_is_carried_out_at_the_start(
    postgres: PostgresServer, data: Path, tmp_path: Path
) -> None:
    url = await postgres.database()
    backup = tmp_path / "b.zip"
    async with Store.open(url) as store:
        await say(store, "before")
        make_backup(BackupSource(data=data, database_url=url), backup, BackupWork())
        await say(store, "after")
        prepared = await prepare_restore(backup, data, url)
        assert prepared.backup == "b.zip"
    report = await carry_out_prepared(settings_for(url, data))
    assert report is not None
    assert await texts(url) == ["before"]
    assert (data / "conduct.toml").read_bytes() == CONDUCT
    assert prepared_restore(data) is None
    assert await carry_out_prepared(settings_for(url, data)) is None


async def test_a_prepared_restore_that_fails_after_it_wrote_the_tables_puts_the_old_tables_back(
    postgres: PostgresServer, data: Path, tmp_path: Path
) -> None:
    url, fresh = await postgres.database(), await postgres.empty_database()
    backup = tmp_path / "b.zip"
    async with Store.open(url) as store:
        await say(store, "before")
        make_backup(BackupSource(data=data, database_url=url), backup, BackupWork())
        await say(store, "after")
        await prepare_restore(backup, data, url)

    def late(calls: list[int] = []) -> float:  # noqa: B006 - counts its calls
        calls.append(1)
        if len(calls) > 1:  # the first call only makes the name of a file
            raise OSError("the disk is full")
        return time.time()

    with pytest.raises(OSError, match="the disk is full"):
        await carry_out_prepared(settings_for(url, data), wall=late)
    assert await texts(url) == ["before", "after"]
    assert prepared_restore(data) is None, "the next start must not try again"
    late.__defaults__[0].clear()  # type: ignore[index]
    with pytest.raises(OSError, match="the disk is full"):
        await restore_backup(settings_for(fresh, data), backup, tmp_path / "new", wall=late)
    async with Store.open(fresh) as store:
        assert await store.messages.newest(GROUP, 1) == []


async def test_a_restore_is_not_prepared_without_the_programs_of_postgresql(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(os.environ, "PATH", str(tmp_path))
    url = "asyncpg://nekro:secret@127.0.0.1:1/nekro"
    with pytest.raises(RestoreRefused, match="postgresql-client"):
        await prepare_restore(tmp_path / "b.zip", data, url)


async def test_a_damaged_dump_changes_nothing_on_the_server(
    postgres: PostgresServer, data: Path, tmp_path: Path
) -> None:
    url = await postgres.database()
    async with Store.open(url) as store:
        await say(store, "before")
    backup = tmp_path / "b.zip"
    make_backup(BackupSource(data=data, database_url=url), backup, BackupWork())
    backup.write_bytes(backup.read_bytes()[:-100])
    with pytest.raises(InvalidBackup):
        await restore_backup(settings_for(url, data), backup, data, replace=True)
    assert await texts(url) == ["before"]


async def test_a_missing_pg_dump_is_reported(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(os.environ, "PATH", str(tmp_path))
    url = "asyncpg://nekro:secret@127.0.0.1:1/nekro"
    with pytest.raises(BackupRefused, match="postgresql-client"):
        make_backup(BackupSource(data=data, database_url=url), tmp_path / "b.zip", BackupWork())


async def test_an_unreachable_server_is_reported_without_its_password(
    data: Path, tmp_path: Path
) -> None:
    url = "asyncpg://nekro:a-secret-password@127.0.0.1:1/nekro"
    with pytest.raises(BackupRefused, match="pg_dump could not copy") as refused:
        make_backup(BackupSource(data=data, database_url=url), tmp_path / "b.zip", BackupWork())
    assert "a-secret-password" not in str(refused.value)


async def test_documents_stored_in_postgresql_are_in_a_backup_only_as_files(
    postgres: PostgresServer, data: Path, tmp_path: Path
) -> None:
    url, other = await postgres.database(), await postgres.empty_database()
    settings = settings_for(url, data).model_copy(update={"nekro_documents": "database"})
    await copy_documents(settings, "database", overwrite=False)
    assert await postgres.run("SELECT 1 FROM documents WHERE text LIKE '%k-1234567890%'", url=url)
    backup = tmp_path / "b.zip"
    make_backup(BackupSource(data=data, database_url=url), backup, BackupWork())
    there = settings_for(other, tmp_path / "new").model_copy(update={"nekro_documents": "database"})
    await restore_backup(there, backup, tmp_path / "new")
    assert await postgres.run("SELECT 1 FROM documents", url=other) == []
    assert await settle_before_start(there)
    rows = await postgres.run("SELECT name, text FROM documents", url=other)
    texts = {row["name"]: row["text"] for row in rows}
    assert texts["conduct.toml"].encode() == CONDUCT
    assert "Delft" in texts["plugin_data/ann.weather/config.yaml"]
    assert "k-1234567890" not in str(texts)
