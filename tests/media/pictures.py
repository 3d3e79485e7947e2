"""Draws pictures for tests."""

import io
import random
from typing import Any

from PIL import Image


def drawn(
    kind: str = "PNG", size: tuple[int, int] = (60, 40), *, mode: str = "RGB", noise: bool = True,
    **options: Any,
) -> bytes:  # fmt: skip
    """A picture of noise, which compresses badly, or of one colour."""
    width, height = size
    if noise:
        bits = random.Random(1).randbytes(width * height * len(mode))
        picture = Image.frombytes(mode, size, bits)
    else:
        picture = Image.new(mode, size, "red")
    out = io.BytesIO()
    picture.save(out, kind, **options)
    return out.getvalue()


def moving(size: tuple[int, int] = (60, 40), frames: int = 5) -> bytes:
    chance = random.Random(2)
    shown = [
        Image.frombytes("RGB", size, chance.randbytes(size[0] * size[1] * 3)) for _ in range(frames)
    ]
    out = io.BytesIO()
    shown[0].save(
        out,
        "GIF",
        save_all=True,
        append_images=shown[1:],
        duration=[40, 80, 120, 40, 40][:frames],
        loop=0,
    )
    return out.getvalue()
