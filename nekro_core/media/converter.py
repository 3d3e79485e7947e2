"""Converts bytes of one media type to another."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Self

from anyio import CapacityLimiter

from nekro_core.media.confined_process import run_confined
from nekro_core.media.errors import UnusableMedia
from nekro_core.media.fork_server import ForkServer
from nekro_core.media.limits import PictureLimits, VoiceFormat
from nekro_core.media.plain_wav import plain_wav_seconds

LONGEST_VOICE_S = 600.0
"""The longest sound in seconds. Platforms limit their own voice messages to one to five minutes."""

_MOST_SHOWN = 32 * 1024 * 1024
_MOST_SVG = 4 * 1024 * 1024
_SVG_SECONDS = 10
"""Processor time for one SVG. A map of 4 MB takes two seconds."""

VOICE_TYPES: dict[VoiceFormat, str] = {
    "wav": "audio/wav",
    "ogg": "audio/ogg",
    "mp3": "audio/mpeg",
    "m4a": "audio/mp4",
    "silk": "audio/silk",
}
"""The media type of each format."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sound:
    """A whole sound file and its length."""

    data: bytes
    mime: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A whole picture file."""

    data: bytes
    mime: str


class MediaConverter:
    """Checks and converts voices and pictures. Each file gets its own child process, with bounds on
    time, memory and access. At most ``at_once`` children of each kind run; further files wait. If
    the converter will get pictures, use it as an async context manager: leaving the context ends
    the process that decodes them. Besides the errors that they name, the methods raise `MediaError`
    if no child can be started.

    A voice takes about 0.25 s, and 60 MB while it is converted. Pictures are frequent, so the first
    picture starts a process of 30 MB, which forks a child for each picture within milliseconds.
    This process ends after a minute without pictures.
    """

    def __init__(self, *, at_once: int = 2) -> None:
        self._places = CapacityLimiter(at_once)
        self._pictures = ForkServer("nekro_core.media.picture_worker", at_once=at_once)

    async def __aenter__(self) -> Self:
        await self._pictures.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._pictures.__aexit__(*_)

    async def sound(
        self,
        data: bytes,
        mime: str,
        wanted: VoiceFormat = "wav",
        *,
        max_seconds: float = LONGEST_VOICE_S,
    ) -> Sound:
        """Convert sound to another format. ``mime`` is the type of the bytes themselves, not the
        type that the file's name suggests. If the bytes are a video, its sound track is converted.
        Raises `UnusableMedia`, also if the sound is longer than ``max_seconds``, and
        `CodecMissing`."""
        request = {
            "mime": mime,
            "plain": plain_wav_seconds(data) is not None,
            "format": wanted,
            "max_seconds": max_seconds,
        }
        async with self._places:
            fields, made = await run_confined("nekro_core.media.sound_worker", request, data)
        seconds = fields.get("seconds")
        if not made or not isinstance(seconds, float) or not 0 <= seconds <= max_seconds:
            raise UnusableMedia("the converter returned no usable sound")
        return Sound(data=made, mime=VOICE_TYPES[wanted], seconds=seconds)

    async def picture(self, data: bytes, limits: PictureLimits) -> Picture:
        """Convert a picture to what a platform accepts. A picture that is already within ``limits``
        is returned unchanged. Raises `UnusableMedia`."""
        request = {
            "job": "fit",
            "types": list(limits.types),
            "max_bytes": limits.max_bytes,
            "max_side": limits.max_side,
            "max_sides": limits.max_sides,
            "max_pixels": limits.max_pixels,
            "animated": limits.animated,
        }
        with TemporaryFile() as source:
            source.write(data)
            source.flush()
            fields, made = await self._pictures.run(request, source.fileno())
        return Picture(data=made or data, mime=_expected(fields, limits.types))

    async def check_picture(self, path: Path, mime: str, *, max_pixels: int) -> None:
        """Check that a file is a whole picture of the type ``mime`` with at most ``max_pixels``.
        Raises `UnusableMedia` if it is not, and `OSError` if it cannot be read."""
        request = {"job": "check", "mime": mime, "max_pixels": max_pixels}
        with path.open("rb") as source:
            await self._pictures.run(request, source.fileno())

    async def picture_to_show(self, picture: Path | bytes, *, longer_side: int) -> Picture:
        """Make a small, upright and newly encoded copy of a picture, for a model. Raises
        `UnusableMedia`, and `OSError` if the file cannot be read."""
        with picture.open("rb") if isinstance(picture, Path) else TemporaryFile() as source:
            if isinstance(picture, bytes):
                source.write(picture)
                source.flush()
            if os.fstat(source.fileno()).st_size > _MOST_SHOWN:
                raise UnusableMedia(f"it has more than {_MOST_SHOWN} bytes")
            request = {"job": "show", "longer_side": longer_side}
            fields, made = await self._pictures.run(request, source.fileno())
        if not made:
            raise UnusableMedia("the converter returned no picture")
        return Picture(data=made, mime=_expected(fields, ("image/png", "image/jpeg")))

    async def draw_svg(self, data: bytes) -> Picture:
        """Draw an SVG as a PNG on white, with 640 to 4,096 pixels on its longer side. Raises
        `UnusableMedia`."""
        if len(data) > _MOST_SVG:
            raise UnusableMedia(f"the SVG has more than {_MOST_SVG} bytes")
        async with self._places:
            fields, made = await run_confined(
                "nekro_core.media.svg_worker", {}, data, seconds=_SVG_SECONDS
            )
        return Picture(data=made, mime=_expected(fields, ("image/png",)))


def _expected(fields: Mapping[str, Any], types: Sequence[str]) -> str:
    mime = fields.get("mime")
    if mime not in types:
        raise UnusableMedia("the converter returned no picture of a type that was asked for")
    return str(mime)
