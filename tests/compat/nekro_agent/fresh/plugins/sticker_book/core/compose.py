import io
from pathlib import Path
from typing import List

from PIL import Image, ImageDraw, ImageFont

from ..plugin import config


def sheet(paths: List[Path]) -> bytes:
    size = config.SIZE
    img = Image.new("RGBA", (size * max(1, len(paths)), size + 12), (255, 255, 255, 0))
    draw = ImageDraw.Draw(img)
    font = ImageFont.load_default()
    for i, p in enumerate(paths):
        with Image.open(p) as one:
            img.paste(one.convert("RGBA").resize((size, size)), (i * size, 0))
        draw.text((i * size + 2, size), str(i + 1), fill=(0, 0, 0, 255), font=font)
    buf = io.BytesIO()
    img.save(buf, format="PNG")
    return buf.getvalue()
