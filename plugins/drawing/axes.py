"""Draws line charts, upright bars and horizontal bars."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from PIL import Image, ImageDraw

from .palette import SERIES, fill_round, mix, round_mask
from .sheet import GRID, HEIGHT, INK, MARGIN, MUTED, SHARP, WIDTH, cut_to, format_value, ticks
from .typeset import Style, Typesetter


@dataclass(frozen=True, slots=True)
class Plot:
    """The area in which the values are drawn, and the range of values that the axis shows."""

    left: float
    top: float
    right: float
    bottom: float
    low: float
    high: float

    def y(self, value: float) -> float:
        """Return the vertical position of a value in pixels."""
        share = (value - self.low) / (self.high - self.low)
        return self.bottom - share * (self.bottom - self.top)


def draw_columns(
    setter: Typesetter,
    canvas: Image.Image,
    labels: Sequence[str],
    values: Sequence[float],
    top: float,
    *,
    lines: bool,
) -> None:
    """Draw upright bars or a line, with labels below and values above."""
    small = Style(24, MUTED)
    low, high = min(values), max(values)
    if not lines or 0 <= low < high / 2:
        low, high = min(0.0, low), max(0.0, high)
    marks = ticks(low, high)
    left = MARGIN + max(setter.width(format_value(mark), small) for mark in marks) + 20
    plot = Plot(left, top + 28, WIDTH - MARGIN, HEIGHT - MARGIN - 44, marks[0], marks[-1])
    pen = ImageDraw.Draw(canvas)
    for mark in marks:
        y = plot.y(mark)
        pen.line((plot.left, y, plot.right, y), fill=GRID if mark else (196, 202, 216), width=2)
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
    # Only the end at the value is round. The other end touches the axis.
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
    size = (WIDTH * SHARP, HEIGHT * SHARP)
    sharp = [(x * SHARP, y * SHARP) for x, y in points]
    if len(points) > 1:
        area = Image.new("L", size)
        floor = plot.bottom * SHARP
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
    width = 5 * SHARP
    pen.line(sharp, fill=255, width=width, joint="curve")
    canvas.paste(SERIES[0], mask=stroke.resize(canvas.size, Image.Resampling.LANCZOS))
    if len(points) <= 40:
        for radius, colour in ((9, SERIES[0]), (5, (255, 255, 255))):
            dots = Image.new("L", size)
            pen = ImageDraw.Draw(dots)
            for x, y in sharp:
                reach = radius * SHARP
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
    style = Style(24, INK, bold=True)
    words = [format_value(value) for value in values]
    if max(setter.width(word, style) for word in words) > slot * 0.96:
        # The numbers would overlap. They are not needed, because the axis shows the values.
        return
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
    style = Style(24, MUTED)
    widest = max(setter.width(label, style) for label in labels)
    # All labels are drawn if there is room. Otherwise only every second, third and so on is drawn,
    # and it is shortened to fit.
    every = max(1, math.ceil(min(widest + 16, 180) / slot))
    for number in range(0, len(labels), every):
        words = cut_to(setter, labels[number], style, slot * every - 8)
        width = setter.width(words, style)
        x = min(max(middles[number] - width / 2, 8), WIDTH - width - 8)
        setter.draw(canvas, x, baseline, words, style)


def wants_rows(setter: Typesetter, labels: Sequence[str]) -> bool:
    """Return True if the bars must be horizontal, so that long labels can be read."""
    style = Style(24, MUTED)
    slot = (WIDTH - 2 * MARGIN - 80) / len(labels)
    return len(labels) <= 24 and max(setter.width(label, style) for label in labels) > slot * 1.05


def draw_rows(
    setter: Typesetter,
    canvas: Image.Image,
    labels: Sequence[str],
    values: Sequence[float],
    top: float,
) -> Image.Image:
    """Draw horizontal bars; returns the canvas cut to their height."""
    step = 64 if len(labels) <= 8 else 48
    height = round(max(HEIGHT * 0.6, top + step * len(labels) + MARGIN))
    canvas = canvas.crop((0, 0, WIDTH, height))
    canvas.paste((255, 255, 255), (0, round(top), WIDTH, height))
    style, bold = Style(26, INK), Style(24, INK, bold=True)
    words = [cut_to(setter, label, style, 420) for label in labels]
    numbers = [format_value(value) for value in values]
    left = MARGIN + max(setter.width(word, style) for word in words) + 24
    right = WIDTH - MARGIN - max(setter.width(number, bold) for number in numbers) - 16
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
