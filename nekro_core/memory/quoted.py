"""Writes words of people and of models on one line, without invisible characters.

Notes and summaries are words of people, or of a model that has read such words. The prompt quotes
each of their lines like the messages of people, so that the model does not obey them.
"""

import re
from datetime import UTC, datetime, tzinfo

from nekro_core.chat import Author, Record, plain_text

_LINES = re.compile(r"[\r\n\x0b\x0c\x1c-\x1e\x85\u2028\u2029]+")
_UNSEEN = re.compile(
    "[\x00-\x09\x0e-\x1b\x1f\x7f-\x84\x86-\x9f\u00ad\u034f\u061c\u115f\u1160\u180e\u3164\uffa0\u200b\u200e\u200f\u202a-\u202e"
    "\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
"""Control characters, direction marks and zero-width characters. People do not see them."""
_SPACES = re.compile(r" {2,}")
_READ_FACTOR = 4
"""Of a text, at most this many times the wanted number of characters are read. Without this limit,
a megabyte of zero-width characters would block all chats."""


def one_line(text: str, limit: int) -> str:
    """Return the text on one line, without invisible characters, of at most ``limit`` characters.
    A longer text ends with ``...``."""
    clean = _UNSEEN.sub(" ", _LINES.sub(" ", text[: limit * _READ_FACTOR]))
    clean = _SPACES.sub(" ", clean).strip()
    return clean if len(clean) <= limit else f"{clean[: limit - 3].rstrip()}..."


def record_line(record: Record, limit: int) -> str:
    """Return a record on one line, for a model that reads a conversation: the record's number, its
    author with the person's id, and the words."""
    words = one_line(plain_text(record.segments), limit)
    match record.author:
        case Author.BOT:
            who = "you"
        case Author.SYSTEM:
            who = "system"
        case Author.PERSON:
            who = f"{one_line(record.sender.name, 60)} ({one_line(record.sender.user_id, 80)})"
    return f"#{record.seq} {who}: {words}"


def day(at: float, zone: tzinfo | None) -> str:
    """Return the date of a time, which is in seconds since 1970. Without ``zone``, it is the date
    in UTC."""
    return f"{datetime.fromtimestamp(at, zone or UTC):%Y-%m-%d}"
