"""Unloads a plugin, replaces its files, and loads it again. Either all files are replaced, or none,
even if the process is killed."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from nekro_core.plugins.host.file_moves import MoveInProgress, PluginMove, move_files
from nekro_core.plugins.host.switches import PluginSwitches
from nekro_core.plugins.installation.bot_follower import (
    BotFollower,
    InstallRefused,
    InstallStage,
    ignore_stage,
)
from nekro_core.plugins.installation.installed import InstalledPlugin, InstallRecords
from nekro_core.plugins.installation.own_writes import keep_files
from nekro_core.plugins.installation.switched_off import switched_off
from nekro_core.plugins.installation.versions import OldVersions


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFiles:
    """New files of a plugin.

    Attributes:
        item: The plugin's item.
        key: The plugin's key.
        ready: The new file or folder, on the disk of the data folder.
        place: The path of the plugin, to which ``ready`` is moved.
        staging: A temporary folder on the same disk.
        record: The record of the new version.
        kept: The files of the present version that are kept, as paths in its folder.
    """

    item: str
    key: str
    ready: Path
    place: Path
    staging: Path
    record: InstalledPlugin
    kept: tuple[str, ...] = ()


@dataclass(slots=True)
class Resumed:
    """``problem`` says why a plugin could not be loaded again; empty if it could."""

    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileExchange:
    """Replaces files of plugins of one data folder. ``follower`` and ``reach`` are as in
    `Installer`. All methods block, and cannot be cancelled."""

    data_dir: Path
    follower: BotFollower | None = None
    reach: Callable[[InstallStage], None] = ignore_stage

    def replace(self, new: NewFiles, *, force: bool, restore: Callable[[], None]) -> None:
        """Move the new files to the plugin's path and load the plugin. The old files are kept as an
        old version.

        If the bot of this process cannot load the plugin, ``restore`` is called, the old files are
        moved back and loaded, and `InstallRefused` is raised. With ``force``, the new files stay
        even then.
        """
        records, versions = InstallRecords(self.data_dir), OldVersions(self.data_dir)
        before = records.all().get(new.item)
        aside = versions.make_place(new.item, before) if before else new.staging / "replaced"
        with self.moving(new.item, new.key, new.place, aside, new.record):
            self.reach(InstallStage.REPLACE)
            with self.quiet(new.item, new.key) as resumed:
                keep_files(new.place, new.ready, [*new.kept])
                _move(new.ready, new.place, aside)
            if resumed.problem and not force:
                restore()
                with self.quiet(new.item, new.key):
                    new.place.rename(new.staging / "refused")
                    if aside.exists():
                        aside.rename(new.place)
                versions.trim(new.item)
                raise InstallRefused(
                    f"{new.item} could not be loaded, so it is as it was before: {resumed.problem}"
                )
            records.put(new.item, new.record)
        versions.trim(new.item)

    @contextmanager
    def quiet(self, item: str, key: str) -> Iterator[Resumed]:
        """Unload a plugin for the duration of a ``with`` block, and load it afterwards."""
        resumed = Resumed()
        if self.follower is None:
            with switched_off(self.data_dir, item, key):
                yield resumed
            return
        self.follower.suspend(item)
        try:
            yield resumed
        finally:
            self.reach(InstallStage.LOAD)
            resumed.problem = self.follower.resume(item)

    @contextmanager
    def moving(
        self,
        item: str,
        key: str,
        place: Path,
        aside: Path,
        record: InstalledPlugin | None,
        *,
        loses: Path | None = None,
    ) -> Iterator[None]:
        """Keep a note about the change on disk while the plugin's files are moved. If this process
        is killed, the note says how to finish or undo the change. Raises `InstallRefused` if
        another process is changing plugins at the same time."""
        plan = PluginMove(
            item=item,
            key=key,
            place=place.relative_to(self.data_dir).as_posix(),
            aside=aside.relative_to(self.data_dir).as_posix(),
            replaces=place.exists(),
            wanted=PluginSwitches(self.data_dir).wanted(item),
            record=msgspec.Raw(msgspec.json.encode(record)),
            loses=(loses.relative_to(self.data_dir).as_posix(),) if loses else (),
        )
        try:
            with move_files(self.data_dir, plan):
                yield
        except MoveInProgress as error:
            raise InstallRefused(str(error)) from None


def _move(ready: Path, place: Path, aside: Path) -> None:
    """Move the old files from ``place`` to ``aside``, then the new files from ``ready`` to
    ``place``. If this fails, move the old files back."""
    place.parent.mkdir(parents=True, exist_ok=True)
    if place.exists():
        place.rename(aside)
    try:
        ready.rename(place)
    except BaseException:
        if aside.exists():
            aside.rename(place)
        raise
