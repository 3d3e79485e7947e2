"""Connects the plugins of a process to those of the other processes of a cluster."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

import anyio
from anyio import to_thread
from loguru import logger

from nekro_core.cluster.objects import ObjectStore
from nekro_core.cluster.shared_plugins import SharedPlugins
from nekro_core.plugins.host.registry import PluginRegistry
from nekro_core.plugins.host.settings import PluginSettings
from nekro_core.plugins.installation.local_state import folder_stamp
from nekro_core.plugins.installation.manager import PluginManager
from nekro_core.plugins.installation.received import UnloadedPlugins
from nekro_core.store import ChangeTopic, PluginReport, Store, StoreError
from nekro_core.store.shared_plugins import STORE_AGAIN_S
from nekro_core.system.errors import NekroError
from nekro_core.tools.problem import PluginProblem, ProblemSeverity

_LOOK_S = 1.0
"""Seconds between two looks at the data folder. What a command such as `nekro plugin install` has
changed is given to the other processes when two looks have found the folder in the same state:
otherwise the command may not have ended yet."""
_ROUND_S = 60.0
"""Seconds after which the folder and the rows in the database are compared even if nothing seems to
be new."""
_START_S = 60.0
"""Maximum number of seconds that a starting process waits until its plugins are those of the other
processes. After that it goes on with the plugins that it has, and gets the others while it runs."""


class PluginSharing:
    """Keeps the plugins of this process and those of the others the same while the bot runs.

    Args:
        store: The database.
        plugins: Compares the data folder with the database.
        data: The data folder.
        node: The name of this process.
    """

    def __init__(self, store: Store, plugins: SharedPlugins, data: Path, node: str) -> None:
        self._rows = store.shared_plugins
        self._plugins = plugins
        self._data = data
        self._node = node
        self._news = anyio.Event()
        self._changed_here = False
        self._reports: Sequence[PluginReport] = ()
        self._reports_are_old = True
        self._told: Mapping[str, str] | None = None
        self._told_at = 0.0
        listen = store.changes.listen
        listen(ChangeTopic.PLUGINS, self._hear_change)
        listen(ChangeTopic.PLUGIN_REPORTS, self._hear_report)
        listen(ChangeTopic.PLUGIN_OBJECTS, self._hear_request)

    @classmethod
    async def open(
        cls,
        store: Store,
        objects: ObjectStore,
        data: Path,
        settings: PluginSettings,
        node: str,
    ) -> Self:
        """Bring the plugins of a data folder up to date, and return what keeps them so: its `live`
        must run as a task."""
        plugins = SharedPlugins(store, objects, data, settings.shelf(data), node)
        sharing = cls(store, plugins, data, node)
        await sharing.settle_at_start(settings)
        return sharing

    async def settle_at_start(self, settings: PluginSettings) -> None:
        """Bring the plugins of the folder up to date before the bot loads them. If the object store
        or the database does not answer, the start goes on with the plugins that are there."""
        receiver = UnloadedPlugins(self._data, settings, logger.info)
        with anyio.move_on_after(_START_S) as limit:
            try:
                await self._plugins.settle(receiver, publish=False)
            except (NekroError, OSError) as error:
                logger.warning("the plugins may not be those of the other processes: {}", error)
            except Exception:  # noqa: BLE001 (no plugin must keep the processes from starting)
                logger.exception("the plugins may not be those of the other processes")
        if limit.cancelled_caught:
            logger.warning("the plugins of the other processes come while the bot runs")

    async def live(self, manager: PluginManager, registry: PluginRegistry) -> None:
        """Compare the folder with the database whenever one of them has changed, and at least every
        `_ROUND_S` seconds. Never returns."""
        manager.changed = self._note_change
        before: object = None
        settled: object = None
        settled_at = float("-inf")
        problem = ""
        while True:
            with anyio.move_on_after(_LOOK_S):
                await self._news.wait()
            news, self._news = self._news.is_set(), anyio.Event()
            try:
                stamp = await to_thread.run_sync(folder_stamp, self._data)
                steady, before = stamp == before, stamp
                now = anyio.current_time()
                due = now - settled_at >= _ROUND_S or self._plugins.is_due
                if news or due or (steady and stamp != settled):
                    publish = steady or self._changed_here
                    self._changed_here = False
                    if await self._plugins.settle(manager, publish=publish):
                        settled, settled_at = stamp if publish else None, now
                await self._report(registry)
                problem = ""
            except Exception as error:  # noqa: BLE001 (no plugin must end the processes)
                found = str(error) or type(error).__name__
                if found != problem:
                    expected = isinstance(error, NekroError | OSError)
                    logger.opt(exception=None if expected else error).warning(
                        "plugins are not compared with the other processes: {}", found
                    )
                problem = found

    async def _report(self, registry: PluginRegistry) -> None:
        """Tell the other processes which plugins cannot be used here, and show on the pages of this
        process what the others have told."""
        local = self._plugins.local
        if local is None:
            return
        shared = {*local.agreed, *local.records}
        broken = {item: text for item, text in registry.broken().items() if item in shared}
        mine = {**broken, **self._plugins.problems}
        now = anyio.current_time()
        if mine != self._told or (mine and now - self._told_at >= STORE_AGAIN_S):
            await self._rows.report(self._node, mine)
            self._told, self._told_at = mine, now
        if self._reports_are_old:
            self._reports_are_old = False
            try:
                self._reports = await self._rows.reports()
            except StoreError:
                self._reports_are_old = True
                raise
        shown = defaultdict[str, list[PluginProblem]](list)
        for each in self._reports:
            if each.node != self._node:
                shown[each.item].append(_error(f"{each.node}: {each.problem}"))
        for item, text in self._plugins.problems.items():
            shown[item].append(_error(text))
        for item, path in local.by_hand.items():
            shown[item].append(_by_hand(path))
        registry.report(dict(shown))

    def _note_change(self, item: str, by: str) -> None:
        self._plugins.note_operator(item, by)
        self._changed_here = True
        self._news.set()

    async def _hear_change(self, _: str) -> None:
        self._news.set()

    async def _hear_report(self, _: str) -> None:
        self._reports_are_old = True
        self._news.set()

    async def _hear_request(self, item: str) -> None:
        if item:
            self._plugins.ask_to_give(item)
            self._news.set()


def _error(text: str) -> PluginProblem:
    return PluginProblem(severity=ProblemSeverity.ERROR, message=text)


def _by_hand(path: Path) -> PluginProblem:
    return PluginProblem(
        severity=ProblemSeverity.WARNING,
        message="it was put into the folder by hand, so no other process has it",
        remedy=f"nekro plugin install {path} gives it to all processes",
    )
