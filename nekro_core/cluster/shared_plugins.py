"""Makes the processes of a cluster have the same plugins.

The rows in the database say which plugins there are and which are switched on (`SharedPluginRow`);
the files are in the object store (`plugin_objects`). Each process compares its data folder with the
rows. What an operator has changed in the folder since the last comparison goes into the rows, and
what another process has changed in the rows is done in the folder. If the files of a plugin were
changed on both sides, or if the plugin was not compared before, the row wins.

A row names its plugin by the *item*: ``local/weather`` is the plugin ``weather`` that was installed
into the data folder. The *mark* of a plugin is a digest of its files.

A plugin that somebody put into the folder by hand, without an installation, stays in this process
alone.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import anyio
import msgspec
from anyio import to_thread
from loguru import logger

from nekro_core.cluster.objects import ObjectStore
from nekro_core.cluster.plugin_objects import PluginNotReceived, PluginObjects, needs_text
from nekro_core.plugins.host.links import LOCAL_FOLDER
from nekro_core.plugins.installation.archives import removed_with_data
from nekro_core.plugins.installation.inspection import inspect_plugin
from nekro_core.plugins.installation.local_state import (
    LocalPlugins,
    PluginStatus,
    read_local,
    trim_archives,
    write_agreed,
)
from nekro_core.plugins.installation.received import PluginReceiver
from nekro_core.plugins.packages import PackageFolder
from nekro_core.store import SharedPluginRow, Store, StoreError
from nekro_core.system.errors import NekroError

_AGAIN_S = 5.0
"""Seconds before the next attempt with a plugin that could not be given or received."""
_LONGEST_S = 60.0
"""Longest pause before such an attempt. Each attempt may run pip."""
_CONFIGURATION_S = 5.0
"""A plugin that has a ``config.toml`` is given to the other processes when this file is among the
documents that all processes share, or after this many seconds: a file that is no valid TOML never
gets there."""
_UNKNOWN = PluginStatus()
"""The status of a plugin that has no row."""
_LOCAL = "local"
"""The beginning of the items of installed plugins."""


@dataclass(frozen=True, slots=True)
class FailedChange:
    """A change of a plugin that could not be done here. It is tried again at the time ``until``, or
    when the row has another revision than ``revision``. ``pause`` is in seconds."""

    problem: str
    revision: int
    pause: float
    until: float


class SharedPlugins:
    """Compares the plugins of one process of a cluster with those that all processes should have.

    Args:
        store: The database.
        objects: The object store.
        data_dir: The data folder of this process.
        shelf: The packages of its plugins.
        node: The name of this process, which no other process has.
        clock: Returns seconds that only grow.
    """

    def __init__(
        self,
        store: Store,
        objects: ObjectStore,
        data_dir: Path,
        shelf: PackageFolder,
        node: str,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._rows = store.shared_plugins
        self._documents = store.documents
        self._files = PluginObjects(objects, data_dir)
        self._data = data_dir
        self._shelf = shelf
        self._node = node
        self._clock = clock
        self._by: dict[str, str] = {}
        self._asked: set[str] = set()
        self._failed: dict[str, FailedChange] = {}
        self._waiting: dict[str, float] = {}
        """Since when a plugin waits for its configuration."""
        self.local: LocalPlugins | None = None
        """The plugins of the data folder at the last comparison; None if there was none yet."""

    def note_operator(self, item: str, name: str) -> None:
        """Remember who changed a plugin at this process, for its row."""
        self._by[item] = name

    def ask_to_give(self, item: str) -> None:
        """Store the files of a plugin as an object again at the next `settle`, because another
        process asks for them."""
        self._asked.add(item)

    @property
    def problems(self) -> Mapping[str, str]:
        """Why plugins could not be given to the other processes or received, by item."""
        return {item: failed.problem for item, failed in self._failed.items()}

    @property
    def is_due(self) -> bool:
        """Whether a change that failed or waits should be tried again now."""
        now = self._clock()
        return bool(self._waiting) or any(now >= each.until for each in self._failed.values())

    async def settle(self, receiver: PluginReceiver, *, publish: bool = True) -> bool:
        """Compare the folder with the rows, and do what is missing on both sides. Without
        ``publish``, what has changed in the folder is not written into the rows. Returns False if
        a command is changing the plugins now: then nothing was compared.

        A plugin with a problem does not keep the others from being compared. Raises `StoreError`
        and `OSError`.
        """
        local = await to_thread.run_sync(read_local, self._data)
        if local is None:
            return False
        rows = await self._rows.all()
        await self._give_again(rows)
        agreed = dict(local.agreed)
        try:
            for item in sorted({*rows, *local.records, *local.off, *agreed}):
                await self._settle(item, rows.get(item), local, agreed, receiver, publish=publish)
        finally:
            with anyio.CancelScope(shield=True):
                await to_thread.run_sync(write_agreed, self._data, agreed)
        if agreed != local.agreed:
            await to_thread.run_sync(trim_archives, self._data)
        self.local = await to_thread.run_sync(read_local, self._data) or local
        return True

    async def _settle(
        self,
        item: str,
        row: SharedPluginRow | None,
        local: LocalPlugins,
        agreed: dict[str, PluginStatus],
        receiver: PluginReceiver,
        *,
        publish: bool,
    ) -> None:
        mine, before = local.status(item), agreed.get(item)
        theirs = PluginStatus(row.mark, row.wanted) if row is not None else None
        if item.startswith(f"{_LOCAL}/") and not mine.mark and not (theirs and theirs.mark):
            # It is installed nowhere. If it is switched off here, that is a plugin that somebody
            # put here by hand.
            self._done(agreed, item, mine if row is not None else None)
            return
        target = _target(mine, before, theirs)
        to_publish = target != (theirs or _UNKNOWN)
        if mine == target and not to_publish:
            self._done(agreed, item, target if row is not None else None)
            return
        failed, revision = self._failed.get(item), row.revision if row is not None else 0
        if failed and failed.revision == revision and self._clock() < failed.until:
            return
        try:
            if row is not None and mine != target:
                await self._receive(row, mine, before, target, receiver)
            if to_publish and not (publish and await self._may_publish(item, local)):
                return
            if to_publish:
                await self._publish(item, target, row or SharedPluginRow(item=item), local)
            self._done(agreed, item, target)
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001 (all processes share the row of this plugin)
            await self._note_failure(item, revision, error)

    def _done(
        self, agreed: dict[str, PluginStatus], item: str, status: PluginStatus | None
    ) -> None:
        """Note that the folder and the row of a plugin both say ``status``; None if the plugin has
        no row."""
        self._failed.pop(item, None)
        self._waiting.pop(item, None)
        self._by.pop(item, None)
        if status is None:
            agreed.pop(item, None)
        else:
            agreed[item] = status

    async def _may_publish(self, item: str, local: LocalPlugins) -> bool:
        """Return whether the other processes will find the present configuration of a plugin, or
        whether the plugin has waited for that long enough."""
        record = local.records.get(item)
        if record is None:
            return True
        place = self._data / LOCAL_FOLDER / record.path / "config.toml"
        if not await to_thread.run_sync(place.is_file) or await self._configuration(item):
            return True
        since = self._waiting.setdefault(item, self._clock())
        return self._clock() - since >= _CONFIGURATION_S

    async def _configuration(self, item: str) -> str | None:
        """Return the text of a plugin's configuration that all processes share; None if there is
        none."""
        name = item.partition("/")[2]
        found = await self._documents.read(f"{LOCAL_FOLDER}/{name}/config.toml")
        return found.text if found is not None else None

    async def _receive(
        self,
        row: SharedPluginRow,
        mine: PluginStatus,
        before: PluginStatus | None,
        target: PluginStatus,
        receiver: PluginReceiver,
    ) -> None:
        """Do in the folder what another process has done."""
        if mine.mark and mine.mark not in (before.mark if before else "", target.mark):
            logger.error(
                "plugin {}: it was changed here and at {}, and the change of {} is in force",
                row.item,
                row.node,
                row.node,
            )
        if mine.wanted != target.wanted:
            await receiver.switch(row.item, row.key, wanted=target.wanted)
        if mine.mark == target.mark:
            return
        who = f"{row.changed_by or 'a command'} at {row.node}"
        if not target.mark:
            await receiver.take_away(row.item, data=row.without_data)
            logger.info("plugin {} is removed, as {} has done", row.item, who)
            return
        configuration = await self._configuration(row.item)
        async with self._files.received(row, configuration) as plugin:
            await receiver.put(plugin)
        logger.info(
            "plugin {} {} is here now, as {} has installed it. Its code: {}",
            row.item,
            row.version,
            who,
            "; ".join(msgspec.json.decode(row.abilities, type=list[str])) or "nothing special",
        )

    async def _publish(
        self, item: str, target: PluginStatus, row: SharedPluginRow, local: LocalPlugins
    ) -> None:
        """Store what an operator has done at this process, for the others."""
        record = local.records.get(item)
        key = (record.key if record is not None else "") or local.off.get(item, "") or row.key
        fresh = replace(
            row,
            key=key,
            wanted=target.wanted,
            node=self._node,
            changed_by=self._by.get(item, ""),
        )
        if target.mark and record is not None and target.mark != row.mark:
            place = self._data / LOCAL_FOLDER / record.path
            archive, size = await self._files.give(place, record)
            looked = await to_thread.run_sync(inspect_plugin, place)
            fresh = replace(
                fresh,
                version=record.version,
                mark=target.mark,
                archive=archive,
                size=size,
                record=msgspec.json.encode(record).decode(),
                needs=needs_text(self._shelf.needs.get(item, ())),
                abilities=needs_text([each.text for each in looked.abilities]),
                without_data=False,
            )
        elif not target.mark and row.mark:
            gone = await to_thread.run_sync(removed_with_data, self._data)
            fresh = SharedPluginRow(
                item=item,
                key=key,
                wanted=target.wanted,
                without_data=item in gone,
                node=self._node,
                changed_by=fresh.changed_by,
                revision=row.revision,
            )
        if not await self._rows.put(fresh):
            raise PluginNotReceived("another process has changed it at the same moment")
        if fresh.mark != row.mark:
            done = "gave it to" if fresh.mark else "removed it from"
            logger.info("plugin {} {}: this process {} the others", item, fresh.version, done)

    async def _note_failure(self, item: str, revision: int, error: Exception) -> None:
        before = self._failed.get(item)
        pause = min(before.pause * 2, _LONGEST_S) if before is not None else _AGAIN_S
        problem = str(error) or type(error).__name__
        if before is None or before.problem != problem:
            expected = isinstance(error, NekroError | OSError)
            logger.opt(exception=None if expected else error).error(
                "plugin {} is not as at the other processes: {}", item, problem
            )
        self._failed[item] = FailedChange(problem, revision, pause, self._clock() + pause)
        if isinstance(error, PluginNotReceived) and error.ask:
            await self._rows.ask_for_object(item)

    async def _give_again(self, rows: Mapping[str, SharedPluginRow]) -> None:
        asked, self._asked = self._asked, set()
        for item in asked & rows.keys():
            try:
                if await self._files.give_again(rows[item]):
                    logger.info("plugin {}: its files are stored as an object again", item)
            except Exception as error:  # noqa: BLE001 (all processes share the row of this plugin)
                logger.warning("plugin {}: its files cannot be given again: {}", item, error)


def _target(
    mine: PluginStatus, before: PluginStatus | None, theirs: PluginStatus | None
) -> PluginStatus:
    """Return the status that a plugin should have here and in its row. ``before`` is its status in
    both places after the last comparison."""
    if theirs is None:
        return mine  # The database does not know the plugin: it is new, or the database is.
    if before is None:
        return theirs
    return PluginStatus(
        mine.mark if theirs.mark == before.mark else theirs.mark,
        mine.wanted if theirs.wanted == before.wanted else theirs.wanted,
    )
