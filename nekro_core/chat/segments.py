"""The pieces of a message, which are the same for every platform.

They are stored and sent as JSON with a ``type`` tag, so a field may be added with a default but
never renamed: old rows must stay readable.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import assert_never

import msgspec


class Media(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One picture, voice, video or file.

    Inbound, ``path`` is our own copy (absolute, on the host), or empty with a ``problem`` that says
    why there is none. Outbound, ``path`` is the file to send. ``name`` is what people see and is
    never used as a path. ``size`` is in bytes; ``seconds`` is the length of a sound, if known.

    Attributes:
        path: The file on the host, absolute; empty if there is no copy.
        url: Where it came from, or where an outgoing one can be fetched; may be empty.
        name: What people see; never used as a path.
        mime: Its media type, for example ``image/png``.
        size: Bytes; 0 if not known.
        sha256: The hash of its bytes in hex; empty if not known.
        problem: Why there is no copy; empty if there is one.
        seconds: The length of a sound; 0 if not known.
    """

    path: str = ""
    url: str = ""
    name: str = ""
    mime: str = "application/octet-stream"
    size: int = 0
    sha256: str = ""
    problem: str = ""
    seconds: float = 0.0


class Text(msgspec.Struct, frozen=True, tag="text"):
    """Plain text; platform markup in it has no effect.

    Attributes:
        text: The words.
    """

    text: str


class Mention(msgspec.Struct, frozen=True, tag="mention"):
    """A mention of a person. ``user_id`` is the platform's; `EVERYONE` means all of the chat.

    Attributes:
        user_id: The platform's id of the person, or `EVERYONE`.
        name: The name that is shown; empty if not known.
    """

    user_id: str
    name: str = ""


EVERYONE = "all"
"""`Mention.user_id` of a mention of everybody."""


class Reply(msgspec.Struct, frozen=True, tag="reply"):
    """Marks the message as a reply to another one, whose ``text`` and ``sender_id`` may be known.

    Attributes:
        message_id: The platform's id of the other message.
        sender_id: Who wrote the other message; empty if not known.
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
    """A voice message. Most platforms accept it only as a message by itself. ``text`` is its
    transcript, if known.

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
        sender_id: The platform's id of who wrote it.
        sender_name: The name that is shown.
        segments: Its content.
        time: When it was written, in seconds since 1970; 0 if not known.
    """

    sender_id: str
    sender_name: str
    segments: tuple["Segment", ...]
    time: float = 0.0


class Forward(msgspec.Struct, frozen=True, tag="forward"):
    """Messages from elsewhere, shown as a bundle.

    Attributes:
        messages: The messages, oldest first.
    """

    messages: tuple[ForwardedMessage, ...]


class Notice(msgspec.Struct, frozen=True, tag="notice"):
    """An event that is not a message: ``poke``, ``join``, ``leave``, ``recall``, ...

    ``actor_id`` did it to ``target_id``; ``detail`` is the platform's own word for it.

    Attributes:
        kind: What happened: ``poke``, ``join``, ``leave``, ``recall``, ...
        actor_id: The platform's id of who did it; may be empty.
        target_id: The platform's id of whom it was done to; may be empty.
        detail: The platform's own word for it; may be empty.
    """

    kind: str
    actor_id: str = ""
    target_id: str = ""
    detail: str = ""


class Unknown(msgspec.Struct, frozen=True, tag="unknown"):
    """A piece of a kind that no other segment describes. It is stored so that nothing is lost.

    Attributes:
        kind: The platform's name for it.
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
        A JSON array of objects with a ``type`` each.
    """
    return _encoder.encode(segments).decode()


def decode_segments(text: str | bytes) -> Segments:
    """Read segments from their JSON text.

    Args:
        text: What `encode_segments` made.

    Returns:
        The segments, in their order.

    Raises:
        msgspec.ValidationError: The JSON is no array of segments.
        msgspec.DecodeError: The text is no JSON.
    """
    return _decoder.decode(text)


def every_segment(segments: Iterable[Segment]) -> Iterator[Segment]:
    """Iterate over segments and those inside forwarded bundles.

    Args:
        segments: The segments to go through.

    Yields:
        Each segment, in order. Those inside a bundle come before the bundle.
    """
    for segment in segments:
        if isinstance(segment, Forward):
            for message in segment.messages:
                yield from every_segment(message.segments)
        yield segment


def plain_text(segments: Iterable[Segment]) -> str:
    """Make plain text of segments: text and names, with a word in brackets for each medium.

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
