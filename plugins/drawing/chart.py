"""Charts: lines, bars and pies from labels and numbers."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from PIL import Image, ImageDraw

from .fonts import FontBook
from .palette import SERIES, Colour, encode_png, fill_round, mix, round_mask
from .typeset import Style, Typesetter

WIDTH, HEIGHT = 1280, 800
MOST_POINTS = 200
MOST_SLICES = 12
MOST_LABEL = 60
_INK: Colour = (34, 38, 52)
_MUTED: Colour = (112, 118, 136)
_GRID: Colour = (231, 234, 242)
_MARGIN = 64
_SHARP = 2
"""Lines are drawn this much larger and then made smaller: Pillow's own have stairs."""


class ChartData(ValueError):
    """The data cannot be drawn; says what came and what was expected."""


@dataclass(frozen=True, slots=True)
class Plot:
    """Where the values are drawn, and what range of them the axis shows."""

    left: float
    top: float
    right: float
    bottom: float
    low: float
    high: float

    def y(self, value: float) -> float:
        """The height of a value."""
        share = (value - self.low) / (self.high - self.low)
        return self.bottom - share * (self.bottom - self.top)


def draw_chart_png(
    book: FontBook, kind: str, labels: Sequence[str], values: Sequence[float], title: str
) -> bytes:
    """The PNG of a chart. Raises `ChartData`, `FontMissing`."""
    _check(kind, labels, values)
    labels = [shorten(label.strip() or " ", MOST_LABEL) for label in labels]
    title = shorten(title.strip(), 120)
    with book.lock:
        setter = Typesetter(book, title + "".join(labels))
        setter.require(title, *labels)
        canvas = Image.new("RGB", (WIDTH, HEIGHT), (255, 255, 255))
        top = _draw_title(setter, canvas, title)
        if kind == "pie":
            _draw_pie(setter, canvas, labels, values, top)
        elif kind == "bar" and _wants_rows(setter, labels):
            canvas = _draw_rows(setter, canvas, labels, values, top)
        else:
            _draw_columns(setter, canvas, labels, values, top, lines=kind == "line")
    return encode_png(canvas)


def _check(kind: str, labels: Sequence[str], values: Sequence[float]) -> None:
    if kind not in ("line", "bar", "pie"):
        raise ChartData(f"kind is {kind!r}: expected 'line', 'bar' or 'pie'")
    if not values or len(labels) != len(values):
        raise ChartData(
            f"{len(labels)} labels and {len(values)} values: expected as many of each, at least one"
        )
    most = MOST_SLICES if kind == "pie" else MOST_POINTS
    if len(values) > most:
        raise ChartData(f"{len(values)} values: a {kind} chart shows at most {most}")
    for label, value in zip(labels, values, strict=True):
        if not math.isfinite(value) or abs(value) > 1e15:
            raise ChartData(f"the value of {label!r} is {value}: expected a number up to 1e15")
        if kind == "pie" and value < 0:
            raise ChartData(f"the value of {label!r} is {value}: a pie has no negative slices")
    if kind == "pie" and not sum(values):
        raise ChartData("all values are 0: a pie needs one that is larger")


def shorten(text: str, most: int) -> str:
    """The text in one line of at most ``most`` characters."""
    text = " ".join(text.split())
    return text if len(text) <= most else f"{text[: most - 1]}…"


def format_value(value: float) -> str:
    """A number as people write it: ``1,234``, ``0.25``, ``1.5M``."""
    for bound, sign in ((1e12, "T"), (1e9, "B"), (1e6, "M")):
        if abs(value) >= bound:
            return f"{value / bound:.2f}".rstrip("0").rstrip(".") + sign
    if value == int(value):
        return f"{int(value):,}"
    digits = max(2, 2 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{digits}f}".rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Round numbers that span a range, in steps of 1, 2, 2.5 or 5 times a power of ten."""
    span = (high - low) or abs(high) or 1.0
    power = 10.0 ** math.floor(math.log10(span / count))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor * count >= span)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(number * step, 12) for number in range(first, max(last, first + 1) + 1)]


def _draw_title(setter: Typesetter, canvas: Image.Image, title: str) -> float:
    if not title:
        return _MARGIN
    style = Style(44, _INK, bold=True)
    lines = setter.wrap(title, style, WIDTH - 2 * _MARGIN)[:2]
    for number, line in enumerate(lines):
        setter.draw(canvas, _MARGIN, _MARGIN + 40 + number * 56, line, style)
    return _MARGIN + 56 * len(lines) + 36


def _draw_columns(
    setter: Typesetter,
    canvas: Image.Image,
    labels: Sequence[str],
    values: Sequence[float],
    top: float,
    *,
    lines: bool,
) -> None:
    small = Style(24, _MUTED)
    low, high = min(values), max(values)
    if not lines or 0 <= low < high / 2:
        low, high = min(0.0, low), max(0.0, high)
    marks = ticks(low, high)
    left = _MARGIN + max(setter.width(format_value(mark), small) for mark in marks) + 20
    plot = Plot(left, top + 28, WIDTH - _MARGIN, HEIGHT - _MARGIN - 44, marks[0], marks[-1])
    pen = ImageDraw.Draw(canvas)
    for mark in marks:
        y = plot.y(mark)
        pen.line((plot.left, y, plot.right, y), fill=_GRID if mark else (196, 202, 216), width=2)
        words = format_value(mark)
        setter.draw(canvas, left - 20 - setter.width(words, small), y + 9, words, small)
    slot = (plot.right - plot.left) / len(values)
    middles = [plot.left + slot * (number + 0.5) for number in range(len(values))]
    points = [(x, plot.y(value)) for x, value in zip(middles, values, strict=True)]
    if lines:
        _draw_line(canvas, plot, points)
    else:
        for (x, y), value in zip(points, values, strict=True):
            half = min(slot * 0.34, 70)
            base = plot.y(0.0)
            _draw_bar(canvas, (x - half, min(y, base), x + half, max(y, base)), up=value >= 0)
    _label_points(setter, canvas, points, values, slot, above=True)
    _label_axis(setter, canvas, labels, middles, slot, plot.bottom + 40)


def _draw_bar(canvas: Image.Image, box: tuple[float, float, float, float], *, up: bool) -> None:
    left, top, right, bottom = (round(edge) for edge in box)
    size = (max(2, right - left), max(2, bottom - top))
    radius = min(10, size[0] // 3, size[1])
    # Round at the value's end alone: the other end stands on the axis.
    over = radius + 1
    shape = (0, 0, size[0], size[1] + over) if up else (0, -over, size[0], size[1])
    mask = round_mask(size, shape, radius)
    ground = Image.linear_gradient("L").resize(size)
    colour = Image.composite(
        Image.new("RGB", size, mix(SERIES[0], (20, 30, 90), 0.12)),
        Image.new("RGB", size, mix(SERIES[0], (255, 255, 255), 0.18)),
        ground,
    )
    canvas.paste(colour, (left, top), mask)


def _draw_line(canvas: Image.Image, plot: Plot, points: Sequence[tuple[float, float]]) -> None:
    size = (WIDTH * _SHARP, HEIGHT * _SHARP)
    sharp = [(x * _SHARP, y * _SHARP) for x, y in points]
    if len(points) > 1:
        area = Image.new("L", size)
        floor = plot.bottom * _SHARP
        outline = [(sharp[0][0], floor), *sharp, (sharp[-1][0], floor)]
        ImageDraw.Draw(area).polygon(outline, fill=255)
        fade = Image.linear_gradient("L").transpose(Image.Transpose.FLIP_TOP_BOTTOM)
        veil = Image.new("L", canvas.size)
        height = max(1, round(plot.bottom - plot.top))
        veil.paste(fade.resize((WIDTH, height)).point(lambda v: v * 0.26), (0, round(plot.top)))
        area = area.resize(canvas.size, Image.Resampling.LANCZOS)
        shaded = Image.composite(veil, Image.new("L", canvas.size), area)
        canvas.paste(SERIES[0], mask=shaded)
    stroke = Image.new("L", size)
    pen = ImageDraw.Draw(stroke)
    width = 5 * _SHARP
    pen.line(sharp, fill=255, width=width, joint="curve")
    canvas.paste(SERIES[0], mask=stroke.resize(canvas.size, Image.Resampling.LANCZOS))
    if len(points) <= 40:
        for radius, colour in ((9, SERIES[0]), (5, (255, 255, 255))):
            dots = Image.new("L", size)
            pen = ImageDraw.Draw(dots)
            for x, y in sharp:
                reach = radius * _SHARP
                pen.ellipse((x - reach, y - reach, x + reach, y + reach), fill=255)
            canvas.paste(colour, mask=dots.resize(canvas.size, Image.Resampling.LANCZOS))


def _label_points(
    setter: Typesetter,
    canvas: Image.Image,
    points: Sequence[tuple[float, float]],
    values: Sequence[float],
    slot: float,
    *,
    above: bool,
) -> None:
    style = Style(24, _INK, bold=True)
    words = [format_value(value) for value in values]
    if max(setter.width(word, style) for word in words) > slot * 0.96:
        return  # the axis tells; numbers over one another do not
    for (x, y), word, value in zip(points, words, values, strict=True):
        below = above and value < 0
        baseline = y + 34 if below else y - 16
        setter.draw(canvas, x - setter.width(word, style) / 2, baseline, word, style)


def _label_axis(
    setter: Typesetter,
    canvas: Image.Image,
    labels: Sequence[str],
    middles: Sequence[float],
    slot: float,
    baseline: float,
) -> None:
    style = Style(24, _MUTED)
    widest = max(setter.width(label, style) for label in labels)
    # Every label where there is room, else every second, third, ... one, and those cut to fit.
    every = max(1, math.ceil(min(widest + 16, 180) / slot))
    for number in range(0, len(labels), every):
        words = _cut(setter, labels[number], style, slot * every - 8)
        width = setter.width(words, style)
        x = min(max(middles[number] - width / 2, 8), WIDTH - width - 8)
        setter.draw(canvas, x, baseline, words, style)


def _cut(setter: Typesetter, text: str, style: Style, room: float) -> str:
    if setter.width(text, style) <= room:
        return text
    while len(text) > 1 and setter.width(f"{text}…", style) > room:
        text = text[:-1]
    return f"{text.rstrip()}…"


def _wants_rows(setter: Typesetter, labels: Sequence[str]) -> bool:
    """Whether bars lie down, so that long labels can be read."""
    style = Style(24, _MUTED)
    slot = (WIDTH - 2 * _MARGIN - 80) / len(labels)
    return len(labels) <= 24 and max(setter.width(label, style) for label in labels) > slot * 1.05


def _draw_rows(
    setter: Typesetter,
    canvas: Image.Image,
    labels: Sequence[str],
    values: Sequence[float],
    top: float,
) -> Image.Image:
    step = 64 if len(labels) <= 8 else 48
    height = round(max(HEIGHT * 0.6, top + step * len(labels) + _MARGIN))
    canvas = canvas.crop((0, 0, WIDTH, height))
    canvas.paste((255, 255, 255), (0, round(top), WIDTH, height))
    style, bold = Style(26, _INK), Style(24, _INK, bold=True)
    words = [_cut(setter, label, style, 420) for label in labels]
    numbers = [format_value(value) for value in values]
    left = _MARGIN + max(setter.width(word, style) for word in words) + 24
    right = WIDTH - _MARGIN - max(setter.width(number, bold) for number in numbers) - 16
    low, high = min(0.0, *values), max(0.0, *values)
    scale = (right - left) / ((high - low) or 1.0)
    zero = left - low * scale
    for number, (word, value) in enumerate(zip(words, values, strict=True)):
        middle = top + step * (number + 0.5)
        setter.draw(canvas, left - 24 - setter.width(word, style), middle + 9, word, style)
        end = zero + value * scale
        box = (min(zero, end), middle - step * 0.3, max(zero, end, zero + 3), middle + step * 0.3)
        fill_round(canvas, box, min(8, (box[2] - box[0]) / 2), SERIES[0])
        setter.draw(canvas, box[2] + 14, middle + 9, numbers[number], bold)
    return canvas


def _draw_pie(
    setter: Typesetter,
    canvas: Image.Image,
    labels: Sequence[str],
    values: Sequence[float],
    top: float,
) -> None:
    room = HEIGHT - _MARGIN - top
    radius = min(room / 2, 270)
    middle = (_MARGIN + 40 + radius, top + room / 2)
    sharp = Image.new("RGB", (WIDTH * _SHARP, HEIGHT * _SHARP), (255, 255, 255))
    pen = ImageDraw.Draw(sharp)

    def box(reach: float) -> tuple[float, float, float, float]:
        x, y, reach = middle[0] * _SHARP, middle[1] * _SHARP, reach * _SHARP
        return (x - reach, y - reach, x + reach, y + reach)

    total = sum(values)
    angle = -90.0
    for number, value in enumerate(values):
        turn = 360.0 * value / total
        if turn:
            pen.pieslice(box(radius), angle, angle + turn, fill=SERIES[number])
        angle += turn
    if sum(value > 0 for value in values) > 1:
        for value in values:
            if value:
                angle += 360.0 * value / total
                edge = math.radians(angle)
                x = (middle[0] + radius * math.cos(edge)) * _SHARP
                y = (middle[1] + radius * math.sin(edge)) * _SHARP
                centre = (middle[0] * _SHARP, middle[1] * _SHARP)
                pen.line((*centre, x, y), fill=(255, 255, 255), width=4 * _SHARP)
    pen.ellipse(box(radius * 0.56), fill=(255, 255, 255))
    small = sharp.resize((WIDTH, HEIGHT), Image.Resampling.LANCZOS)
    canvas.paste(small.crop((0, round(top), WIDTH, HEIGHT)), (0, round(top)))
    _draw_legend(setter, canvas, labels, values, (middle[0] + radius + 72, middle[1]))
    number_style, unit_style = Style(52, _INK, bold=True), Style(24, _MUTED)
    words = format_value(total)
    setter.draw(
        canvas,
        middle[0] - setter.width(words, number_style) / 2,
        middle[1] + 12,
        words,
        number_style,
    )
    setter.draw(
        canvas, middle[0] - setter.width("Σ", unit_style) / 2, middle[1] + 52, "Σ", unit_style
    )


def _draw_legend(
    setter: Typesetter,
    canvas: Image.Image,
    labels: Sequence[str],
    values: Sequence[float],
    corner: tuple[float, float],
) -> None:
    style, bold = Style(28, _INK), Style(28, _INK, bold=True)
    step = min(58.0, 560 / len(labels))
    left, y = corner[0], corner[1] - step * len(labels) / 2
    total = sum(values)
    shares = [f"{100 * value / total:.1f}".rstrip("0").rstrip(".") + "%" for value in values]
    right = WIDTH - _MARGIN
    room = right - left - 44 - max(setter.width(share, bold) for share in shares) - 24
    for number, (label, share) in enumerate(zip(labels, shares, strict=True)):
        middle = y + step * (number + 0.5)
        fill_round(canvas, (left, middle - 11, left + 22, middle + 11), 7, SERIES[number])
        setter.draw(canvas, left + 44, middle + 10, _cut(setter, label, style, room), style)
        setter.draw(canvas, right - setter.width(share, bold), middle + 10, share, bold)
