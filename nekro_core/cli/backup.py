"""Implements ``nekro backup`` and ``nekro restore``.

Both commands read and write the data themselves, and do not ask a running bot to do it. A backup
may be made while the bot runs. A restore needs a data folder that no bot uses.
"""

import argparse
import getpass
import os
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from nekro_core.app.cluster.shared_objects import open_cluster_objects, open_object_files
from nekro_core.app.restore import restore_backup
from nekro_core.app.settings import Settings
from nekro_core.backup.archive_reader import BackupArchive
from nekro_core.backup.errors import BackupError, BackupRefused
from nekro_core.backup.make import BackupSource, env_files, make_backup
from nekro_core.backup.manifest import Manifest
from nekro_core.backup.own_archives import OwnBackups
from nekro_core.backup.progress import BackupProgress, BackupWork, run_in_thread
from nekro_core.backup.stage import check_backup
from nekro_core.store import DataFolderLock, StoreError, data_folder_in_use

PASSPHRASE = "BACKUP_PASSPHRASE"  # noqa: S105 (its name)
"""The environment variable with the passphrase, for scripts. In a terminal, the command asks for
the passphrase. The variable is not a setting of the bot, so its name does not begin with
``NEKRO_``."""

_PHASES = {
    "database": "copying the database",
    "files": "packing files",
    "check": "checking",
    "restore": "unpacking",
}
_REPORT_S = 0.2


async def backup(options: argparse.Namespace) -> int:
    """Make or check a backup. Returns an exit status. Raises `SettingsError`."""
    return await _guarded(_check if options.check else _make, options)


async def restore(options: argparse.Namespace) -> int:
    """Restore a backup. Returns an exit status. Raises `SettingsError`."""
    return await _guarded(_restore, options)


async def _guarded(
    action: Callable[[argparse.Namespace, "_Line"], Awaitable[None]], options: argparse.Namespace
) -> int:
    line = _Line()
    try:
        await action(options, line)
    except (BackupError, StoreError, OSError) as error:
        line.end()
        print(error, file=sys.stderr)
        return 1
    finally:
        line.end()
    return 0


async def _make(options: argparse.Namespace, line: "_Line") -> None:
    settings = Settings.load()
    data = settings.nekro_data_dir.absolute()
    passphrase = _new_passphrase() if options.with_secrets else None
    own = OwnBackups(data)
    async with AsyncExitStack() as stack:
        if not data.is_dir():
            raise BackupRefused(f"there is no data folder {data}: start the bot once")
        if not data_folder_in_use(data):
            # Keep bots from starting meanwhile, because they could migrate the database.
            stack.enter_context(DataFolderLock(data))
        target = Path(options.file) if options.file else own.free_path(time.time())
        source = BackupSource(
            data=data,
            database_url=settings.database_url,
            settings=env_files(Path()),
            objects=await stack.enter_async_context(open_object_files(settings)),
        )
        work = BackupWork(line.report)
        made = await run_in_thread(
            work, partial(make_backup, source, target.absolute(), work, passphrase=passphrase)
        )
        if not options.file:
            for name in own.delete_old(settings.nekro_backup.keep):
                print(f"deleted the old backup {name}")
    line.end()
    print(f"{made.path}: {_described(made.manifest, made.size)}")
    for sentence in made.manifest.left_out:
        print(f"  not in it: {sentence}")


async def _check(options: argparse.Namespace, line: "_Line") -> None:
    path = Path(options.check)
    work = BackupWork(line.report)
    manifest = await run_in_thread(work, partial(check_backup, path, work))
    line.end()
    print(f"{path}: the backup is whole: {_described(manifest, manifest.size)}")


async def _restore(options: argparse.Namespace, line: "_Line") -> None:
    settings, path = Settings.load(), Path(options.file)
    target = Path(options.into) if options.into else settings.nekro_data_dir
    passphrase = None
    with BackupArchive.open(path) as archive:
        secrets = archive.manifest.has_secrets
    if secrets and not options.without_secrets:
        passphrase = _asked("Passphrase of the secrets in the backup: ")
    here = not options.into or target.absolute() == settings.nekro_data_dir.absolute()
    report = await restore_backup(
        settings,
        path,
        target,
        passphrase=passphrase,
        replace=options.replace,
        settings_folder=Path() if here else None,
        shared=open_cluster_objects(settings),
        work=BackupWork(line.report),
    )
    line.end()
    when = datetime.fromtimestamp(report.manifest.begun, UTC)
    print(f"{report.folder} is as it was at {when:%Y-%m-%d %H:%M:%S} UTC")
    if report.aside is not None:
        print(f"what was there is in {report.aside}: delete it when all is well")
    for sentence in report.sentences:
        print(f"  {sentence}")
    if not here:
        print(f"to start a bot with it: NEKRO_DATA_DIR={report.folder} nekro run")


def _described(manifest: Manifest, size: int) -> str:
    when = datetime.fromtimestamp(manifest.begun, UTC)
    secrets = "with secrets" if manifest.has_secrets else "without secrets"
    return (
        f"{len(manifest.members)} files, {size / 1e6:,.2f} MB, {secrets}, made at "
        f"{when:%Y-%m-%d %H:%M:%S} UTC by nekro-core {manifest.nekro}"
    )


def _new_passphrase() -> str:
    passphrase = _asked("Passphrase for the secrets: ")
    if PASSPHRASE not in os.environ and passphrase != getpass.getpass("The same again: "):
        raise BackupRefused("the two passphrases differ: nothing was written")
    return passphrase


def _asked(question: str) -> str:
    if given := os.environ.get(PASSPHRASE):
        return given
    if not sys.stdin.isatty():
        raise BackupRefused(f"there is no terminal to ask for a passphrase: set {PASSPHRASE}")
    return getpass.getpass(question)


class _Line:
    """The line of progress in a terminal. `report` is called from another thread."""

    def __init__(self) -> None:
        self._shown = sys.stderr.isatty()
        self._next = 0.0
        self._written = False

    def report(self, progress: BackupProgress) -> None:
        now = time.monotonic()
        if not self._shown or now < self._next:
            return
        self._next, self._written = now + _REPORT_S, True
        percent = f"{min(progress.done / progress.total, 1):4.0%}" if progress.total else "    "
        sys.stderr.write(f"\r\x1b[K{_PHASES.get(progress.phase, progress.phase)} {percent}")
        sys.stderr.flush()

    def end(self) -> None:
        """Clear the line."""
        if self._written:
            sys.stderr.write("\r\x1b[K")
            self._written = False
