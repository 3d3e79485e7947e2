"""Has what all charts share: size, colours, the format of numbers, and the shortening of labels."""

import math

from .palette import Colour
from .typeset import Style, Typesetter

WIDTH, HEIGHT = 1280, 800
MARGIN = 64
INK: Colour = (34, 38, 52)
MUTED: Colour = (112, 118, 136)
GRID: Colour = (231, 234, 242)
SHARP = 2
"""Lines are drawn this many times larger and then reduced, because Pillow's lines have jagged
edges."""


def format_value(value: float) -> str:
    """Format a number for people: ``1,234``, ``0.25``, ``1.5M``."""
    for bound, sign in ((1e12, "T"), (1e9, "B"), (1e6, "M")):
        if abs(value) >= bound:
            return f"{value / bound:.2f}".rstrip("0").rstrip(".") + sign
    if value == int(value):
        return f"{int(value):,}"
    digits = max(2, 2 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{digits}f}".rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Return round numbers that cover a range, in steps of 1, 2, 2.5 or 5 times a power of ten."""
    span = (high - low) or abs(high) or 1.0
    power = 10.0 ** math.floor(math.log10(span / count))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor * count >= span)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(number * step, 12) for number in range(first, max(last, first + 1) + 1)]


def cut_to(setter: Typesetter, text: str, style: Style, room: float) -> str:
    """Shorten a text to ``room`` pixels."""
    if setter.width(text, style) <= room:
        return text
    while len(text) > 1 and setter.width(f"{text}…", style) > room:
        text = text[:-1]
    return f"{text.rstrip()}…"
