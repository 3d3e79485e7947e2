"""Writes a `Delivery` as the content of one event.

NoneBot's message class is not used, for three reasons. It loses line breaks beside a mention. It
loses the caption of a medium. It does not write an empty ``m.mentions`` into a message without
mentions. Without this field, older programs notify everybody whose name is in the text.
"""

import html
import io
import wave
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import quote

import anyio
from anyio import to_thread
from PIL import Image as Picture

from nekro_core.api.adapter import html_from_markdown
from nekro_core.api.chat import (
    EVERYONE,
    Delivery,
    File,
    Image,
    Media,
    Mention,
    Reply,
    Segment,
    Segments,
    Text,
    Video,
    Voice,
)

TEXT_LENGTH = 7000
"""Maximum number of characters of one event. An event may have 65,536 bytes. If the text has a
mention, the event contains the text twice, and a character has up to 4 bytes."""
DELIVERY_ID = "io.github.nekro_core.delivery"
"""The field of each event that holds its `Delivery.delivery_id`. `MatrixAdapter.confirm` searches
for this id."""

Content = dict[str, Any]
Upload = Callable[[bytes, Media], Awaitable[str]]
"""Uploads bytes to the server's media repository and returns their ``mxc://`` address."""
NameOf = Callable[[str], Awaitable[str]]
"""Returns a person's display name in the room."""


class UnsendableEvent(ValueError):
    """No Matrix event can carry this delivery. The text is a reason that a person can read."""


async def content_of(delivery: Delivery, upload: Upload, name_of: NameOf, most: int) -> Content:
    """Write the content of an ``m.room.message``. ``most`` is the largest number of bytes of a
    medium. Raises `UnsendableEvent`, and the errors of ``upload`` and ``name_of``."""
    segments = [segment for segment in delivery.segments if segment != Text("")]
    replies = [segment for segment in segments if isinstance(segment, Reply)]
    body = [segment for segment in segments if not isinstance(segment, Reply)]
    if not body:
        raise UnsendableEvent("the message is empty")
    media = [segment for segment in body if isinstance(segment, Image | Voice | Video | File)]
    words = tuple(segment for segment in body if isinstance(segment, Text | Mention))
    if len(media) + len(words) < len(body):
        kinds = {_kind(segment) for segment in body if segment not in (*media, *words)}
        raise UnsendableEvent(f"Matrix cannot send a segment of type {', '.join(sorted(kinds))}")
    if len(media) > 1 or (words and any(not isinstance(each, Image) for each in media)):
        raise UnsendableEvent(
            "an event carries one medium, and only a picture can have a text beside it"
        )
    content = await _written(words, name_of)
    if media:
        content = await _with_medium(media[0], content, upload, most)
    content["m.mentions"] = _mentions(words)
    relation = _relation(delivery.chat_key.thread, replies[0].message_id if replies else "")
    if relation:
        content["m.relates_to"] = relation
    content[DELIVERY_ID] = delivery.delivery_id
    return content


def replacing(message_id: str, content: Content) -> Content:
    """Write the content of an event that replaces the content of the event ``message_id``."""
    if content["msgtype"] != "m.text":
        raise UnsendableEvent("only the text of a message can be changed")
    new = {key: value for key, value in content.items() if key != "m.relates_to"}
    return {
        **new,
        "body": f"* {content['body']}",
        # The mentions outside of ``m.new_content`` are empty, so the edit does not notify the
        # mentioned people again.
        "m.mentions": {},
        "m.new_content": new,
        "m.relates_to": {"rel_type": "m.replace", "event_id": message_id},
    }


async def _written(words: Segments, name_of: NameOf) -> Content:
    plain, formatted, marked = [], [], False
    for segment in words:
        match segment:
            case Text(text, True) if written := html_from_markdown(text, formulas=False):
                plain.append(text)
                formatted.append(written)
                marked = True
            case Text(text):
                plain.append(text)
                formatted.append(html.escape(text, quote=False).replace("\n", "<br>"))
            case Mention(user_id) if user_id == EVERYONE:
                plain.append("@room ")
                formatted.append("@room ")
            case Mention(user_id, given):
                name = given or await name_of(user_id) or user_id
                link = f"https://matrix.to/#/{quote(user_id, safe='@:')}"
                plain.append(name)
                formatted.append(f'<a href="{html.escape(link)}">{html.escape(name)}</a>')
    content: Content = {"msgtype": "m.text", "body": "".join(plain)}
    if marked or any(isinstance(segment, Mention) for segment in words):
        content["format"] = "org.matrix.custom.html"
        content["formatted_body"] = "".join(formatted)
    return content


def _mentions(words: Segments) -> Content:
    people = {segment.user_id for segment in words if isinstance(segment, Mention)}
    mentions: Content = {"room": True} if EVERYONE in people else {}
    if people - {EVERYONE}:
        mentions["user_ids"] = sorted(people - {EVERYONE})
    return mentions


def _relation(thread: str | None, answered: str) -> Content:
    answer: Content = {"m.in_reply_to": {"event_id": answered}} if answered else {}
    if thread is None:
        return answer
    if not answer:
        # Programs that do not show threads show this event as a reply. The standard asks for a
        # reply to the thread's latest event. This is a reply to the thread's first event, whose id
        # is in the chat key.
        answer = {"is_falling_back": True, "m.in_reply_to": {"event_id": thread}}
    return {"rel_type": "m.thread", "event_id": thread, **answer}


async def _with_medium(
    segment: Image | Voice | Video | File, caption: Content, upload: Upload, most: int
) -> Content:
    media = segment.media
    name = media.name or _kind(segment)
    data = await _bytes_of(media, name, most)
    info: Content = {"mimetype": media.mime, "size": len(data)}
    content: Content = {"body": name, "filename": name, "info": info}
    match segment:
        case Image():
            content["msgtype"] = "m.image"
            info |= await to_thread.run_sync(_sides, data)
            if caption["body"].strip():
                content |= {key: value for key, value in caption.items() if key != "msgtype"}
        case Video():
            content["msgtype"] = "m.video"
        case Voice(_, said):
            content["msgtype"] = "m.audio"
            content["org.matrix.msc3245.voice"] = {}
            sound: Content = {}
            milliseconds = _duration_ms(data)
            if milliseconds:
                info["duration"] = sound["duration"] = milliseconds
            content["org.matrix.msc1767.audio"] = sound
            if said:
                content["org.matrix.msc1767.text"] = said
        case File():
            content["msgtype"] = "m.file"
    content["url"] = await upload(data, media)
    return content


async def _bytes_of(media: Media, name: str, most: int) -> bytes:
    try:
        path = anyio.Path(media.path)
        size = (await path.stat()).st_size
        if size > most:
            raise UnsendableEvent(
                f"{name} has {size} bytes: at most {most} go to this homeserver. "
                "Send a smaller file, or a link to it"
            )
        data = await path.read_bytes()
    except OSError as error:
        raise UnsendableEvent(f"{name} cannot be read: {error.strerror or error}") from None
    if not data:
        raise UnsendableEvent(f"{name} is empty")
    return data


def _sides(data: bytes) -> Content:
    """Return width and height from the picture's header; empty if the header is invalid. For these
    formats Pillow reads the header without its decoders. Its decoders must not run here, because a
    file may come from a box."""
    try:
        with Picture.open(io.BytesIO(data), formats=("PNG", "JPEG", "GIF")) as picture:
            return {"w": picture.width, "h": picture.height}
    except (OSError, ValueError, Picture.DecompressionBombError):
        return {}


def _duration_ms(data: bytes) -> int:
    """Return the duration of a WAV file. Return 0 for other formats: the receiving program measures
    their duration itself."""
    if not data.startswith(b"RIFF"):
        return 0
    try:
        with wave.open(io.BytesIO(data)) as sound:
            return int(1000 * sound.getnframes() / sound.getframerate())
    except (wave.Error, EOFError, ZeroDivisionError):
        return 0


def _kind(segment: Segment) -> str:
    return type(segment).__name__.lower()
