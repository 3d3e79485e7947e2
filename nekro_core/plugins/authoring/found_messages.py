"""The results that plugins get when they search a chat's messages."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import PurePath

from nekro_core.chat import File, Image, Media, Record, Segments, Video, Voice
from nekro_core.plugins.authoring.host_files import UPLOADS


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundMessage:
    """A message that a search found.

    Attributes:
        record: The message as it is stored.
        number: Its number in the store. Later messages have larger numbers.
        written: Its time, in the bot's time zone.
        answers: The number of the message to which this message replies; 0 if it is not a reply, or
            if that message is not stored.
        files: The paths in the box of the message's pictures, voices, videos and files.
    """

    record: Record
    number: int
    written: datetime
    answers: int = 0
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageMatches:
    """The result of a search.

    Attributes:
        messages: The messages, best first.
        incomplete: Whether some old messages were not searched, because they are not indexed yet.
            This is so for some minutes after an upgrade from a version without a search.
        weak: Whether nothing fits the words well. Then the messages are the nearest that there
            are, at most three, and they may be about something else.
    """

    messages: tuple[FoundMessage, ...]
    incomplete: bool = False
    weak: bool = False


def media_of(segments: Segments) -> list[Media]:
    """Return the media of a message of which the bot has a copy."""
    return [
        segment.media
        for segment in segments
        if isinstance(segment, Image | Voice | Video | File) and segment.media.path
    ]


def path_in_box(media: Media) -> str:
    """Return the path that a received medium has in the box."""
    return f"{UPLOADS}/{PurePath(media.path).name}"
