"""Tell a picture from a bomb, a lie or a torso."""

import warnings
from pathlib import Path

from PIL import Image

_FORMATS = {
    "image/png": "PNG",
    "image/jpeg": "JPEG",
    "image/gif": "GIF",
    "image/webp": "WEBP",
    "image/bmp": "BMP",
}
"""What is taken as a picture: what models, browsers and platforms all show."""
_MOST_SCANS = 200
"""Of a JPEG, which is drawn that often; encoders make 10. One more takes 50 bytes and 7 ms, so a
megabyte of them took two minutes in which no other picture was looked at."""
_SCAN = b"\xff\xda"


def problem_with(path: Path, mime: str, *, max_pixels: int) -> str:
    """Why a file is no picture to be shown, or an empty text. Decodes its first frame: run it in
    a thread."""
    if mime not in _FORMATS:
        return f"{mime} is not a kind of picture that can be shown"
    try:
        with warnings.catch_warnings():
            # Pillow warns of a size that is refused below anyway.
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            with Image.open(path, formats=[_FORMATS[mime]]) as picture:
                width, height = picture.size
                if width * height > max_pixels:
                    return f"the picture has {width}x{height} pixels, more than {max_pixels}"
                if mime == "image/jpeg" and path.read_bytes().count(_SCAN) > _MOST_SCANS:
                    return f"the picture has more than {_MOST_SCANS} scans"
                picture.load()
    except Image.DecompressionBombError:
        return f"the picture has more than {max_pixels} pixels"
    except Exception as error:  # noqa: BLE001 (Pillow's decoders raise nearly anything on hostile bytes)
        return f"the picture is damaged: {error}"
    return ""
