"""Converts records and runs to JSON. The JSON contains no file paths of this machine."""

from typing import Any, assert_never
from urllib.parse import quote

from nekro_core.api.adapter import html_from_markdown
from nekro_core.api.chat import (
    ChatKey,
    File,
    Forward,
    Image,
    Media,
    Mention,
    Notice,
    Record,
    Reply,
    RunRecord,
    Segment,
    Segments,
    Text,
    Unknown,
    Video,
    Voice,
)

from .rooms import room_name

Json = dict[str, Any]


def record_view(record: Record) -> Json:
    """Convert a record of a room's history to JSON."""
    return {
        "seq": record.seq,
        "room": room_name(record.chat_key),
        "message_id": record.message_id,
        "author": record.author.value,
        "speaker": record.sender.user_id,
        "name": record.sender.name or record.sender.user_id,
        "time": record.time,
        "to_bot": record.to_bot,
        "recalled": record.recalled,
        "run_id": record.run_id,
        "state": record.state.value,
        # The content of a recalled message is not shown.
        "segments": [] if record.recalled else segments_view(record),
    }


def segments_view(record: Record) -> list[Json]:
    """Convert the segments of a message to JSON. A medium becomes an address of the HTTP API."""
    base = f"/api/v1/rooms/{quote(room_name(record.chat_key), safe='')}/media/{record.seq}"
    return _views(record.segments, base)


def run_view(run: RunRecord) -> Json:
    """Convert a run to JSON."""
    return {
        "run_id": run.run_id,
        "room": room_name(run.chat_key),
        "code": run.code,
        "output": run.output,
        "stop": run.stop,
        "error": run.error,
        "started": run.started,
        "seconds": run.seconds,
    }


def room_view(key: ChatKey, *, working: bool) -> Json:
    """Convert a room to an entry of the list of rooms."""
    return {
        "room": room_name(key),
        "chat_key": str(key),
        "kind": key.kind.value,
        "name": key.native_id,
        "working": working,
    }


def _views(segments: Segments, base: str) -> list[Json]:
    return [_view(segment, f"{base}/{index}") for index, segment in enumerate(segments)]


def _view(segment: Segment, address: str) -> Json:
    match segment:
        case Text():
            html = html_from_markdown(segment.text) if segment.markdown else ""
            return {"type": "text", "text": segment.text, **({"html": html} if html else {})}
        case Mention():
            return {"type": "mention", "id": segment.user_id, "name": segment.name}
        case Reply():
            return {
                "type": "reply",
                "message_id": segment.message_id,
                "speaker": segment.sender_id,
                "text": segment.text,
            }
        case Image():
            return {"type": "image", **_media(segment.media, address)}
        case Voice():
            return {"type": "voice", "text": segment.text, **_media(segment.media, address)}
        case Video():
            return {"type": "video", **_media(segment.media, address)}
        case File():
            return {"type": "file", **_media(segment.media, address)}
        case Forward():
            return {
                "type": "forward",
                "messages": [
                    {
                        "speaker": message.sender_id,
                        "name": message.sender_name or message.sender_id,
                        # Media inside a bundle have no address.
                        "segments": _views(message.segments, ""),
                    }
                    for message in segment.messages
                ],
            }
        case Notice():
            return {
                "type": "notice",
                "kind": segment.kind,
                "actor": segment.actor_id,
                "target": segment.target_id,
            }
        case Unknown():
            return {"type": "unknown", "kind": segment.kind, "summary": segment.summary}
        case _:
            assert_never(segment)


def _media(media: Media, address: str) -> Json:
    return {
        "url": address if media.path and address.startswith("/api") else "",
        "name": media.name,
        "mime": media.mime,
        "size": media.size,
        "problem": media.problem,
    }
