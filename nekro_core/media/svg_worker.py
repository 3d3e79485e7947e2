"""A program that draws one SVG picture. Only `nekro_core.media.converter` runs it.

The library resvg draws the picture. It runs no scripts and fetches nothing. The process may open
font files, and no other files, so an SVG that names files of this machine shows nothing of them.
"""

import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from PIL import Image, ImageFont

from nekro_core.media.child import Answer, serve_once
from nekro_core.media.errors import UnusableMedia
from nekro_core.system.fonts import font_files, font_folders

_SHORT_SIDE, _LONG_SIDE = 640, 4096
"""A picture whose longer side has fewer pixels is drawn larger; one with more is drawn smaller."""
_FONTS = re.compile(
    r"^(NotoSansCJK-|NotoSans-|NotoSansSymbols2?-|NotoColorEmoji|SourceHanSans|wqy-|DejaVuSans|"
    r"LiberationSans-|Inter|Roboto-|Arial|arial|msyh|PingFang|Hiragino)"
)
"""Fonts that cover what people write. Many other fonts of a machine are for one script only, or for
decoration."""
_MOST_FONTS = 24
_ROOT = re.compile(r"<svg\b[^>]*>", re.IGNORECASE)
_LENGTH = re.compile(r"""\b(width|height)\s*=\s*["']\s*([\d.]{1,12})\s*(?:px)?\s*["']""")
_VIEW = re.compile(r"""\bviewBox\s*=\s*["']([^"']{1,200})["']""")
_TEXT = re.compile(r"<text\b", re.IGNORECASE)


def usable_fonts(folders: list[Path]) -> list[str]:
    """Return the font files with which text is drawn, in a stable order."""
    found = sorted(path for folder in folders for path in font_files(folder))
    good = [path for path in found if _FONTS.match(path.name)]
    return [str(path) for path in (good or found)[:_MOST_FONTS]]


def natural_size(root: str) -> tuple[float, float] | None:
    """Return the width and height of the element ``svg``: those of its attributes, in pixels, or
    those of its ``viewBox``. Return None if it has neither."""
    sides = {name: float(value) for name, value in _LENGTH.findall(root) if value.count(".") < 2}
    if len(sides) == 2:
        return sides["width"], sides["height"]
    view = _VIEW.search(root)
    numbers = re.split(r"[\s,]+", view[1].strip()) if view else []
    try:
        _, _, width, height = map(float, numbers)
    except ValueError:
        return None
    return width, height


def _zoom(source: str) -> float:
    root = _ROOT.search(source)
    size = natural_size(root[0]) if root else None
    if size is None or not min(size) > 0:
        return 1.0
    longer = max(size)
    return max(_SHORT_SIDE / longer, 1.0) if longer <= _LONG_SIDE else _LONG_SIDE / longer


def _family(fonts: list[str]) -> str:
    """Return the family of the first font that can be opened."""
    for path in fonts:
        try:
            return ImageFont.truetype(path, 10).getname()[0] or ""
        except OSError:
            continue
    return ""


def _prepare(_: dict[str, Any]) -> Callable[[bytes], Answer]:
    try:
        from resvg_py import svg_to_bytes  # noqa: PLC0415 (only this process needs it)
    except ImportError:
        raise UnusableMedia("SVG cannot be drawn here: resvg-py is not installed") from None
    Image.preinit()
    fonts = usable_fonts(font_folders())
    family = _family(fonts)

    def draw(data: bytes) -> Answer:
        try:
            source = data.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise UnusableMedia("the SVG is not written in UTF-8") from None
        if _TEXT.search(source) and not _can_open(fonts):
            raise UnusableMedia(
                "the SVG has text, and this machine has no font for it that may be opened"
            )
        try:
            made = svg_to_bytes(
                svg_string=source,
                background="white",
                skip_system_fonts=True,
                font_files=fonts,
                zoom=_zoom(source),
                font_family=family,
                serif_family=family,
                sans_serif_family=family,
                monospace_family=family,
            )
        except Exception as error:  # noqa: BLE001 (ValueError, and panics of the library)
            raise UnusableMedia(f"the SVG cannot be drawn: {str(error)[:200]}") from None
        with Image.open(io.BytesIO(made), formats=("PNG",)) as picture:
            if max(picture.size) > _LONG_SIDE:
                raise UnusableMedia(f"the SVG is larger than {_LONG_SIDE} pixels")
        return {"mime": "image/png"}, made

    return draw


def _can_open(fonts: list[str]) -> bool:
    try:
        with Path(fonts[0]).open("rb"):
            return True
    except (OSError, IndexError):
        return False


def main() -> None:
    """Draw the picture of one request."""
    serve_once(_prepare, readable=lambda: usable_fonts(font_folders()))


if __name__ == "__main__":
    main()
