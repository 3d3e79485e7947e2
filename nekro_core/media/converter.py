"""Bytes in, bytes of another kind out."""

from dataclasses import dataclass

from anyio import CapacityLimiter

from nekro_core.media.confined import run_confined
from nekro_core.media.errors import Unusable
from nekro_core.media.limits import PictureLimits, VoiceFormat
from nekro_core.media.plain_wav import plain_wav_seconds

LONGEST_VOICE_S = 600.0
"""Seconds of sound. The platforms' own voices end at one to five minutes."""

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
    """A whole file of sound, and how long it is."""

    data: bytes
    mime: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A whole picture file."""

    data: bytes
    mime: str


class Converter:
    """Makes voices and pictures into others, each in a child process of its own that is bounded
    in time, memory and reach. ``at_once`` children at most; who comes later waits.

    A child costs about 0.25 s and 60 MB while it works, and nothing afterwards.
    """

    def __init__(self, *, at_once: int = 2) -> None:
        self._places = CapacityLimiter(at_once)

    async def sound(
        self,
        data: bytes,
        mime: str,
        wanted: VoiceFormat = "wav",
        *,
        max_seconds: float = LONGEST_VOICE_S,
    ) -> Sound:
        """The sound in another format. ``mime`` is what the bytes are, not what they are called;
        of a video it is the sound track. Raises `Unusable` and `CodecMissing`."""
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
            raise Unusable("what came of it is no sound")
        return Sound(data=made, mime=VOICE_TYPES[wanted], seconds=seconds)

    async def picture(self, data: bytes, limits: PictureLimits) -> Picture:
        """The picture as a platform takes it; the same bytes where it does so already. Raises
        `Unusable`."""
        request = {
            "types": list(limits.types),
            "max_bytes": limits.max_bytes,
            "max_side": limits.max_side,
            "max_sides": limits.max_sides,
            "max_pixels": limits.max_pixels,
            "animated": limits.animated,
        }
        async with self._places:
            fields, made = await run_confined("nekro_core.media.picture_worker", request, data)
        mime = fields.get("mime")
        if mime not in limits.types:
            raise Unusable("what came of it is no picture of a kind that was asked for")
        return Picture(data=made or data, mime=mime)
