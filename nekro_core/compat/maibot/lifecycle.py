"""A plugin's life: ``on_load``, changes of its configuration, ``on_unload``."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import anyio
from loguru import logger

from nekro_core.compat.maibot import configuration
from nekro_core.compat.maibot.configuration import MaiBotConfigError
from nekro_core.compat.maibot.current_call import handler_call
from nekro_core.compat.maibot.plugin import MaiBotPlugin
from nekro_core.plugins.authoring.faults import is_cancellation

if TYPE_CHECKING:
    from nekro_core.compat.maibot.host import MaiBotHost

_UPDATE_S = 30.0
_START_S = 10.0
_STOP_S = 0.5
"""Of the 1.5 s that a plugin has for its end: ``on_unload`` must come."""


class MaiBotLifecycle:
    """``prepare`` reads what must be known of it before ``on_load``, ``offer`` its components."""

    def __init__(
        self,
        host: "MaiBotHost",
        live: MaiBotPlugin,
        prepare: Callable[[MaiBotPlugin], None],
        offer: Callable[["MaiBotHost", MaiBotPlugin], None],
    ) -> None:
        self._host = host
        self._live = live
        self._prepare = prepare
        self._offer = offer
        self._loaded = False

    async def begin(self) -> None:
        """The plugin is known, then its ``on_load``, then what it offers is."""
        live, host = self._live, self._host
        host.plugins[live.plugin_id] = live
        self._prepare(live)
        await self._lifecycle("on_load")
        try:
            self._offer(host, live)
        except Exception:
            await self._lifecycle("on_unload")
            raise
        self._loaded = True
        live.plugin.tasks.start(self._follow, name=f"configuration of {live.plugin_id}")
        live.plugin.tasks.start(self._started, name=f"on_start of {live.plugin_id}")

    async def end(self) -> None:
        """``on_stop``, then ``on_unload``; for a plugin whose ``on_load`` went well."""
        if not self._loaded:
            return
        self._loaded = False
        with anyio.move_on_after(_STOP_S):
            await self._host.stages.event("on_stop", None, only=self._live)
        await self._lifecycle("on_unload")

    async def _started(self) -> None:
        with anyio.move_on_after(_START_S):
            await self._host.stages.event("on_start", None, only=self._live)

    async def _follow(self) -> None:
        """Tell the plugin of changes that somebody made in its file. Runs until it is unloaded."""
        path = anyio.Path(self._live.folder / configuration.FILE_NAME)
        known = await _stamp(path)
        while True:
            await anyio.sleep(self._host.look_s)
            stamp = await _stamp(path)
            if stamp == known:
                continue
            known = stamp
            await self.configuration_changed()

    async def configuration_changed(self) -> None:
        """Read the file again. A faulty one changes nothing, and is told in the log."""
        live = self._live
        try:
            values = configuration.read(live.folder / configuration.FILE_NAME)
            made = configuration.normalized(live.instance, values)
        except MaiBotConfigError as error:
            logger.error("plugin {}: {}; the old values stay", live.plugin_id, error)
            return
        if made == live.settings:
            return
        live.settings = made
        try:
            live.instance.set_plugin_config(dict(made))
            with anyio.fail_after(_UPDATE_S):
                version = configuration.version_of(made)
                await self._lifecycle("on_config_update", "self", dict(made), version)
        except BaseException as error:
            if is_cancellation(error):
                raise
            logger.exception("plugin {}: on_config_update failed", live.plugin_id)

    async def _lifecycle(self, name: str, *args: Any) -> None:
        """Call one of the three, if the plugin has it: the SDK's own say that it is missing."""
        live = self._live
        method = getattr(type(live.instance), name, None)
        if method is None or getattr(method, "__module__", "") == "maibot_sdk.plugin":
            return
        with live.plugin.acting(), handler_call(None):
            await getattr(live.instance, name)(*args)


async def _stamp(path: anyio.Path) -> tuple[int, int]:
    try:
        found = await path.stat()
    except OSError:
        return (0, 0)
    return (found.st_mtime_ns, found.st_size)
