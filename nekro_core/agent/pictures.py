"""Received pictures, made small and harmless for a model that sees."""

import io
from collections import OrderedDict
from pathlib import Path

import anyio
from PIL import Image

from nekro_core.llm.model import ImagePart

_MAX_FILE = 32 * 1024 * 1024
_MAX_PIXELS = 36_000_000  # decoded 144 MB; a bomb claims more
_KEPT = 16  # pictures remembered, a few hundred kB each


class Pictures:
    """Reads, checks and re-encodes pictures, off the event loop. The newest are remembered."""

    def __init__(self, *, longer_side: int) -> None:
        self._longer_side = longer_side
        self._kept: OrderedDict[str, ImagePart | None] = OrderedDict()
        self._busy = anyio.CapacityLimiter(1)

    async def part(self, path: str) -> ImagePart | None:
        """The picture in that file on the host; nothing where it is none that can be shown."""
        if path not in self._kept:
            part = await anyio.to_thread.run_sync(
                _encode, Path(path), self._longer_side, limiter=self._busy
            )
            self._kept[path] = part
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
            return part
        self._kept.move_to_end(path)
        return self._kept[path]


def _encode(path: Path, longer_side: int) -> ImagePart | None:
    try:
        if path.stat().st_size > _MAX_FILE:
            return None
        with Image.open(path) as picture:
            if picture.width * picture.height > _MAX_PIXELS:
                return None
            picture.draft("RGB", (longer_side, longer_side))
            picture.thumbnail((longer_side, longer_side))
            target = io.BytesIO()
            if picture.has_transparency_data:
                picture.convert("RGBA").save(target, "PNG")
                return ImagePart(target.getvalue(), "image/png")
            picture.convert("RGB").save(target, "JPEG", quality=85)
            return ImagePart(target.getvalue(), "image/jpeg")
    except (
        OSError,
        ValueError,
        SyntaxError,
        MemoryError,
        Image.DecompressionBombError,
        Image.DecompressionBombWarning,
    ):
        return None  # the transcript still names the file; Pillow raises these for bad pictures
