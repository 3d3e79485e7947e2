"""Runs the handlers of MaiBot's hooks and events in order, and applies the changes that they
return."""

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
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
    "maisaka.planner.before_request": "partly: a tool list is only shown in code mode",
    "maisaka.planner.after_response": "works",
    "maisaka.replyer.before_request": "partly: `extra_prompt` and `reference_info`; no other model",
    "maisaka.replyer.before_model_request": "works",
    "maisaka.replyer.after_response": "partly: for each text of a turn; nothing is written again",
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
"""All hooks of MaiBot. The text says whether the hook works here."""

EVENTS: Mapping[str, str] = {
    "on_start": "works",
    "on_stop": "works",
    "on_message_pre_process": "works",
    "on_message": "partly: not in a plugin that handles the hook `chat.receive.after_process`",
    "on_plan": "works",
    "post_llm": "works",
    "after_llm": "works",
    "post_send_pre_process": "works",
    "post_send": "works",
    "after_send": "works",
}

_MESSAGE_HOOK = "chat.receive.after_process"
_STOPS = ("blocked", "intercept", "intercepted")
_ORDER = {"early": 0, "normal": 1, "late": 2}
DEFAULT_S = 8.0
"""Time limit of a handler that sets no limit, in seconds. It is short, because a message waits for
the handler."""
_LONGEST_S = 30.0


@dataclass(frozen=True, slots=True)
class HookOutcome:
    """The outcome of a hook or event. ``kwargs`` are the arguments with the changes of all
    handlers. If ``aborted`` is true, the action that follows the hook must not happen. ``result``
    is then the value that the handler gave in place of the action's result; it may be None."""

    kwargs: Mapping[str, Any]
    aborted: bool = False
    result: Any = None


class HookRunner:
    """Runs plugins' handlers. If a handler raises, the error is logged and the other handlers still
    run."""

    def __init__(self, plugins: LoadedPlugins) -> None:
        self._plugins = plugins

    def any(self, *names: str) -> bool:
        """Return True if a plugin has a handler for one of these hooks or events. This must be
        fast, because it is called for every received and every sent message."""
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
                    self._observe, plugin, each, deepcopy(arguments), ctx, name=each.name
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
        stream_id = ctx.chat_key if ctx else ""
        handlers = sorted(
            (
                (plugin, each)
                for plugin in ([only] if only else self._plugins)
                for each in plugin.of_type("EVENT_HANDLER")
                if event_type(each) == name and plugin.is_on(each, stream_id)
                if not is_replaced(each, plugin.components)
            ),
            key=lambda pair: -pair[1].number("weight"),
        )
        current = dict(message) if message is not None else None
        for plugin, each in handlers:
            given = {**_words_of(current), "message": current, "event_type": name, **_about(ctx)}
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
        # In MaiBot, handlers get a copy of the arguments. So a change in place must have no effect.
        value = await self._call(plugin, each, deepcopy(arguments), ctx, failed)
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


def is_replaced(component: MaiBotComponent, components: Iterable[MaiBotComponent]) -> bool:
    """Return True if an event handler is not called because the plugin has a hook for the same
    moment.

    MaiBot 1.3 does not run ``on_message``; it runs the hook ``chat.receive.after_process`` instead.
    A plugin for several versions of MaiBot has both, and would answer each message twice. The
    handlers of a plugin that only has the event are called.
    """
    return event_type(component) == "on_message" and any(
        each.metadata.get("hook") == _MESSAGE_HOOK for each in components
    )


def unsupported_handlers(
    components: Sequence[MaiBotComponent],
) -> list[tuple[MaiBotComponent, str]]:
    """The handlers whose hook or event never happens here, each with the reason."""
    unsupported = []
    for each in components:
        if each.type == "HOOK_HANDLER":
            state = HOOKS.get(str(each.metadata.get("hook")), "not: nobody knows this hook")
        elif each.type == "EVENT_HANDLER" and is_replaced(each, components):
            state = f"not: the plugin handles the hook {_MESSAGE_HOOK}, which replaces this event"
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


def _words_of(message: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return the texts of a message that event handlers also get as separate arguments."""
    if message is None:
        return {}
    text = message.get("plain_text")
    response = message.get("llm_response_content")
    return {
        **({"plain_text": text} if text is not None else {}),
        **({"response": response} if response is not None else {}),
    }


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
        return _dict(changed), ended or any(value.get(key) for key in _STOPS)
    return None, False


def _dict(value: Any) -> Mapping[str, Any] | None:
    if hasattr(value, "model_dump"):
        value = value.model_dump()
    return value if isinstance(value, Mapping) else None
