"""Pictures made fit for a model: decoded, bounded and encoded afresh."""

import base64
import io

import anyio.to_thread
from PIL import Image, ImageOps, UnidentifiedImageError

MAX_PICTURES = 6
MAX_PIXELS = 36_000_000
"""A picture of few bytes may unfold to gigabytes; decoded it takes 4 bytes a pixel."""
FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF")
"""Pillow knows thirty more, and hands PostScript, which is a program, to Ghostscript."""
MAX_SCANS = 200
"""A JPEG is drawn so often; encoders make 10, and each takes some bytes and up to 7 ms."""
MAX_SIDE = 1568
"""Longer sides are scaled down by the providers anyway, and cost more tokens on the way."""

_JPEG_QUALITY = 88


class Unviewable(ValueError):
    """The bytes are no picture that can be shown; says why."""


async def picture_part(data: bytes) -> dict[str, object]:
    """An ``image_url`` part with the picture as a data URL. Raises `Unviewable`."""
    encoded, mime = await anyio.to_thread.run_sync(encoded_picture, data)
    url = f"data:{mime};base64,{base64.b64encode(encoded).decode()}"
    return {"type": "image_url", "image_url": {"url": url}}


def encoded_picture(data: bytes) -> tuple[bytes, str]:
    """The first frame, upright, its longer side at most 1568 pixels, as PNG or JPEG with the type.

    Nothing of the original's bytes is kept, so neither is what hides in them. Raises `Unviewable`.
    """
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as opened:
            width, height = opened.size
            if width * height > MAX_PIXELS:
                raise Unviewable(f"{width} x {height} pixels: at most {MAX_PIXELS}")
            if opened.format == "JPEG" and data.count(b"\xff\xda") > MAX_SCANS:
                raise Unviewable(f"it is drawn more than {MAX_SCANS} times over")
            # JPEG decodes at a fraction of its size when told what is wanted.
            opened.draft("RGB", (MAX_SIDE, MAX_SIDE))
            picture = ImageOps.exif_transpose(opened)
            picture.thumbnail((MAX_SIDE, MAX_SIDE))
            clear = picture.mode in ("RGBA", "LA", "PA") or "transparency" in picture.info
            picture = picture.convert("RGBA" if clear else "RGB")
    except UnidentifiedImageError:
        raise Unviewable("this is no picture") from None
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        if isinstance(error, Unviewable):
            raise
        raise Unviewable(f"the picture is broken: {error}") from None
    # Comments, profiles and positions would be written again.
    picture.info.clear()
    target = io.BytesIO()
    if clear:
        picture.save(target, "PNG")
        return target.getvalue(), "image/png"
    picture.save(target, "JPEG", quality=_JPEG_QUALITY)
    return target.getvalue(), "image/jpeg"
