"""Restores a backup: unpacks and checks it, ends what was unfinished, erases again the people who
were erased after the backup was made, and puts the result in place of the data folder.

A running bot cannot replace its own data folder. It prepares a restore
(`nekro_core.backup.prepared`), and the next start carries it out (`carry_out_prepared`).
"""

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import anyio.to_thread

from nekro_core.agent.erasure.marks import RETENTION_S
from nekro_core.app.restored_people import erase_again
from nekro_core.app.settings import Settings
from nekro_core.backup.errors import RestoreRefused
from nekro_core.backup.manifest import Manifest
from nekro_core.backup.postgres_restore import server_tables_replaced
from nekro_core.backup.prepared import (
    cancel_prepared,
    check_database_place,
    prepared_restore,
    staged_files,
)
from nekro_core.backup.progress import BackupWork, run_in_thread
from nekro_core.backup.settle import settle
from nekro_core.backup.stage import (
    DATABASE_NAME,
    StagedRestore,
    is_empty,
    stage_restore,
    take_place,
)
from nekro_core.store import DataFolderInUse, DataFolderLock, Store
from nekro_core.system.atomic_files import write_whole


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreReport:
    """What a restore did.

    Attributes:
        folder: The restored data folder.
        aside: Where the earlier data folder is now; None if there was none.
        manifest: The list of contents of the backup.
        erased: How many people were erased again.
        sentences: What the operator should know or do.
    """

    folder: Path
    aside: Path | None
    manifest: Manifest
    erased: int
    sentences: tuple[str, ...]


async def restore_backup(
    settings: Settings,
    backup: Path,
    target: Path,
    *,
    passphrase: str | None = None,
    replace: bool = False,
    settings_folder: Path | None = None,
    work: BackupWork | None = None,
    wall: Callable[[], float] = time.time,
) -> RestoreReport:
    """Restore a backup into ``target``, which no bot may use.

    With ``replace``, ``target`` may contain data. It is moved aside, not deleted. People who were
    erased since the backup was made are erased again, if ``target`` or the data folder of the
    settings has marks of them. The ``.env`` files of the backup are put into ``settings_folder``,
    unless it has such files. Raises `BackupError`, `StoreError` and `OSError`; then nothing was
    changed.
    """
    work = work or BackupWork()
    with ExitStack() as stack:
        target = await anyio.to_thread.run_sync(_opened, stack, target, replace)
        if target == settings.nekro_data_dir.absolute():
            check_database_place(settings.database_url, target)
        staged = await run_in_thread(
            work,
            partial(
                stage_restore,
                backup,
                target,
                work,
                database_url=settings.database_url,
                passphrase=passphrase,
            ),
        )
        stack.callback(staged.discard)
        return await _carry_out(
            settings,
            staged,
            target,
            replace=replace,
            settings_folder=settings_folder,
            work=work,
            wall=wall,
        )


async def carry_out_prepared(
    settings: Settings, *, wall: Callable[[], float] = time.time
) -> RestoreReport | None:
    """Carry out the prepared restore, before the bot opens its data folder. If this fails, the
    restore is discarded and the bot keeps its data. Raises `BackupError`, `StoreError` and
    `OSError`."""
    data = settings.nekro_data_dir.absolute()
    prepared = prepared_restore(data)
    if prepared is None:
        return None
    with ExitStack() as stack:
        stack.callback(cancel_prepared, data)
        _lock(stack, data)
        staged = staged_files(data, prepared)
        stack.callback(staged.discard)
        return await _carry_out(
            settings,
            staged,
            data,
            replace=True,
            settings_folder=None,
            work=BackupWork(),
            wall=wall,
        )


def _opened(stack: ExitStack, target: Path, replace: bool) -> Path:
    """Check and lock the target. Return its absolute path. Raises `RestoreRefused`."""
    target = target.absolute()
    if not is_empty(target) and not replace:
        raise RestoreRefused(
            f"{target} has data: name an empty folder, or say --replace, which moves it aside"
        )
    if target.exists():
        _lock(stack, target)
    return target


def _lock(stack: ExitStack, target: Path) -> None:
    try:
        stack.enter_context(DataFolderLock(target))
    except DataFolderInUse as error:
        raise RestoreRefused(f"{error} A restore needs a folder that no bot uses.") from None


async def _carry_out(
    settings: Settings,
    staged: StagedRestore,
    target: Path,
    *,
    replace: bool,
    settings_folder: Path | None,
    work: BackupWork,
    wall: Callable[[], float],
) -> RestoreReport:
    if staged.manifest.engine != "postgres":
        url = f"sqlite://{staged.data / DATABASE_NAME}"
        return await _settle(settings, staged, target, settings_folder, wall, url, ())
    aside_dump = target.parent / f"{target.name}-database-before-restore-{_stamp(wall())}.dump"
    url = settings.database_url
    async with server_tables_replaced(url, staged.dump, aside_dump, work, replace=replace):
        said = []
        if aside_dump.exists():
            said.append(f"the tables that were there are in {aside_dump}")
        return await _settle(settings, staged, target, settings_folder, wall, url, said)


async def _settle(
    settings: Settings,
    staged: StagedRestore,
    target: Path,
    settings_folder: Path | None,
    wall: Callable[[], float],
    url: str,
    told: Sequence[str],
) -> RestoreReport:
    """End what was unfinished in the restored database, erase people again, and put the unpacked
    files in place of the data folder."""
    manifest, said = staged.manifest, [*told]
    marked_in = [*dict.fromkeys((target, settings.nekro_data_dir.absolute()))]
    # A restore has the database for itself: no other process may use it.
    alone = settings.nekro_store.model_copy(update={"node": ""})
    async with Store.open(url, alone, clock=wall) as store:
        settled = await settle(store, manifest.begun, wall)
        await store.restored.move_media(manifest.folder, str(target))
        erased = await erase_again(
            settings, store, staged.data, marked_in=marked_in, made=manifest.begun, wall=wall
        )
    said += settled.sentences()
    if erased:
        said.append(f"{erased} people who were erased since the backup were erased again")
    if wall() - manifest.begun > RETENTION_S:
        said.append(
            f"the backup is older than {RETENTION_S / 86_400:.0f} days: people who were erased "
            "before that may be in it again. Erase them again with /erase"
        )
    finish = partial(_finish, staged, target, settings_folder, wall(), said)
    aside = await anyio.to_thread.run_sync(finish)
    return RestoreReport(
        folder=target, aside=aside, manifest=manifest, erased=erased, sentences=tuple(said)
    )


def _finish(
    staged: StagedRestore, target: Path, settings_folder: Path | None, now: float, said: list[str]
) -> Path | None:
    # Delete the copies of the database from before migrations, because they still contain the
    # erased data.
    _remove_copies(staged.data)
    env = sorted(staged.settings.glob(".env*")) if staged.settings.is_dir() else []
    kept = {path.name: path.read_bytes() for path in env}
    aside, failed = take_place(staged.data, target, now)
    said += failed
    said += _put_settings(kept, target, settings_folder)
    return aside


def _remove_copies(data: Path) -> None:
    folder = data / "copies"
    if folder.is_dir():
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()


def _put_settings(
    kept: dict[str, bytes], target: Path, settings_folder: Path | None
) -> Sequence[str]:
    said = []
    for name, content in kept.items():
        place = settings_folder / name if settings_folder else target / f"restored{name}"
        try:
            if place.exists() and place.read_bytes() != content:
                place = target / f"restored{name}"
                said.append(
                    f"{name} is there already: the one of the backup is {place}; compare them"
                )
            elif not settings_folder:
                said.append(f"the {name} of the backup is {place}")
            write_whole(place, content)
        except OSError as error:
            # The data folder is replaced already, so this must not end the restore.
            said.append(f"the {name} of the backup cannot be written to {place}: {error}")
    return said


def _stamp(now: float) -> str:
    return datetime.fromtimestamp(now, UTC).strftime("%Y%m%d-%H%M%S")
