"""The capabilities behind ``ctx.chat``, ``ctx.message``, ``ctx.person`` and ``ctx.knowledge``.

Most of these capabilities read the bot's database.
"""

import re
import sqlite3
from collections.abc import Mapping
from typing import Any

from nekro_core.chat import ChatKey, ChatKeyError, ChatKind, Record, plain_text
from nekro_core.compat.maibot.capability import (
    Answer,
    CapabilityCall,
    CapabilityEntry,
    CapabilityError,
    success,
)
from nekro_core.compat.maibot.formats.messages import adapter_of, platform_of, readable, seconds_of
from nekro_core.compat.maibot.plugin.loaded import current_call
from nekro_core.memory.knowledge.library import cited

_MOST_MESSAGES = 500
_MOST_STREAMS = 2000
_MOST_SEARCHED = 2000
_EVER = 4_102_444_800.0
"""The year 2100, in seconds since 1970: later than any message."""


async def all_streams(call: CapabilityCall) -> Answer:
    """``chat.get_all_streams``, ``get_group_streams`` and ``get_private_streams``: the chats of all
    kinds or of one kind."""
    platform = call.text("platform")
    wanted = call.name.rpartition("_")[0].rpartition("_")[2]
    streams = []
    for key in (await call.bot.store.chats.all())[:_MOST_STREAMS]:
        private = key.kind is ChatKind.PRIVATE
        if wanted == ("group" if private else "private"):
            continue
        stream = await call.bot.stream(key)
        if platform in ("", "all", stream["platform"]):
            streams.append(stream)
    return success(streams=streams)


async def stream_by_id(call: CapabilityCall) -> Answer:
    """``chat.get_stream_by_group_id`` and ``get_stream_by_user_id``: the stream of a chat; None if
    the bot has never been in this chat."""
    group = call.name.endswith("group_id")
    native = call.text("group_id" if group else "user_id", needed=True)
    for key in await call.bot.store.chats.all():
        fits = key.native_id == native and (key.kind is not ChatKind.PRIVATE) == group
        if fits and _is_on_platform(call, key):
            return success(stream=await call.bot.stream(key))
    return success(stream=None)


async def open_session(call: CapabilityCall) -> Answer:
    """``chat.open_session``: the stream of a chat, even if the chat has no messages yet."""
    group = call.text("chat_type").lower() == "group" or bool(call.text("group_id"))
    native = call.text("group_id" if group else "user_id", needed=True)
    instance = call.bot.instance_on(call.text("platform") or "qq", call.text("account_id"))
    if not instance:
        raise CapabilityError(
            f"chat.open_session: no account of {call.text('platform')!r} is known"
        )
    kind = ChatKind.GROUP if group else ChatKind.PRIVATE
    try:
        key = ChatKey(instance, kind, native)
    except ChatKeyError as error:
        raise CapabilityError(f"chat.open_session: {error}") from None
    stream = await call.bot.stream(key)
    return success(stream=stream, **stream)


async def avatar(call: CapabilityCall) -> Answer:
    """``chat.get_avatar``: the address of an avatar on QQ; ``unsupported`` on other platforms."""
    target = call.text("target_id", needed=True)
    if adapter_of(call.text("platform")) != "onebot_v11" or not target.isdigit():
        return success(avatar={"status": "unsupported", "url": None, "expires_at": 0.0})
    group = call.text("target_type") == "group"
    url = (
        f"https://p.qlogo.cn/gh/{target}/{target}/640"
        if group
        else f"https://q1.qlogo.cn/g?b=qq&nk={target}&s=640"
    )
    return success(avatar={"status": "available", "url": url, "expires_at": _EVER})


async def recent(call: CapabilityCall) -> Answer:
    """``message.get_recent``: the newest messages of a chat, oldest first."""
    limit = call.number("limit", 10, _MOST_MESSAGES)
    key = call.chat("chat_id", "stream_id")
    records = await call.bot.store.messages.newest(key, limit)
    return success(messages=_message_dicts(call, records))


async def by_id(call: CapabilityCall) -> Answer:
    """``message.get_by_id``: the message with an id, or None."""
    number = call.text("message_id", needed=True)
    messages = call.bot.store.messages
    record: Record | None = None
    if number.startswith("seq:") and number[4:].isdigit():
        record = await messages.get(int(number[4:]))
    else:
        given = call.text("chat_id", "stream_id")
        keys = [call.chat("chat_id", "stream_id")] if given else await _chats_to_search(call)
        for key in keys:
            if record := await messages.by_message_id(key, number):
                break
    if record is None:
        return success(message=None)
    binary = call.args.get("include_binary_data") is True
    return success(message=call.bot.message(record, binary=binary))


async def by_time(call: CapabilityCall) -> Answer:
    """``message.get_by_time`` and ``get_by_time_in_chat``: messages between two times, of all chats
    or of one chat."""
    records = await _between(call, call.number("limit", _MOST_MESSAGES, _MOST_MESSAGES))
    return success(messages=_message_dicts(call, records))


async def count_new(call: CapabilityCall) -> Answer:
    """``message.count_new``: the number of messages since a time, at most 2,000."""
    return success(count=len(await _between(call, _MOST_SEARCHED)))


async def build_readable(call: CapabilityCall) -> Answer:
    """``message.build_readable``: a transcript of the given messages, or of a chat's messages since
    a time."""
    given = call.args.get("messages")
    if not isinstance(given, list) and call.text("chat_id", "stream_id"):
        given = _message_dicts(call, await _between(call, _MOST_MESSAGES))
    times = call.args.get("timestamp_mode", call.args.get("show_time")) not in (None, False, "")
    ids = call.args.get("show_message_id", call.args.get("show_message_id_prefix")) is True
    return success(text=readable(given or [], times=times, ids=ids))


async def person_id(call: CapabilityCall) -> Answer:
    """``person.get_id``: the instance and the platform's user id, joined by a colon; empty if the
    bot has no account on the platform."""
    user = call.text("user_id", needed=True)
    instance = call.bot.instance_on(call.text("platform") or "qq")
    return success(person_id=f"{instance}:{user}" if instance else "")


async def person_by_name(call: CapabilityCall) -> Answer:
    """``person.get_id_by_name``: the id of the person with this name; empty if there is none. Only
    the last known name of each person is compared.

    If several people have the name, the result is the person that the bot saw first.
    """
    name = call.text("person_name", "name", needed=True)
    people = await call.bot.store.users.named(name, 1)
    return success(person_id=f"{people[0][0]}:{people[0][1]}" if people else "")


async def person_value(call: CapabilityCall) -> Answer:
    """``person.get_value``: a field of a person, or the given default if the field is not
    stored."""
    instance, _, user = call.text("person_id", needed=True).partition(":")
    field = call.text("field_name", "field", needed=True)
    name = await call.bot.store.users.name(instance, user)
    known: dict[str, Any] = {
        "person_id": f"{instance}:{user}",
        "user_id": user,
        "platform": platform_of(call.bot.services.adapter_of(instance)),
        "person_name": name or None,
        "nickname": name or None,
        "user_nickname": name or None,
        "is_known": bool(name),
    }
    return success(value=known.get(field, call.args.get("default")))


async def knowledge(call: CapabilityCall) -> Answer:
    """``knowledge.search``: pieces of documents, notes, and messages that contain words of the
    query, in this order.

    The documents and notes that may be read in the given chat are searched, and its newest 2,000
    messages. Of the messages, the one with the largest number of these words comes first. If no
    chat is given, the chat for which the plugin's handler runs is searched.
    """
    query = call.text("query", needed=True)
    handler = current_call()
    given = call.text("chat_id", "stream_id")
    if given:
        key = call.chat("chat_id", "stream_id")
    elif handler is not None:
        key = handler.ctx.chat
    else:
        raise CapabilityError("knowledge.search: a chat_id is needed outside of a handler")
    records = await call.bot.store.messages.newest(key, _MOST_SEARCHED)
    words = _words(query)
    scored = []
    for record in records:
        text = plain_text(record.segments).casefold()
        score = sum(word in text for word in words)
        if score and text.casefold() != query.casefold():
            scored.append((score, record.seq, record))
    limit = call.number("limit", 5, 50)
    best = sorted(scored, reverse=True)[:limit]
    lines = readable(_message_dicts(call, [record for _, _, record in best]), times=True)
    remembered = await _remembered(call, key, query, limit)
    return success(content="\n".join(filter(None, (*remembered, lines))))


async def _remembered(call: CapabilityCall, key: ChatKey, query: str, limit: int) -> list[str]:
    """Return pieces of documents and notes that have words of the query, one on each line."""
    memory = call.bot.services.memory
    if memory is None:
        return []
    try:
        pieces = await memory.knowledge.search(key, query, limit)
    except (OSError, sqlite3.Error) as error:
        raise CapabilityError(f"knowledge.search: the documents cannot be read: {error}") from None
    notes = await memory.notes.find(key, query, limit=limit) if memory.settings.notes else []
    return [
        *(f"[{cited(each)}] {' '.join(each.text.split())}" for each in pieces),
        *(each.text for each in notes if each.holds),
    ]


def _words(text: str) -> set[str]:
    """The words of a text in Latin letters, and each pair of adjacent Chinese, Japanese or Korean
    characters."""
    folded = text.casefold()
    words = set(re.findall(r"[a-z0-9_]{2,}", folded))
    for run in re.findall(r"[぀-ヿ㐀-鿿가-힯]+", folded):
        words |= {run[i : i + 2] for i in range(len(run) - 1)} or {run}
    return words


def _is_on_platform(call: CapabilityCall, key: ChatKey) -> bool:
    platform = call.text("platform")
    adapter = call.bot.services.adapter_of(key.instance)
    return platform in ("", "all", platform_of(adapter), adapter)


async def _chats_to_search(call: CapabilityCall) -> list[ChatKey]:
    handler = current_call()
    known = await call.bot.store.chats.all()
    return [*([handler.ctx.chat] if handler else []), *known[:_MOST_STREAMS]]


async def _between(call: CapabilityCall, limit: int) -> list[Record]:
    since = seconds_of(call.args.get("start_time", call.args.get("since"))) or 0.0
    until = seconds_of(call.args.get("end_time")) or _EVER
    everywhere = call.name == "message.get_by_time"
    key = None if everywhere else call.chat("chat_id", "stream_id")
    return await call.bot.store.messages.between(key, since, until, limit)


def _message_dicts(call: CapabilityCall, records: list[Record]) -> list[dict[str, Any]]:
    return [call.bot.message(record) for record in records if not record.recalled]


TABLE: Mapping[str, CapabilityEntry] = {
    "chat.get_all_streams": CapabilityEntry(all_streams),
    "chat.get_group_streams": CapabilityEntry(all_streams),
    "chat.get_private_streams": CapabilityEntry(all_streams),
    "chat.get_stream_by_group_id": CapabilityEntry(stream_by_id),
    "chat.get_stream_by_user_id": CapabilityEntry(stream_by_id),
    "chat.open_session": CapabilityEntry(open_session),
    "chat.get_avatar": CapabilityEntry(
        avatar, "partly: an address for QQ, `unsupported` elsewhere"
    ),
    "message.get_recent": CapabilityEntry(recent),
    "message.get_by_id": CapabilityEntry(by_id),
    "message.get_by_time": CapabilityEntry(by_time),
    "message.get_by_time_in_chat": CapabilityEntry(by_time),
    "message.count_new": CapabilityEntry(count_new),
    "message.build_readable": CapabilityEntry(build_readable),
    "person.get_id": CapabilityEntry(person_id),
    "person.get_id_by_name": CapabilityEntry(person_by_name),
    "person.get_value": CapabilityEntry(
        person_value, "partly: names, id and platform; nothing is learned about people here"
    ),
    "knowledge.search": CapabilityEntry(
        knowledge, "works: searches the documents, the notes and what was said"
    ),
}
