"""One colour on a small canvas."""

import io

from PIL import Image


def paint(color: str) -> bytes:
    held = io.BytesIO()
    Image.new("RGB", (8, 8), color).save(held, "PNG")
    return held.getvalue()
