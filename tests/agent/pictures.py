"""Small pictures for tests."""

import base64
import io

from PIL import Image


def png(width: int = 2, height: int = 2, color: str = "red") -> bytes:
    target = io.BytesIO()
    Image.new("RGB", (width, height), color).save(target, "PNG")
    return target.getvalue()


PNG = png()
PNG_URL = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
