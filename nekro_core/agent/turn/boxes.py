"""Manages the boxes of chats. Each chat owns named boxes. The code of the chat's replies runs in
the box `default`. If a model calls functions natively instead of writing code, most calls need no
box; the box is opened when a call first needs a file.
"""

import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import anyio
import anyio.to_thread
from loguru import logger

from nekro_core.agent.prompt.transcript import box_path
from nekro_core.agent.settings import AgentSettings
from nekro_core.chat import ChatKey, Media
from nekro_core.sandbox.box import BackendUnavailable, Box, BoxFileError, BoxLost, SandboxError
from nekro_core.sandbox.named import (
    BoxLease,
    BoxSource,
    BoxStorage,
    Equip,
    FolderStorage,
    NamedBoxes,
    NamedBoxLimits,
    StoredBoxUnreadable,
    UseEffect,
)
from nekro_core.sandbox.settings import SandboxSettings
from nekro_core.sandbox.tools import SandboxPool, SandboxToolResult, handle_tool_call
from nekro_core.sandbox.tools.pool import PreviewOpener, SandboxToolLimits
from nekro_core.system.telemetry.telemetry import Telemetry

_MIB = 1024 * 1024
_UPLOADED = 64 * _MIB  # maximum bytes of uploads in one box: a quarter of its disk
_UNREADABLE_S = 30.0
"""Maximum number of seconds that a turn waits until the stored files of its box can be read again.
A PostgreSQL server that starts again needs some seconds, on a slow disk up to half a minute."""
_AGAIN_S = 1.0
"""Pause in seconds before the files of a box are read again. Each attempt may make a new box."""
LAST_WORDS_S = 5.0
"""Maximum number of seconds for the last writes to the store and the saving of files when a turn is
cut off."""


class ChatBox:
    """A chat's running box `default`, with the list of uploads that were written into it."""

    def __init__(self, used: BoxLease, bring: Callable[[str], Awaitable[None]]) -> None:
        self._bring = bring
        self.box: Box = used.box
        self.named = used.named
        self._uploads: set[str] = set()
        self._uploaded = 0
        self._linked = False

    async def put_links(self, links: Mapping[str, str]) -> None:
        """Make symbolic links in the box. ``links`` maps the path of each link to its target. If a
        path exists already, it is not changed. Links are made once for each box: a later call does
        nothing. Raises `BoxLost`."""
        if links and not self._linked:
            self._linked = True
            for path, target in links.items():
                await self.box.execute(["ln", "-sn", "--", target, path])

    async def put_uploads(self, media: Iterable[Media]) -> None:
        """Write received files into the box, read-only, at the paths that the prompt names. A file
        that does not fit is left out, and the log says so. Raises `BoxLost`."""
        for medium in media:
            path = box_path(medium)
            if not path or path in self._uploads:
                continue
            self._uploads.add(path)
            if self._uploaded + medium.size > _UPLOADED:
                logger.warning("{} is not copied into its box: too many uploads", path)
                continue
            await self._bring(medium.path)
            try:
                data = await anyio.Path(medium.path).read_bytes()
                await self.box.write_file(path, data, read_only=True)
            except (OSError, BoxFileError) as error:
                logger.warning("{} could not be put into its box: {}", path, error)
                continue
            self._uploaded += len(data)


class ChatBoxSource(BoxSource, Protocol):
    """The source of chats' boxes (`nekro_core.sandbox.supply.BoxSupply`)."""

    @property
    def unavailable(self) -> str:
        """Why no box can be made; empty if no reason is known."""

    @property
    def pool_bytes(self) -> int:
        """The memory in bytes of the pooled boxes, which belong to no chat yet."""


async def is_here(_path: str) -> None:
    """Do nothing: this process has received all media itself."""


class ChatBoxes:
    """Manages the boxes of all chats. The owner of a box is its chat's key. Putting a box to sleep
    saves its files in ``folder`` and ends the box.

    ``preview`` lets browsers reach servers that run in boxes. ``equip`` is called with each box
    that starts. ``crowded`` says whether boxes must be put to sleep because memory is short.
    ``storage`` makes a storage that shares the files of ``folder`` with other processes. ``bring``
    copies a received medium to this machine, if another process has received it. The code that
    creates this object must run `watch` and await `aclose`.
    """

    def __init__(
        self,
        source: ChatBoxSource,
        folder: Path,
        settings: AgentSettings,
        *,
        clock: Callable[[], float],
        sandbox: SandboxSettings | None = None,
        preview: PreviewOpener | None = None,
        equip: Equip | None = None,
        crowded: Callable[[], bool] = lambda: False,
        telemetry: Telemetry | None = None,
        storage: Callable[[FolderStorage], BoxStorage] = lambda files: files,
        bring: Callable[[str], Awaitable[None]] = is_here,
    ) -> None:
        sandbox = sandbox or SandboxSettings()
        self._bring = bring
        files = FolderStorage(folder, _folder_name, most_bytes=sandbox.total_stored_bytes)
        self.named = NamedBoxes(
            source,
            storage(files),
            NamedBoxLimits(
                default_image=sandbox.default_image,
                sleep_after_s=settings.box_idle_s,
                running=settings.warm_boxes,
                idle_bytes=sandbox.idle_memory_mb * _MIB,
                per_owner=sandbox.boxes_per_chat,
            ),
            clock=clock,
            equip=equip,
            crowded=crowded,
            pool_bytes=lambda: source.pool_bytes,
        )
        self._source = source
        self._folder = folder
        self._settings = settings
        self._sandbox = sandbox
        self._clock = clock
        self._preview = preview
        self._limits = SandboxToolLimits(command_s=sandbox.command_seconds)
        self._open_boxes: dict[ChatKey, ChatBox] = {}
        self._metrics = (telemetry or Telemetry()).metrics

    @property
    def unavailable(self) -> str:
        """Why no code can run on this machine; empty if no reason is known."""
        return self._source.unavailable

    @property
    def warm(self) -> int:
        """The number of running boxes."""
        return len(self.named.running)

    async def open(self, chat_key: ChatKey) -> ChatBox:
        """Return the chat's running box `default`, with its saved files. The box does not sleep
        until `close` is called. If its files can probably be read again soon, for example because
        the database server is starting, this method waits. Raises `BackendUnavailable` and
        `BoxLost`."""
        began = self._clock()
        until = anyio.current_time() + _UNREADABLE_S
        while True:
            try:
                used, _ = await self.named.of(str(chat_key)).take()
                break
            except (BackendUnavailable, BoxLost):
                raise
            except StoredBoxUnreadable as error:
                if not error.passing or anyio.current_time() >= until:
                    raise BackendUnavailable(str(error)) from error
            except SandboxError as error:
                raise BackendUnavailable(str(error)) from error
            await anyio.sleep(_AGAIN_S)
        chat_box = self._open_boxes.get(chat_key)
        if chat_box is None or chat_box.box is not used.box:
            chat_box = self._open_boxes[chat_key] = ChatBox(used, self._bring)
            self._metrics.box_start.observe(self._clock() - began)
        return chat_box

    async def close(self, chat_key: ChatKey, chat_box: ChatBox, *, changed: bool) -> None:
        """Give the box back after a turn. ``changed`` says that files may have changed; then the
        files of all boxes of the chat are saved."""
        chat_box.named.give_back(UseEffect.FILES if changed else UseEffect.NOTHING)
        if not chat_box.box.alive:
            await chat_box.named.note_loss()
        if changed:
            await self.named.of(str(chat_key)).save()
        await self.named.make_room()

    def pool(self, chat_key: ChatKey) -> SandboxPool:
        """Return the chat's boxes, for the eight tools of `nekro_core.sandbox.tools`."""
        owned = self.named.of(str(chat_key))
        return SandboxPool(owned, preview=self._preview, limits=self._limits)

    async def call(
        self, chat_key: ChatKey, tool: str, given: Mapping[str, Any]
    ) -> SandboxToolResult:
        """Call one of these eight tools on the chat's boxes; see `handle_tool_call`."""
        return await handle_tool_call(self.pool(chat_key), tool, given)

    async def destroy(self, chat_key: ChatKey) -> None:
        """Remove all boxes of a chat with their files. Raises `OSError`."""
        self._open_boxes.pop(chat_key, None)
        await self.named.of(str(chat_key)).destroy_all()

    async def hand_over(self, chats: Callable[[ChatKey], bool]) -> None:
        """Save and end the boxes of some chats, because another process uses them from now on."""
        await self.named.hand_over(lambda owner: chats(ChatKey.parse(owner)))
        for chat_key in [*self._open_boxes]:
            if chats(chat_key):
                del self._open_boxes[chat_key]

    @asynccontextmanager
    async def copy(self, chat_key: ChatKey, folder: Path) -> AsyncIterator["ChatBoxes"]:
        """Yield copies of one chat's boxes, with the files that these boxes last saved. The copies
        keep their files in ``folder``. They are destroyed when the block ends. Raises `OSError`."""
        name = chat_key.file_name
        stored = self._folder / name
        if await anyio.Path(stored).exists():
            await anyio.to_thread.run_sync(shutil.copytree, stored, folder / name)
        copied = ChatBoxes(
            self._source, folder, self._settings, clock=self._clock, sandbox=self._sandbox
        )
        try:
            yield copied
        finally:
            with anyio.move_on_after(LAST_WORDS_S, shield=True):
                await copied.destroy(chat_key)
                await copied.aclose()

    async def watch(self) -> None:
        """Put idle boxes to sleep, until cancelled."""
        await self.named.watch()

    async def end_idle(self) -> None:
        """Put all boxes to sleep that have been idle long enough."""
        await self.named.end_idle()

    async def aclose(self) -> None:
        """Save and end every box."""
        self._open_boxes.clear()
        await self.named.aclose()


@lru_cache(1024)
def _folder_name(owner: str) -> str:
    return ChatKey.parse(owner).file_name


class TurnBox:
    """The box in which the code of one turn runs. The box is opened when the first code runs, so a
    turn without code needs no box. The owner must await `close`."""

    def __init__(self, boxes: ChatBoxes, chat_key: ChatKey) -> None:
        self._boxes = boxes
        self._chat_key = chat_key
        self._box: ChatBox | None = None
        self.has_run = False
        """Whether code ran, so that files may have changed."""

    async def open(self) -> ChatBox:
        """Return the chat's box. If the box died, open another. Raises `BackendUnavailable` and
        `BoxLost`."""
        if self._box is not None:
            if self._box.box.alive:
                return self._box
            await self._boxes.close(self._chat_key, self._box, changed=False)
            self._box = None
        self._box = await self._boxes.open(self._chat_key)
        return self._box

    async def save_run(self) -> None:
        """Save the files after a run, if the boxes are shared with other processes."""
        if self._box is not None:
            await self._box.named.save_run()

    async def close(self) -> None:
        """Drop the code's variables and give the box back, if it was opened."""
        if self._box is not None:
            self._box.box.drop_globals()
            with anyio.move_on_after(LAST_WORDS_S, shield=True):
                await self._boxes.close(self._chat_key, self._box, changed=self.has_run)


class LazyBox:
    """Access to the files of a chat's box (`nekro_core.plugins.authoring.services.BoxFiles`), until
    `close`.

    The box is opened when a file is first needed. Most calls need no file. If no box can be made or
    the box dies, the call that needs the file raises `BoxFileError`.
    """

    def __init__(self, boxes: ChatBoxes, chat_key: ChatKey) -> None:
        self._boxes = boxes
        self._chat_key = chat_key
        self.media: Callable[[], Sequence[Media]] = tuple
        """Returns the received files that are written into the box when it is opened."""
        self._chat_box: ChatBox | None = None
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
        """Write received files into the box, at the paths that the prompt names. If there are no
        files, no box is opened."""
        if not media:
            return
        try:
            await self._box()
            assert self._chat_box is not None, "it was opened"
            await self._chat_box.put_uploads(media)
        except (BackendUnavailable, BoxLost) as error:
            logger.warning(
                "{}: the uploads cannot be written into a box: {}", self._chat_key, error
            )

    async def close(self) -> None:
        """Give the box back, if it was opened. May be called more than once."""
        chat_box, self._chat_box = self._chat_box, None
        if chat_box is not None:
            with anyio.move_on_after(LAST_WORDS_S, shield=True):
                await self._boxes.close(self._chat_key, chat_box, changed=True)

    async def _box(self) -> Box:
        async with self._lock:
            if self._chat_box is not None and not self._chat_box.box.alive:
                chat_box, self._chat_box = self._chat_box, None
                await self._boxes.close(self._chat_key, chat_box, changed=False)
            if self._chat_box is None:
                self._chat_box = await self._boxes.open(self._chat_key)
                await self._chat_box.put_uploads(self.media())
            return self._chat_box.box

    def _without(self, error: Exception) -> BoxFileError:
        if isinstance(error, BoxLost):
            return BoxFileError("sandbox_failed", "the box was lost; the next call gets another")
        logger.error("no box for {}: {}", self._chat_key, error)
        return BoxFileError("sandbox_failed", "no box can be made; `nekro doctor` says why")
