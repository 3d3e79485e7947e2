"""Draws shares of a whole as a ring with a legend."""

import math
from collections.abc import Sequence

from PIL import Image, ImageDraw

from .palette import SERIES, fill_round
from .sheet import HEIGHT, INK, MARGIN, MUTED, SHARP, WIDTH, cut_to, format_value
from .typeset import Style, Typesetter


def draw_pie(
    setter: Typesetter,
    canvas: Image.Image,
    labels: Sequence[str],
    values: Sequence[float],
    top: float,
) -> None:
    """Draw the ring at the left and the legend at the right."""
    room = HEIGHT - MARGIN - top
    radius = min(room / 2, 270)
    middle = (MARGIN + 40 + radius, top + room / 2)
    sharp = Image.new("RGB", (WIDTH * SHARP, HEIGHT * SHARP), (255, 255, 255))
    pen = ImageDraw.Draw(sharp)

    def box(reach: float) -> tuple[float, float, float, float]:
        x, y, reach = middle[0] * SHARP, middle[1] * SHARP, reach * SHARP
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
                x = (middle[0] + radius * math.cos(edge)) * SHARP
                y = (middle[1] + radius * math.sin(edge)) * SHARP
                centre = (middle[0] * SHARP, middle[1] * SHARP)
                pen.line((*centre, x, y), fill=(255, 255, 255), width=4 * SHARP)
    pen.ellipse(box(radius * 0.56), fill=(255, 255, 255))
    small = sharp.resize((WIDTH, HEIGHT), Image.Resampling.LANCZOS)
    canvas.paste(small.crop((0, round(top), WIDTH, HEIGHT)), (0, round(top)))
    _draw_legend(setter, canvas, labels, values, (middle[0] + radius + 72, middle[1]))
    number_style, unit_style = Style(52, INK, bold=True), Style(24, MUTED)
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
    style, bold = Style(28, INK), Style(28, INK, bold=True)
    step = min(58.0, 560 / len(labels))
    left, y = corner[0], corner[1] - step * len(labels) / 2
    total = sum(values)
    shares = [f"{100 * value / total:.1f}".rstrip("0").rstrip(".") + "%" for value in values]
    right = WIDTH - MARGIN
    room = right - left - 44 - max(setter.width(share, bold) for share in shares) - 24
    for number, (label, share) in enumerate(zip(labels, shares, strict=True)):
        middle = y + step * (number + 0.5)
        fill_round(canvas, (left, middle - 11, left + 22, middle + 11), 7, SERIES[number])
        setter.draw(canvas, left + 44, middle + 10, cut_to(setter, label, style, room), style)
        setter.draw(canvas, right - setter.width(share, bold), middle + 10, share, bold)
