"""Converts Matrix events into segments. The functions accept any content: other people's programs
write the events, and servers hardly check what a message contains."""

import json
import re
from collections.abc import Mapping
from html.parser import HTMLParser
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

from nekro_core.api.adapter import Expected
from nekro_core.api.chat import (
    EVERYONE,
    File,
    Image,
    Media,
    Mention,
    Notice,
    Reply,
    Segment,
    Segments,
    Text,
    Unknown,
    Video,
    Voice,
    sound_html,
)

Json = Mapping[str, Any]

SUMMARY_LENGTH = 200
"""Maximum number of characters in the summary of an event of an unknown type."""
MENTIONS = 50
"""Maximum number of people whom one message can mention. Further mentions are ignored."""
_AHEAD_S = 86_400.0
QUOTED_LENGTH = 500
"""A reply quotes at most this many characters of the message that it answers."""
HTML_LENGTH = 100_000

_MEDIA: Mapping[str, Expected] = {
    "m.image": "image",
    "m.audio": "audio",
    "m.video": "video",
    "m.file": "file",
    "m.sticker": "image",
}
_SAID = frozenset({"m.room.message", "m.sticker"})
_MXC = re.compile(r"mxc://([^/\s]{1,255})/([A-Za-z0-9_-]{1,255})\Z")


class MatrixLookups(Protocol):
    """Asks the server for data that a message only refers to."""

    async def media(self, server: str, media_id: str, name: str, expect: Expected) -> Media:
        """Download and store a medium, and return the stored copy."""

    async def quoted(self, event_id: str) -> Reply:
        """Return the id, author and text of the message that was replied to, as far as known."""


async def read_message(event: Json, lookups: MatrixLookups, own: str) -> Segments:
    """Convert an ``m.room.message`` or a sticker. ``own`` is the user id of the bot's account."""
    content = table(event.get("content"))
    segments: list[Segment] = []
    answered = answered_id(content)
    if answered:
        segments.append(await lookups.quoted(answered))
    kind = "m.sticker" if event.get("type") == "m.sticker" else words(content.get("msgtype"))
    if kind in _MEDIA:
        segments.append(await _medium(kind, content, lookups))
        text = _caption(content) if kind != "m.sticker" else ""
    elif kind == "m.location":
        where = f"{body_of(content)} {words(content.get('geo_uri'))}".strip()
        return (*segments, Unknown("location", where[:SUMMARY_LENGTH]))
    elif kind == "m.emote":
        text = f"* {body_of(content)}"
    else:
        text = body_of(content)
        if not text and content:
            return (*segments, Unknown(kind or "message", summary_of(content)))
    return (*segments, *with_mentions(text, content, own))


def with_mentions(text: str, content: Json, own: str) -> Segments:
    """Split the text into text segments and mentions.

    ``m.mentions`` lists the mentioned people. The links of the formatted text show which characters
    of the text stand for a person. A mention that is not found in the text is put before the text.
    Programs older than ``m.mentions`` write only the links, or the bot's user id as text.
    """
    people = _mentioned(content)
    links = _Pills.of(content)
    if people is None:
        people = list(dict.fromkeys(user for user, _ in links))
        if own and own in text and own not in people:
            people.append(own)
    names = {user: name for user, name in links if name}
    segments: list[Segment] = []
    if _room_is_mentioned(content):
        text = text.replace("@room", "", 1).lstrip() if text.startswith("@room") else text
        segments.append(Mention(EVERYONE))
    spans: list[tuple[int, int, Mention]] = []
    for user in people[:MENTIONS]:
        mention = Mention(user, names.get(user, ""))
        spellings = [names.get(user, ""), user]
        span = next(
            ((at, len(each)) for each in spellings if each and (at := text.find(each)) >= 0), None
        )
        if span is None:
            segments.append(mention)
        else:
            at, length = span
            # At the beginning of a text, programs write "Name: text". Some write "@Name".
            start = at - 1 if at and text[at - 1] == "@" else at
            end = at + length + (text[at + length : at + length + 1] == ":" and start == 0)
            spans.append((start, end, mention))
    position = 0
    for start, end, mention in sorted(spans, key=lambda span: span[0]):
        if start < position:
            segments.append(mention)
            continue
        segments += [Text(text[position:start])] if start > position else []
        segments.append(mention)
        position = end
    segments += [Text(text[position:])] if position < len(text) else []
    return tuple(segments)


def is_for(content: Json, segments: Segments, own: str) -> bool:
    """Return True if the message mentions the account ``own`` or replies to it. False for an
    ``m.notice``: programs write these messages, and a bot must not answer them."""
    if content.get("msgtype") == "m.notice":
        return False
    return any(
        (isinstance(segment, Mention) and segment.user_id == own)
        or (isinstance(segment, Reply) and segment.sender_id == own)
        for segment in segments
    )


def body_of(content: Json) -> str:
    """Return the plain text, without the quotation with which older programs begin a reply."""
    body = words(content.get("body"))
    if not body.startswith("> <") or not _relation(content).get("m.in_reply_to"):
        return body
    lines = body.split("\n")
    while lines and lines[0].startswith("> "):
        del lines[0]
    return "\n".join(lines[1:] if lines and not lines[0] else lines)


def thread_of(content: Json) -> str | None:
    """Return the id of the event that begins the message's thread; None outside threads."""
    relation = _relation(content)
    root = relation.get("event_id") if relation.get("rel_type") == "m.thread" else None
    return root if isinstance(root, str) and root else None


def answered_id(content: Json) -> str:
    """Return the id of the event that this message replies to; empty if it replies to none.

    In a thread, each message names the latest event as the one to which it replies. This is for
    programs that do not show threads. Such a message has ``is_falling_back`` and does not count as
    a reply, unless it names the event that begins the thread.
    """
    relation = _relation(content)
    answered = table(relation.get("m.in_reply_to")).get("event_id")
    if not isinstance(answered, str):
        return ""
    fallback = relation.get("is_falling_back") is True and answered != thread_of(content)
    return "" if fallback else answered


def replaced_id(content: Json) -> str:
    """Return the id of the event that this event replaces; empty if it replaces none."""
    relation = _relation(content)
    replaced = relation.get("event_id") if relation.get("rel_type") == "m.replace" else None
    return replaced if isinstance(replaced, str) else ""


def read_notice(event: Json, own: str) -> Notice | None:
    """Return the notice for a reaction or a change of membership; None for other events."""
    content, sender = table(event.get("content")), words(event.get("sender"))
    match event.get("type"):
        case "m.reaction":
            relation = _relation(content)
            return Notice("reaction", sender, words(relation.get("event_id")), _key(relation))
        case "m.room.member":
            return _membership(event, content, sender, own)
    return None


def _membership(event: Json, content: Json, sender: str, own: str) -> Notice | None:
    user = words(event.get("state_key"))
    before = table(table(event.get("unsigned")).get("prev_content")).get("membership")
    now = content.get("membership")
    if now == before or user == own:
        return None  # changes of a name or a picture, and of the bot's own membership
    match now:
        case "join":
            return Notice("join", sender, user, "")
        case "leave" if before in {"join", "ban"}:
            return Notice("leave", sender, user, "" if sender == user else "kick")
        case "ban":
            return Notice("leave", sender, user, "ban")
    return None


def medium_of(event: Json) -> tuple[str, str] | None:
    """Return the server and the id with which a message's medium can be downloaded; None if the
    message has no medium."""
    match = _MXC.match(words(table(event.get("content")).get("url")))
    return (match[1], match[2]) if match and event.get("type") in _SAID else None


async def _medium(kind: str, content: Json, lookups: MatrixLookups) -> Segment:
    name = words(content.get("filename") or content.get("body"))
    match = _MXC.match(words(content.get("url")))
    if match is not None:
        media = await lookups.media(match[1], match[2], name, _MEDIA[kind])
    elif content.get("file"):
        media = Media(name=name, problem="it is encrypted, and this bot reads no encrypted media")
    else:
        media = Media(name=name, problem="the message has no address to fetch it from")
    match kind:
        case "m.image" | "m.sticker":
            return Image(media)
        case "m.video":
            return Video(media)
        case "m.audio" if "org.matrix.msc3245.voice" in content or "m.voice" in content:
            return Voice(media)
    return File(media)


def _caption(content: Json) -> str:
    """Return a medium's caption: since Matrix 1.10, the body if it differs from ``filename``."""
    name, body = content.get("filename"), body_of(content)
    return body if isinstance(name, str) and name and body != name else ""


def _mentioned(content: Json) -> list[str] | None:
    """Return the user ids in ``m.mentions``; None if the message has no ``m.mentions``."""
    mentions = content.get("m.mentions")
    if not isinstance(mentions, Mapping):
        return None
    users = mentions.get("user_ids")
    listed = users if isinstance(users, list) else []
    return list(dict.fromkeys(words(user) for user in listed if isinstance(user, str)))


def _room_is_mentioned(content: Json) -> bool:
    return table(content.get("m.mentions")).get("room") is True


class _Pills(HTMLParser):
    """Finds the links to people in a formatted text."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, str]] = []
        self._user = ""
        self._name: list[str] = []
        self._quoting = 0

    @classmethod
    def of(cls, content: Json) -> list[tuple[str, str]]:
        """Return the user id and the displayed name of each link."""
        html = content.get("formatted_body")
        if content.get("format") != "org.matrix.custom.html" or not isinstance(html, str):
            return []
        pills = cls()
        pills.feed(sound_html(html[:HTML_LENGTH]))
        return [(words(user), words(name)) for user, name in pills.found[:MENTIONS]]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begin a link, or a reply's quotation. Links in the quotation are not mentions."""
        if tag == "mx-reply":
            self._quoting += 1
        elif tag == "a" and not self._quoting:
            self._user, self._name = user_of(dict(attrs).get("href") or ""), []

    def handle_endtag(self, tag: str) -> None:
        """End a link or the quotation."""
        if tag == "mx-reply":
            self._quoting = max(self._quoting - 1, 0)
        elif tag == "a" and self._user:
            self.found.append((self._user, "".join(self._name)))
            self._user = ""

    def handle_data(self, data: str) -> None:
        """Collect the displayed name of a link."""
        if self._user:
            self._name.append(data)


def user_of(link: str) -> str:
    """Return the user id in a link such as ``https://matrix.to/#/@lin:example.org``."""
    try:
        parts = urlsplit(link)
    except ValueError:
        return ""
    if parts.scheme == "matrix" and parts.path.startswith("u/"):
        return f"@{unquote(parts.path[2:])}"
    identity = unquote(parts.fragment).removeprefix("/").partition("?")[0]
    return identity if parts.hostname == "matrix.to" and identity.startswith("@") else ""


def said_at(event: Json, now: float) -> float:
    """Return the time of a message, in seconds since 1970. The sender's server gives this time, and
    anybody can run a server. If the time is more than a day ahead of ``now``, return ``now``: even
    a wrong time zone cannot explain such a difference."""
    stamp: Any = event.get("origin_server_ts")
    if isinstance(stamp, int | float) and 0 <= stamp <= (now + _AHEAD_S) * 1000:
        return float(stamp) / 1000
    return now


def summary_of(content: Json) -> str:
    """Return the beginning of an event's content as JSON, for an event of an unknown type."""
    return words(json.dumps(content, ensure_ascii=False, default=repr))[:SUMMARY_LENGTH]


def words(value: Any) -> str:
    """Replace NUL and lone surrogates, which databases and protocols refuse. Empty if the value is
    not a text."""
    if not isinstance(value, str):
        return ""
    text = value.replace("\0", "\N{REPLACEMENT CHARACTER}")
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def table(value: Any) -> Json:
    """Return the value if it is a JSON object, else an empty object."""
    return value if isinstance(value, Mapping) else {}


def _relation(content: Json) -> Json:
    return table(content.get("m.relates_to"))


def _key(relation: Json) -> str:
    return words(relation.get("key"))[:SUMMARY_LENGTH]
