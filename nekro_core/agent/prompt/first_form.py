"""Writes a record's lines in form 1, which prompts had until November 2026.

Do not change what this module writes. When an operator looks at a prompt of that time, this module
makes the prompt's lines again, and they must be the same as then (see
`nekro_core.agent.prompt.lines`)::

    [message 81] from "Lin" (user 10001) at 11-22 14:02:33, to you, unanswered
    > what a person wrote, each of its lines behind this mark
    + image /app/uploads/3fa9.png (image/png, 120 kB)
"""

from collections.abc import Collection, Iterator
from datetime import datetime, tzinfo
from pathlib import PurePath

from nekro_core.agent.prompt.transcript import identifier, json_quoted, visible_excerpt
from nekro_core.chat import (
    Author,
    DeliveryState,
    File,
    Forward,
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
    plain_text,
)

_UPLOADS = "/app/uploads"
_ATTACHED = 30  # maximum lines for the attachments of one message
_FORWARDED = 20  # maximum messages of a bundle that are shown
_STATES = {
    DeliveryState.PENDING: "not sent yet",
    DeliveryState.SENDING: "being sent",
    DeliveryState.REJECTED: "refused by the platform",
    DeliveryState.UNKNOWN: "unknown whether it arrived",
    DeliveryState.DROPPED: "never sent",
}
_MARKS = {1: "unanswered", 2: "not to be answered now"}


def first_form(
    record: Record, zone: tzinfo | None, limit: int, mark: int, own: Collection[str]
) -> str:
    """Write a record in the first form. ``mark`` is 1 for a record to answer, 2 for one that
    another turn will answer."""
    return "\n".join(_lines(record, zone, limit, _MARKS.get(mark, ""), own))


def _lines(
    record: Record, zone: tzinfo | None, limit: int, mark: str, own: Collection[str]
) -> Iterator[str]:
    yield _header(record, zone, mark)
    words = visible_excerpt("".join(_inline(part, own) for part in record.segments), limit)
    if words.strip():
        yield from (f"> {line}" for line in words.split("\n"))
    attached = [line for segment in record.segments for line in _attached(segment)]
    yield from (f"+ {line}" for line in attached[:_ATTACHED])
    if len(attached) > _ATTACHED:
        yield f"+ and {len(attached) - _ATTACHED} more"


def _header(record: Record, zone: tzinfo | None, mark: str) -> str:
    time = datetime.fromtimestamp(record.time, zone).strftime("%m-%d %H:%M:%S")
    name = f"message {identifier(record.message_id)}" if record.message_id else "message"
    match record.author:
        case Author.SYSTEM:
            return ", ".join(filter(None, [f"[system] at {time}", mark]))
        case Author.BOT:
            head = f"[{name}] from you at {time}"
            return f"{head}, {_STATES[record.state]}" if record.state in _STATES else head
    to_you = "to you" if record.to_bot else ""
    head = f"[{name}] from {_person(record.sender)} at {time}"
    return ", ".join(filter(None, [head, to_you, mark]))


def _person(sender: Sender) -> str:
    return f"{json_quoted(sender.name, 60)} (user {identifier(sender.user_id)})"


def _inline(segment: Segment, own: Collection[str]) -> str:
    match segment:
        case Text():
            return segment.text
        case Mention() if segment.user_id in own:
            return "@you "
        case Mention():
            return f"@{segment.name or segment.user_id} "
        case Voice() if segment.text:
            return segment.text
    return ""


def _attached(segment: Segment) -> Iterator[str]:
    match segment:
        case Voice(media, text) if text:
            yield f"{_medium('voice', media)}, in which the words above were heard"
        case Image(media) | Voice(media) | Video(media) | File(media):
            yield _medium(type(segment).__name__.lower(), media)
        case Mention() if segment.name:
            yield f"@{json_quoted(segment.name, 60)} is user {identifier(segment.user_id)}"
        case Reply():
            by = f" by user {identifier(segment.sender_id)}" if segment.sender_id else ""
            text = f": {json_quoted(segment.text)}" if segment.text else ""
            yield f"answers message {identifier(segment.message_id)}{by}{text}"
        case Forward(messages):
            yield f"{len(messages)} forwarded messages"
            for message in messages[:_FORWARDED]:
                said = json_quoted(plain_text(message.segments))
                yield f"  {json_quoted(message.sender_name or message.sender_id, 60)}: {said}"
        case Notice():
            people = [segment.actor_id and f"by user {identifier(segment.actor_id)}"]
            people.append(segment.target_id and f"to user {identifier(segment.target_id)}")
            yield " ".join(filter(None, [f"notice {identifier(segment.kind)}", *people]))
        case Unknown():
            kind, summary = json_quoted(segment.kind, 40), json_quoted(segment.summary)
            yield f"something of kind {kind}: {summary}"


def _medium(kind: str, media: Media) -> str:
    name = f" {json_quoted(media.name, 80)}" if media.name else ""
    if not media.path:
        return f"{kind}{name}, not available: {json_quoted(media.problem or 'it was not kept')}"
    size = f"{media.size / 1000:.0f} kB" if media.size >= 1000 else f"{media.size} bytes"
    path = f"{_UPLOADS}/{PurePath(media.path).name}"
    return f"{kind} {path}{name} ({identifier(media.mime)}, {size})"
