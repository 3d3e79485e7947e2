"""Received pictures, made small and harmless for a model that sees."""

from collections import OrderedDict
from pathlib import Path

from anyio import Lock
from loguru import logger

from nekro_core.llm.model import ImagePart
from nekro_core.media.converter import MediaConverter
from nekro_core.media.errors import MediaError

_KEPT = 16  # pictures remembered, a few hundred kB each


class PromptPictures:
    """Has pictures made small and encoded afresh. The newest are remembered."""

    def __init__(self, converter: MediaConverter, *, longer_side: int) -> None:
        self._converter = converter
        self._longer_side = longer_side
        self._kept: OrderedDict[str, ImagePart | None] = OrderedDict()
        self._busy = Lock()

    async def part(self, path: str) -> ImagePart | None:
        """The picture in that file on the host; nothing where it is none that can be shown."""
        async with self._busy:  # who asks for the same one waits for it
            if path not in self._kept:
                self._kept[path] = await self._made(Path(path))
                while len(self._kept) > _KEPT:
                    self._kept.popitem(last=False)
            self._kept.move_to_end(path)
            return self._kept[path]

    async def _made(self, path: Path) -> ImagePart | None:
        try:
            made = await self._converter.picture_to_show(path, longer_side=self._longer_side)
        except (MediaError, OSError) as error:
            # The transcript still names the file.
            logger.info("a picture is not shown to the model: {}", error)
            return None
        return ImagePart(made.data, made.mime)
