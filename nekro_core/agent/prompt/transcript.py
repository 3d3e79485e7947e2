"""Writes a chat's history as text. Chat members cannot forge a line of the program in it.

There are three kinds of lines. Their beginnings distinguish them::

    [message 81] from "Lin" (user 10001) at 11-22 14:02:33, to you, unanswered
    > what a person wrote, each of its lines behind this mark
    + image /app/uploads/3fa9.png (image/png, 120 kB)

Text that people choose (names, messages, file names) comes after a mark or is in JSON quotes. It is
never at the beginning of a line. Its invisible characters are written as escapes.
"""

import json
import re
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime, tzinfo
from functools import lru_cache
from pathlib import PurePath

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

UPLOADS = "/app/uploads"
"""The folder in a box with the files that the chat received."""

NOT_NOW = "not to be answered now"
"""Added to the header of a message that another turn will answer."""

_QUOTED = 200  # characters of a name, a quoted or a forwarded message
_ATTACHED = 30  # lines for the attachments of one message
_LOOK = 700
"""Maximum number of characters of each line about what is in a file."""
_FORWARDED = 20  # messages of a bundle that are shown
LINE_END = re.compile("\r\n|[\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
# Control characters, direction marks and zero-width characters. The two zero-width joiners are not
# among them, because some scripts and emoji need them.
_UNSEEN = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x9f\u00ad\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\U000e0000-\U000e007f]"
)
_SURROGATE = re.compile("[\ud800-\udfff]")
_STATES = {
    DeliveryState.PENDING: "not sent yet",
    DeliveryState.SENDING: "being sent",
    DeliveryState.REJECTED: "refused by the platform",
    DeliveryState.UNKNOWN: "unknown whether it arrived",
    DeliveryState.DROPPED: "never sent",
}


def escape_invisible(text: str) -> str:
    """Return the text with every invisible character written as an escape."""
    text = _SURROGATE.sub("\ufffd", LINE_END.sub("\n", text))
    return _UNSEEN.sub(lambda found: f"\\u{ord(found.group()):04x}", text)


def json_quoted(text: str, limit: int = _QUOTED) -> str:
    """Return the text in JSON quotes on one line."""
    return json.dumps(visible_excerpt(text, limit, mark=" ... "), ensure_ascii=False)


def shortened(text: str, limit: int, mark: str = "", *, missing: int = 0) -> str:
    """Shorten a text to about ``limit`` characters. The middle of a longer text is replaced with
    the number of characters left out. ``missing`` is the number of characters that were already
    removed from the middle."""
    if len(text) <= limit:
        return text
    head = limit * 2 // 3
    tail = limit - head
    mark = mark or f"\n[... {len(text) - limit + missing} characters left out ...]\n"
    return f"{text[:head]}{mark}{text[len(text) - tail :]}"


def visible_excerpt(text: str, limit: int, mark: str = "") -> str:
    """Apply `escape_invisible`, then `shortened`, to text that will be marked afterwards. Of a very
    long text, most of the middle is removed before the escaping: escaping a million zero-width
    characters took 4 s and blocked all chats."""
    missing = max(len(text) - 4 * limit, 0)
    if missing:
        text = text[: 2 * limit] + text[-2 * limit :]
    return shortened(escape_invisible(text), limit, mark, missing=missing)


def box_path(media: Media) -> str:
    """Return the path of a received medium in the box; empty if the bot has no copy of the
    medium."""
    return f"{UPLOADS}/{PurePath(media.path).name}" if media.path else ""


def media_of(record: Record) -> list[Media]:
    """Return the media of a record that the bot has stored."""
    return [
        segment.media
        for segment in record.segments
        if isinstance(segment, Image | Voice | Video | File) and segment.media.path
    ]


def transcript(
    records: Sequence[Record],
    *,
    zone: tzinfo | None,
    limit: int,
    unanswered: Collection[int] = (),
    waiting: Collection[int] = (),
    own: Collection[str] = (),
) -> list[str]:
    """Write the lines of each record. ``limit`` is the maximum number of characters of one message.
    ``unanswered`` has the sequence numbers of the records to answer, and ``waiting`` those of
    records that other turns will answer. ``own`` has the platform ids of the bot's accounts."""
    ours = frozenset(own)
    marks = [
        "unanswered" if seq in unanswered else NOT_NOW if seq in waiting else ""
        for seq in (record.seq for record in records)
    ]
    return [
        _shown_record(record, zone, limit, mark, ours)
        for record, mark in zip(records, marks, strict=True)
    ]


@lru_cache(2048)
def _shown_record(
    record: Record, zone: tzinfo | None, limit: int, mark: str, own: frozenset[str]
) -> str:
    """Write one record's lines. Results are cached, because a prompt shows nearly the same records
    as the previous prompt."""
    return "\n".join(_lines(record, zone, limit, mark, own))


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
    name = f"message {_identifier(record.message_id)}" if record.message_id else "message"
    match record.author:
        case Author.SYSTEM:
            return ", ".join(filter(None, [f"[system] at {time}", mark]))
        case Author.BOT:
            head = f"[{name}] from you at {time}"
            return f"{head}, {_STATES[record.state]}" if record.state in _STATES else head
    to_you = "to you" if record.to_bot else ""
    head = f"[{name}] from {person_label(record.sender)} at {time}"
    return ", ".join(filter(None, [head, to_you, mark]))


def person_label(sender: Sender) -> str:
    """Return a person's name and id, for lines of the program."""
    return f"{json_quoted(sender.name, 60)} (user {_identifier(sender.user_id)})"


def _identifier(text: str) -> str:
    """Return a platform's id on one line and without brackets. Such an id may be any text."""
    if re.fullmatch(r"[\w.:@=/+-]{1,120}", text):
        return text
    return json_quoted(text, 120)


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
            yield from (f"  in it: {json_quoted(each, _LOOK)}" for each in media.look.splitlines())
        case Mention() if segment.name:
            yield f"@{json_quoted(segment.name, 60)} is user {_identifier(segment.user_id)}"
        case Reply():
            by = f" by user {_identifier(segment.sender_id)}" if segment.sender_id else ""
            text = f": {json_quoted(segment.text)}" if segment.text else ""
            yield f"answers message {_identifier(segment.message_id)}{by}{text}"
        case Forward(messages):
            yield f"{len(messages)} forwarded messages"
            for message in messages[:_FORWARDED]:
                said = json_quoted(plain_text(message.segments))
                yield f"  {json_quoted(message.sender_name or message.sender_id, 60)}: {said}"
        case Notice():
            people = [segment.actor_id and f"by user {_identifier(segment.actor_id)}"]
            people.append(segment.target_id and f"to user {_identifier(segment.target_id)}")
            yield " ".join(filter(None, [f"notice {_identifier(segment.kind)}", *people]))
        case Unknown():
            kind, summary = json_quoted(segment.kind, 40), json_quoted(segment.summary)
            yield f"something of kind {kind}: {summary}"


def _medium(kind: str, media: Media) -> str:
    name = f" {json_quoted(media.name, 80)}" if media.name else ""
    if not media.path:
        return f"{kind}{name}, not available: {json_quoted(media.problem or 'it was not kept')}"
    size = f"{media.size / 1000:.0f} kB" if media.size >= 1000 else f"{media.size} bytes"
    return f"{kind} {box_path(media)}{name} ({_identifier(media.mime)}, {size})"
