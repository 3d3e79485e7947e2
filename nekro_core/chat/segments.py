"""The segments of a message. They are the same for all platforms.

Segments are stored and sent as JSON with a ``type`` tag. A new field needs a default, and no field
may be renamed, because old database rows must stay readable.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import assert_never

import msgspec


class Media(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One picture, voice, video or file.

    Attributes:
        path: The absolute path on the host: of the bot's copy of a received medium, or of the file
            to send. Empty if there is no copy.
        url: The address from which a received medium came, or from which an outgoing one can be
            fetched; may be empty.
        name: The name that people see. It is never used as a path.
        mime: The media type, for example ``image/png``.
        size: The size in bytes; 0 if not known.
        sha256: The hash of the bytes in hex; empty if not known.
        problem: Why the bot has no copy of a received medium; empty if it has one.
        seconds: The length of a sound in seconds; 0 if not known.
        look: A description of the content of a file that somebody posted, in one or two lines;
            empty if the bot has not opened the file. The lines quote the file.
    """

    path: str = ""
    url: str = ""
    name: str = ""
    mime: str = "application/octet-stream"
    size: int = 0
    sha256: str = ""
    problem: str = ""
    seconds: float = 0.0
    look: str = ""


class Text(msgspec.Struct, frozen=True, omit_defaults=True, tag="text"):
    """Text. Markup of a platform in this text has no effect.

    Attributes:
        text: The text.
        markdown: Whether the text is Markdown, as models write it. A platform with formatted text
            shows the formatting; on other platforms, people see the text without the marks.
    """

    text: str
    markdown: bool = False


class Mention(msgspec.Struct, frozen=True, tag="mention"):
    """A mention of a person, or of everybody in the chat.

    Attributes:
        user_id: The platform's id of the person; `EVERYONE` for everybody.
        name: The name that is shown; empty if not known.
    """

    user_id: str
    name: str = ""


EVERYONE = "all"
"""The `Mention.user_id` that means everybody in the chat."""


class Reply(msgspec.Struct, frozen=True, tag="reply"):
    """Marks the message as a reply to another message.

    Attributes:
        message_id: The platform's id of the other message.
        sender_id: The platform's id of the person who wrote the other message; empty if not known.
        text: The text of the other message; empty if not known.
    """

    message_id: str
    sender_id: str = ""
    text: str = ""


class Image(msgspec.Struct, frozen=True, tag="image"):
    """A picture.

    Attributes:
        media: The picture.
    """

    media: Media


class Voice(msgspec.Struct, frozen=True, tag="voice"):
    """A voice message. Most platforms accept it only if the message has no other segment.

    Attributes:
        media: The sound.
        text: The transcript; empty if not known.
    """

    media: Media
    text: str = ""


class Video(msgspec.Struct, frozen=True, tag="video"):
    """A video.

    Attributes:
        media: The video.
    """

    media: Media


class File(msgspec.Struct, frozen=True, tag="file"):
    """A file.

    Attributes:
        media: The file.
    """

    media: Media


class ForwardedMessage(msgspec.Struct, frozen=True):
    """One message inside a forwarded bundle.

    Attributes:
        sender_id: The platform's id of the person who wrote it.
        sender_name: The name that is shown.
        segments: The content.
        time: The time of writing, in seconds since 1970; 0 if not known.
    """

    sender_id: str
    sender_name: str
    segments: tuple["Segment", ...]
    time: float = 0.0


class Forward(msgspec.Struct, frozen=True, tag="forward"):
    """Several messages, usually from another chat, that are shown as one bundle.

    Attributes:
        messages: The messages, oldest first.
    """

    messages: tuple[ForwardedMessage, ...]


class Notice(msgspec.Struct, frozen=True, tag="notice"):
    """An event in a chat that is not a message.

    Attributes:
        kind: The kind of event: ``poke``, ``join``, ``leave``, ``recall``, ...
        actor_id: The platform's id of the person who acted; may be empty.
        target_id: The platform's id of the person to whom it happened; may be empty.
        detail: The platform's word for the event; may be empty.
    """

    kind: str
    actor_id: str = ""
    target_id: str = ""
    detail: str = ""


class Unknown(msgspec.Struct, frozen=True, tag="unknown"):
    """A part of a message that no other segment can describe. It is stored, so that the history has
    all parts of the message.

    Attributes:
        kind: The platform's name for this part.
        summary: A description in words; may be empty.
    """

    kind: str
    summary: str = ""


Segment = Text | Mention | Reply | Image | Voice | Video | File | Forward | Notice | Unknown
Segments = tuple[Segment, ...]

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Segments)


def encode_segments(segments: Sequence[Segment]) -> str:
    """Encode segments as JSON text, for a table or a stream.

    Args:
        segments: The segments, in their order.

    Returns:
        A JSON array of objects. Each has a ``type``.
    """
    return _encoder.encode(segments).decode()


def decode_segments(text: str | bytes) -> Segments:
    """Decode segments from their JSON text.

    Args:
        text: A result of `encode_segments`.

    Returns:
        The segments, in their order.

    Raises:
        msgspec.ValidationError: The JSON is not an array of segments.
        msgspec.DecodeError: The text is not JSON.
    """
    return _decoder.decode(text)


def every_segment(segments: Iterable[Segment]) -> Iterator[Segment]:
    """Iterate over segments, and over the segments inside forwarded bundles.

    Args:
        segments: The segments.

    Yields:
        Each segment, in order. The segments inside a bundle come before the bundle.
    """
    for segment in segments:
        if isinstance(segment, Forward):
            for message in segment.messages:
                yield from every_segment(message.segments)
        yield segment


def plain_text(segments: Iterable[Segment]) -> str:
    """Convert segments to plain text: texts and names, and a word in brackets for each medium.

    Args:
        segments: The segments, in their order.

    Returns:
        The text, with ``[image]``, ``[voice]`` or ``[file: a.txt]`` for a medium. A reply adds
        nothing.
    """
    return "".join(map(_plain, segments))


def _plain(segment: Segment) -> str:
    match segment:
        case Text():
            return segment.text
        case Mention():
            return f"@{segment.name or segment.user_id} "
        case Reply():
            return ""
        case Image():
            return "[image]"
        case Voice():
            return f"[voice: {segment.text}]" if segment.text else "[voice]"
        case Video():
            return "[video]"
        case File():
            return f"[file: {segment.media.name}]"
        case Forward():
            return f"[{len(segment.messages)} forwarded messages]"
        case Notice():
            return f"[{segment.kind}]"
        case Unknown():
            return f"[{segment.kind}]"
        case _:
            assert_never(segment)
