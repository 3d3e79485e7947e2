"""Draws a card: a few large words on a coloured ground, or a title and text on a panel."""

import re

from PIL import Image

from .fonts import FontBook
from .palette import Palette, add_panel, encode_png, fill_round, gradient, mix, palette_for
from .typeset import Style, Typesetter

WIDTH = 1080
MAX_HEIGHT = 3240
MAX_CHARACTERS = 3_000
MAX_TITLE = 200

_POSTER_LINES = 5
_POSTER_CHARACTERS = 90
_MARGIN = 64
_PADDING = 76
_MARKS = re.compile(r"\*\*|__|^#{1,6} ", re.MULTILINE)
_CLAUSE = re.compile(r".+?(?:[,.!?;:](?=\s)|[，。！？；：、…～]+|$)", re.DOTALL)
_BULLET = re.compile(r"^\s*(?:[-*•]|(?P<number>\d{1,2}[.)、．]))\s*(?=\S)")


class CardTooLong(ValueError):
    """The text does not fit on a card."""


def draw_card_png(book: FontBook, text: str, title: str, style: str) -> bytes:
    """Draw a card as PNG. Raises `CardTooLong` and `FontMissing`."""
    text, title = _MARKS.sub("", text).strip(), _MARKS.sub("", title).strip()
    if len(text) > MAX_CHARACTERS or len(title) > MAX_TITLE:
        raise CardTooLong(
            f"{len(text)} characters under a title of {len(title)}: "
            f"a card holds at most {MAX_CHARACTERS:,} and {MAX_TITLE}"
        )
    with book.lock:
        setter = Typesetter(book, title + text)
        setter.require(title, text)
        palette = palette_for(style, title + text)
        card = _poster(setter, text, title, palette) or _page(setter, text, title, palette)
    return encode_png(card)


def _poster(setter: Typesetter, text: str, title: str, palette: Palette) -> Image.Image | None:
    """Draw a few words, large and centred. Returns None for a longer text."""
    if len(text) + len(title) > _POSTER_CHARACTERS or text.count("\n") >= _POSTER_LINES:
        return None
    main, above = (text, title) if text else (title, "")
    room = WIDTH - 2 * (_MARGIN + 40)
    white = (255, 255, 255)
    lines, size = _fit(setter, main, room)
    large = Style(size, white, bold=True)
    small = Style(max(40, size * 2 // 5), mix(white, palette.start, 0.08))
    above_lines = setter.wrap(above, small, room) if above else []
    step, small_step = size * 1.3, small.size * 1.4
    gap = size * 0.6 if above_lines else 0
    content = len(lines) * step + len(above_lines) * small_step + gap
    height = round(max(608, content + 4.2 * _MARGIN))
    card = gradient((WIDTH, height), palette)
    y = (height - content) / 2
    for line in above_lines:
        x = (WIDTH - setter.width(line, small)) / 2
        setter.draw(card, x, y + small.size * 1.05, line, small)
        y += small_step
    if above_lines:
        middle = WIDTH / 2
        bar = (middle - 44, y + gap * 0.34, middle + 44, y + gap * 0.34 + 6)
        fill_round(card, bar, 3, mix(white, palette.end, 0.15))
        y += gap
    for line in lines:
        x = (WIDTH - setter.width(line, large)) / 2
        shade = Style(size, mix(palette.end, (0, 0, 0), 0.25), bold=True)
        setter.draw(card, x, y + size * 1.02 + size / 36, line, shade)
        setter.draw(card, x, y + size * 1.02, line, large)
        y += step
    return card


def _fit(setter: Typesetter, text: str, room: float) -> tuple[list[str], int]:
    """Return the lines and their size. The text is one line if it fits in large letters. Otherwise
    it is a few lines of about the same length."""
    wishes = [(size, 1) for size in (150, 132, 116, 100, 88, 80)]
    wishes += [(size, _POSTER_LINES - 2) for size in (104, 92, 80)]
    for size, most in wishes:
        style = Style(size, (0, 0, 0), bold=True)
        lines = setter.wrap(text, style, room)
        if len(lines) <= most:
            return _balance(setter, text, style, room, lines), size
    return setter.wrap(text, Style(66, (0, 0, 0), bold=True), room), 66


def _balance(
    setter: Typesetter, text: str, style: Style, room: float, lines: list[str]
) -> list[str]:
    if len(lines) == 1 or "\n" in text:
        return lines
    clauses = [clause.strip() for clause in _CLAUSE.findall(text) if clause.strip()]
    if len(clauses) <= 3 and all(setter.width(clause, style) <= room for clause in clauses):
        return clauses
    for share in (0.6, 0.7, 0.8, 0.9):
        narrower = setter.wrap(text, style, room * share)
        if len(narrower) == len(lines):
            return narrower
    return lines


def _page(setter: Typesetter, text: str, title: str, palette: Palette) -> Image.Image:
    """Draw a title and the text below it on a panel."""
    left = _MARGIN + _PADDING
    room = WIDTH - 2 * left
    heading = Style(62 if len(title) <= 40 else 50, palette.ink, bold=True)
    title_lines = setter.wrap(title, heading, room) if title else []
    for size in (42, 38, 34, 30):
        body = Style(size, palette.ink)
        lines = _body_lines(setter, text, body, room)
        step = size * 1.62
        top = _MARGIN + _PADDING
        after_title = len(title_lines) * heading.size * 1.32 + (64 if title_lines else 0)
        used = sum(step if line is not None else step * 0.5 for line in lines)
        height = round(top + after_title + used + _PADDING + _MARGIN - (step - size) * 0.6)
        if height <= 1_500:
            break
    if height > MAX_HEIGHT:
        raise CardTooLong("so many lines do not fit one card: shorten the text or draw two")
    card = gradient((WIDTH, max(520, height)), palette)
    add_panel(card, _MARGIN, 44, palette)
    y: float = top
    for line in title_lines:
        setter.draw(card, left, y + heading.size, line, heading)
        y += heading.size * 1.32
    if title_lines:
        fill_round(card, (left, y + 18, left + 96, y + 26), 4, palette.accent)
        y += 64
    for entry in lines:
        if entry is None:
            y += step * 0.5
            continue
        mark, words, indent = entry
        if mark == "•":
            middle, radius = y + size * 0.66, size * 0.13
            dot = (left + 6, middle - radius, left + 6 + 2 * radius, middle + radius)
            fill_round(card, dot, radius, palette.accent)
        elif mark:
            setter.draw(card, left, y + size, mark, Style(size, palette.accent, bold=True))
        setter.draw(card, left + indent, y + size, words, body)
        y += step
    return card


def _body_lines(
    setter: Typesetter, text: str, style: Style, room: float
) -> list[tuple[str, str, float] | None]:
    """Return each line as its list mark, its words and its indent. A blank line is None."""
    lines: list[tuple[str, str, float] | None] = []
    for paragraph in text.split("\n"):
        words = paragraph.strip()
        if not words:
            if lines and lines[-1] is not None:
                lines.append(None)
            continue
        mark, indent = "", 0.0
        if bullet := _BULLET.match(words):
            mark = bullet["number"] or "•"
            indent = style.size * (1.0 if mark == "•" else 1.5)
            words = words[bullet.end() :]
        first, *others = setter.wrap(words, style, room - indent)
        lines += [(mark, first, indent), *(("", other, indent) for other in others)]
    return lines
