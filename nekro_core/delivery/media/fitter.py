"""Makes outgoing media fit the platform: converts the format, shrinks a picture, or chooses the
nearest segment type that the platform supports."""

from typing import TypeVar

import anyio
import msgspec
from loguru import logger

from nekro_core.chat import (
    ChatKey,
    File,
    Forward,
    ForwardedMessage,
    Image,
    Media,
    Segment,
    Segments,
    Text,
    Video,
    Voice,
)
from nekro_core.delivery.adapter import Capabilities
from nekro_core.delivery.media.links import MediaLinks
from nekro_core.delivery.media.store import MediaStore
from nekro_core.media.converter import VOICE_TYPES, MediaConverter
from nekro_core.media.errors import CodecMissing, MediaError
from nekro_core.media.limits import PictureLimits, VoiceFormat, VoiceLimits
from nekro_core.media.plain_wav import plain_wav_seconds

Medium = TypeVar("Medium", Image, Voice, Video, File, File | Video)

_FORMATS = {mime: name for name, mime in VOICE_TYPES.items()}
_MAY_MOVE = ("image/gif", "image/webp", "image/png")


class MediaFitter:
    """Converts media that are already stored, and stores the results beside them."""

    def __init__(
        self, media: MediaStore, converter: MediaConverter, links: MediaLinks | None = None
    ) -> None:
        self._media = media
        self._converter = converter
        self._links = links

    async def fit(
        self, chat_key: ChatKey, segments: Segments, can: Capabilities
    ) -> Segments | None:
        """Fit segments to the platform. Returns None if nothing changes. A medium that already has
        a ``problem`` stays unchanged; a medium that cannot be fitted gets a ``problem``."""
        fitted = tuple([await self._fit(chat_key, each, can) for each in segments])
        return None if all(a is b for a, b in zip(segments, fitted, strict=True)) else fitted

    async def _fit(self, chat_key: ChatKey, segment: Segment, can: Capabilities) -> Segment:
        if isinstance(segment, Forward):
            return await self._bundle(chat_key, segment, can)
        if not isinstance(segment, Image | Voice | Video | File) or segment.media.problem:
            return segment
        carried = can.inline | can.alone
        match segment:
            case Voice() if Voice in carried:
                if can.voice is not None:
                    segment = await self._voice(chat_key, segment, can.voice, files=File in carried)
            case Image() if Image in carried:
                if can.picture is not None:
                    segment = await self._picture(
                        chat_key, segment, can.picture, files=File in carried
                    )
            case File():
                pass
            case _ if type(segment) not in carried and File in carried:
                segment = File(segment.media)
            case _ if type(segment) not in carried and Text in carried:
                return self._in_words(chat_key, segment)
        if isinstance(segment, File | Video) and can.file_bytes is not None:
            return self._large(chat_key, segment, can.file_bytes, carried)
        return segment

    async def _bundle(self, chat_key: ChatKey, bundle: Forward, can: Capabilities) -> Forward:
        messages: list[ForwardedMessage] = []
        for each in bundle.messages:
            fitted = await self.fit(chat_key, each.segments, can)
            messages.append(
                each if fitted is None else msgspec.structs.replace(each, segments=fitted)
            )
        same = all(a is b for a, b in zip(messages, bundle.messages, strict=True))
        return bundle if same else Forward(tuple(messages))

    def _in_words(self, chat_key: ChatKey, segment: Image | Voice | Video | File) -> Segment:
        """Return a medium as text, for a platform that carries neither this type nor files: the
        transcript of a voice, or a link. If there is neither a transcript nor a link, return the
        medium unchanged."""
        if isinstance(segment, Voice) and segment.text:
            return Text(f"[voice] {segment.text}")
        link = self._links.link(chat_key, segment.media) if self._links else ""
        return Text(f"{segment.media.name or 'file'}: {link}\n") if link else segment

    async def _voice(
        self, chat_key: ChatKey, voice: Voice, limits: VoiceLimits, *, files: bool
    ) -> Voice | File:
        media = voice.media
        try:
            data = await anyio.Path(media.path).read_bytes()
            media = await self._as_voice(chat_key, media, data, limits)
            self._check(media, limits)
        except MediaError as error:
            missing = isinstance(error, CodecMissing)
            if missing and limits.converts:
                logger.warning("a voice for {} is sent unconverted: {}", chat_key, error)
                return voice
            level = "WARNING" if missing else "INFO"
            logger.log(level, "a voice for {} cannot be one: {}", chat_key, error)
            return File(voice.media) if files else _with_problem(voice, str(error))
        except OSError as error:
            return _with_problem(voice, f"cannot be read: {error.strerror}")
        return msgspec.structs.replace(voice, media=media)

    async def _as_voice(
        self, chat_key: ChatKey, media: Media, data: bytes, limits: VoiceLimits
    ) -> Media:
        if format_of(data, media.mime) in limits.formats:
            seconds = media.seconds or plain_wav_seconds(data) or 0.0
            return msgspec.structs.replace(media, seconds=seconds)
        sound = await self._converter.sound(data, media.mime, limits.formats[0])
        stem = media.name.rpartition(".")[0] or "voice"
        kept = await self._media.keep_bytes(
            chat_key, sound.data, name=f"{stem}.{limits.formats[0]}", expect="file"
        )
        return msgspec.structs.replace(kept, mime=sound.mime, seconds=sound.seconds)

    @staticmethod
    def _check(media: Media, limits: VoiceLimits) -> None:
        if limits.max_seconds is not None and media.seconds > limits.max_seconds:
            raise MediaError(f"it lasts {media.seconds:.0f} s: at most {limits.max_seconds:g}")
        if limits.max_bytes is not None and media.size > limits.max_bytes:
            raise MediaError(f"it has {media.size} bytes: at most {limits.max_bytes}")
        if media.problem:
            raise MediaError(media.problem)

    async def _picture(
        self, chat_key: ChatKey, image: Image, limits: PictureLimits, *, files: bool
    ) -> Image | File:
        media = image.media
        try:
            if within_limits(media, limits):
                return image
            data = await anyio.Path(media.path).read_bytes()
            made = await self._converter.picture(data, limits)
        except MediaError as error:
            logger.info("a picture for {} cannot be sent as a picture: {}", chat_key, error)
            return File(media) if files else _with_problem(image, str(error))
        except OSError as error:
            return _with_problem(image, f"cannot be read: {error.strerror}")
        if made.data == data:
            return image
        stem = media.name.rpartition(".")[0] or "picture"
        name = f"{stem}.{made.mime.removeprefix('image/').replace('jpeg', 'jpg')}"
        kept = await self._media.keep_bytes(chat_key, made.data, name=name, expect="image")
        return Image(kept)

    def _large(
        self, chat_key: ChatKey, segment: File | Video, most: int, carried: frozenset[type]
    ) -> Segment:
        media = segment.media
        if media.size <= most:
            return segment
        link = self._links.link(chat_key, media) if self._links and Text in carried else ""
        if link:
            return Text(f"{media.name or 'file'} ({media.size / 1024 / 1024:.1f} MiB): {link}\n")
        return _with_problem(
            segment,
            f"{media.size} bytes, at most {most} go here; a link can be sent instead where "
            "NEKRO_DELIVERY__MEDIA__LINK_ADDRESS says how the bot is reached from outside",
        )


def format_of(data: bytes, mime: str) -> VoiceFormat | None:
    """Return the exact voice format of the bytes; None if no platform uses the format."""
    match _FORMATS.get(mime):
        case "wav":
            return "wav" if plain_wav_seconds(data) is not None else None
        case "ogg":
            return "ogg" if b"OpusHead" in data[:200] else None
        case "silk":
            return "silk" if data.startswith(b"\x02") else None
        case other:
            return other


def within_limits(media: Media, limits: PictureLimits) -> bool:
    """Return True if a picture certainly needs no change. Return False if the picture needs a
    change, or if it must be decoded to find out."""
    if media.mime not in limits.types or media.size > limits.max_bytes:
        return False
    if not limits.animated and media.mime in _MAY_MOVE:
        return False
    return not (limits.max_side or limits.max_sides or limits.max_pixels)


def _with_problem(segment: Medium, problem: str) -> Medium:
    media = msgspec.structs.replace(segment.media, problem=problem)
    return msgspec.structs.replace(segment, media=media)
