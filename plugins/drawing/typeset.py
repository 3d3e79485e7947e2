"""Wraps text of any script to a width and draws the lines."""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

from PIL import Image, ImageDraw, features

from .fonts import Face, FontBook

# Lines are broken as UAX 14 says, as far as cards (pictures of words) need it. A line may break
# between words, and between Chinese and Japanese characters. Some of these characters may not begin
# or end a line (kinsoku).
_NOT_FIRST = set(
    "、。，．,.!?！？:;：；」』）)]】〉》〕｝}…‥・ーぁぃぅぇぉっゃゅょァィゥェォッャュョ々％%℃”’"
)
_NOT_LAST = set("「『（([【〈《〔｛{“‘¥$￥＄#")
_WIDE = re.compile(r"[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uff60\U00020000-\U0003ffff]")
_KANA = re.compile(r"[\u3041-\u30ff]")
_HANGUL = re.compile(r"[\uac00-\ud7af]")
_EMOJI = re.compile(
    r"[\U0001f1e6-\U0001faff\u2600-\u27bf\u2b00-\u2bff\u231a-\u23ff\u3030\u303d\u00a9\u00ae]"
)
_INVISIBLE = re.compile(
    r"[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    r"\ufe00-\ufe0f\ufeff\U0001f3fb-\U0001f3ff\U000e0000-\U000e01ef]"
)
_PROBE = 16
_SHAPES = features.check("raqm")
_TAGS = {"ja": "ja", "ko": "ko", "zh": "zh-Hans"}

Colour = tuple[int, int, int]


class FontMissing(Exception):
    """No font of this machine has these letters of the text."""

    def __init__(self, characters: str) -> None:
        super().__init__(characters)
        self.characters = characters


@dataclass(frozen=True, slots=True)
class Style:
    """Size in pixels, colour and weight of a text."""

    size: int
    colour: Colour
    bold: bool = False


@dataclass(frozen=True, slots=True)
class TextRun:
    """Characters that are drawn with one face. Without a face, it is an emoji that is drawn as a
    picture."""

    text: str
    face: Face | None


class Typesetter:
    """Measures, wraps and draws text with the fonts of a book.

    ``sample`` is all the text. Its language decides in which shapes Chinese characters are drawn.
    """

    def __init__(self, book: FontBook, sample: str) -> None:
        self._book = book
        self._widths: dict[tuple[str, int, bool], float] = {}
        self.language = _language(sample)

    def require(self, *texts: str) -> None:
        """Raise `FontMissing` if some letters are in no font, or if nothing would be visible."""
        written = "".join(map(prepare, texts)).strip()
        missing = {
            character: None
            for character in written
            if unicodedata.category(character)[0] in "LN" and not self._drawable(character)
        }
        if missing or (written and not self._visible(written).strip()):
            raise FontMissing("".join(missing) or written)

    def _visible(self, text: str) -> str:
        """Return the text without characters that no font has. Such characters would be drawn as
        boxes."""
        if all(map(self._drawable, text)):
            return text
        kept = "".join(c if c == "\n" or self._drawable(c) else "\0" for c in text)
        return re.sub(r"\0+ ?", "", kept)

    def _drawable(self, character: str) -> bool:
        face = self._face(character, bold=False)
        return face is not None or self._book.emoji(character, _PROBE) is not None

    def width(self, text: str, style: Style) -> float:
        """Return the width of a line in pixels."""
        key = (text, style.size, style.bold)
        if key not in self._widths:
            self._widths[key] = sum(self._run_width(run, style) for run in self._runs(text, style))
        return self._widths[key]

    def wrap(self, text: str, style: Style, width: float) -> list[str]:
        """Wrap a text to ``width``. A word that is wider is broken at any character."""
        lines: list[str] = []
        for paragraph in self._visible(prepare(text)).split("\n"):
            line, used = "", 0.0
            for piece in _breakable(paragraph):
                extent = self.width(piece, style)
                if used + self.width(piece.rstrip(), style) <= width:
                    line, used = line + piece, used + extent
                    continue
                if line:
                    lines.append(line.rstrip())
                *whole, line = self._break_anywhere(piece.lstrip(), style, width)
                lines += whole
                used = self.width(line, style)
            lines.append(line.rstrip())
        return lines

    def draw(self, canvas: Image.Image, x: float, baseline: float, text: str, style: Style) -> None:
        """Draw a line with its left end at ``x``."""
        pen = ImageDraw.Draw(canvas)
        runs = list(self._runs(text, style))
        if runs and unicodedata.bidirectional(text.lstrip()[:1] or " ") in ("R", "AL"):
            runs.reverse()
        for run in runs:
            if run.face is None:
                picture = self._book.emoji(run.text, round(style.size * 0.98))
                if picture is not None:
                    top = round(baseline - style.size * 0.84)
                    canvas.paste(picture, (round(x + style.size * 0.06), top), picture)
            else:
                # If bold text is wanted and its face is not bold, the letters are drawn thicker.
                thicken = style.bold and not run.face.bold
                pen.text(
                    (x, baseline),
                    run.text,
                    font=self._book.font(run.face, style.size),
                    fill=style.colour,
                    anchor="ls",
                    stroke_width=max(1, style.size // 40) if thicken else 0,
                    language=self._tag_for(run.face),
                )
            x += self._run_width(run, style)

    def _break_anywhere(self, piece: str, style: Style, width: float) -> list[str]:
        lines, line = [], ""
        for character in piece:
            if line and self.width(line + character, style) > width:
                lines.append(line)
                line = ""
            line += character
        return [*lines, line]

    def _runs(self, text: str, style: Style) -> Iterator[TextRun]:
        gathered, face = "", None
        for character in text:
            own = self._face(character, bold=style.bold)
            emoji = _EMOJI.match(character) and (own is None or ord(character) > 0xFFFF)
            if emoji and self._book.emoji(character, _PROBE) is not None:
                if gathered:
                    yield TextRun(gathered, face)
                    gathered = ""
                yield TextRun(character, None)
                continue
            if own is None:
                continue
            if gathered and own != face and not (character == " " and face):
                yield TextRun(gathered, face)
                gathered = ""
            if not gathered:
                face = own
            gathered += character
        if gathered:
            yield TextRun(gathered, face)

    def _run_width(self, run: TextRun, style: Style) -> float:
        if run.face is None:
            picture = self._book.emoji(run.text, round(style.size * 0.98))
            return (picture.width if picture else 0) + style.size * 0.12
        return self._book.font(run.face, style.size).getlength(
            run.text, language=self._tag_for(run.face)
        )

    def _face(self, character: str, *, bold: bool) -> Face | None:
        return self._book.face(character, bold=bold, language=self.language)

    def _tag_for(self, face: Face) -> str | None:
        # Pillow accepts a language only with the library Raqm, and never for the font that is built
        # into Pillow (a face without a path).
        return _TAGS.get(self.language) if _SHAPES and face.path else None


def prepare(text: str) -> str:
    """Return the text without invisible characters: controls, joiners, directions and lone
    surrogates."""
    text = text.encode("utf-8", "ignore").decode().replace("\r\n", "\n").replace("\t", "    ")
    return unicodedata.normalize("NFC", _INVISIBLE.sub("", text))


def _breakable(paragraph: str) -> list[str]:
    """Return the pieces between which a line may break. Each piece includes the spaces after it."""
    pieces: list[str] = []
    for character in paragraph:
        if not pieces:
            pieces.append(character)
            continue
        before = pieces[-1][-1]
        after_space = before == " " and character != " "
        between = _WIDE.match(character) or _WIDE.match(before) or _EMOJI.match(character)
        forbidden = character in _NOT_FIRST or before in _NOT_LAST or character == " "
        if (after_space or between) and not forbidden:
            pieces.append(character)
        else:
            pieces[-1] += character
    return pieces


def _language(sample: str) -> str:
    if _KANA.search(sample):
        return "ja"
    if _HANGUL.search(sample):
        return "ko"
    return "zh" if _WIDE.search(sample) else ""
