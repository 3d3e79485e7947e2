"""Converts chats, people and messages to the dicts that MaiBot plugins get.

MaiBot calls a chat a stream. The id of a stream is the chat key. Plugins must not interpret it:
they can store it, compare it and pass it to calls. The platform of OneBot is called ``qq``.
"""

import base64
import time
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, assert_never

from nekro_core.chat import (
    Author,
    ChatKey,
    ChatKind,
    ChatMessage,
    File,
    Forward,
    ForwardedMessage,
    Image,
    Media,
    Mention,
    Notice,
    Record,
    Reply,
    Segment,
    Sender,
    Text,
    Unknown,
    Video,
    Voice,
)
from nekro_core.compat.maibot.formats.additional_config import additional_config
from nekro_core.compat.maibot.formats.message_text import leading_call, message_text
from nekro_core.plugins.authoring.context import AgentCtx

_PLATFORMS = {"onebot_v11": "qq"}
_ADAPTERS = {platform: adapter for adapter, platform in _PLATFORMS.items()}
_GATEWAY = "_gateway"


def platform_of(adapter: str) -> str:
    """MaiBot's name for an adapter's platform."""
    adapter = adapter.removesuffix(_GATEWAY)
    return _PLATFORMS.get(adapter, adapter)


def adapter_of(platform: str) -> str:
    """The adapter of a platform. ``platform`` is MaiBot's name for it."""
    return _ADAPTERS.get(platform.strip().lower(), platform.strip())


def gateway_adapter_of(platform: str) -> str:
    """The name of the adapter for a plugin's gateway if the bot has its own adapter for the
    platform. The names differ, so the two adapters never share an account or a chat."""
    return f"{platform_of(adapter_of(platform))}{_GATEWAY}"


def adapters_of(platform: str) -> tuple[str, str]:
    """The names of the adapters that may serve a platform: the bot's own adapter, and the adapter
    of a plugin's gateway."""
    return adapter_of(platform), gateway_adapter_of(platform)


def stream_of(
    key: ChatKey,
    *,
    adapter: str,
    account: str = "",
    user_name: str = "",
    group_name: str = "",
) -> dict[str, Any]:
    """Convert a chat to the dict of a stream."""
    group = key.kind is not ChatKind.PRIVATE
    return {
        "session_id": str(key),
        "stream_id": str(key),
        "chat_id": str(key),
        "platform": platform_of(adapter),
        "user_id": "" if group else key.native_id,
        "user_nickname": user_name,
        "user_cardname": user_name,
        "group_id": key.native_id if group else "",
        "group_name": group_name,
        "account_id": account,
        "scope": "",
        "is_group_session": group,
        "chat_type": "group" if group else "private",
    }


def message_of(
    record: Record | ChatMessage,
    *,
    adapter: str,
    account: str = "",
    group_name: str = "",
    inherited: Mapping[str, Any] | None = None,
    binary: bool = False,
) -> dict[str, Any]:
    """Convert a message to a dict.

    Args:
        record: The message.
        adapter: The adapter of its chat.
        account: The platform's id of the bot's account.
        group_name: The name of the group. If it is empty, the group's id is used.
        inherited: See `additional_config`.
        binary: Whether to add the bytes of the media as base64.
    """
    key, sender = record.chat_key, record.sender
    own = isinstance(record, Record) and record.author is Author.BOT
    sender = Sender(account, sender.name) if own and not sender.user_id else sender
    group = key.kind is not ChatKind.PRIVATE
    words = message_text(record.segments)
    called = leading_call(record.segments, account)
    answered = next((each for each in record.segments if isinstance(each, Reply)), None)
    number = record.message_id or (f"seq:{record.seq}" if isinstance(record, Record) else "")
    return {
        "message_id": number,
        "timestamp": str(record.time),
        "time": record.time,
        "received_at": record.time,
        "platform": platform_of(adapter),
        "account_id": account,
        "scope": "",
        "message_info": {
            "user_info": {
                "platform": platform_of(adapter),
                "user_id": sender.user_id,
                "user_nickname": sender.name,
                # A chat shows only one name of a person: the name in the group, if there is one.
                "user_cardname": sender.name,
            },
            "group_info": {
                "platform": platform_of(adapter),
                "group_id": key.native_id,
                "group_name": group_name or key.native_id,
            }
            if group
            else None,
            "additional_config": additional_config(
                key,
                platform=platform_of(adapter),
                account=account,
                segments=record.segments,
                role=None if own else sender.role,
                inherited=inherited,
            ),
        },
        "raw_message": [segment_of(each, binary=binary) for each in record.segments],
        "is_mentioned": record.to_bot,
        "is_at": any(isinstance(each, Mention) for each in record.segments) and record.to_bot,
        "is_emoji": False,
        "is_picture": any(isinstance(each, Image) for each in record.segments),
        "is_command": words.removeprefix(called).lstrip().startswith(("/", "／")),
        "is_notify": any(isinstance(each, Notice) for each in record.segments),
        "session_id": str(key),
        "stream_id": str(key),
        "chat_id": str(key),
        "reply_to": answered.message_id if answered else None,
        "processed_plain_text": words,
        "display_message": words,
    }


def host_arguments(ctx: AgentCtx) -> dict[str, Any]:
    """The arguments from the host: the person who asks, and the chat. None of them comes from the
    model."""
    group = ctx.chat.kind is not ChatKind.PRIVATE
    return {
        "stream_id": ctx.chat_key,
        "chat_id": ctx.chat_key,
        "user_id": ctx.from_user_id,
        "group_id": ctx.chat.native_id if group else "",
        "platform": platform_of(ctx.adapter_key),
    }


def event_message_of(message: Mapping[str, Any]) -> dict[str, Any]:
    """Add the fields of `maibot_sdk.MaiMessages` to a message's dict, for event handlers."""
    info = message["message_info"]
    group = info["group_info"] is not None
    return {
        **message,
        "plain_text": message["processed_plain_text"],
        "message_segments": message["raw_message"],
        "is_group_message": group,
        "is_private_message": not group,
        "message_base_info": {
            "platform": message["platform"],
            "user_id": info["user_info"]["user_id"],
            "user_nickname": info["user_info"]["user_nickname"],
            "user_cardname": info["user_info"].get("user_cardname", ""),
            "group_id": info["group_info"]["group_id"] if group else "",
            "group_name": info["group_info"].get("group_name", "") if group else "",
            "message_id": message["message_id"],
        },
        "llm_prompt": None,
        "llm_response_content": None,
        "additional_data": {},
    }


def segment_of(segment: Segment, *, binary: bool = False) -> dict[str, Any]:
    """Convert a segment to a dict. The module `segments` converts dicts to segments."""
    match segment:
        case Text(text):
            return {"type": "text", "data": text}
        case Mention(user_id, name):
            data: Any = {
                "target_user_id": user_id,
                "target_user_nickname": name or None,
                "target_user_cardname": name or None,
            }
            return {"type": "at", "data": data}
        case Reply(message_id, sender_id, text):
            data = {
                "target_message_id": message_id,
                "target_message_sender_id": sender_id,
                "target_message_content": text,
            }
            return {"type": "reply", "data": data}
        case Image(media):
            return _medium("image", media, "[image]", binary=binary)
        case Voice(media, text):
            return _medium("voice", media, text or "[voice]", binary=binary)
        case Video(media):
            return _medium("video", media, "[video]", binary=binary)
        case File(media):
            return _medium("file", media, media.name, binary=binary)
        case Forward(messages):
            return {"type": "forward", "data": [_node(each) for each in messages]}
        case Notice():
            data = {
                "type": segment.kind,
                "user_id": segment.actor_id,
                "target_id": segment.target_id,
                "detail": segment.detail,
            }
            return {"type": "dict", "data": {"type": "notice", "data": data}}
        case Unknown(kind, summary):
            return {"type": "dict", "data": {"type": kind, "data": summary}}
        case _:
            assert_never(segment)


def _medium(kind: str, media: Media, words: str, *, binary: bool) -> dict[str, Any]:
    made: dict[str, Any] = {
        "type": kind,
        "data": words,
        "hash": media.sha256,
        "name": media.name,
        "url": media.url,
        "mime_type": media.mime,
    }
    if binary:
        made["binary_data_base64"] = _bytes_of(media)
    return made


def _bytes_of(media: Media) -> str:
    try:
        return base64.b64encode(Path(media.path).read_bytes()).decode() if media.path else ""
    except OSError:
        return ""  # the file was deleted because of the quota for media


def _node(message: ForwardedMessage) -> dict[str, Any]:
    return {
        "user_id": message.sender_id,
        "user_nickname": message.sender_name,
        "content": [segment_of(each) for each in message.segments],
        "time": message.time,
    }


def readable(messages: Iterable[Any], *, times: bool = False, ids: bool = False) -> str:
    """Write a transcript with one line for each message. ``times`` and ``ids`` add the time and the
    id."""
    lines = []
    for each in messages:
        if not isinstance(each, Mapping):
            continue
        info = each.get("message_info")
        user = info.get("user_info") if isinstance(info, Mapping) else None
        user = user if isinstance(user, Mapping) else {}
        name = user.get("user_cardname") or user.get("user_nickname") or user.get("user_id") or "?"
        words = each.get("processed_plain_text") or each.get("plain_text") or ""
        head = f"[{each.get('message_id')}] " if ids else ""
        if times and (at := seconds_of(each.get("timestamp"))) is not None:
            head = f"{time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(at))} {head}"
        lines.append(f"{head}{name}: {words}")
    return "\n".join(lines)


def seconds_of(value: Any) -> float | None:
    """Convert a number, a number as text, or an ISO date to seconds since 1970. None for any other
    value."""
    try:
        return float(value)
    except (TypeError, ValueError):
        pass
    try:
        return datetime.fromisoformat(str(value)).timestamp()
    except ValueError:
        return None
