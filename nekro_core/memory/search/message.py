"""Finds the terms and facts that the search index stores about one message."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from nekro_core.chat import (
    CONVERSATION_RESET,
    Author,
    File,
    Forward,
    Image,
    Mention,
    Notice,
    Reply,
    Segment,
    Text,
    Unknown,
    Video,
    Voice,
    decode_segments,
)
from nekro_core.memory.search.answers import traits_of
from nekro_core.memory.search.terms import LONGEST_TEXT, terms_of
from nekro_core.tools.discovery.words import unified

KINDS = ("image", "voice", "video", "file", "link", "forward")
"""The kinds of messages that a search can be limited to."""
BOT = "#bot"
RESET = "#reset"
"""The terms of the bot's own messages, and of the lines that reset a conversation."""

_LINK = re.compile(r"https?://|www\.", re.IGNORECASE)
_NESTED = 3
"""Maximum depth to which forwarded messages inside forwarded messages are read."""
_CACHED = 4096
"""Maximum number of messages whose terms are cached: the newest messages of twenty chats."""


@dataclass(frozen=True, slots=True)
class MessageTerms:
    """The terms and facts of one message, for the index.

    Attributes:
        terms: Maps each term to the number of times that it occurs. Some terms name the author
            (`person_term`, `name_term`, `full_name_term`) or the kinds of the message
            (`kind_term`).
        length: The number of terms in the words of the message.
        traits: Bits for what the message has, such as a number (`answers.traits_of`).
        text: The words of the message, for the sentence encoder.
    """

    terms: Mapping[str, int]
    length: int
    traits: int
    text: str


def person_term(user_id: str) -> str:
    """Return the term that all messages of a person have, from the person's id."""
    return "=" + _plain(user_id)


def full_name_term(name: str) -> str:
    """Return the term that all messages of a person have, from the person's whole name."""
    return "~" + _plain(name)


def name_term(term: str) -> str:
    """Return the term that all messages have whose author's name contains ``term``."""
    return "@" + term


def kind_term(kind: str) -> str:
    """Return the term of all messages of a kind (`KINDS`)."""
    return "#" + kind


@lru_cache(_CACHED)
def message_terms(segments: str, author: str, user_id: str, name: str) -> MessageTerms:
    """Return the terms and facts of a message that was not recalled.

    Args:
        segments: The segments of the message, as they are stored.
        author: Who wrote the message, a value of `Author`.
        user_id: The id of the person who wrote it.
        name: The name of that person.
    """
    parts = decode_segments(segments)
    text = searchable_text(parts)[:LONGEST_TEXT]
    words = terms_of(text)
    terms: dict[str, int] = {}
    for word in words:
        terms[word] = terms.get(word, 0) + 1
    for kind in _kinds(parts, text):
        terms[kind] = 1
    if author == Author.PERSON:
        for term in _author_terms(user_id, name):
            terms[term] = 1
    elif author == Author.BOT:
        terms[BOT] = 1
    return MessageTerms(terms, len(words), traits_of(text), text)


NOTHING = MessageTerms({}, 0, 0, "")
"""The terms of a recalled message."""


def searchable_text(segments: Iterable[Segment], depth: int = 0) -> str:
    """Return all words of a message: texts, names of files, transcripts, forwarded messages. The
    text that a reply quotes is left out, because it belongs to the quoted message."""
    parts: list[str] = []
    for segment in segments:
        match segment:
            case Text() | Voice():
                parts.append(segment.text)
            case Mention():
                parts.append(segment.name)
            case File():
                parts.append(segment.media.name)
            case Unknown():
                parts.append(segment.summary)
            case Forward() if depth < _NESTED:
                for each in segment.messages:
                    parts += (each.sender_name, searchable_text(each.segments, depth + 1))
            case Forward() | Image() | Video() | Notice() | Reply():
                pass
    return " ".join(filter(None, parts))


@lru_cache(_CACHED)
def _author_terms(user_id: str, name: str) -> tuple[str, ...]:
    names = (name_term(term) for term in terms_of(name))
    return (*names, person_term(user_id), full_name_term(name))


def _kinds(segments: Iterable[Segment], text: str) -> set[str]:
    found: set[str] = set()
    for segment in segments:
        match segment:
            case Image():
                found.add(kind_term("image"))
            case Voice():
                found.add(kind_term("voice"))
            case Video():
                found.add(kind_term("video"))
            case File():
                found.add(kind_term("file"))
            case Forward():
                found.add(kind_term("forward"))
            case Notice(kind=kind) if kind == CONVERSATION_RESET:
                found.add(RESET)
    if ("/" in text or "." in text) and _LINK.search(text):
        found.add(kind_term("link"))
    return found


def _plain(name: str) -> str:
    """Return a name without line feeds, because a page of the index cannot contain them."""
    return " ".join(unified(name).split())
