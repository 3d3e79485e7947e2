"""Runs the handlers of MaiBot's hooks and events in order, and applies the changes that they
return."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from loguru import logger

from nekro_core.compat.maibot.plugin.components import MaiBotComponent
from nekro_core.compat.maibot.plugin.loaded import LoadedPlugins, MaiBotPlugin
from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.plugins.authoring.faults import is_cancellation

HOOKS: Mapping[str, str] = {
    "chat.receive.before_process": "works",
    "chat.receive.after_process": "works",
    "chat.command.before_execute": "works",
    "chat.command.after_execute": "works",
    "send_service.after_build_message": "works",
    "send_service.before_send": "works",
    "send_service.after_send": "works",
    "maisaka.planner.before_request": "works",
    "maisaka.planner.after_response": "works",
    "maisaka.replyer.before_request": "partly: in ctx.maisaka.reply.generate",
    "maisaka.replyer.before_model_request": "partly: in ctx.maisaka.reply.generate",
    "maisaka.replyer.after_response": "partly: in ctx.maisaka.reply.generate",
    "maisaka.reply.before_post_process": "works",
    "emoji.maisaka.before_select": "partly: in ctx.emoji.get_by_description",
    "emoji.maisaka.after_select": "partly: in ctx.emoji.get_by_description",
    "emoji.register.after_build_description": "partly: in ctx.emoji.register_emoji",
    "expression.select.before_select": "not: no expressions are learned here",
    "expression.select.after_selection": "not: no expressions are learned here",
    "expression.learn.after_extract": "not: no expressions are learned here",
    "expression.learn.before_upsert": "not: no expressions are learned here",
    "jargon.extract.before_persist": "not: no jargon is learned here",
    "jargon.inference.before_finalize": "not: no jargon is learned here",
}
"""All hooks of MaiBot. The text says whether a hook works here."""

EVENTS: Mapping[str, str] = {
    "on_start": "works",
    "on_stop": "works",
    "on_message_pre_process": "works",
    "on_message": "works",
    "on_plan": "works",
    "post_llm": "works",
    "after_llm": "works",
    "post_send_pre_process": "works",
    "post_send": "works",
    "after_send": "works",
}

_ORDER = {"early": 0, "normal": 1, "late": 2}
DEFAULT_S = 4.0
"""Time limit in seconds of a handler that sets no limit. It is short, because a message waits while
the handler runs."""
_LONGEST_S = 30.0


@dataclass(frozen=True, slots=True)
class HookOutcome:
    """The outcome of a hook or event. ``kwargs`` are the arguments with the changes of all
    handlers. If ``aborted`` is true, the action that follows the hook must not happen; ``result``
    is then the value that the handler gave in place of the action's result, or None."""

    kwargs: Mapping[str, Any]
    aborted: bool = False
    result: Any = None


class HookRunner:
    """Runs plugins' handlers. If a handler raises, the error is logged and the other handlers still
    run."""

    def __init__(self, plugins: LoadedPlugins) -> None:
        self._plugins = plugins

    def any(self, *names: str) -> bool:
        """Whether a plugin has a handler for one of these hooks or events. This must be fast,
        because it is called for every received and every sent message."""
        return any(
            each.metadata.get("hook") in names or event_type(each) in names
            for plugin in self._plugins
            for each in plugin.components
            if each.type in ("HOOK_HANDLER", "EVENT_HANDLER")
        )

    async def hook(
        self, name: str, kwargs: Mapping[str, Any], *, ctx: AgentCtx | None = None
    ) -> HookOutcome:
        """Run a hook's handlers.

        Blocking handlers run one after another, until a handler aborts the hook. Each of them gets
        the arguments with the changes of the handlers before it. Then a task is started for each
        observing handler.
        """
        stream_id = ctx.chat_key if ctx else ""
        handlers = sorted(
            (
                (plugin, each)
                for plugin in self._plugins
                for each in plugin.of_type("HOOK_HANDLER")
                if each.metadata.get("hook") == name and plugin.is_on(each, stream_id)
            ),
            key=lambda pair: (
                _ORDER.get(_word(pair[1], "order"), 1),
                pair[0].plugin_id,
                pair[1].name,
            ),
        )
        arguments = dict(kwargs)
        outcome: HookOutcome | None = None
        for plugin, each in handlers:
            if outcome is None and _word(each, "mode") != "observe":
                outcome = await self._block(plugin, each, arguments, ctx)
        for plugin, each in handlers:
            if _word(each, "mode") == "observe":
                plugin.native.tasks.start(
                    self._observe, plugin, each, dict(arguments), ctx, name=each.name
                )
        return outcome or HookOutcome(arguments)

    async def event(
        self,
        name: str,
        message: Mapping[str, Any] | None,
        *,
        ctx: AgentCtx | None = None,
        only: MaiBotPlugin | None = None,
    ) -> HookOutcome:
        """Run an event's handlers. A handler with a greater weight runs earlier.

        Intercepting handlers run one after another, and each of them may end the event. Other
        handlers run in tasks. With ``only``, only the handlers of this plugin run, all one after
        another.
        """
        handlers = sorted(
            (
                (plugin, each)
                for plugin in ([only] if only else self._plugins)
                for each in plugin.of_type("EVENT_HANDLER")
                if event_type(each) == name
            ),
            key=lambda pair: -pair[1].number("weight"),
        )
        current = dict(message) if message is not None else None
        for plugin, each in handlers:
            given = {"message": current, "event_type": name, **_about(ctx)}
            if only is None and not each.flag("intercept_message"):
                plugin.native.tasks.start(self._observe, plugin, each, given, ctx, name=each.name)
                continue
            value = await self._call(plugin, each, given, ctx)
            changed, ended = _event_answer(value)
            if changed is not None and current is not None:
                current = {**current, **changed}
            if ended:
                return HookOutcome({"message": current}, aborted=True)
        return HookOutcome({"message": current})

    async def _block(
        self,
        plugin: MaiBotPlugin,
        each: MaiBotComponent,
        arguments: dict[str, Any],
        ctx: AgentCtx | None,
    ) -> HookOutcome | None:
        """Run a handler, which may change ``arguments``. Returns an outcome if the handler aborted
        the hook; None otherwise."""
        failed: list[BaseException] = []
        value = await self._call(plugin, each, arguments, ctx, failed)
        if failed and _word(each, "error_policy") == "abort":
            return HookOutcome(arguments, aborted=True)
        if not isinstance(value, Mapping):
            return None
        if isinstance(changed := value.get("modified_kwargs"), Mapping):
            arguments.update({key: new for key, new in changed.items() if key in arguments})
        result = value.get("custom_result")
        if str(value.get("action", "continue")).strip().lower() == "abort":
            return HookOutcome(dict(arguments), aborted=True, result=result)
        return None

    async def _observe(
        self,
        plugin: MaiBotPlugin,
        each: MaiBotComponent,
        kwargs: Mapping[str, Any],
        ctx: AgentCtx | None,
    ) -> None:
        await self._call(plugin, each, kwargs, ctx)

    async def _call(
        self,
        plugin: MaiBotPlugin,
        each: MaiBotComponent,
        kwargs: Mapping[str, Any],
        ctx: AgentCtx | None,
        failed: list[BaseException] | None = None,
    ) -> Any:
        limit_s = min(each.number("timeout_ms") / 1000 or DEFAULT_S, _LONGEST_S)
        try:
            return await plugin.call(each, {}, ctx=ctx, given=kwargs, limit_s=limit_s)
        except BaseException as error:
            if is_cancellation(error):
                raise
            if failed is not None:
                failed.append(error)
            if isinstance(error, TimeoutError):
                logger.error("plugin {}: {} took over {:g} s", plugin.plugin_id, each.name, limit_s)
            else:
                logger.exception("plugin {}: {} failed", plugin.plugin_id, each.name)
            return None


def event_type(component: MaiBotComponent) -> str:
    """The name of the event that a handler handles."""
    value = component.metadata.get("event_type", "")
    return str(getattr(value, "value", value)).strip().lower()


def unsupported_handlers(
    components: Iterable[MaiBotComponent],
) -> list[tuple[MaiBotComponent, str]]:
    """The handlers whose hook or event never happens here, each with the reason."""
    unsupported = []
    for each in components:
        if each.type == "HOOK_HANDLER":
            state = HOOKS.get(str(each.metadata.get("hook")), "not: nobody knows this hook")
        elif each.type == "EVENT_HANDLER":
            state = EVENTS.get(event_type(each), "not: nobody knows this event")
        else:
            continue
        if state.startswith("not"):
            unsupported.append((each, state.partition(": ")[2]))
    return unsupported


def _word(component: MaiBotComponent, key: str) -> str:
    value = component.metadata.get(key, "")
    return str(getattr(value, "value", value)).strip().lower()


def _about(ctx: AgentCtx | None) -> Mapping[str, Any]:
    return {"stream_id": ctx.chat_key, "user_id": ctx.from_user_id} if ctx else {}


def _event_answer(value: Any) -> tuple[Mapping[str, Any] | None, bool]:
    """Read the result of an event handler: the changes of the message, and whether the event
    ends."""
    if isinstance(value, list | tuple) and len(value) >= 2:
        changed = value[4] if len(value) > 4 else None
        return _dict(changed), value[1] is False
    if isinstance(value, Mapping):
        changed = value.get("modified_message", value.get("message"))
        ended = value.get("continue_processing", value.get("continue", True)) is False
        ended = ended or str(value.get("action", "")).lower() == "abort"
        return _dict(changed), ended or bool(value.get("intercept"))
    return None, False


def _dict(value: Any) -> Mapping[str, Any] | None:
    if hasattr(value, "model_dump"):
        value = value.model_dump()
    return value if isinstance(value, Mapping) else None
