"""Makes the backups of a running bot, on request and by a schedule, and lists and deletes them."""

import shutil
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Self

import anyio
import anyio.to_thread
from loguru import logger

from nekro_core.backup.errors import BackupError, BackupRefused
from nekro_core.backup.make import BackupMade, BackupSource, make_backup
from nekro_core.backup.manifest import Manifest
from nekro_core.backup.own_archives import OwnBackup, OwnBackups
from nekro_core.backup.prepared import (
    PreparedRestore,
    cancel_prepared,
    prepare_restore,
    prepared_restore,
)
from nekro_core.backup.progress import BackupProgress, BackupWork, run_in_thread
from nekro_core.backup.settings import BackupSettings
from nekro_core.backup.stage import check_backup
from nekro_core.system.background_tasks import background_tasks

LOOK_S = 60.0
"""Seconds between two checks whether a backup is due. A single sleep until the due time would end
too late if the machine is suspended meanwhile."""

MOST_UPLOADED_BYTES = 64 * 1024**3
"""Maximum size of an uploaded backup."""
_KEPT_FREE = 256 * 1024**2
"""Number of bytes that an upload leaves free on the disk."""
_LOOK_BYTES = 16 * 1024**2
"""Number of received bytes between two checks of the free space of the disk."""
_PIECE_S = 60.0
"""Maximum wait for the next piece of an uploaded backup, in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningBackup:
    """A backup that is being made. ``started`` is in seconds since 1970."""

    started: float
    progress: BackupProgress


class BackupService:
    """Makes and keeps the backups in ``data/backups``. Use `BackupService.open`."""

    def __init__(
        self,
        source: BackupSource,
        settings: BackupSettings,
        wall: Callable[[], float],
        keeps_schedule: Callable[[], bool] = lambda: True,
    ) -> None:
        self._source = source
        self._settings = settings
        self._wall = wall
        self._keeps_schedule = keeps_schedule
        self._own = OwnBackups(source.data)
        self._work: BackupWork | None = None
        self._running: RunningBackup | None = None
        self._receiving = False

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        source: BackupSource,
        settings: BackupSettings,
        *,
        wall: Callable[[], float] = time.time,
        look_s: float = LOOK_S,
        keeps_schedule: Callable[[], bool] = lambda: True,
    ) -> AsyncIterator[Self]:
        """Open the service. Until the block ends, the service makes backups by the schedule. It
        checks every ``look_s`` seconds whether a backup is due. ``keeps_schedule`` returns whether
        this process makes those backups: of several processes of one bot, one does."""
        service = cls(source, settings, wall, keeps_schedule)
        async with background_tasks() as tasks:
            tasks.start_soon(service._keep_schedule, look_s, name="backups")
            yield service

    @property
    def running(self) -> RunningBackup | None:
        """The backup that this process is making now; None if it makes none."""
        return self._running

    async def list(self) -> tuple[OwnBackup, ...]:
        """Return the backups, newest first. Raises `OSError`."""
        return await anyio.to_thread.run_sync(self._own.list)

    async def make(
        self,
        *,
        passphrase: str | None = None,
        report: Callable[[BackupProgress], None] | None = None,
    ) -> BackupMade:
        """Make and check a backup. If there are then more than `BackupSettings.keep` backups,
        delete the oldest.

        With a passphrase, the backup also contains the secrets. ``report`` is called in another
        thread. To stop the work, call `stop` or cancel the caller.

        Raises `BackupError` and `OSError` if the backup cannot be made; then no file is left. Also
        raises `OSError` if an old backup cannot be deleted; then the new backup stays.
        """
        if self._work is not None:
            raise BackupRefused("another backup is being made now: wait for it, or stop it")
        started = self._wall()

        def note(progress: BackupProgress) -> None:
            self._running = RunningBackup(started=started, progress=progress)
            if report is not None:
                report(progress)

        self._work = work = BackupWork(note)
        try:
            target = await anyio.to_thread.run_sync(self._own.free_path, started)
            made = await run_in_thread(
                work,
                partial(
                    make_backup, self._source, target, work, passphrase=passphrase, wall=self._wall
                ),
            )
            await anyio.to_thread.run_sync(self._own.delete_old, self._settings.keep)
        finally:
            self._work = self._running = None
        return made

    def stop(self) -> bool:
        """Stop the backup that is being made. Return False if no backup is being made."""
        if self._work is None:
            return False
        self._work.stop()
        return True

    async def check(
        self, name: str, report: Callable[[BackupProgress], None] | None = None
    ) -> Manifest:
        """Check everything in a backup. Raises `BackupError` and `OSError`."""
        path, work = await self.path(name), BackupWork(report)
        return await run_in_thread(work, partial(check_backup, path, work))

    async def receive(self, pieces: AsyncIterator[bytes]) -> tuple[OwnBackup, Manifest]:
        """Store a backup that is received in pieces, check it, and add it to the list.

        Raises `BackupRefused` if another upload runs, if the backup is larger than
        `MOST_UPLOADED_BYTES` or than the free space of the disk, or if no piece came for `_PIECE_S`
        seconds. Also raises `InvalidBackup`, `BackupTooNew`, `RestoreRefused` (pg_restore is
        missing) and `OSError`. After an error, or if the caller is cancelled, no file of this
        upload is left.
        """
        if self._receiving:
            raise BackupRefused("another backup is being uploaded now: wait for it")
        self._receiving, received = True, None
        try:
            received = await anyio.to_thread.run_sync(self._own.new_upload)
            await _store(pieces, received)
            work = BackupWork()
            manifest = await run_in_thread(work, partial(check_backup, received, work))
            keep = partial(self._own.keep_upload, received, manifest.begun)
            return await anyio.to_thread.run_sync(keep), manifest
        except BackupError as error:
            if received is None:
                raise
            raise type(error)(str(error).replace(received.name, "the file")) from None
        finally:
            self._receiving = False
            if received is not None:
                received.unlink(missing_ok=True)

    async def path(self, name: str) -> Path:
        """Return the file of a backup. Raises `BackupRefused` if there is none."""
        return (await anyio.to_thread.run_sync(self._own.get, name)).path

    async def delete(self, name: str) -> None:
        """Delete a backup. Raises `BackupRefused` if there is none, and `OSError`."""
        await anyio.to_thread.run_sync(self._own.delete, name)

    async def prepare_restore(
        self,
        name: str,
        *,
        passphrase: str | None = None,
        report: Callable[[BackupProgress], None] | None = None,
    ) -> PreparedRestore:
        """Check and unpack a backup, so that the next start of the bot restores it. Cancelling the
        caller stops the work. Raises `BackupError` and `OSError`."""
        return await prepare_restore(
            await self.path(name),
            self._source.data,
            self._source.database_url,
            passphrase=passphrase,
            work=BackupWork(report),
            wall=self._wall,
        )

    async def prepared_restore(self) -> PreparedRestore | None:
        """Return the restore that the next start carries out; None if none is prepared."""
        return await anyio.to_thread.run_sync(prepared_restore, self._source.data)

    async def cancel_restore(self) -> bool:
        """Discard the prepared restore. Return False if there is none."""
        return await anyio.to_thread.run_sync(cancel_prepared, self._source.data)

    async def _keep_schedule(self, look_s: float) -> None:
        tried = 0.0
        while True:
            await anyio.sleep(look_s)
            every_s = self._settings.every_hours * 3600.0
            if not every_s or not self._keeps_schedule():
                continue
            try:
                newest = max((each.made for each in await self.list()), default=0.0)
                if self._wall() - max(newest, tried) < every_s or self._work is not None:
                    continue
                if not self._keeps_schedule():  # While the files were listed, another was chosen.
                    continue
                tried = self._wall()
                made = await self.make()
                logger.info("a backup was made: {} ({} bytes)", made.path.name, made.size)
            except (BackupError, OSError) as error:
                logger.error("the backup of the schedule failed: {}", error)


async def _store(pieces: AsyncIterator[bytes], target: Path) -> None:
    """Write all pieces to ``target``. Raises `BackupRefused` and `OSError`."""
    size = looked = 0
    async with await anyio.open_file(target, "wb") as file:
        while True:
            try:
                with anyio.fail_after(_PIECE_S):
                    piece = await anext(pieces, None)
            except TimeoutError:
                raise BackupRefused(
                    f"nothing came for {_PIECE_S:.0f} s: upload the backup again"
                ) from None
            if piece is None:
                return
            size += len(piece)
            if size > MOST_UPLOADED_BYTES:
                raise BackupRefused(f"the file is larger than {MOST_UPLOADED_BYTES} bytes")
            if not looked or size - looked > _LOOK_BYTES:
                looked = size
                usage = await anyio.to_thread.run_sync(shutil.disk_usage, target.parent)
                if usage.free < _KEPT_FREE + _LOOK_BYTES:
                    raise BackupRefused("the bot's disk is full: free some space first")
            await file.write(piece)
