"""Restores a backup: unpacks and checks it, ends what was unfinished, erases again the people who
were erased after the backup was made, and puts the result in place of the data folder.

A running bot cannot replace its own data folder. It prepares a restore
(`nekro_core.backup.prepared`), and the next start carries it out (`carry_out_prepared`).
"""

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, nullcontext
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
from nekro_core.cluster.errors import ClusterError
from nekro_core.cluster.objects import ObjectStore
from nekro_core.cluster.restored_files import forget_copies, share_restored
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
    shared: AbstractAsyncContextManager[ObjectStore | None] | None = None,
    work: BackupWork | None = None,
    wall: Callable[[], float] = time.time,
) -> RestoreReport:
    """Restore a backup into ``target``, which no bot may use.

    With ``replace``, ``target`` may contain data. It is moved aside, not deleted. People who were
    erased since the backup was made are erased again, if ``target`` or the data folder of the
    settings has marks of them. The ``.env`` files of the backup are put into ``settings_folder``.
    If such a file is there with another content, or if the folder is None, the file of the backup
    is put into ``target`` as ``restored.env``. ``shared`` opens the object store of a cluster, into
    which media and the files of boxes are put; None if the bot is one process. Raises
    `BackupError`, `StoreError` and `OSError`; then nothing was changed.
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
        async with shared or nullcontext(None) as objects:
            return await _carry_out(
                settings,
                staged,
                target,
                replace=replace,
                settings_folder=settings_folder,
                work=work,
                wall=wall,
                objects=objects,
            )


async def carry_out_prepared(
    settings: Settings,
    *,
    shared: AbstractAsyncContextManager[ObjectStore | None] | None = None,
    wall: Callable[[], float] = time.time,
) -> RestoreReport | None:
    """Carry out the prepared restore, before the bot opens its data folder. ``shared`` is as in
    `restore_backup`. If the restore fails, it is discarded and the bot keeps its data. Raises
    `BackupError`, `StoreError` and `OSError`."""
    data = settings.nekro_data_dir.absolute()
    prepared = prepared_restore(data)
    if prepared is None:
        return None
    with ExitStack() as stack:
        stack.callback(cancel_prepared, data)
        _lock(stack, data)
        staged = staged_files(data, prepared)
        stack.callback(staged.discard)
        async with shared or nullcontext(None) as objects:
            return await _carry_out(
                settings,
                staged,
                data,
                replace=True,
                settings_folder=None,
                work=BackupWork(),
                wall=wall,
                objects=objects,
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
    objects: ObjectStore | None,
) -> RestoreReport:
    settle_in = partial(_settle, settings, staged, target, settings_folder, wall, objects)
    if staged.manifest.engine != "postgres":
        return await settle_in(f"sqlite://{staged.data / DATABASE_NAME}", ())
    aside_dump = target.parent / f"{target.name}-database-before-restore-{_stamp(wall())}.dump"
    url = settings.database_url
    async with server_tables_replaced(url, staged.dump, aside_dump, work, replace=replace):
        said = []
        if aside_dump.exists():
            said.append(f"the tables that were there are in {aside_dump}")
        return await settle_in(url, said)


async def _settle(
    settings: Settings,
    staged: StagedRestore,
    target: Path,
    settings_folder: Path | None,
    wall: Callable[[], float],
    objects: ObjectStore | None,
    url: str,
    told: Sequence[str],
) -> RestoreReport:
    """End what was unfinished in the restored database, erase people again, give the files to the
    other processes of a cluster, and put the unpacked files in place of the data folder."""
    manifest, said = staged.manifest, [*told]
    marked_in = [*dict.fromkeys((target, settings.nekro_data_dir.absolute()))]
    # A restore has the database for itself: no other process may use it.
    alone = settings.nekro_store.model_copy(update={"node": ""})
    async with Store.open(url, alone, clock=wall) as store:
        settled = await settle(store, manifest.begun, wall)
        await store.restored.move_media(manifest.folder, str(target))
        if manifest.engine == "postgres":
            await store.restored.move_all_media(str(target))
        await store.restored.forget_objects()
        await anyio.to_thread.run_sync(forget_copies, staged.data)
        erased = await erase_again(
            settings, store, staged.data, marked_in=marked_in, made=manifest.begun, wall=wall
        )
        # After the erasure, so that nothing of an erased person gets into the object store.
        if objects is not None:
            said.append(await _share(settings, store, objects, staged.data))
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


async def _share(settings: Settings, store: Store, objects: ObjectStore, data: Path) -> str:
    """Put the files of the unpacked data folder into the object store. Return a sentence about
    it. Raises `RestoreRefused`."""
    node = settings.nekro_store.node or settings.nekro_node
    try:
        shared = await share_restored(store, objects, data, node=node)
    except ClusterError as error:
        raise RestoreRefused(f"the object store does not take the files: {error}") from error
    return (
        f"{shared.media} media and the boxes of {shared.chats_with_boxes} chats were put into the "
        "object store: empty the data folders of the other processes before you start them"
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
