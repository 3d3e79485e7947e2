"""Prepares a restore that the next start of the bot carries out, since a running bot cannot replace
its own data folder."""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec

from nekro_core.backup.errors import RestoreRefused
from nekro_core.backup.postgres_copy import require_programs
from nekro_core.backup.progress import BackupWork, run_in_thread
from nekro_core.backup.stage import DATABASE_NAME, StagedRestore, discard_staged, stage_restore
from nekro_core.store.engines import is_postgres
from nekro_core.system.atomic_files import write_whole

FOLDER = "restore"
"""The folder in the data folder with the file that describes the prepared restore."""

_NOTE = "next.json"


class PreparedRestore(msgspec.Struct, frozen=True, kw_only=True):
    """A restore that the next start carries out.

    Attributes:
        folder: The name of the folder beside the data folder with the unpacked files.
        backup: The name of the backup.
        made: When the backup was made, in seconds since 1970.
        prepared: When the restore was prepared, in seconds since 1970.
        secrets: Whether the secrets are restored too.
    """

    folder: str
    backup: str
    made: float
    prepared: float
    secrets: bool = False


async def prepare_restore(
    backup: Path,
    data: Path,
    database_url: str,
    *,
    passphrase: str | None = None,
    work: BackupWork | None = None,
    wall: Callable[[], float] = time.time,
) -> PreparedRestore:
    """Check and unpack a backup, so that the next start of the bot replaces ``data`` with it. When
    the backup is prepared, a restore that was prepared earlier is discarded.

    Raises `BackupError` and `OSError`. Then this backup is not prepared, and a restore that was
    prepared earlier remains.
    """
    work = work or BackupWork()
    if is_postgres(database_url):
        require_programs()
    check_database_place(database_url, data)
    staged = await run_in_thread(
        work,
        partial(
            stage_restore, backup, data, work, database_url=database_url, passphrase=passphrase
        ),
    )
    earlier = prepared_restore(data)
    prepared = PreparedRestore(
        folder=staged.folder.name,
        backup=backup.name,
        made=staged.manifest.begun,
        prepared=wall(),
        secrets=passphrase is not None and staged.manifest.has_secrets,
    )
    try:
        write_whole(data / FOLDER / _NOTE, msgspec.json.encode(prepared))
    except BaseException:
        discard_staged(staged.folder)
        raise
    if earlier is not None:
        discard_staged(_folder(data, earlier))
    return prepared


def prepared_restore(data: Path) -> PreparedRestore | None:
    """Return the restore that the next start carries out; None if none is prepared."""
    try:
        return msgspec.json.decode((data / FOLDER / _NOTE).read_bytes(), type=PreparedRestore)
    except (FileNotFoundError, msgspec.MsgspecError):
        return None


def staged_files(data: Path, prepared: PreparedRestore) -> StagedRestore:
    """Return the unpacked files. Raises `RestoreRefused` if they are gone."""
    return StagedRestore.load(_folder(data, prepared))


def cancel_prepared(data: Path) -> bool:
    """Discard the prepared restore. Return False if there was none."""
    prepared = prepared_restore(data)
    if prepared is None:
        return False
    (data / FOLDER / _NOTE).unlink(missing_ok=True)
    discard_staged(_folder(data, prepared))
    return True


def check_database_place(database_url: str, data: Path) -> None:
    """Check that an SQLite URL names the file to which a restore writes. Raises
    `RestoreRefused`."""
    if is_postgres(database_url):
        return
    named = Path(database_url.partition("://")[2].partition("?")[0]).absolute()
    if named != data / DATABASE_NAME:
        raise RestoreRefused(
            f"NEKRO_DATABASE_URL names {named}, and a restore puts the database to "
            f"{data / DATABASE_NAME}: remove the setting, or restore into another folder"
        )


def _folder(data: Path, prepared: PreparedRestore) -> Path:
    return data.parent / Path(prepared.folder).name
