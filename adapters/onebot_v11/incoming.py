"""Converts OneBot v11 segments and events into segments and notices. It accepts the differences
between implementations."""

import json
import re
from collections.abc import Mapping
from typing import Any, Protocol

import anyio
from nonebot.adapters.onebot.v11 import Message as CodedMessage

from nekro_core.api.adapter import ContactRequest, ContactRequestKind, request_id_of
from nekro_core.api.chat import (
    EVERYONE,
    ChatKind,
    File,
    Forward,
    Image,
    Media,
    Mention,
    Notice,
    Reply,
    Role,
    Segment,
    Segments,
    Sender,
    Text,
    Unknown,
    Video,
    Voice,
)

from .faces import card_words, face_name

Json = Mapping[str, Any]

SUMMARY_LENGTH = 200
"""Maximum number of characters in the summary of a segment of an unknown type."""

LONGEST_FLAG = 500
"""Maximum number of characters of the ``flag`` with which an implementation identifies a
request."""

MEDIA = frozenset({"image", "record", "video", "file"})
_LOOKED_UP = MEDIA | {"reply", "forward", "node"}

LATEST = 1e11
"""The latest plausible time, in seconds since 1970 (the year 5138). A larger number counts as
milliseconds."""

NOT_FOR_THE_RECORD = frozenset({"input_status", "client_status", "bot_offline", "profile_like"})
"""Notices that are ignored, because they report the state of a client and not an event in the chat.
NapCat sends ``input_status`` for each key that a friend presses."""


class OneBotLookups(Protocol):
    """Fetches data that a segment only refers to: media, a quoted message, a forwarded bundle."""

    async def media(self, kind: str, data: Json) -> Media:
        """Fetch and store an ``image``, ``record``, ``video`` or ``file``; return the stored
        copy."""

    async def quoted(self, message_id: str) -> Reply:
        """Return the id, author and text of the message that was replied to, as far as known."""

    async def bundle(self, data: Json) -> Forward | Unknown:
        """Return the messages of a forwarded bundle; `Unknown` if they cannot be fetched."""


async def read_segments(message: Any, lookups: OneBotLookups) -> Segments:
    """Convert a message of the protocol, which is a list of segments or a string with CQ codes. Its
    media are fetched concurrently."""
    raw = raw_segments(message)
    media = [index for index, (kind, _) in enumerate(raw) if kind in MEDIA]
    if len(media) < 2:
        return tuple([await _read(kind, data, lookups) for kind, data in raw])
    segments: dict[int, Segment] = {}

    async def read(index: int) -> None:
        kind, data = raw[index]
        segments[index] = await _read(kind, data, lookups)

    async with anyio.create_task_group() as tasks:
        for index in media:
            tasks.start_soon(read, index)
        for index in sorted({*range(len(raw))} - {*media}):
            await read(index)
    return tuple(segments[index] for index in range(len(raw)))


def needs_lookups(message: Any) -> bool:
    """Return True if the message has parts that may need a call or a download."""
    if not isinstance(message, list):
        return not isinstance(message, str) or "[CQ:" in message
    return any(
        isinstance(segment, Mapping) and segment.get("type") in _LOOKED_UP for segment in message
    )


def raw_segments(message: Any) -> list[tuple[str, Json]]:
    """Return type and data of each segment. A segment without a type gets the type
    ``malformed``."""
    if isinstance(message, str):
        return [(words(segment.type), segment.data) for segment in CodedMessage(message)]
    if isinstance(message, Mapping):
        message = [message]
    if not isinstance(message, list):
        return [] if message is None else [("malformed", {"summary": repr(message)})]
    return [
        (
            words(segment["type"]),
            segment["data"] if isinstance(segment.get("data"), Mapping) else {},
        )
        if isinstance(segment, Mapping) and segment.get("type")
        else ("malformed", {"summary": repr(segment)})
        for segment in message
    ]


async def _read(kind: str, data: Json, lookups: OneBotLookups) -> Segment:
    match kind:
        case "text":
            return Text(words(data.get("text")))
        case "at":
            user = words(data.get("qq"))
            return Mention(EVERYONE if user == "all" else user, words(data.get("name")))
        case "reply":
            return await lookups.quoted(words(data.get("id")))
        case "image":
            return Image(await lookups.media(kind, data))
        case "record":
            return Voice(await lookups.media(kind, data))
        case "video":
            return Video(await lookups.media(kind, data))
        case "file":
            return File(await lookups.media(kind, data))
        case "forward" | "node":
            return await lookups.bundle(data)
        case "poke":
            return Notice("poke", target_id=words(data.get("id") or data.get("qq")))
    told = face_name(data) if kind == "face" else card_words(data) if kind == "json" else ""
    return Unknown(kind, words(told)[:SUMMARY_LENGTH] or summary_of(data))


def summary_of(data: Json) -> str:
    """Return a short text about a segment of an unknown type."""
    for key in ("summary", "text", "title", "prompt", "result"):
        if data.get(key):
            return words(data[key])[:SUMMARY_LENGTH]
    return words(json.dumps(data, ensure_ascii=False, default=repr))[:SUMMARY_LENGTH]


def words(value: Any) -> str:
    """Return the value as a text without NUL and lone surrogates. A peer may send these characters,
    but PostgreSQL and UTF-8 do not accept them."""
    if value is None:
        return ""
    text = str(value).replace("\0", "\N{REPLACEMENT CHARACTER}")
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def chat_of(frame: Json) -> tuple[ChatKind, str] | None:
    """Return the chat of an event; None if it belongs to no group or private chat."""
    kind = frame.get("message_type")
    group, user = identity(frame.get("group_id")), person_of(frame)
    if kind == "group" or (kind is None and group):
        return (ChatKind.GROUP, group) if group else None
    if kind == "private" or (kind is None and user):
        return (ChatKind.PRIVATE, user) if user else None
    return None


def person_of(frame: Json) -> str:
    """Return the platform id of the person who acted; empty if the event does not say."""
    sender = frame.get("sender")
    inner = sender.get("user_id") if isinstance(sender, Mapping) else None
    return identity(frame.get("user_id")) or identity(inner)


def identity(value: Any) -> str:
    """Return a platform id as text. Ids are usually numbers, but texts are accepted too. Empty if
    the value is not an id; some OneBot implementations write 0 for "no group"."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        return ""
    return "" if value in (0, "0") else words(value)


def sender_of(frame: Json) -> Sender:
    """Return the author of an event, with the name that the chat shows."""
    written = frame.get("sender")
    sender: Json = written if isinstance(written, Mapping) else {}
    anonymous = frame.get("anonymous")
    name = anonymous.get("name") if isinstance(anonymous, Mapping) else None
    name = name or sender.get("card") or sender.get("nickname")
    role = {"owner": Role.OWNER, "admin": Role.ADMIN}.get(str(sender.get("role")), Role.MEMBER)
    return Sender(person_of(frame), words(name), role)


def time_of(frame: Json, now: float) -> float:
    """Return the time of an event in seconds since 1970. If the event has no plausible time, return
    ``now``."""
    return stamp_of(frame.get("time"), now)


def stamp_of(value: Any, otherwise: float) -> float:
    """Convert a received time to seconds since 1970. The value may be in milliseconds or a text. If
    it is not a plausible time, return ``otherwise``. NaN, which JSON can contain, is not plausible:
    it would be stored as NULL and make the chat unreadable."""
    try:
        stamp = float(value or otherwise)
    except (TypeError, ValueError, OverflowError):
        return otherwise
    if stamp > LATEST:
        stamp /= 1000
    return stamp if 0 <= stamp <= LATEST else otherwise


def wire_id(identity: str) -> int | str:
    """Return an id in the protocol's format: a number if it consists of ASCII digits, else a text.

    Digits of other scripts stay text. `int` would convert them too, and the message would be sent
    to another chat.
    """
    return int(identity) if re.fullmatch("-?[1-9][0-9]{0,17}", identity) else identity


def read_notice(frame: Json) -> Notice | None:
    """Return the notice for an event; None for the kinds in `NOT_FOR_THE_RECORD`."""
    kind, detail = words(frame.get("notice_type")), words(frame.get("sub_type"))
    if kind == "notify":
        kind, detail = detail or kind, ""
    if kind in NOT_FOR_THE_RECORD:
        return None
    kind = {"group_increase": "join", "group_decrease": "leave"}.get(kind, kind)
    actor, target = identity(frame.get("operator_id")), identity(frame.get("target_id"))
    user = person_of(frame)
    if kind == "poke" or target:
        return Notice(kind, user, target, detail)
    return Notice(kind, actor or user, user, detail)


def read_request(frame: Json, adapter: str, account: str, now: float) -> ContactRequest | None:
    """Return the friend or group request of an event. Return None if the event is of another kind,
    or if it has no ``flag``, which the answer needs."""
    kinds = {
        ("friend", ""): ContactRequestKind.FRIEND,
        ("group", "add"): ContactRequestKind.GROUP_JOIN,
        ("group", "invite"): ContactRequestKind.GROUP_INVITE,
    }
    of_group = frame.get("request_type") == "group"
    detail = words(frame.get("sub_type")) if of_group else ""
    kind = kinds.get((words(frame.get("request_type")), detail))
    flag = words(frame.get("flag"))
    if kind is None or not 0 < len(flag) <= LONGEST_FLAG:
        return None
    return ContactRequest(
        request_id=request_id_of(adapter, account, f"{kind}:{flag}"),
        adapter=adapter,
        account=account,
        kind=kind,
        user_id=person_of(frame),
        group_id=identity(frame.get("group_id")) if of_group else "",
        text=words(frame.get("comment")),
        time=time_of(frame, now),
        handle=flag,
    )
