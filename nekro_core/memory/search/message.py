"""Says what the search index holds of one message."""

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
from nekro_core.memory.search.terms import LONGEST_TEXT, terms_of
from nekro_core.tools.discovery.words import unified

KINDS = ("image", "voice", "video", "file", "link", "forward")
"""The kinds of messages that a search can be limited to."""
BOT = "#bot"
RESET = "#reset"
"""Terms of the bot's own messages, and of the lines with which a conversation began anew."""

_LINK = re.compile(r"https?://|www\.", re.IGNORECASE)
_SENTENCE = re.compile(r"[^.!?。！？…\n]+[.!?。！？…\n]*")
_NESTED = 3
"""Depth to which forwarded messages inside forwarded messages are read."""
_CACHED = 4096
"""Number of the newest messages whose terms are cached: those of twenty chats."""


@dataclass(frozen=True, slots=True)
class MessageTerms:
    """What the index holds of one message.

    Attributes:
        terms: The terms with the number of times that they occur, among them those that say who
            wrote it (`person_term`, `name_term`, `full_name_term`) and its kinds (`kind_term`).
        length: How many terms its words have.
        asks: Whether all its sentences are questions.
        text: Its words, for the sentence encoder.
    """

    terms: Mapping[str, int]
    length: int
    asks: bool
    text: str


def person_term(user_id: str) -> str:
    """Return the term of all messages of a person, by their id."""
    return "=" + _plain(user_id)


def full_name_term(name: str) -> str:
    """Return the term of all messages of a person, by their whole name."""
    return "~" + _plain(name)


def name_term(term: str) -> str:
    """Return the term of all messages whose author has this term in their name."""
    return "@" + term


def kind_term(kind: str) -> str:
    """Return the term of all messages of a kind (`KINDS`)."""
    return "#" + kind


@lru_cache(_CACHED)
def message_terms(segments: str, author: str, user_id: str, name: str) -> MessageTerms:
    """Return what the index holds of a message that was not recalled.

    Args:
        segments: Its segments, as they are stored.
        author: Who wrote it, a value of `Author`.
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
    return MessageTerms(terms, len(words), _only_asks(text), text)


NOTHING = MessageTerms({}, 0, False, "")
"""What the index holds of a recalled message."""


def searchable_text(segments: Iterable[Segment], depth: int = 0) -> str:
    """Return all words of a message: texts, names of files, transcripts, forwarded messages. The
    quoted text of a reply is not among them: it belongs to the other message."""
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


def _only_asks(text: str) -> bool:
    if "?" not in text and "？" not in text:
        return False
    sentences = [each for each in _SENTENCE.findall(text) if len(each.strip()) > 1]
    return bool(sentences) and all(each.rstrip().endswith(("?", "？")) for each in sentences)


def _plain(name: str) -> str:
    """Return a name without the line feeds that a page cannot hold."""
    return " ".join(unified(name).split())
