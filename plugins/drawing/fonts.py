"""Finds the font of this machine that draws a character in the shapes of a language."""

import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from nekro_core.api.fonts import font_files

from .coverage import Coverage, read_coverage

_COLOUR_SIZE = 109
"""The only size in pixels that bitmap emoji fonts contain."""

# Fonts that are good to read on a screen, best first. The Noto fonts of single scripts come later.
_FAVOURITES = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"^Inter\b",
        r"^SourceHanSans|^NotoSansCJK|^NotoSans(SC|TC|JP|KR)\b",
        r"^PingFang|^HiraginoSans|^Hiragino Sans|^AppleSDGothic",
        r"^msyh|^YuGoth|^meiryo|^malgun",
        r"^SegoeUI|^segoeui|^SFNS|^HelveticaNeue",
        r"^NotoSans[-.]",
        r"^(SourceSans|OpenSans|Roboto|Lato|Ubuntu)[-.\d]",
        r"^wqy-(microhei|zenhei)|^DroidSansFallback|^ipag|^VL-Gothic|^TakaoGothic|^Nanum",
        r"^NotoSans",
        r"^(DejaVuSans|LiberationSans|FreeSans)[-.]",
        r"^arial",
    )
)
_UNWANTED = re.compile(r"italic|oblique|mono|serif|cond|narrow|math|[^a-z]it\b", re.IGNORECASE)
_BOLD = re.compile(r"bold(?!.*(semi|demi))|[^a-z]bd\b|(msyh|arial|yugoth)bd?b?\b", re.IGNORECASE)
_OTHER_WEIGHT = re.compile(r"light|thin|black|heavy|medium|semi|demi|extra|ultra", re.IGNORECASE)
_POOR = re.compile(r"DejaVu|Liberation|Free(Sans|Mono|Serif)")
_REGION = {"ja": "JP", "ko": "KR", "zh": "SC"}


@dataclass(frozen=True)
class Face:
    """One face of a font file. Without a path it is the Latin face that Pillow contains."""

    path: Path | None
    index: int = 0
    bold: bool = False

    @cached_property
    def coverage(self) -> Coverage:
        """The characters that the face has."""
        if self.path is None:
            return Coverage((0x20, 0xA0), (0x7E, 0xFF))
        return read_coverage(self.path, self.index)

    def font(self, size: int) -> ImageFont.FreeTypeFont:
        """Open the face at a size in pixels."""
        if self.path is None:
            font = ImageFont.load_default(size)
            assert isinstance(font, ImageFont.FreeTypeFont)
            return font
        return ImageFont.truetype(str(self.path), size, self.index)


class FontBook:
    """The faces in some folders, which are searched at the first use. Hold ``lock`` while drawing,
    because two threads may not use the book or FreeType's fonts at the same time.

    The fonts in the operator's folder ``own`` are preferred to the fonts of the system.
    """

    def __init__(self, own: Path | None, system: Sequence[Path]) -> None:
        self.own = own
        self.lock = threading.Lock()
        self._system = tuple(system)
        self._chosen: dict[tuple[str, bool, str], Face | None] = {}
        self._fonts: dict[tuple[Face, int], ImageFont.FreeTypeFont] = {}
        self._opened: dict[tuple[Path, str], Face] = {}
        self._emoji: dict[tuple[str, int], Image.Image | None] = {}

    def face(self, character: str, *, bold: bool, language: str) -> Face | None:
        """Return the best face that has the character, or None."""
        key = (character, bold, language)
        if key not in self._chosen:
            faces = (self._open(path, language) for path in self._ranked[bold])
            self._chosen[key] = next((face for face in faces if character in face.coverage), None)
        return self._chosen[key]

    def font(self, face: Face, size: int) -> ImageFont.FreeTypeFont:
        """Return the font of a face at a size. The font is opened only once."""
        if (face, size) not in self._fonts:
            self._fonts[face, size] = face.font(size)
        return self._fonts[face, size]

    def emoji(self, character: str, size: int) -> Image.Image | None:
        """Return a colour picture of an emoji, ``size`` pixels high; None if no installed font has
        the emoji."""
        key = (character, size)
        if key not in self._emoji:
            self._emoji[key] = self._draw_emoji(character, size)
        return self._emoji[key]

    def _draw_emoji(self, character: str, size: int) -> Image.Image | None:
        face = self._colour_face
        # Emoji fonts contain digits as parts of key caps, but a digit alone is not an emoji.
        if face is None or ord(character) < 0xA0 or character not in face.coverage:
            return None
        try:
            font = self.font(face, _COLOUR_SIZE)
        except OSError:
            # The emoji font is of another kind (COLR, SVG), which Pillow cannot draw.
            return None
        box = font.getbbox(character)
        picture = Image.new("RGBA", (max(1, int(box[2])), max(1, int(box[3]))))
        ImageDraw.Draw(picture).text((0, 0), character, font=font, embedded_color=True)
        bounds = picture.getbbox()
        if bounds is None:
            return None
        picture = picture.crop(bounds)
        width = max(1, round(picture.width * size / picture.height))
        return picture.resize((width, size), Image.Resampling.LANCZOS)

    def _open(self, path: Path | None, language: str) -> Face:
        if path is None:
            return _BUILT_IN
        key = (path, language)
        if key not in self._opened:
            index = _face_index(path, language) if path.suffix.lower() in (".ttc", ".otc") else 0
            self._opened[key] = Face(path, index, bold=bool(_BOLD.search(path.stem)))
        return self._opened[key]

    @cached_property
    def _files(self) -> list[tuple[bool, Path]]:
        """List the font files. Each item says whether the file is a system font, and has its
        path."""
        own = [(False, path) for path in font_files(self.own)] if self.own else []
        return own + [(True, path) for folder in self._system for path in font_files(folder)]

    @cached_property
    def _ranked(self) -> dict[bool, list[Path | None]]:
        return {bold: self._rank(bold=bold) for bold in (False, True)}

    def _rank(self, *, bold: bool) -> list[Path | None]:
        def score(entry: tuple[bool, Path]) -> tuple[bool, bool, int, bool, bool, str]:
            of_system, path = entry
            matches = (n for n, favourite in enumerate(_FAVOURITES) if favourite.search(path.name))
            return (
                of_system,
                bool(_UNWANTED.search(path.stem)),
                next(matches, len(_FAVOURITES)),
                bool(_BOLD.search(path.stem)) != bold,
                bool(_OTHER_WEIGHT.search(path.stem)),
                path.name,
            )

        drawable = [entry for entry in self._files if "emoji" not in entry[1].name.lower()]
        ordered = sorted(drawable, key=score)
        good = [path for of_system, path in ordered if not (of_system and _is_poor(path))]
        poor = [path for of_system, path in ordered if of_system and _is_poor(path)]
        # Pillow's Latin face looks better than the system fonts of poor quality.
        return [*good, None, *poor]

    @cached_property
    def _colour_face(self) -> Face | None:
        paths = (path for _, path in self._files if "coloremoji" in path.name.lower())
        return next((Face(path) for path in paths), None)


_BUILT_IN = Face(None)


def _is_poor(path: Path) -> bool:
    return bool(_POOR.match(path.name) or _UNWANTED.search(path.stem))


def _face_index(path: Path, language: str) -> int:
    """Return the index of the face with the shapes of the language, in a file that has several
    faces. The character 直, for example, is written differently in Chinese and Japanese."""
    region = _REGION.get(language, "SC")
    for index in range(16):
        try:
            family = ImageFont.truetype(str(path), 10, index).getname()[0] or ""
        except OSError:
            break
        if family.endswith(f" {region}") and "Mono" not in family:
            return index
    return 0
