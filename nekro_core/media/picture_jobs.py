"""Checks whether a stranger's bytes are a picture, and makes a copy that a model may see."""

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from PIL import Image, ImageOps, UnidentifiedImageError

from nekro_core.media.child import Answer
from nekro_core.media.errors import UnusableMedia

_FORMATS = {
    "image/png": "PNG",
    "image/jpeg": "JPEG",
    "image/gif": "GIF",
    "image/webp": "WEBP",
    "image/bmp": "BMP",
}
"""What is taken as a picture: what models, browsers and platforms all show."""
_SHOWN = (*_FORMATS.values(), "TIFF")
"""Pillow knows thirty more, and hands PostScript, which is a program, to Ghostscript."""
_MOST_SHOWN_PIXELS = 36_000_000
"""Decoded 144 MB; a bomb claims more."""
_MOST_SCANS = 200
"""Of a JPEG, which is drawn that often; encoders make 10. One more takes 50 bytes and 7 ms: a
megabyte of them took two minutes."""
_JPEG, _SCAN = b"\xff\xd8", b"\xff\xda"


def check(request: dict[str, Any], data: bytes) -> Answer:
    """Whether it is a whole picture of the type ``mime`` with at most ``max_pixels``."""
    mime = request["mime"]
    if mime not in _FORMATS:
        raise UnusableMedia(f"{mime} is not a kind of picture that can be shown")
    with _opened(data, (_FORMATS[mime],), request["max_pixels"]) as picture:
        picture.load()
    return {}, b""


def show(request: dict[str, Any], data: bytes) -> Answer:
    """Its first frame, upright, small and encoded afresh: nothing of the original's bytes is kept,
    so neither is what hides in them."""
    side = (request["longer_side"], request["longer_side"])
    with _opened(data, _SHOWN, _MOST_SHOWN_PIXELS) as opened:
        # JPEG decodes at a fraction of its size when told what is wanted.
        opened.draft("RGB", side)
        picture = ImageOps.exif_transpose(opened)
        picture.thumbnail(side)
        clear = picture.has_transparency_data
        picture = picture.convert("RGBA" if clear else "RGB")
        picture.info.clear()  # Comments, profiles and positions would be written again.
        target = io.BytesIO()
        if clear:
            picture.save(target, "PNG")
            return {"mime": "image/png"}, target.getvalue()
        picture.save(target, "JPEG", quality=85)
        return {"mime": "image/jpeg"}, target.getvalue()


@contextmanager
def _opened(data: bytes, formats: tuple[str, ...], most: int) -> Iterator[Image.Image]:
    """The picture. Whatever it does to Pillow becomes `UnusableMedia`."""
    try:
        with warnings.catch_warnings():
            # Pillow warns of a size that is refused below anyway.
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            with Image.open(io.BytesIO(data), formats=formats) as picture:
                _bound(picture, data, most)
                yield picture
    except Image.DecompressionBombError:
        raise UnusableMedia(f"the picture has more than {most} pixels") from None
    except UnidentifiedImageError:
        raise UnusableMedia("the picture is damaged: it does not begin as one does") from None
    except (UnusableMedia, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001 (Pillow's decoders raise nearly anything on hostile bytes)
        raise UnusableMedia(f"the picture is damaged: {error}") from None


def _bound(picture: Image.Image, data: bytes, most: int) -> None:
    width, height = picture.size
    if width * height > most:
        raise UnusableMedia(f"the picture has {width}x{height} pixels, more than {most}")
    if data.startswith(_JPEG) and data.count(_SCAN) > _MOST_SCANS:
        raise UnusableMedia(f"the picture has more than {_MOST_SCANS} scans")
