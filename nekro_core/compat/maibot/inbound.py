"""A message arrives: MaiBot's hooks, events and commands, in the order that plugins know."""

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

import anyio
from loguru import logger

from nekro_core.chat import ChatKind, ChatMessage, Mention, Reply, plain_text
from nekro_core.compat.maibot.commands import CommandMatch, CommandReply, answer_of, find
from nekro_core.compat.maibot.plugin import MaiBotPlugin
from nekro_core.compat.maibot.wire import event_message_of, host_arguments
from nekro_core.compat.nekro_agent.legacy_message import LegacyChatMessage
from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.plugins.authoring.declarations import MsgSignal
from nekro_core.plugins.authoring.faults import is_cancellation
from nekro_core.tools.outcome import ToolFailure

if TYPE_CHECKING:
    from nekro_core.compat.maibot.host import MaiBotHost

COMMAND_WAIT_S = 4.0
"""How long a message waits for its command: one that takes longer goes on by itself, and the
message does not wake the bot."""
_BEFORE = ("chat.receive.before_process", "on_message_pre_process")
_AFTER = ("chat.receive.after_process", "on_message")

MessageMethod = Callable[[AgentCtx, LegacyChatMessage], Awaitable[MsgSignal | None]]


def message_method(host: "MaiBotHost", live: MaiBotPlugin) -> MessageMethod:
    """A plugin's message method. The first of the plugins speaks for all: an order of hooks, and
    one command, hold over all of them."""

    async def method(ctx: AgentCtx, message: LegacyChatMessage) -> MsgSignal | None:
        if next(iter(host.plugins.values()), None) is not live:
            return None
        return await receive(host, ctx, message.source)

    return method


def prompt_method(host: "MaiBotHost", live: MaiBotPlugin) -> Callable[[AgentCtx], Awaitable[str]]:
    """A plugin's prompt method: what was made of messages, told by the first of the plugins."""

    async def method(ctx: AgentCtx) -> str:
        first = next(iter(host.plugins.values()), None) is live
        return host.changed.told(ctx.chat_key) if first else ""

    return method


async def receive(host: "MaiBotHost", ctx: AgentCtx, message: ChatMessage) -> MsgSignal | None:
    """What the plugins want done with a message."""
    stages = host.stages
    shown = host.message(message)
    words = plain_text(each for each in message.segments if not isinstance(each, Mention | Reply))
    text = words.strip()
    for hook, event in (_BEFORE, _AFTER):
        if not stages.any(hook, event):
            continue
        begun = await stages.hook(hook, {"message": shown}, ctx=ctx)
        if begun.aborted:
            return MsgSignal.BLOCK_ALL
        shown, text = _now(shown, text, begun.kwargs.get("message"))
        heard_of = await stages.event(event, event_message_of(shown), ctx=ctx)
        if heard_of.aborted:
            return MsgSignal.BLOCK_TRIGGER
        shown, text = _now(shown, text, heard_of.kwargs.get("message"))
    if text != words.strip():
        host.changed.put(ctx.chat_key, message.message_id, text)
    if message.from_history or message.notice is not None:
        return None
    found = find(host.plugins.values(), text, ctx.chat_key)
    return await _command(host, ctx, found, text, shown) if found else None


def _now(shown: dict[str, Any], text: str, changed: Any) -> tuple[dict[str, Any], str]:
    """The message as a handler left it, and its words where those were changed."""
    if not isinstance(changed, Mapping):
        return shown, text
    before = shown["processed_plain_text"]
    after = changed.get("processed_plain_text")
    if after == before and "plain_text" in changed:
        after = changed["plain_text"]
    kept = {key: changed.get(key, value) for key, value in shown.items()}
    if not isinstance(kept.get("message_info"), Mapping) or not isinstance(after, str):
        return shown, text
    kept["processed_plain_text"] = after
    return kept, text if after == before else after.strip()


async def _command(
    host: "MaiBotHost", ctx: AgentCtx, found: CommandMatch, text: str, shown: Mapping[str, Any]
) -> MsgSignal | None:
    """Run a command in a task of its plugin. Who answers it is the plugin, not the bot."""
    over = anyio.Event()
    answers: list[CommandReply] = []

    async def run() -> None:
        try:
            answers.append(await _run(host, ctx, found, text, shown))
        finally:
            over.set()

    found.live.plugin.tasks.start(run, name=f"command {found.component.name}")
    with anyio.move_on_after(COMMAND_WAIT_S):
        await over.wait()
    answer = answers[0] if answers else CommandReply(False, "", stops=True)
    if answer.hides:
        return MsgSignal.BLOCK_ALL
    return MsgSignal.BLOCK_TRIGGER if answer.stops else None


async def _run(
    host: "MaiBotHost", ctx: AgentCtx, found: CommandMatch, text: str, shown: Mapping[str, Any]
) -> CommandReply:
    live, component = found.live, found.component
    operator = host.ports.operator(ctx.chat, ctx.from_user_id)
    if component.metadata.get("permission") == "operator" and not operator:
        logger.info("{} may not run {} of {}", ctx.from_user_id, component.name, live.plugin_id)
        return CommandReply(False, "", stops=True)
    about = {
        "message": dict(shown),
        "command_name": component.name,
        "plugin_id": live.plugin_id,
        "matched_groups": dict(found.groups),
        "text": text,
        "stream_id": ctx.chat_key,
    }
    begun = await host.stages.hook("chat.command.before_execute", about, ctx=ctx)
    if begun.aborted:
        return CommandReply(False, "", stops=True)
    groups = begun.kwargs.get("matched_groups")
    own = ctx.called_for(live.plugin.key)
    group = ctx.chat.kind is not ChatKind.PRIVATE
    given = {
        **host_arguments(own),
        "text": str(begun.kwargs.get("text", text)),
        "is_local_operator": operator,
        "is_group": group,
        "matched_groups": dict(groups) if isinstance(groups, Mapping) else {},
        "message": begun.kwargs.get("message"),
        "plugin_config": dict(live.settings),
    }
    try:
        value = await live.call(component, {}, ctx=own, given=given, limit_s=host.ports.tool_s)
    except BaseException as error:
        if is_cancellation(error):
            raise
        told = str(error) if isinstance(error, ToolFailure) else type(error).__name__
        logger.opt(exception=error).error(
            "command {} of {} failed: {}", component.name, live.plugin_id, told
        )
        return CommandReply(False, told, stops=True)
    answer = answer_of(component, value)
    ended = await host.stages.hook(
        "chat.command.after_execute",
        {
            **about,
            "success": answer.success,
            "response": answer.text,
            "intercept_message_level": 2 if answer.hides else int(answer.stops),
        },
        ctx=ctx,
    )
    level = ended.kwargs.get("intercept_message_level")
    if isinstance(level, int):
        return CommandReply(answer.success, answer.text, stops=level > 0, hides=level > 1)
    return answer
