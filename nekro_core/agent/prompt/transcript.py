"""Writes a chat's history as text. Chat members cannot write anything that looks like a *line of
the program*, which is a line that the bot's own code wrote.

There are three kinds of lines. Their beginnings distinguish them::

    #311 14:02 Lin (10001, admin) → you re #305 NEW mentioned
    > what a person wrote, each of its lines behind this mark
    + image /app/uploads/3fa9.png

Text that people choose (names, messages, file names) comes after a mark or is in JSON quotes. It is
never at the beginning of a line. A name is bare only if it is one plain word that the program does
not use itself. Invisible characters are written as escapes.
"""

import json
import re
from collections.abc import Collection, Iterator
from datetime import datetime, tzinfo
from functools import lru_cache
from pathlib import PurePath

from nekro_core.agent.prompt.line_marks import ANSWER, ANSWER_LATER, LineMarks
from nekro_core.chat import (
    Author,
    ChatKind,
    DeliveryState,
    File,
    Forward,
    Image,
    Media,
    Mention,
    Notice,
    Record,
    Reply,
    Role,
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

NEW = "NEW"
"""The word in the header of a record that the turn answers."""
LATER = "LATER"
"""The word in the header of a record that another turn will answer."""

_QUOTED = 200  # maximum characters of a name, a quotation or a forwarded message
_ATTACHED = 30  # maximum lines for the attachments of one message
_LOOK = 700
"""Maximum number of characters of each line about the content of a file."""
_FORWARDED = 20  # maximum messages of a bundle that are shown
_FACE = 40  # maximum characters of the name of an emoji or sticker between the words
LINE_END = re.compile("\r\n|[\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
# Control characters, direction marks and zero-width characters. The two zero-width joiners are not
# among them, because some scripts and emoji need them.
_UNSEEN = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x9f\u00ad\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\U000e0000-\U000e007f]"
)
_SURROGATE = re.compile("[\ud800-\udfff]")
_PLAIN_NAME = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9._-]{0,29}|[\u3005\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]{1,30}"
)
"""A name that is shown without quotes. Names in other scripts are quoted: some of their letters
look like Latin letters, so such a name could look like ``you``."""
_OUR_WORDS = frozenset({"you", "system", "re", "all", NEW.casefold(), LATER.casefold()})
"""Names that are written in quotes, because headers have these words."""
_WHY = {1: "mentioned", 2: "only named", 3: "poke", 4: "a plugin asks", 5: "wakes you"}
"""The words for reasons (`nekro_core.agent.prompt.line_marks.WHY`)."""
_INLINE_KINDS = ("face", "mface", "emoji", "sticker")
"""Kinds of `Unknown` that are small pictures between the words."""
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
    ``mark``, or if there is none, with the number of characters left out. ``missing`` is the number
    of characters that were already removed from the middle."""
    if len(text) <= limit:
        return text
    head = limit * 2 // 3
    tail = limit - head
    mark = mark or f"\n[... {len(text) - limit + missing} characters left out ...]\n"
    return f"{text[:head]}{mark}{text[len(text) - tail :]}"


def visible_excerpt(text: str, limit: int, mark: str = "") -> str:
    """Apply `escape_invisible`, then `shortened`, to text that has no marks (such as ``>``) or
    quotes yet. Of a very long text, most of the middle is removed before the escaping: escaping a
    million zero-width characters took 4 s and blocked all chats."""
    missing = max(len(text) - 4 * limit, 0)
    if missing:
        text = text[: 2 * limit] + text[-2 * limit :]
    return shortened(escape_invisible(text), limit, mark, missing=missing)


def box_path(media: Media) -> str:
    """Return the path of a received medium in the box; empty if the bot has no copy of the
    medium."""
    return f"{UPLOADS}/{PurePath(media.path).name}" if media.path else ""


def media_of(record: Record) -> list[Media]:
    """Return those media of a record of which the bot has a copy, in the record's order."""
    return [
        segment.media
        for segment in record.segments
        if isinstance(segment, Image | Voice | Video | File) and segment.media.path
    ]


@lru_cache(4096)
def record_lines(
    record: Record, zone: tzinfo | None, limit: int, mark: int, own: frozenset[str]
) -> str:
    """Write the lines of one record. Results are cached, because a prompt shows nearly the same
    records as the previous prompt.

    Args:
        record: The record.
        zone: The zone of its time.
        limit: The maximum number of characters of its words.
        mark: The number of its `LineMarks`.
        own: The platform's ids of the bot's accounts.
    """
    return "\n".join(_lines(record, zone, limit, LineMarks.of_number(mark), own))


def _lines(
    record: Record, zone: tzinfo | None, limit: int, marks: LineMarks, own: Collection[str]
) -> Iterator[str]:
    time = datetime.fromtimestamp(record.time, zone)
    if marks.dated:
        yield f"[date] {time:%Y-%m-%d %A}"
    head = f"#{record.seq} {time:%H:%M}" if marks.timed else f"#{record.seq}"
    yield " ".join(filter(None, [head, *_header(record, marks, own)]))
    words = visible_excerpt("".join(_inline(part, own) for part in record.segments), limit)
    if words.strip():
        yield from (f"> {line}" for line in words.split("\n"))
    attached = [line for segment in record.segments for line in _attached(segment, marks, own)]
    yield from (f"+ {line}" for line in attached[:_ATTACHED])
    if len(attached) > _ATTACHED:
        yield f"+ and {len(attached) - _ATTACHED} more"


def _header(record: Record, marks: LineMarks, own: Collection[str]) -> Iterator[str]:
    match record.author:
        case Author.SYSTEM:
            yield "system"
        case Author.BOT:
            yield "you"
        case _:
            yield person_label(record.sender) if marks.introduced else shown_name(record.sender)
    if record.to_bot and record.author is Author.PERSON and _is_shared(record):
        yield "→ you"
    if marks.replies_to:
        yield f"re #{record.seq - marks.replies_to}"
    if record.author is Author.BOT and record.state in _STATES:
        yield f"({_STATES[record.state]})"
    if marks.task == ANSWER:
        yield NEW
        yield _why(record, marks, own)
    elif marks.task == ANSWER_LATER:
        yield LATER


def _is_shared(record: Record) -> bool:
    """Return True if the chat may have several people, so that the header must say which messages
    go to the bot."""
    return record.chat_key.kind is not ChatKind.PRIVATE


def _why(record: Record, marks: LineMarks, own: Collection[str]) -> str:
    word = _WHY.get(marks.why, "")
    mentions = any(isinstance(each, Mention) and each.user_id in own for each in record.segments)
    if word == "mentioned" and not mentions:
        replies = any(isinstance(each, Reply) for each in record.segments)
        return "answers you" if replies else ""
    return word


def shown_name(sender: Sender) -> str:
    """Return a person's name for a header: bare, or in JSON quotes if it is more than one plain
    word or a word of the program."""
    name = sender.name or sender.user_id
    if _PLAIN_NAME.fullmatch(name) and name.casefold() not in _OUR_WORDS:
        return name
    return json_quoted(name, 60)


def person_label(sender: Sender) -> str:
    """Return a person's name, id and role, for lines of the program."""
    role = "" if sender.role is Role.MEMBER else f", {sender.role.value}"
    return f"{shown_name(sender)} ({identifier(sender.user_id)}{role})"


def identifier(text: str) -> str:
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
        case Unknown() if _is_inline(segment):
            name = segment.summary or segment.kind
            return name if name.startswith("[") else f"[{name}]"
    return ""


def _is_inline(segment: Unknown) -> bool:
    """Return True if the segment is a small picture with a short name, which is shown between the
    words. Some platforms give raw data instead of a name."""
    return (
        segment.kind in _INLINE_KINDS
        and len(segment.summary) <= _FACE
        and not segment.summary.startswith("{")
    )


def _attached(segment: Segment, marks: LineMarks, own: Collection[str]) -> Iterator[str]:
    match segment:
        case Voice(media, text) if text:
            yield f"{_medium('voice', media)}: its words are above"
        case Voice(media):
            yield f"{_medium('voice', media)}: you cannot hear it"
        case Image(media) | Video(media) | File(media):
            yield _medium(type(segment).__name__.lower(), media)
            yield from (f"in it: {json_quoted(each, _LOOK)}" for each in media.look.splitlines())
        case Mention() if marks.people and segment.name and segment.user_id not in own:
            yield f"@{json_quoted(segment.name, 60)} is {identifier(segment.user_id)}"
        case Reply() if not marks.replies_to:
            by = f" of {_who(segment.sender_id, own)}" if segment.sender_id else ""
            text = f": {json_quoted(segment.text)}" if segment.text else ""
            yield f"answers an older message{by}{text}"
        case Forward(messages):
            yield f"{len(messages)} forwarded messages"
            for message in messages[:_FORWARDED]:
                said = json_quoted(plain_text(message.segments))
                yield f"  {json_quoted(message.sender_name or message.sender_id, 60)}: {said}"
        case Notice():
            people = [segment.actor_id and f"by {_who(segment.actor_id, own)}"]
            people.append(segment.target_id and f"to {_who(segment.target_id, own)}")
            yield " ".join(filter(None, [identifier(segment.kind), *people]))
        case Unknown() if not _is_inline(segment):
            yield f"{identifier(segment.kind)}: {json_quoted(segment.summary)}"


def _who(user_id: str, own: Collection[str]) -> str:
    return "you" if user_id in own else identifier(user_id)


def _medium(kind: str, media: Media) -> str:
    name = f" {json_quoted(media.name, 80)}" if media.name else ""
    if not media.path:
        return f"{kind}{name}, not available: {json_quoted(media.problem or 'it was not kept')}"
    path = box_path(media)
    facts = [f"{media.seconds:.0f} s"] if media.seconds else []
    if not PurePath(path).suffix:  # the ending of the path, if any, shows the type
        facts.append(identifier(media.mime))
    if kind in ("file", "video"):  # the size of a picture or a voice does not help the model
        large = media.size >= 1000
        facts.append(f"{media.size / 1000:.0f} kB" if large else f"{media.size} bytes")
    told = f" ({', '.join(facts)})" if facts else ""
    return f"{kind} {path}{name}{told}"
