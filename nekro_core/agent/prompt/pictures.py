"""Shrinks and re-encodes received pictures for models that accept pictures."""

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from pathlib import Path

from anyio import Lock
from loguru import logger

from nekro_core.llm.model import ImagePart
from nekro_core.media.converter import MediaConverter
from nekro_core.media.errors import MediaError

_MOST_CACHED = 16  # maximum number of pictures; each has a few hundred kB


class PromptPictures:
    """Shrinks and re-encodes pictures. Caches the 16 pictures used last. ``bring`` copies a
    received picture to this machine, if another process has received it."""

    def __init__(
        self,
        converter: MediaConverter,
        *,
        longer_side: int,
        bring: Callable[[str], Awaitable[None]] | None = None,
    ) -> None:
        self._bring = bring
        self._converter = converter
        self._longer_side = longer_side
        self._cache: OrderedDict[str, ImagePart | None] = OrderedDict()
        self._busy = Lock()

    async def part(self, path: str) -> ImagePart | None:
        """Return the picture in a file; None if it cannot be shown. ``path`` is a path of the host,
        not of a box."""
        async with self._busy:  # so that two callers do not convert the same picture twice
            if path not in self._cache:
                self._cache[path] = await self._convert(Path(path))
                while len(self._cache) > _MOST_CACHED:
                    self._cache.popitem(last=False)
            self._cache.move_to_end(path)
            return self._cache[path]

    async def _convert(self, path: Path) -> ImagePart | None:
        if self._bring is not None:
            await self._bring(str(path))
        try:
            picture = await self._converter.picture_to_show(path, longer_side=self._longer_side)
        except (MediaError, OSError) as error:
            # The transcript still shows the file's path.
            logger.info("a picture is not shown to the model: {}", error)
            return None
        return ImagePart(picture.data, picture.mime)
