"""Each chat's box: taken from the pool, kept while it is used, its files saved in between."""

import hashlib
import io
import tarfile
from collections import OrderedDict
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import anyio
from loguru import logger

from nekro_core.agent.settings import AgentSettings
from nekro_core.agent.transcript import box_path
from nekro_core.chat import ChatKey, Media
from nekro_core.sandbox.box import Box, BoxFileError, SandboxError

_UPLOADED = 64 * 1024 * 1024  # bytes of uploads put into one box, a quarter of its disk
_END_S = 5.0  # longest wait for a box to be gone


class BoxSource(Protocol):
    """Where boxes come from (`nekro_core.sandbox.BoxPool`)."""

    async def take(self) -> Box:
        """A box of one's own. Raises `BackendUnavailable`."""


class KeptBox:
    """A chat's box and what we know of its contents."""

    def __init__(self, box: Box, now: float) -> None:
        self.box = box
        self.used_at = now
        self.in_use = 0
        self.saved = ""
        self._uploads: set[str] = set()
        self._uploaded = 0

    async def put_uploads(self, media: Iterable[Media]) -> None:
        """Write received files where the prompt says that they are, read-only. What does not fit
        is left out and logged. Raises `BoxLost`."""
        for medium in media:
            path = box_path(medium)
            if not path or path in self._uploads:
                continue
            self._uploads.add(path)
            if self._uploaded + medium.size > _UPLOADED:
                logger.warning("{} does not fit among the uploads of its box", path)
                continue
            try:
                data = await anyio.Path(medium.path).read_bytes()
                await self.box.write_file(path, data, read_only=True)
            except (OSError, BoxFileError) as error:
                logger.warning("{} could not be put into its box: {}", path, error)
                continue
            self._uploaded += len(data)


class ChatBoxes:
    """The boxes of all chats. Files live on under ``folder`` when a box ends."""

    def __init__(
        self,
        source: BoxSource,
        folder: Path,
        settings: AgentSettings,
        *,
        clock: Callable[[], float],
    ) -> None:
        self._source = source
        self._folder = folder
        self._settings = settings
        self._clock = clock
        self._kept: OrderedDict[ChatKey, KeptBox] = OrderedDict()

    @property
    def warm(self) -> int:
        """How many boxes are kept."""
        return len(self._kept)

    async def open(self, chat_key: ChatKey) -> KeptBox:
        """The chat's living box, or a fresh one with its saved files. One turn has it at a time,
        and gives it back with `close`. Raises `BackendUnavailable` and `BoxLost`."""
        kept = self._kept.get(chat_key)
        if kept is not None and not kept.box.alive:
            del self._kept[chat_key]
            await _end(kept.box)
            kept = None
        if kept is None:
            kept = KeptBox(await self._source.take(), self._clock())
            try:
                await self._restore(chat_key, kept)
            except BaseException:
                await _end(kept.box)
                raise
            self._kept[chat_key] = kept
        self._kept.move_to_end(chat_key)
        kept.in_use += 1
        return kept

    async def close(self, chat_key: ChatKey, kept: KeptBox, *, changed: bool) -> None:
        """The turn is over. ``changed`` says that code ran, so that files may be new."""
        kept.in_use -= 1
        kept.used_at = self._clock()
        if changed and kept.box.alive:
            await self._save(chat_key, kept)
        await self._end_surplus()

    async def end_idle(self) -> None:
        """End boxes that were not used for long; called now and then."""
        for chat_key, kept in [*self._kept.items()]:
            unused = not kept.in_use and self._clock() - kept.used_at > self._settings.box_idle_s
            # While one ends, another may wake or be replaced.
            if unused and self._kept.get(chat_key) is kept:
                del self._kept[chat_key]
                await _end(kept.box)

    async def aclose(self) -> None:
        """End every box. Their files were saved when their turns ended."""
        while self._kept:
            _, kept = self._kept.popitem()
            await _end(kept.box)

    async def _end_surplus(self) -> None:
        while len(self._kept) > self._settings.warm_boxes:
            # Looked for anew each time: while one ends, another's chat may wake.
            idle = (chat_key for chat_key, kept in self._kept.items() if not kept.in_use)
            if (oldest := next(idle, None)) is None:
                return
            await _end(self._kept.pop(oldest).box)

    def _path(self, chat_key: ChatKey) -> anyio.Path:
        return anyio.Path(self._folder / chat_key.file_name / "default.tar")

    async def _restore(self, chat_key: ChatKey, kept: KeptBox) -> None:
        path = self._path(chat_key)
        try:
            archive = await path.read_bytes()
        except FileNotFoundError:
            return
        try:
            await kept.box.import_files(archive)
        except BoxFileError as error:
            # Kept aside: the next save must not be the end of files that could not be read.
            logger.error("{}: saved files of {} were set aside: {}", path, chat_key, error)
            await path.rename(path.with_suffix(".unreadable.tar"))
            return
        kept.saved = await anyio.to_thread.run_sync(_digest, archive)

    async def _save(self, chat_key: ChatKey, kept: KeptBox) -> None:
        try:
            archive = await kept.box.export_files()
        except SandboxError as error:
            logger.warning("files of {} were not saved: {}", chat_key, error)
            return
        # A quarter of a gigabyte and 50,000 files are possible: no other chat waits for them.
        digest = await anyio.to_thread.run_sync(_digest, archive)
        if digest == kept.saved:
            return
        if not kept.saved and await anyio.to_thread.run_sync(_is_empty, archive):
            return
        path = self._path(chat_key)
        try:
            await path.parent.mkdir(parents=True, exist_ok=True)
            temporary = path.with_suffix(".new")
            await temporary.write_bytes(archive)
            await temporary.replace(path)
        except OSError as error:
            logger.error("{}: files of {} were not saved: {}", path, chat_key, error)
            return
        kept.saved = digest


async def _end(box: Box) -> None:
    with anyio.move_on_after(_END_S, shield=True), suppress(SandboxError):
        await box.destroy()


def _digest(archive: bytes) -> str:
    return hashlib.sha256(archive).hexdigest()


def _is_empty(archive: bytes) -> bool:
    try:
        with tarfile.open(fileobj=io.BytesIO(archive)) as files:
            return all(member.isdir() and member.name.strip("./") == "" for member in files)
    except tarfile.TarError:
        return False  # it is kept, and set aside when it is needed and cannot be read
