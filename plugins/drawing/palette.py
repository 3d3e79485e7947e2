"""Defines colour palettes, and draws gradients, panels and shapes with them."""

import io
import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass

from PIL import Image, ImageDraw, ImageFilter

Colour = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Palette:
    """The two ends of the gradient of the background, and the colours of the panel on it and of the
    panel's text. ``accent`` is for what stands out, ``ink`` for text, ``muted`` for text that is
    less important."""

    start: Colour
    end: Colour
    accent: Colour
    ink: Colour = (30, 34, 48)
    muted: Colour = (104, 110, 128)
    panel: Colour = (255, 255, 255)


PALETTES: dict[str, Palette] = {
    "sunset": Palette((255, 138, 101), (214, 71, 133), (221, 78, 112)),
    "ocean": Palette((67, 160, 234), (62, 84, 197), (48, 104, 208)),
    "forest": Palette((98, 190, 134), (29, 122, 122), (26, 132, 108)),
    "lavender": Palette((172, 144, 246), (107, 92, 214), (116, 92, 216)),
    "night": Palette(
        (48, 58, 98),
        (18, 21, 40),
        (139, 164, 255),
        ink=(236, 239, 250),
        muted=(160, 168, 196),
        panel=(36, 41, 66),
    ),
}
# The colours of the series of a chart, in the order of the series.
SERIES: tuple[Colour, ...] = (
    (74, 122, 232),
    (240, 128, 92),
    (62, 174, 138),
    (238, 182, 68),
    (150, 112, 222),
    (222, 92, 138),
    (72, 176, 204),
    (148, 164, 72),
    (188, 128, 96),
    (120, 134, 160),
    (96, 84, 180),
    (196, 84, 84),
)


def palette_for(style: str, text: str) -> Palette:
    """Return the palette of this name. ``auto`` selects a palette by the text. The same text always
    gets the same palette."""
    if style in PALETTES:
        return PALETTES[style]
    bright = [name for name in PALETTES if name != "night"]
    return PALETTES[bright[zlib.crc32(text.encode("utf-8", "replace")) % len(bright)]]


def gradient(size: tuple[int, int], palette: Palette) -> Image.Image:
    """Draw a diagonal gradient with two soft lights."""

    def channel(start: int, end: int) -> Image.Image:
        return _smooth(size, lambda x, y: start + (end - start) * (x + y) / 2)

    def light(x: float, y: float) -> float:
        return 36 * _glow(x, y, 0.05, 0.95) + 56 * _glow(x, y, 0.95, 0.05)

    channels = map(channel, palette.start, palette.end)
    ground = Image.merge("RGB", tuple(channels))
    ground.paste((255, 255, 255), mask=_smooth(size, light))
    return ground


def _glow(x: float, y: float, centre_x: float, centre_y: float) -> float:
    return math.exp(-((x - centre_x) ** 2 + (y - centre_y) ** 2) / 0.14)


def _smooth(size: tuple[int, int], value: Callable[[float, float], float]) -> Image.Image:
    """Draw ``value`` over the unit square as one channel. It is computed for a small picture in
    floating point, and the picture is then enlarged. With whole numbers, people would see steps."""
    coarse = Image.new("F", (32, 32))
    coarse.putdata([value(x / 31, y / 31) for y in range(32) for x in range(32)])
    return coarse.resize(size, Image.Resampling.BICUBIC).convert("L")


def add_panel(ground: Image.Image, margin: int, radius: int, palette: Palette) -> None:
    """Draw a panel with round corners and a soft shadow, ``margin`` pixels from the edges."""
    width, height = ground.size
    box = (margin, margin, width - margin, height - margin)
    shadow = Image.new("L", ground.size)
    lower = (box[0], box[1] + margin // 5, box[2], box[3] + margin // 5)
    ImageDraw.Draw(shadow).rounded_rectangle(lower, radius, fill=96)
    ground.paste((16, 18, 40), mask=shadow.filter(ImageFilter.GaussianBlur(margin / 3)))
    fill_round(ground, box, radius, palette.panel)


def fill_round(
    canvas: Image.Image, box: tuple[float, float, float, float], radius: float, colour: Colour
) -> None:
    """Fill a box with round corners."""
    left, top = math.floor(box[0]), math.floor(box[1])
    size = (math.ceil(box[2]) - left, math.ceil(box[3]) - top)
    inner = (box[0] - left, box[1] - top, box[2] - left, box[3] - top)
    canvas.paste(colour, (left, top), round_mask(size, inner, radius))


def round_mask(
    size: tuple[int, int], box: tuple[float, float, float, float], radius: float
) -> Image.Image:
    """Make a mask of a box with round corners. It is drawn twice as large and then reduced, which
    smooths the corners."""
    mask = Image.new("L", (size[0] * 2, size[1] * 2))
    left, top, right, bottom = (2 * edge for edge in box)
    # Pillow also draws the pixel at the right and bottom coordinates, so 1 is subtracted.
    ImageDraw.Draw(mask).rounded_rectangle((left, top, right - 1, bottom - 1), 2 * radius, fill=255)
    return mask.resize(size, Image.Resampling.BOX)


def encode_png(picture: Image.Image) -> bytes:
    """Encode a picture as PNG. Level 3 takes a quarter of the time of the best compression, and the
    file is a tenth larger."""
    encoded = io.BytesIO()
    picture.save(encoded, "PNG", compress_level=3)
    return encoded.getvalue()


def mix(one: Colour, other: Colour, share: float) -> Colour:
    """Mix two colours. ``share`` is the part of the second colour."""
    first, second, third = (round(a + (b - a) * share) for a, b in zip(one, other, strict=True))
    return first, second, third
