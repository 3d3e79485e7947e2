"""Defines which voices and pictures a platform accepts. Other voices and pictures are converted
before they are sent (`nekro_core.delivery.media.fitter`), so adapters do not have to convert
them."""

from dataclasses import dataclass
from typing import Literal

VoiceFormat = Literal["wav", "ogg", "mp3", "m4a", "silk"]
"""``wav``: 16-bit PCM, one channel. ``ogg``: Opus at 48 kHz. ``m4a``: AAC. ``silk``: SILK v3 with
Tencent's leading 0x02."""

PictureType = Literal["image/jpeg", "image/png", "image/gif", "image/webp", "image/bmp"]


@dataclass(frozen=True, slots=True, kw_only=True)
class VoiceLimits:
    """The voice messages that a platform accepts. A voice in a format that is not in ``formats`` is
    converted to the first of ``formats``. A voice that is too long or too large, or that cannot be
    converted here, is sent as an audio file. If the platform accepts no files, the voice is
    refused, and the error says why.

    Attributes:
        formats: The accepted formats, best first; at least one.
        max_seconds: The longest accepted voice in seconds; None for any length.
        max_bytes: The largest accepted file in bytes; None for any size.

    Raises:
        ValueError: There are no formats.
    """

    formats: tuple[VoiceFormat, ...] = ("wav",)
    converts: bool = False
    """Whether the platform's own program converts other formats. If so, and a library is missing
    here, a voice in another format is sent unchanged."""
    max_seconds: float | None = None
    max_bytes: int | None = None

    def __post_init__(self) -> None:
        if not self.formats:
            raise ValueError(
                "formats is empty: name at least one, or leave Voice out of what is sent"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureLimits:
    """The pictures that a platform accepts. A picture of another type than ``types`` is converted
    to the best of them: PNG for drawings and transparent pictures, JPEG for photographs.

    ``max_side`` bounds width and height, ``max_pixels`` width times height (of one frame),
    ``max_sides`` width plus height. ``animated`` says whether the platform shows more than the
    first frame of a GIF. A picture over the pixel limits gets fewer pixels. If its file is still
    too large, its quality is lowered, and then its pixels are reduced again.

    Attributes:
        types: The accepted media types; at least one.
        max_bytes: The largest accepted file in bytes.
        max_side: The largest width and the largest height in pixels; None for any.
        max_sides: The largest sum of width and height in pixels; None for any.
        max_pixels: The largest number of pixels of one frame; None for any.
        animated: Whether the platform shows more than the first frame of a GIF.

    Raises:
        ValueError: There are no types.
    """

    types: tuple[PictureType, ...] = ("image/jpeg", "image/png", "image/gif", "image/webp")
    max_bytes: int = 10 * 1024 * 1024
    max_side: int | None = None
    max_sides: int | None = None
    max_pixels: int | None = None
    animated: bool = True

    def __post_init__(self) -> None:
        if not self.types:
            raise ValueError(
                "types is empty: name at least one, or leave Image out of what is sent"
            )
