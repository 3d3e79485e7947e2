"""The loaded MaiBot plugins. Each has its components and calls their handlers."""

import inspect
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup
from loguru import logger

from nekro_core.chat import ChatKey, ChatKeyError
from nekro_core.compat.maibot.plugin.chat_limits import is_limited, serves
from nekro_core.compat.maibot.plugin.components import MaiBotComponent, components_of
from nekro_core.compat.maibot.plugin.manifest import MaiBotManifest
from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.plugins.authoring.plugin import NekroPlugin
from nekro_core.plugins.host.registry import PluginRegistry
from nekro_core.system.bounded_pattern import BoundedPattern
from nekro_core.tools.outcome import ToolFailure

_NOT_FOUND_DEPTH = 3
"""If `invoke_component` raises because it does not know a component, the traceback has at most this
number of frames. If it has more, the component itself raised the error."""


@dataclass(slots=True)
class HandlerCall:
    """One call of a handler. A task that the handler has started inherits the call and may run
    after the handler has ended. Then ``over`` is true, and only the person, the chat and the
    message id of ``ctx`` are used."""

    ctx: AgentCtx
    over: bool = False


_current: ContextVar[HandlerCall | None] = ContextVar("nekro_maibot_call", default=None)


@contextmanager
def handler_call(ctx: AgentCtx | None) -> Iterator[None]:
    """Set the current handler call for the block. ``ctx`` is the context of the call; None if it
    belongs to no chat, for example ``on_load``."""
    call = HandlerCall(ctx) if ctx is not None else None
    token = _current.set(call)
    try:
        yield
    finally:
        _current.reset(token)
        if call is not None:
            call.over = True


def current_call() -> HandlerCall | None:
    """The handler call that is running; None outside of handlers."""
    return _current.get()


@dataclass(slots=True, kw_only=True)
class MaiBotPlugin:
    """One plugin.

    ``instance`` is the object that ``create_plugin()`` returned. ``native`` is the `NekroPlugin`
    for it. ``tool_s`` is the time limit in seconds of a tool that sets no limit. ``off`` has the
    components that are switched off, as type, name and stream id (empty for all chats).
    ``patterns`` caches the compiled patterns of the plugin's commands, with None for an invalid
    pattern. ``components`` are the components that can be called. Until ``on_load`` has returned,
    only message gateways are among them, and ``offered`` is false.
    """

    manifest: MaiBotManifest
    instance: Any
    native: NekroPlugin
    item: str
    folder: Path
    tool_s: float
    components: list[MaiBotComponent] = field(default_factory=list)
    settings: Mapping[str, Any] = field(default_factory=dict)
    off: set[tuple[str, str, str]] = field(default_factory=set)
    patterns: dict[str, BoundedPattern | None] = field(default_factory=dict)
    offered: bool = False

    @property
    def plugin_id(self) -> str:
        """The id in the plugin's manifest."""
        return self.manifest.plugin_id

    def of_type(self, kind: str) -> list[MaiBotComponent]:
        """The plugin's components of one type. Components that are switched off for all chats are
        left out."""
        return [each for each in self.components if each.type == kind and self.is_on(each, "")]

    def declared(self) -> list[MaiBotComponent]:
        """All components of the plugin, also those that cannot be called yet because ``on_load``
        has not returned."""
        if self.offered:
            return self.components
        try:
            with self.native.acting():
                return components_of(self.instance.get_components() or (), "")[0]
        except Exception as error:  # noqa: BLE001 - some plugins make them later in `on_load`
            logger.debug("{}: no components before on_load: {!r}", self.plugin_id, error)
            return self.components

    def is_on(self, component: MaiBotComponent, stream_id: str) -> bool:
        """Return True if a component is switched on in a chat and may be used in it. With an empty
        ``stream_id``, return True if the component is not switched off for all chats."""
        marks = {(component.type, component.name, each) for each in ("", stream_id)}
        if marks & self.off:
            return False
        if not stream_id or not is_limited(component):
            return True
        try:
            return serves(component, ChatKey.parse(stream_id))
        except ChatKeyError:
            return False

    def config_schema(self) -> Mapping[str, Any]:
        """The schema of the plugin's configuration for a web page; empty if the plugin provides
        none."""
        make = getattr(self.instance, "get_webui_config_schema", None)
        if make is None:
            return {}
        schema: Mapping[str, Any] = make(
            plugin_id=self.plugin_id,
            plugin_name=self.manifest.name,
            plugin_version=self.manifest.version,
            plugin_description=self.manifest.description,
            plugin_author=self.manifest.author,
        )
        return schema

    async def call(
        self,
        component: MaiBotComponent,
        arguments: Mapping[str, Any],
        *,
        ctx: AgentCtx | None = None,
        given: Mapping[str, Any] | None = None,
        limit_s: float | None = None,
    ) -> Any:
        """Call a component's handler, in a thread unless it is async. A component without a handler
        is called through the plugin's `invoke_component`.

        ``given`` are arguments from the host. Of these, a handler gets only those for which it has
        parameters. Raises the exceptions of the handler, `ToolFailure` if the arguments do not fit
        the parameters, and `TimeoutError`.
        """
        handler = getattr(self.instance, component.handler, None)
        with anyio.fail_after(limit_s), self.native.acting(), handler_call(ctx):
            if callable(handler):
                arguments = {**arguments, **_taken(handler, given or {})}
                _check(component, handler, arguments)
                return await _called(handler, arguments)
            arguments = {**arguments, **(given or {})}
            first, second = component.name, component.handler
            if component.type == "API":
                first, second = second, first
            invoke = self.instance.invoke_component
            try:
                return await _called(partial(invoke, first), arguments)
            except (AttributeError, LookupError) as error:
                # Some plugins look up a component by its name, other plugins by the name of its
                # handler.
                if first == second or _depth(error) > _NOT_FOUND_DEPTH:
                    raise
                return await _called(partial(invoke, second), arguments)


class LoadedPlugins:
    """The loaded MaiBot plugins. Iterating yields them in the order in which they were loaded.

    ``registry`` is the registry of all plugins of the bot; None until it is attached. It is used
    when a plugin loads other plugins.
    """

    def __init__(self, tasks: TaskGroup) -> None:
        self.by_id: dict[str, MaiBotPlugin] = {}
        self.registry: PluginRegistry | None = None
        self._tasks = tasks

    def __iter__(self) -> Iterator[MaiBotPlugin]:
        return iter(self.by_id.values())

    def is_first(self, plugin: MaiBotPlugin) -> bool:
        """Return True if this plugin was loaded before all others. Work that must be done once for
        all plugins is done by the methods of the first plugin."""
        return next(iter(self), None) is plugin

    def find(self, name: str) -> MaiBotPlugin | None:
        """Find a plugin by its id, its key or the name of its folder."""
        for plugin in self:
            if name in (plugin.plugin_id, plugin.native.key, plugin.folder.name):
                return plugin
        return None

    def start_later(self, act: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run ``act`` in a task of the host, not of the calling plugin, because ``act`` may unload
        that plugin."""
        self._tasks.start_soon(act)


def _depth(error: BaseException) -> int:
    depth, trace = 0, error.__traceback__
    while trace is not None:
        depth, trace = depth + 1, trace.tb_next
    return depth


async def _called(handler: Any, arguments: Mapping[str, Any]) -> Any:
    if inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(
        getattr(handler, "func", None)
    ):
        return await handler(**arguments)
    value = await to_thread.run_sync(partial(handler, **arguments), abandon_on_cancel=True)
    return await value if inspect.isawaitable(value) else value


def _taken(handler: Any, given: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        parameters = inspect.signature(handler).parameters
    except (TypeError, ValueError):
        return given
    if any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values()):
        return given
    return {name: value for name, value in given.items() if name in parameters}


def _check(component: MaiBotComponent, handler: Any, arguments: Mapping[str, Any]) -> None:
    try:
        signature = inspect.signature(handler)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(**arguments)
    except TypeError as error:
        raise ToolFailure(f"{component.name}: {error}") from None
