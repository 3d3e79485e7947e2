"""The capabilities behind ``ctx.send``: sends messages and calls OneBot actions for a plugin."""

import json
from collections.abc import Mapping
from typing import Any

from nekro_core.chat import ChatKey, ChatKind, Reply, Segment, Text
from nekro_core.compat.maibot.capability import (
    Answer,
    CapabilityCall,
    CapabilityEntry,
    CapabilityError,
    success,
)
from nekro_core.compat.maibot.formats.segments import forward_from, medium_from, segments_from
from nekro_core.compat.maibot.onebot import ADAPTER, OneBotRefused, call_action
from nekro_core.tools.outcome import ToolFailure

_ACTIONS: Mapping[str, str] = {
    "send_poke": "send_poke",
    "group_ban": "set_group_ban",
    "group_whole_ban": "set_group_whole_ban",
    "group_kick": "set_group_kick",
    "delete_msg": "delete_msg",
    "set_group_card": "set_group_card",
    "send_like": "send_like",
}
_NUMBERS = ("user_id", "group_id", "message_id", "duration", "times")


async def text(call: CapabilityCall) -> Answer:
    """``send.text``: sends a text."""
    words = call.text("text", "content", needed=True)
    return await _send(call, [Text(words)])


async def image(call: CapabilityCall) -> Answer:
    """``send.image`` and ``send.emoji``: sends a picture."""
    given = call.text("image_base64", "emoji_base64", "image_data", "emoji_data", needed=True)
    ctx = call.context(call.chat())
    return await _send(call, [await medium_from(ctx, "image", given)])


async def hybrid(call: CapabilityCall) -> Answer:
    """``send.hybrid``: sends text, pictures, mentions and a reply in one message."""
    ctx = call.context(call.chat())
    return await _send(call, await segments_from(ctx, call.args.get("segments")))


async def forward(call: CapabilityCall) -> Answer:
    """``send.forward``: sends a bundle of forwarded messages."""
    given = call.args.get("messages")
    if not isinstance(given, list) or not given:
        raise CapabilityError("send.forward: messages must be a list that is not empty")
    return await _send(call, [await forward_from(call.context(call.chat()), given)])


async def custom(call: CapabilityCall) -> Answer:
    """``send.custom``: sends a voice, a file, a video or any other segment."""
    kind = call.text("custom_type", "message_type", needed=True)
    data = call.args.get("data", call.args.get("content"))
    ctx = call.context(call.chat())
    return await _send(call, await segments_from(ctx, [{"type": kind, "data": data}]))


async def command(call: CapabilityCall) -> Answer:
    """``send.command``: calls an action of OneBot. The action is given by its name, or as a dict or
    JSON text with ``name`` and ``args``."""
    chat = call.chat()
    call.writing_context(chat)
    if call.bot.services.adapter_of(chat.instance) != ADAPTER:
        raise CapabilityError(f"{call.name}: {chat} is not on OneBot; only OneBot has actions")
    name, args = _action_of(call.args.get("command"), call.args.get("args"))
    action = _ACTIONS.get(name)
    if action is None:
        raise CapabilityError(
            f"{call.name}: {name!r} is not known; there are {', '.join(_ACTIONS)}"
        )
    account = call.bot.store.accounts.of(chat.instance)
    if account is None:
        raise CapabilityError(f"{call.name}: {chat} belongs to no account")
    try:
        answer = await call_action(account.account, action, _arguments_of(chat, args))
    except OneBotRefused as error:
        raise CapabilityError(f"{call.name}: {error}") from None
    return success(sent=True, message_id=None, result=answer)


def _action_of(given: Any, args: Any) -> tuple[str, dict[str, Any]]:
    if isinstance(given, str) and given.lstrip().startswith("{"):
        try:
            given = json.loads(given)
        except ValueError:
            raise CapabilityError(f"send.command: {given[:80]!r} is no JSON") from None
    if isinstance(given, Mapping):
        args = given.get("args", args)
        given = given.get("name") or given.get("command")
    return str(given or "").strip().lower(), dict(args) if isinstance(args, Mapping) else {}


def _arguments_of(chat: ChatKey, args: Mapping[str, Any]) -> dict[str, Any]:
    given = {("user_id" if key == "qq_id" else key): value for key, value in args.items()}
    # The action always applies to the group of the call's chat, so an argument cannot choose
    # another group.
    given.pop("group_id", None)
    if chat.kind is ChatKind.GROUP:
        given["group_id"] = chat.native_id
    for key in _NUMBERS:
        if str(given.get(key, "")).lstrip("-").isdigit():
            given[key] = int(given[key])
    return given


async def _send(call: CapabilityCall, pieces: list[Segment]) -> Answer:
    chat = call.chat()
    ctx = call.context(chat)
    reply_to = call.text("reply_message_id", "reply_to_message_id", "reply_to")
    if not reply_to and call.args.get("set_reply") is True:
        reply_to = ctx.message_id
    if reply_to and not any(isinstance(each, Reply) for each in pieces):
        pieces = [Reply(reply_to), *pieces]
    try:
        receipts = await ctx.send(pieces, chat_key=chat)
    except ToolFailure as error:
        raise CapabilityError(str(error)) from None
    sent = next((each.message_id for each in receipts if each.message_id), None)
    return success(sent=True, message_id=sent)


TABLE: Mapping[str, CapabilityEntry] = {
    "send.text": CapabilityEntry(text),
    "send.image": CapabilityEntry(image),
    "send.emoji": CapabilityEntry(image),
    "send.hybrid": CapabilityEntry(hybrid),
    "send.forward": CapabilityEntry(
        forward, "works; as quoted words where a platform has no bundles of messages"
    ),
    "send.custom": CapabilityEntry(
        custom, "partly: text, image, emoji, voice, video, file, at, reply; not a platform's cards"
    ),
    "send.command": CapabilityEntry(
        command, "partly: a poke, bans and the like on OneBot; other platforms have none"
    ),
}
