"""A chat's box for calls that may want none: it is opened when a file is first asked for."""

from collections.abc import Sequence

import anyio
from loguru import logger

from nekro_core.agent.turn.boxes import ChatBox, ChatBoxes
from nekro_core.chat import ChatKey, Media
from nekro_core.sandbox.box import BackendUnavailable, Box, BoxFileError, BoxLost

_LAST_WORDS_S = 5.0


class LazyBox:
    """The files of a chat's box (`nekro_core.plugins.authoring.services.BoxFiles`), until `close`.

    A machine that can make no boxes, or a box that dies, is a `BoxFileError` of the call that
    wanted a file: most calls want none, and go on.
    """

    def __init__(self, boxes: ChatBoxes, chat_key: ChatKey) -> None:
        self._boxes = boxes
        self._chat_key = chat_key
        self.media: Sequence[Media] = ()
        """Received files that are put where the prompt says that they are, once it is opened."""
        self._kept: ChatBox | None = None
        self._lock = anyio.Lock()

    async def read_file(self, path: str, *, limit: int) -> bytes:
        """See `BoxFiles.read_file`."""
        try:
            return await (await self._box()).read_file(path, limit=limit)
        except (BackendUnavailable, BoxLost) as error:
            raise self._without(error) from error

    async def write_file(self, path: str, data: bytes, *, read_only: bool = False) -> int:
        """See `BoxFiles.write_file`."""
        try:
            return await (await self._box()).write_file(path, data, read_only=read_only)
        except (BackendUnavailable, BoxLost) as error:
            raise self._without(error) from error

    async def put_uploads(self, media: Sequence[Media]) -> None:
        """Put received files where the prompt says that they are, where there are any."""
        if not media:
            return
        try:
            await self._box()
            assert self._kept is not None, "it was opened"
            await self._kept.put_uploads(media)
        except (BackendUnavailable, BoxLost) as error:
            logger.warning("{}: uploads are in no box: {}", self._chat_key, error)

    async def close(self) -> None:
        """Give the box back, if it was opened. May be called again."""
        kept, self._kept = self._kept, None
        if kept is not None:
            with anyio.move_on_after(_LAST_WORDS_S, shield=True):
                await self._boxes.close(self._chat_key, kept, changed=True)

    async def _box(self) -> Box:
        async with self._lock:
            if self._kept is not None and not self._kept.box.alive:
                kept, self._kept = self._kept, None
                await self._boxes.close(self._chat_key, kept, changed=False)
            if self._kept is None:
                self._kept = await self._boxes.open(self._chat_key)
                await self._kept.put_uploads(self.media)
            return self._kept.box

    def _without(self, error: Exception) -> BoxFileError:
        if isinstance(error, BoxLost):
            return BoxFileError("sandbox_failed", "the box was lost; the next call gets another")
        logger.error("no box for {}: {}", self._chat_key, error)
        return BoxFileError("sandbox_failed", "no box can be made; `nekro doctor` says why")
