"""Named hooks and events: which handlers there are, in which order, and what they may change."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from loguru import logger

from nekro_core.compat.maibot.components import MaiBotComponent
from nekro_core.compat.maibot.plugin import LoadedPlugins, MaiBotPlugin
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
"""Every hook that plugins know, and what it comes to here."""

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
"""Longest handler of a hook that does not say more: a message waits for it."""
_MOST_S = 30.0


@dataclass(frozen=True, slots=True)
class HookOutcome:
    """What became of a hook: its arguments as they are now. ``aborted``: the stage must not go on;
    ``result`` is what a handler wants instead."""

    kwargs: Mapping[str, Any]
    aborted: bool = False
    result: Any = None


class HookRunner:
    """Runs the handlers of the plugins that it is given; theirs is every fault."""

    def __init__(self, plugins: LoadedPlugins) -> None:
        self._plugins = plugins

    def any(self, *names: str) -> bool:
        """Whether somebody listens to one of these hooks or events. Cheap: asked for everything
        that is heard and said."""
        return any(
            each.metadata.get("hook") in names or event_type(each) in names
            for live in self._plugins
            for each in live.components
            if each.type in ("HOOK_HANDLER", "EVENT_HANDLER")
        )

    async def hook(
        self, name: str, kwargs: Mapping[str, Any], *, ctx: AgentCtx | None = None
    ) -> HookOutcome:
        """Run a hook's handlers: the blocking ones in turn, each with what those before it made of
        the arguments; the others on the side. ``abort`` ends the hook."""
        stream_id = ctx.chat_key if ctx else ""
        handlers = sorted(
            (
                (live, each)
                for live in self._plugins
                for each in live.of_type("HOOK_HANDLER")
                if each.metadata.get("hook") == name and live.is_on(each, stream_id)
            ),
            key=lambda pair: (
                _ORDER.get(_word(pair[1], "order"), 1),
                pair[0].plugin_id,
                pair[1].name,
            ),
        )
        now = dict(kwargs)
        done: HookOutcome | None = None
        for live, each in handlers:
            if done is None and _word(each, "mode") != "observe":
                done = await self._block(live, each, now, ctx)
        for live, each in handlers:
            if _word(each, "mode") == "observe":
                live.native.tasks.start(self._observe, live, each, dict(now), ctx, name=each.name)
        return done or HookOutcome(now)

    async def event(
        self,
        name: str,
        message: Mapping[str, Any] | None,
        *,
        ctx: AgentCtx | None = None,
        only: MaiBotPlugin | None = None,
    ) -> HookOutcome:
        """Run an event's handlers, greatest weight first: those that intercept in turn, and one of
        them may end it; the others on the side. ``only``: one plugin's, each waited for."""
        handlers = sorted(
            (
                (live, each)
                for live in ([only] if only else self._plugins)
                for each in live.of_type("EVENT_HANDLER")
                if event_type(each) == name
            ),
            key=lambda pair: -pair[1].number("weight"),
        )
        now = dict(message) if message is not None else None
        for live, each in handlers:
            given = {"message": now, "event_type": name, **_about(ctx)}
            if only is None and not each.flag("intercept_message"):
                live.native.tasks.start(self._observe, live, each, given, ctx, name=each.name)
                continue
            value = await self._asked(live, each, given, ctx)
            changed, ended = _event_answer(value)
            if changed is not None and now is not None:
                now = {**now, **changed}
            if ended:
                return HookOutcome({"message": now}, aborted=True)
        return HookOutcome({"message": now})

    async def _block(
        self, live: MaiBotPlugin, each: MaiBotComponent, now: dict[str, Any], ctx: AgentCtx | None
    ) -> HookOutcome | None:
        """Change ``now``; an outcome where the handler ended the hook."""
        failed: list[BaseException] = []
        value = await self._asked(live, each, now, ctx, failed)
        if failed and _word(each, "error_policy") == "abort":
            return HookOutcome(now, aborted=True)
        if not isinstance(value, Mapping):
            return None
        if isinstance(changed := value.get("modified_kwargs"), Mapping):
            now.update({key: new for key, new in changed.items() if key in now})
        result = value.get("custom_result")
        if str(value.get("action", "continue")).strip().lower() == "abort":
            return HookOutcome(dict(now), aborted=True, result=result)
        return None

    async def _observe(
        self,
        live: MaiBotPlugin,
        each: MaiBotComponent,
        kwargs: Mapping[str, Any],
        ctx: AgentCtx | None,
    ) -> None:
        await self._asked(live, each, kwargs, ctx)

    async def _asked(
        self,
        live: MaiBotPlugin,
        each: MaiBotComponent,
        kwargs: Mapping[str, Any],
        ctx: AgentCtx | None,
        failed: list[BaseException] | None = None,
    ) -> Any:
        limit_s = min(each.number("timeout_ms") / 1000 or DEFAULT_S, _MOST_S)
        try:
            return await live.call(each, {}, ctx=ctx, given=kwargs, limit_s=limit_s)
        except BaseException as error:
            if is_cancellation(error):
                raise
            if failed is not None:
                failed.append(error)
            if isinstance(error, TimeoutError):
                logger.error("plugin {}: {} took over {:g} s", live.plugin_id, each.name, limit_s)
            else:
                logger.exception("plugin {}: {} failed", live.plugin_id, each.name)
            return None


def event_type(component: MaiBotComponent) -> str:
    """The event that a handler is for."""
    value = component.metadata.get("event_type", "")
    return str(getattr(value, "value", value)).strip().lower()


def unsupported_handlers(
    components: Iterable[MaiBotComponent],
) -> list[tuple[MaiBotComponent, str]]:
    """Handlers whose hook or event never happens here, with the reason."""
    found = []
    for each in components:
        if each.type == "HOOK_HANDLER":
            told = HOOKS.get(str(each.metadata.get("hook")), "not: nobody knows this hook")
        elif each.type == "EVENT_HANDLER":
            told = EVENTS.get(event_type(each), "not: nobody knows this event")
        else:
            continue
        if told.startswith("not"):
            found.append((each, told.partition(": ")[2]))
    return found


def _word(component: MaiBotComponent, key: str) -> str:
    value = component.metadata.get(key, "")
    return str(getattr(value, "value", value)).strip().lower()


def _about(ctx: AgentCtx | None) -> Mapping[str, Any]:
    return {"stream_id": ctx.chat_key, "user_id": ctx.from_user_id} if ctx else {}


def _event_answer(value: Any) -> tuple[Mapping[str, Any] | None, bool]:
    """What a handler of an event wants: changes of the message, and whether it ends there."""
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
