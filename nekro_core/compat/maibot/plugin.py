"""One MaiBot plugin that is loaded: its object, what it offers, and the way into its code."""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from anyio import to_thread

from nekro_core.compat.maibot.components import MaiBotComponent
from nekro_core.compat.maibot.current_call import handler_call
from nekro_core.compat.maibot.manifest import MaiBotManifest
from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.plugins.authoring.plugin import NekroPlugin
from nekro_core.system.bounded_pattern import BoundedPattern
from nekro_core.tools.outcome import ToolFailure


@dataclass(slots=True, kw_only=True)
class MaiBotPlugin:
    """``instance`` is what ``create_plugin()`` made, ``plugin`` what stands for it here. The
    operator may have switched components off, everywhere or in some chats: ``off``. ``patterns``
    are those of its commands that were searched for, nothing for what is none."""

    manifest: MaiBotManifest
    instance: Any
    plugin: NekroPlugin
    item: str
    folder: Path
    components: list[MaiBotComponent] = field(default_factory=list)
    settings: Mapping[str, Any] = field(default_factory=dict)
    off: set[tuple[str, str, str]] = field(default_factory=set)
    patterns: dict[str, BoundedPattern | None] = field(default_factory=dict)

    @property
    def plugin_id(self) -> str:
        """The id of its manifest."""
        return self.manifest.plugin_id

    def of_type(self, kind: str) -> list[MaiBotComponent]:
        """Its components of one type that are on everywhere."""
        return [each for each in self.components if each.type == kind and self.is_on(each, "")]

    def is_on(self, component: MaiBotComponent, stream_id: str) -> bool:
        """Whether a component is on in a chat; the empty text asks about all of them."""
        return (
            not {
                (component.type, component.name, ""),
                (component.type, component.name, stream_id),
            }
            & self.off
        )

    async def call(
        self,
        component: MaiBotComponent,
        arguments: Mapping[str, Any],
        *,
        ctx: AgentCtx | None = None,
        given: Mapping[str, Any] | None = None,
        limit_s: float | None = None,
    ) -> Any:
        """Call a component's handler: one that is not async runs in a thread, one that is not
        there is asked of `invoke_component`.

        ``given`` are arguments of the host, of which a handler gets those that it takes. Raises
        what the handler does, `ToolFailure` where the arguments do not fit it, and `TimeoutError`.
        """
        handler = getattr(self.instance, component.handler, None)
        with anyio.fail_after(limit_s), self.plugin.acting(), handler_call(ctx):
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
                # Some plugins know their components by the one name, some by the other.
                if first == second or _depth(error) > _NOT_FOUND_DEPTH:
                    raise
                return await _called(partial(invoke, second), arguments)


_NOT_FOUND_DEPTH = 3
"""Frames between us and an `invoke_component` that does not find a component."""


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
