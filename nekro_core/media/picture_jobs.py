"""Checks whether untrusted bytes are a picture, and makes a copy of a picture for a model."""

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
"""The picture types that models, browsers and platforms all show. `check` accepts no other
types."""
_SHOWN = (*_FORMATS.values(), "TIFF")
"""The formats of pictures that may be copied. Pillow also reads about thirty other formats. One of
them is dangerous: PostScript files are programs, which Pillow lets Ghostscript run."""
_MOST_SHOWN_PIXELS = 36_000_000
"""The largest number of pixels of a picture that is copied. Decoded, they take 144 MB. A
decompression bomb has more."""
_MOST_SCANS = 200
"""The largest number of scans of a JPEG. A decoder draws the picture once for each scan. Encoders
make 10 scans. A hostile file can have many more: a scan takes only 50 bytes of the file but 7 ms of
time, so a megabyte of scans took two minutes."""
_JPEG, _SCAN = b"\xff\xd8", b"\xff\xda"


def check(request: dict[str, Any], data: bytes) -> Answer:
    """Check that the data is a whole picture of the type ``mime`` with at most ``max_pixels``.
    Raises `UnusableMedia` if it is not."""
    mime = request["mime"]
    if mime not in _FORMATS:
        raise UnusableMedia(f"{mime} is not a kind of picture that can be shown")
    with _opened(data, (_FORMATS[mime],), request["max_pixels"]) as picture:
        picture.load()
    return {}, b""


def show(request: dict[str, Any], data: bytes) -> Answer:
    """Return the first frame of a picture, upright, small and newly encoded. No byte of the
    original is copied, so nothing that is hidden in it remains."""
    side = (request["longer_side"], request["longer_side"])
    with _opened(data, _SHOWN, _MOST_SHOWN_PIXELS) as opened:
        # Tell the decoder the wanted size. It then decodes a JPEG directly at a fraction of its
        # size, which is faster.
        opened.draft("RGB", side)
        picture = ImageOps.exif_transpose(opened)
        picture.thumbnail(side)
        clear = picture.has_transparency_data
        picture = picture.convert("RGBA" if clear else "RGB")
        picture.info.clear()  # Otherwise comments, profiles and positions would be copied.
        target = io.BytesIO()
        if clear:
            picture.save(target, "PNG")
            return {"mime": "image/png"}, target.getvalue()
        picture.save(target, "JPEG", quality=85)
        return {"mime": "image/jpeg"}, target.getvalue()


@contextmanager
def _opened(data: bytes, formats: tuple[str, ...], most: int) -> Iterator[Image.Image]:
    """Open a picture and check its size. Any error of Pillow is raised as `UnusableMedia`."""
    try:
        with warnings.catch_warnings():
            # Ignore Pillow's warnings of large sizes, because sizes that are too large are refused
            # below.
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            with Image.open(io.BytesIO(data), formats=formats) as picture:
                _bound(picture, data, most)
                yield picture
    except Image.DecompressionBombError:
        raise UnusableMedia(f"the picture has more than {most} pixels") from None
    except UnidentifiedImageError:
        raise UnusableMedia("the picture is damaged: it does not begin like a picture") from None
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
