"""Draws line, bar and pie charts from labels and numbers."""

import math
from collections.abc import Sequence

from PIL import Image

from .axes import draw_columns, draw_rows, wants_rows
from .fonts import FontBook
from .palette import encode_png
from .pie import draw_pie
from .sheet import HEIGHT, INK, MARGIN, WIDTH
from .typeset import Style, Typesetter

MOST_POINTS = 200
MOST_SLICES = 12
MOST_LABEL = 60


class InvalidChartData(ValueError):
    """The data cannot be drawn. The message says what was given and what was expected."""


def draw_chart_png(
    book: FontBook, kind: str, labels: Sequence[str], values: Sequence[float], title: str
) -> bytes:
    """Draw a chart as PNG. Raises `InvalidChartData` and `FontMissing`."""
    _check(kind, labels, values)
    labels = [shorten(label.strip() or " ", MOST_LABEL) for label in labels]
    title = shorten(title.strip(), 120)
    with book.lock:
        setter = Typesetter(book, title + "".join(labels))
        setter.require(title, *labels)
        canvas = Image.new("RGB", (WIDTH, HEIGHT), (255, 255, 255))
        top = _draw_title(setter, canvas, title)
        if kind == "pie":
            draw_pie(setter, canvas, labels, values, top)
        elif kind == "bar" and wants_rows(setter, labels):
            canvas = draw_rows(setter, canvas, labels, values, top)
        else:
            draw_columns(setter, canvas, labels, values, top, lines=kind == "line")
    return encode_png(canvas)


def _check(kind: str, labels: Sequence[str], values: Sequence[float]) -> None:
    if kind not in ("line", "bar", "pie"):
        raise InvalidChartData(f"kind is {kind!r}: expected 'line', 'bar' or 'pie'")
    if not values or len(labels) != len(values):
        raise InvalidChartData(
            f"{len(labels)} labels and {len(values)} values: expected as many of each, at least one"
        )
    most = MOST_SLICES if kind == "pie" else MOST_POINTS
    if len(values) > most:
        raise InvalidChartData(f"{len(values)} values: a {kind} chart shows at most {most}")
    for label, value in zip(labels, values, strict=True):
        if not math.isfinite(value) or abs(value) > 1e15:
            raise InvalidChartData(
                f"the value of {label!r} is {value}: expected a number up to 1e15"
            )
        if value and abs(value) < 1e-12:
            raise InvalidChartData(
                f"the value of {label!r} is {value}: expected 0 or at least 1e-12"
            )
        if kind == "pie" and value < 0:
            raise InvalidChartData(
                f"the value of {label!r} is {value}: a pie has no negative slices"
            )
    if kind == "pie" and not sum(values):
        raise InvalidChartData("all values are 0: a pie needs one that is larger")


def shorten(text: str, most: int) -> str:
    """Return the text in one line of at most ``most`` characters."""
    text = " ".join(text.split())
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _draw_title(setter: Typesetter, canvas: Image.Image, title: str) -> float:
    if not title:
        return MARGIN
    style = Style(44, INK, bold=True)
    lines = setter.wrap(title, style, WIDTH - 2 * MARGIN)[:2]
    for number, line in enumerate(lines):
        setter.draw(canvas, MARGIN, MARGIN + 40 + number * 56, line, style)
    return MARGIN + 56 * len(lines) + 36
