"""Gives access to the log of the running bot: its newest lines, its files, and its level."""

from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager

import anyio.to_thread
import msgspec

from nekro_core.system.logs.files import RotatedLogFiles
from nekro_core.system.logs.line import LogFilter, LogLine
from nekro_core.system.logs.ring import LogRing, MissedLines


class LogBook:
    """The part of the log that pages and programs use. ``change_level`` sets the level of the whole
    log."""

    def __init__(
        self,
        ring: LogRing,
        files: RotatedLogFiles | None = None,
        *,
        level: str = "INFO",
        change_level: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._ring = ring
        self._files = files
        self._level = level
        self._change_level = change_level

    @property
    def level(self) -> str:
        """The level below which nothing is logged: a name or a number."""
        return self._level

    def set_level(self, level: str) -> None:
        """Change the level until the end of the process. Raises `ValueError` for an unknown
        level."""
        self._change_level(level)
        self._level = level

    def newest(
        self, wanted: LogFilter | None = None, *, before: int = 0, limit: int = 200
    ) -> Sequence[LogLine]:
        """Return the newest lines that match, newest first; see `LogRing.newest`."""
        return self._ring.newest(wanted, before=before, limit=limit)

    def follow(
        self, wanted: LogFilter | None = None
    ) -> AbstractAsyncContextManager[AsyncIterator[LogLine | MissedLines]]:
        """Follow the new lines that match; see `LogRing.follow`."""
        return self._ring.follow(wanted)

    async def forget(self, texts: Collection[str]) -> int:
        """Remove the lines that contain one of these texts, from memory and from the files. Return
        how many lines of the files were removed. Raises `OSError`."""
        wanted = [text for text in texts if text]
        if not wanted:
            return 0
        spelt = {msgspec.json.encode(text)[1:-1] for text in wanted}

        def mentions(line: bytes) -> bool:
            return any(text in line for text in spelt)

        self._ring.forget(lambda line: mentions(msgspec.json.encode(line)))
        if self._files is None:
            return 0
        return await anyio.to_thread.run_sync(self._files.forget, mentions)

    async def download(self) -> AsyncIterator[bytes]:
        """Yield the content of all log files, oldest first. It has one line of JSON for each line
        of the log. Raises `OSError`."""
        if self._files is None:
            return
        pieces = self._files.pieces()
        try:
            while piece := await anyio.to_thread.run_sync(next, pieces, b""):
                yield piece
        finally:
            pieces.close()
