"""Starts and ends one plugin: calls ``on_load``, offers its components, watches its configuration
file, and calls ``on_unload``."""

from dataclasses import dataclass
from typing import Any

import anyio
from loguru import logger

from nekro_core.compat.maibot.bot_view import BotView
from nekro_core.compat.maibot.hooks.commands import has_call, problem_of, spoken
from nekro_core.compat.maibot.hooks.handlers import HookRunner, unsupported_handlers
from nekro_core.compat.maibot.plugin import configuration
from nekro_core.compat.maibot.plugin.components import components_of
from nekro_core.compat.maibot.plugin.configuration import MaiBotConfigError
from nekro_core.compat.maibot.plugin.legacy import give_legacy_settings, with_legacy_details
from nekro_core.compat.maibot.plugin.loaded import LoadedPlugins, MaiBotPlugin, handler_call
from nekro_core.compat.maibot.tools import offer_tools
from nekro_core.plugins.authoring.faults import is_cancellation
from nekro_core.tools.problem import PluginProblem, ProblemSeverity

_TYPES = frozenset(
    {
        "TOOL",
        "COMMAND",
        "API",
        "EVENT_HANDLER",
        "HOOK_HANDLER",
        "MESSAGE_GATEWAY",
        "HOME_CARD",
        "REPLY_EXTENSION",
    }
)
CONFIG_CHECK_S = 1.0
"""Seconds between two checks of a plugin's ``config.toml`` for changes."""
_UPDATE_S = 30.0
_START_S = 10.0
_STOP_S = 0.5
"""Time limit in seconds of ``on_stop``. The cleanup of a plugin may take 1.5 s, so 1 s is left for
``on_unload``."""


@dataclass(slots=True, kw_only=True, eq=False)
class MaiBotLifecycle:
    """Starts and ends one plugin. The plugin host calls ``begin`` as the plugin's init method and
    ``end`` as its cleanup method."""

    plugin: MaiBotPlugin
    bot: BotView
    hooks: HookRunner
    plugins: LoadedPlugins
    _loaded: bool = False

    async def begin(self) -> None:
        """Add the plugin to the loaded plugins, call its ``on_load``, then offer its components."""
        plugin = self.plugin
        self.plugins.by_id[plugin.plugin_id] = plugin
        # A message gateway may connect in `on_load`. Other components cannot be called yet.
        gateways = [each for each in plugin.declared() if each.type == "MESSAGE_GATEWAY"]
        plugin.components[:] = gateways
        await self._call("on_load")
        try:
            _offer_components(plugin, self.bot)
        except Exception:
            await self._call("on_unload")
            raise
        self._loaded = True
        tasks = plugin.native.tasks
        tasks.start(self._follow_configuration, name=f"configuration of {plugin.plugin_id}")
        tasks.start(self._started, name=f"on_start of {plugin.plugin_id}")

    async def end(self) -> None:
        """Call ``on_stop``, then ``on_unload``. Do nothing if ``begin`` failed."""
        if not self._loaded:
            return
        self._loaded = False
        with anyio.move_on_after(_STOP_S):
            await self.hooks.event("on_stop", None, only=self.plugin)
        await self._call("on_unload")

    async def _started(self) -> None:
        with anyio.move_on_after(_START_S):
            await self.hooks.event("on_start", None, only=self.plugin)

    async def _follow_configuration(self) -> None:
        """Watch the plugin's configuration file until the plugin is unloaded."""
        path = anyio.Path(self.plugin.folder / configuration.FILE_NAME)
        known = await _stamp(path)
        while True:
            await anyio.sleep(CONFIG_CHECK_S)
            stamp = await _stamp(path)
            if stamp == known:
                continue
            known = stamp
            await self.configuration_changed()

    async def configuration_changed(self) -> None:
        """Read the configuration file again. If it is invalid, an error is logged and the old
        values are still used."""
        plugin = self.plugin
        try:
            values = configuration.read(plugin.folder / configuration.FILE_NAME)
            made = configuration.normalized(plugin.instance, values)
        except MaiBotConfigError as error:
            logger.error("plugin {}: {}; the old values are still used", plugin.plugin_id, error)
            return
        if made == plugin.settings:
            return
        plugin.settings = made
        give_legacy_settings(plugin.instance, made)
        try:
            plugin.instance.set_plugin_config(dict(made))
            with anyio.fail_after(_UPDATE_S):
                version = configuration.version_of(made)
                await self._call("on_config_update", "self", dict(made), version)
        except BaseException as error:
            if is_cancellation(error):
                raise
            logger.exception("plugin {}: on_config_update failed", plugin.plugin_id)

    async def _call(self, name: str, *args: Any) -> None:
        """Call a lifecycle method if the plugin defines it. The method of the SDK's base class
        would raise."""
        plugin = self.plugin
        method = getattr(type(plugin.instance), name, None)
        if method is None or getattr(method, "__module__", "") == "maibot_sdk.plugin":
            return
        with plugin.native.acting(), handler_call(None):
            await getattr(plugin.instance, name)(*args)


async def _stamp(path: anyio.Path) -> tuple[int, int]:
    try:
        stat = await path.stat()
    except OSError:
        return (0, 0)
    return (stat.st_mtime_ns, stat.st_size)


def _offer_components(plugin: MaiBotPlugin, bot: BotView) -> None:
    """Read the plugin's components and offer its tools. This is done after ``on_load``, because
    some plugins make their components there. Components that ``on_load`` has switched off stay off.
    Raises the exceptions of `get_components`."""
    where = f"{plugin.folder / 'plugin.py'}:1"
    with plugin.native.acting():
        declared = plugin.instance.get_components()
    declared = with_legacy_details(plugin.instance, declared or ())
    plugin.components[:], problems = components_of(declared, where)
    plugin.offered = True
    for each in plugin.components:
        if each.type not in _TYPES:
            problems.append(_error(f"component {each.name!r} is of type {each.type!r}", where))
        elif each.type == "COMMAND" and not has_call(each):
            text = f"command {each.name!r} is never called: it has neither a pattern nor an alias"
            remedy = f"write a pattern, for example r'^/{each.name}$'"
            problems.append(_warning(text, where, remedy))
        elif each.type == "COMMAND" and (fault := problem_of(each)):
            problems.append(_error(f"command {each.name!r}: {fault}", where))
        elif each.type in ("REPLY_EXTENSION", "HOME_CARD"):
            text = f"{each.type} {each.name!r} has no effect: there is no place for it here"
            problems.append(_warning(text, where))
    for each, why in unsupported_handlers(plugin.components):
        problems.append(_warning(f"{each.name!r} is never called: {why}", where))
    if providers := _llm_providers(plugin.instance):
        text = f"LLM providers are not taken from plugins: {', '.join(providers)}"
        problems.append(_warning(text, where))
    plugin.native.problems += problems
    for each in plugin.of_type("COMMAND"):
        if (typed := spoken(each)) is not None:
            plugin.native.declare(typed)
    offer_tools(plugin, bot.message_for)


def _llm_providers(instance: Any) -> list[str]:
    find = getattr(instance, "get_llm_providers", None)
    return [str(each.get("client_type")) for each in find()] if find else []


def _error(message: str, where: str = "", remedy: str = "") -> PluginProblem:
    return PluginProblem(
        severity=ProblemSeverity.ERROR, message=message, where=where, remedy=remedy
    )


def _warning(message: str, where: str = "", remedy: str = "") -> PluginProblem:
    return PluginProblem(
        severity=ProblemSeverity.WARNING, message=message, where=where, remedy=remedy
    )
