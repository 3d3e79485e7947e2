"""The pieces that a message is made of, the same for every platform.

They are stored and sent as JSON with a ``type`` tag, so a field may be added with a default but
never renamed: old rows must stay readable.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import assert_never

import msgspec


class Media(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One picture, voice, video or file.

    Inbound, ``path`` is where our own copy lies (absolute, on the host), or empty with a
    ``problem`` that says why there is none. Outbound, ``path`` is the file to send. ``name`` is
    what people see and is never used as a path. ``size`` counts bytes, ``seconds`` is how long a
    sound takes, where known.
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
    """Plain text; platform markup in it is only characters."""

    text: str


class Mention(msgspec.Struct, frozen=True, tag="mention"):
    """Somebody is addressed. ``user_id`` is the platform's; `EVERYONE` means all of the chat."""

    user_id: str
    name: str = ""


EVERYONE = "all"
"""`Mention.user_id` of a mention of everybody."""


class Reply(msgspec.Struct, frozen=True, tag="reply"):
    """This message answers another. ``text`` and ``sender_id`` are what is known of that one."""

    message_id: str
    sender_id: str = ""
    text: str = ""


class Image(msgspec.Struct, frozen=True, tag="image"):
    """A picture."""

    media: Media


class Voice(msgspec.Struct, frozen=True, tag="voice"):
    """A voice message. Most platforms want it alone. ``text`` is what is said, where known."""

    media: Media
    text: str = ""


class Video(msgspec.Struct, frozen=True, tag="video"):
    """A video."""

    media: Media


class File(msgspec.Struct, frozen=True, tag="file"):
    """A file to keep."""

    media: Media


class ForwardedMessage(msgspec.Struct, frozen=True):
    """One message inside a forwarded bundle."""

    sender_id: str
    sender_name: str
    segments: tuple["Segment", ...]
    time: float = 0.0


class Forward(msgspec.Struct, frozen=True, tag="forward"):
    """Messages from elsewhere, shown as a bundle."""

    messages: tuple[ForwardedMessage, ...]


class Notice(msgspec.Struct, frozen=True, tag="notice"):
    """Something happened that nobody wrote: ``poke``, ``join``, ``leave``, ``recall``, ...

    ``actor_id`` did it, ``target_id`` it was done to; ``detail`` is the platform's own word.
    """

    kind: str
    actor_id: str = ""
    target_id: str = ""
    detail: str = ""


class Unknown(msgspec.Struct, frozen=True, tag="unknown"):
    """A piece that we have no word for, kept so that nothing is lost silently."""

    kind: str
    summary: str = ""


Segment = Text | Mention | Reply | Image | Voice | Video | File | Forward | Notice | Unknown
Segments = tuple[Segment, ...]

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Segments)


def encode_segments(segments: Sequence[Segment]) -> str:
    """The JSON text of segments, for a table or a stream."""
    return _encoder.encode(segments).decode()


def decode_segments(text: str | bytes) -> Segments:
    """Segments from their JSON text. Raises `msgspec.ValidationError` where it is none."""
    return _decoder.decode(text)


def every_segment(segments: Iterable[Segment]) -> Iterator[Segment]:
    """Each of them, and in front of a bundle those of its messages."""
    for segment in segments:
        if isinstance(segment, Forward):
            for message in segment.messages:
                yield from every_segment(message.segments)
        yield segment


def plain_text(segments: Iterable[Segment]) -> str:
    """What a person would read aloud: text and names, with a word in brackets for each medium."""
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
