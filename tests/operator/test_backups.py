"""Operators make, check, delete and restore backups. The passphrase is in no log."""

import json
import zipfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from pydantic import SecretStr

from nekro_core.backup.errors import BackupRefused, InvalidBackup
from nekro_core.backup.make import BackupSource
from nekro_core.backup.service import BackupService
from nekro_core.backup.settings import BackupSettings
from nekro_core.operator.audit import AuditLog
from nekro_core.operator.backups import Backups
from nekro_core.operator.errors import NoSuchItem, NotAllowed
from nekro_core.operator.jobs import Jobs, JobState
from nekro_core.store import Store
from nekro_core.system.background_tasks import background_tasks
from tests.operator.test_actions import OPERATOR, OWNER, VIEWER

PASSPHRASE = SecretStr("correct horse battery")


@asynccontextmanager
async def opened(data: Path) -> AsyncIterator[tuple[Backups, Store]]:
    url = f"sqlite://{data / 'nekro.sqlite3'}"
    source = BackupSource(data=data, database_url=url)
    async with (
        Store.open(url) as store,
        BackupService.open(source, BackupSettings(keep=2)) as service,
    ):
        yield Backups(AuditLog(store.audit), service), store


async def test_a_backup_is_made_checked_downloaded_and_deleted(tmp_path: Path) -> None:
    async with opened(tmp_path / "data") as (backups, store):
        made = (await backups.make(OWNER, passphrase=PASSPHRASE)).result
        assert made.secrets
        (listed,) = await backups.newest(VIEWER)
        assert listed.name == made.name
        assert (await backups.check(OPERATOR, name=made.name)).result == made
        file = await backups.download(OWNER, name=made.name)
        assert zipfile.is_zipfile(file.path)
        assert file.size == listed.size
        for name in ("../nekro.sqlite3", "nekro-20200101-000000.zip"):
            with pytest.raises(NoSuchItem):
                await backups.download(OWNER, name=name)
            with pytest.raises(BackupRefused):
                await backups.delete(OWNER, name=name)
        await backups.delete(OWNER, name=made.name)
        assert await backups.newest(VIEWER) == []
        entries = await store.audit.newest()
        assert [each.action for each in entries].count("backups.delete") == 3
        assert PASSPHRASE.get_secret_value() not in repr(entries)


async def pieces_of(content: bytes) -> AsyncIterator[bytes]:
    for at in range(0, len(content), 1000):
        yield content[at : at + 1000]


async def test_an_uploaded_backup_is_checked_and_stays_when_old_ones_are_deleted(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path / "data") as (backups, store):
        made = (await backups.make(OWNER)).result
        content = (await backups.download(OWNER, name=made.name)).path.read_bytes()
        kept = await backups.upload(OWNER, pieces_of(content))
        assert kept.name.startswith("uploaded-")
        assert (kept.files, kept.size) == (made.files, made.size)
        for faulty in (content[:-100], b"", b"no zip"):
            with pytest.raises(InvalidBackup):
                await backups.upload(OWNER, pieces_of(faulty))
        for _ in range(3):
            await backups.make(OWNER)
        names = [each.name for each in await backups.newest(VIEWER)]
        assert kept.name in names
        assert len(names) == 3  # these are the uploaded backup and the two that the settings keep
        left = [each.name for each in (tmp_path / "data" / "backups").iterdir()]
        assert not [name for name in left if name.startswith(".coming")]
        entries = await store.audit.newest()
        assert {"backups.upload", "backups.download"} <= {each.action for each in entries}


async def test_an_upload_that_stops_in_the_middle_leaves_no_file(tmp_path: Path) -> None:
    async def endless() -> AsyncIterator[bytes]:
        yield b"PK"
        await anyio.sleep_forever()

    async with opened(tmp_path / "data") as (backups, store):
        with anyio.move_on_after(0.2):
            await backups.upload(OWNER, endless())
        assert not [*(tmp_path / "data" / "backups").glob(".coming*")]
        assert (await store.audit.newest())[0].outcome == "cancelled"
        with pytest.raises(NotAllowed):
            await backups.upload(OPERATOR, endless())


async def test_only_the_owner_makes_downloads_and_restores_backups(tmp_path: Path) -> None:
    async with opened(tmp_path / "data") as (backups, _):
        for refused in (
            backups.make(OPERATOR),
            backups.download(OPERATOR, name="b"),
            backups.delete(OPERATOR, name="b"),
            backups.prepare_restore(OPERATOR, name="b"),
            backups.cancel_restore(OPERATOR),
            backups.check(VIEWER, name="b"),
        ):
            with pytest.raises(NotAllowed):
                await refused


async def test_a_backup_runs_as_a_job_with_progress_and_can_be_cancelled(tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "plugin_data").mkdir(parents=True)
    (data / "plugin_data" / "large.bin").write_bytes(bytes(30_000_000))
    async with opened(data) as (backups, store), background_tasks() as tasks:
        jobs = Jobs(AuditLog(store.audit), tasks, lambda: 1_000.0)
        job = jobs.start(backups.make, OWNER, {})
        with anyio.fail_after(30):
            while job.text != "files":
                await anyio.sleep(0.001)
            await jobs.cancel(OWNER, job_id=job.job_id)
        assert job.state is JobState.CANCELLED
        assert await backups.newest(VIEWER) == []
        job = jobs.start(backups.make, OWNER, {})
        with anyio.fail_after(30):
            await job.finished.wait()
        assert (job.state, job.text) == (JobState.DONE, "check")
        assert job.done == job.total > 30_000_000


async def test_a_restore_is_prepared_shown_and_cancelled(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with opened(data) as (backups, _):
        made = (await backups.make(OWNER)).result
        assert await backups.prepared(VIEWER) is None
        prepared = (await backups.prepare_restore(OWNER, name=made.name)).result
        assert await backups.prepared(VIEWER) == prepared
        note = json.loads((data / "restore" / "next.json").read_bytes())
        assert (tmp_path / note["folder"]).is_dir()
        assert (await backups.cancel_restore(OWNER)).result is True
        assert await backups.prepared(VIEWER) is None
        assert not (tmp_path / note["folder"]).exists()
        assert (await backups.cancel_restore(OWNER)).result is False
