"""Checks the pictures, voices and files that chats receive and send, and stores them within size
limits.

A medium is stored as ``uploads/<chat>/<hash>.<ending>``. The bot computes hash and ending; no text
from outside becomes part of a path. If a chat exceeds its quota, the chat's oldest files are
deleted.
"""

import errno
import hashlib
import os
import re
import shutil
import time
import unicodedata
import uuid
from functools import partial
from pathlib import Path
from typing import Self

from anyio import CancelScope, CapacityLimiter, move_on_after, sleep, to_thread
from loguru import logger
from msgspec.structs import replace

from nekro_core.chat import ChatKey, Media, Record
from nekro_core.delivery.errors import NotFetched
from nekro_core.delivery.media.fetch import Fetcher
from nekro_core.delivery.media.fetch_policy import FetchPolicy
from nekro_core.delivery.media.retention import delete_expired, expired_files, files_in
from nekro_core.delivery.media.settings import MediaSettings
from nekro_core.delivery.media.shared_media import SharedMedia
from nekro_core.delivery.media_contract import Expected
from nekro_core.media.converter import MediaConverter
from nekro_core.media.errors import MediaError
from nekro_core.media.file_look import real_ending
from nekro_core.media.sniff import HEAD, claimed_kind, sniff
from nekro_core.store.media_paths import MEDIUM
from nekro_core.store.traces import media_in
from nekro_core.system.keyed_queue import KeyedLimiter

_OURS = re.compile(r"[0-9a-f]{32}\.[a-z0-9]{1,5}\Z")
_SVG = "image/svg+xml"
_LEAST_FREE = 64 * 1024 * 1024
"""Bytes that must stay free on the disk, for the database."""
_MAX_NAME = 120
_SLICE = 50
_PAUSE_S = 0.05
"""Seconds to wait after each `_SLICE` deleted files, so that new media can be stored meanwhile."""
_PIECE = 1024 * 1024
_BRING_S = 10.0
"""Maximum number of seconds for copying the media of one record to this machine. A medium of 20 MiB
takes less than a second in a local network. The record waits meanwhile, and so do the later records
of its partition."""


class MediaStore:
    """Stores media in the data folder. An async context manager; implements `MediaKeeper`.

    ``converter`` checks pictures. The caller closes it; if the caller gives none, the store makes a
    converter and closes it. ``fetcher`` fetches the media that platforms send as URLs, and is
    closed with the store. With ``shared``, the processes of several machines have the same media.
    """

    def __init__(
        self,
        data_dir: Path,
        settings: MediaSettings | None = None,
        converter: MediaConverter | None = None,
        fetcher: Fetcher | None = None,
        shared: SharedMedia | None = None,
    ) -> None:
        self._folder = data_dir.absolute() / "uploads"
        self._settings = settings or MediaSettings()
        self._fetcher = fetcher or Fetcher(self._settings)
        self._used: dict[ChatKey, int] = {}
        self._shared = shared
        self._bringing = KeyedLimiter(1)
        self._converter = converter or MediaConverter()
        self._own_converter = converter is None
        # With this limiter, only one thread at a time writes files and counts quotas.
        self._one = CapacityLimiter(1)

    async def __aenter__(self) -> Self:
        await self._fetcher.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._fetcher.__aexit__(*_)
        if self._own_converter:
            await self._converter.__aexit__(*_)

    async def keep_bytes(
        self, chat_key: ChatKey, data: bytes, *, name: str = "", expect: Expected = ""
    ) -> Media:
        """Store bytes that are already in memory. See `MediaKeeper`."""
        if len(data) > self._settings.max_bytes:
            limit = self._settings.max_bytes // 1024 // 1024
            return _nothing(name, f"larger than {limit} MiB", size=len(data))
        return await self._keep(chat_key, data, name, expect)

    async def keep_url(
        self,
        chat_key: ChatKey,
        url: str,
        *,
        name: str = "",
        expect: Expected = "",
        reach: FetchPolicy | None = None,
    ) -> Media:
        """Fetch an ``http(s)``, ``data:`` or ``base64://`` URL and store its content. See
        `MediaKeeper`. The default of ``reach`` is the policy for URLs in a platform's messages."""
        try:
            data = await self._fetcher.fetch(url, reach=reach, key=chat_key)
        except NotFetched as error:
            return _nothing(name, str(error), url=url)
        return await self._keep(chat_key, data, name, expect, url=url)

    async def keep_file(self, chat_key: ChatKey, media: Media) -> Media:
        """Copy an outgoing file of this machine into the store, so that the file still exists when
        its message is sent later or the web page shows it. The path must come from a trusted
        source."""
        path = Path(media.path)
        if (inside := self._inside(chat_key, media.path)) is not None:
            await self.bring(media.path)
            return media if str(inside) == media.path else replace(media, path=str(inside))
        name = media.name or path.name
        try:
            data = await to_thread.run_sync(_read_bounded, path, self._settings.max_bytes)
        except OSError as error:
            return _nothing(name, f"cannot be read: {error.strerror}")
        if data is None:
            return await self._keep_large(chat_key, path, name)
        return await self._keep(chat_key, data, name, "file")

    async def read(self, chat_key: ChatKey, path: str) -> bytes | None:
        """Read a medium of this chat by its `Media.path`. Returns None if the path belongs to
        another chat or is not the path of a medium, or if the file was deleted."""
        inside = self._inside(chat_key, path)
        if inside is None:
            return None
        await self.bring(path)
        return await to_thread.run_sync(_read_plain, inside)

    async def bring(self, path: str) -> None:
        """Copy a medium to this machine if another process has stored it and it is not here. Does
        nothing for the path of any other file, and does not raise: if the medium cannot be copied,
        the caller finds no file, as after the deletion of an old medium."""
        found = MEDIUM.search(path) if self._shared is not None else None
        if found is None or self._shared is None:
            return
        inside = self._folder / found["chat"] / found["name"]
        if inside.exists():
            return
        async with self._bringing.of(inside):
            if inside.exists():
                return
            chat_key = await self._shared.fetch(inside)
            if chat_key is not None:
                size = (await to_thread.run_sync(inside.stat)).st_size
                count = partial(self._count, chat_key, inside.parent, size, inside)
                await to_thread.run_sync(count, limiter=self._one)

    async def bring_record(self, record: Record) -> None:
        """Copy the media of a record to this machine, for at most `_BRING_S` seconds. Does not
        raise."""
        with move_on_after(_BRING_S):
            for medium in media_in(record.segments):
                await self.bring(medium.path)

    async def _keep_large(self, chat_key: ChatKey, path: Path, name: str) -> Media:
        """Store a file that is larger than ``max_bytes``. The file is copied in pieces, never read
        whole into memory."""
        work = partial(self._copy, chat_key, path)
        try:
            kept, mime, digest, size = await to_thread.run_sync(work, limiter=self._one)
        except OSError as error:
            return _nothing(name, f"cannot be stored: {error.strerror}")
        if not digest:
            limit = self._settings.sent_bytes // 1024 // 1024
            return _nothing(name, f"larger than {limit} MiB", size=size)
        if self._shared is not None:
            await self._shared.store(chat_key, kept, sha256=digest, size=size)
        return Media(path=str(kept), name=safe_name(name), mime=mime, size=size, sha256=digest)

    def _copy(self, chat_key: ChatKey, source: Path) -> tuple[Path, str, str, int]:
        """Copy a file. Returns the copy's path, MIME type, digest and size. If the file is too
        large, the digest is empty and nothing is copied."""
        folder = self._folder / chat_key.file_name
        folder.mkdir(parents=True, exist_ok=True)
        size = source.stat().st_size
        if size > self._settings.sent_bytes:
            return source, "", "", size
        if shutil.disk_usage(folder).free - size < _LEAST_FREE:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        partial_path = folder / f"{uuid.uuid4().hex}.part"
        digest, copied = hashlib.sha256(), 0
        try:
            with source.open("rb") as original, partial_path.open("wb") as copy:
                mime, ending = sniff(head := original.read(HEAD))
                piece = head
                while piece and copied <= size:
                    digest.update(piece)
                    copy.write(piece)
                    copied += len(piece)
                    piece = original.read(_PIECE)
            path = folder / f"{digest.hexdigest()[:32]}.{ending}"
            if path.exists():
                os.utime(path)  # Mark the file as recently used.
                return path, mime, digest.hexdigest(), copied
            partial_path.replace(path)
        finally:
            partial_path.unlink(missing_ok=True)
        self._count(chat_key, folder, copied, newest=path)
        return path, mime, digest.hexdigest(), copied

    async def forget(self, chat_key: ChatKey, path: str) -> bool:
        """Delete a medium of this chat. Returns False if the path belongs to another chat or the
        file does not exist. Raises `OSError`."""
        inside = self._inside(chat_key, path)
        if inside is None:
            return False
        shared = False
        try:
            # First for all processes, and then here: so no reader can fetch the file again.
            shared = self._shared is not None and await self._shared.forget(chat_key, inside)
        finally:
            here = inside.is_file()
            if here:
                inside.unlink()
                self._used.pop(chat_key, None)
        return here or shared

    async def forget_chat(self, chat_key: ChatKey) -> None:
        """Delete all media of a chat. Raises `OSError`."""
        folder = self._folder / chat_key.file_name
        try:
            if self._shared is not None:
                await self._shared.forget_chat(chat_key)
        finally:
            self._used.pop(chat_key, None)
            if folder.exists():
                with CancelScope(shield=True):
                    await to_thread.run_sync(shutil.rmtree, folder)

    async def kept(self, chat_key: ChatKey) -> tuple[int, int]:
        """Count the media of a chat. Returns their number and their size in bytes."""
        return await to_thread.run_sync(files_in, self._folder / chat_key.file_name)

    async def tidy(self, now: float) -> int:
        """Delete the media that were not used for ``keep_days``. If the rest exceeds
        ``total_bytes``, delete the oldest media too. Returns the number of deleted files. ``now``
        is in seconds since 1970. Raises `OSError`."""
        keep_s = self._settings.keep_days * 86_400.0
        look = partial(
            expired_files,
            self._folder,
            before=now - keep_s if keep_s else 0.0,
            total_bytes=self._settings.total_bytes,
        )
        began, gone = time.time(), 0
        old = await to_thread.run_sync(look)
        for start in range(0, len(old), _SLICE):
            work = partial(self._let_go, old[start : start + _SLICE], began)
            gone += await to_thread.run_sync(work, limiter=self._one)
            await sleep(_PAUSE_S)
        if self._shared is not None:
            before = now - keep_s if keep_s else 0.0
            total = self._settings.total_bytes
            gone += await self._shared.tidy(before=before, total_bytes=total)
        return gone

    def _let_go(self, paths: list[Path], before: float) -> int:
        # The sizes of the chats' folders are no longer right. They are measured again when media
        # are stored.
        self._used.clear()
        return delete_expired(paths, before=before)

    def _inside(self, chat_key: ChatKey, path: str) -> Path | None:
        name = path.rpartition("/")[2]
        inside = self._folder / chat_key.file_name / name
        if not _OURS.match(name):
            return None
        if self._shared is not None:
            # Another process may have stored the path, with its own folder at the beginning.
            found = MEDIUM.search(path)
            return inside if found is not None and found["chat"] == chat_key.file_name else None
        return inside if str(inside) == path else None

    async def _keep(
        self, chat_key: ChatKey, data: bytes, name: str, expect: Expected, url: str = ""
    ) -> Media:
        if not data:
            return _nothing(name, "empty", url=url)
        mime, ending = sniff(data[:HEAD])
        if mime == _SVG and expect == "image":
            # Models and most platforms cannot read SVG, so a picture becomes a PNG. An SVG that was
            # sent as a file is not converted.
            try:
                drawn = await self._converter.draw_svg(data)
            except MediaError as error:
                return _nothing(name, str(error), url=url, mime=mime, size=len(data))
            data, mime, ending = drawn.data, drawn.mime, "png"
            name = f"{name.removesuffix('.svg')}.png" if name else ""
        ending = real_ending(mime, ending, name)
        try:
            path, digest, problem = await self._place(
                chat_key, data, mime, ending, expect or claimed_kind(name)
            )
        except OSError as error:
            logger.error("a medium of {} cannot be stored: {}", chat_key, error)
            return _nothing(name, f"cannot be stored: {error.strerror}", url=url)
        if problem:
            return _nothing(name, problem, url=url, mime=mime, size=len(data))
        if self._shared is not None:
            await self._shared.store(chat_key, path, sha256=digest, size=len(data))
        return Media(
            path=str(path),
            url=_shown_url(url),
            name=safe_name(name) or path.name,
            mime=mime,
            size=len(data),
            sha256=digest,
        )

    async def _place(
        self, chat_key: ChatKey, data: bytes, mime: str, ending: str, wanted: str
    ) -> tuple[Path, str, str]:
        """Store the bytes. Returns the path, the digest, and the reason why the bytes were refused.
        The reason is empty if they were stored. Raises `OSError`."""
        digest = (await to_thread.run_sync(hashlib.sha256, data)).hexdigest()
        folder = self._folder / chat_key.file_name
        path = folder / f"{digest[:32]}.{ending}"
        kind = mime.partition("/")[0]
        if wanted not in {"", "file", kind} and not (wanted == "audio" and kind == "video"):
            return path, digest, f"it should be {wanted} and is {mime}"
        new = folder / f"{uuid.uuid4().hex}.part"
        try:
            work = partial(self._write, path, new, data)
            problem = await to_thread.run_sync(work, limiter=self._one)
            if problem is not None:
                return path, digest, problem
            if wanted == "image" or (kind == "image" and wanted != "file"):
                await self._converter.check_picture(new, mime, max_pixels=self._settings.max_pixels)
            taken = partial(self._take, chat_key, new, path, len(data))
            await to_thread.run_sync(taken, limiter=self._one)
        except MediaError as error:
            return path, digest, str(error)
        finally:
            new.unlink(missing_ok=True)
        return path, digest, ""

    @staticmethod
    def _write(path: Path, new: Path, data: bytes) -> str | None:
        """Write the bytes to ``new``. Returns None if the file was written, empty text if ``path``
        already exists, or the reason why the file cannot be written."""
        if path.exists():
            os.utime(path)  # Mark the file as recently used.
            return ""
        new.parent.mkdir(parents=True, exist_ok=True)
        if shutil.disk_usage(new.parent).free - len(data) < _LEAST_FREE:
            return "the disk of the data folder is full"
        new.write_bytes(data)
        return None

    def _take(self, chat_key: ChatKey, new: Path, path: Path, size: int) -> None:
        if path.exists():  # the same medium arrived twice at the same time
            os.utime(path)
            return
        new.replace(path)
        self._count(chat_key, path.parent, size, newest=path)

    def _count(self, chat_key: ChatKey, folder: Path, size: int, newest: Path) -> None:
        """Count a new file, and delete the chat's oldest files if the chat exceeds its quota. Only
        one thread at a time may run this."""
        if chat_key in self._used:
            self._used[chat_key] += size
        else:
            self._used[chat_key] = sum(entry.stat().st_size for entry in os.scandir(folder))
        if self._used[chat_key] <= self._settings.chat_quota_bytes:
            return
        aged = sorted((entry.stat().st_mtime, Path(entry.path)) for entry in os.scandir(folder))
        for _, path in aged:
            # Delete files until nine tenths of the quota remain. Then the next medium can be stored
            # without another search for old files.
            if self._used[chat_key] <= self._settings.chat_quota_bytes * 0.9:
                break
            if path != newest:
                self._used[chat_key] -= path.stat().st_size
                path.unlink()


def safe_name(name: str) -> str:
    """Make a stranger's file name safe to show. Returns the last part of the path, at most 120
    characters, without control characters and without direction marks, which can make ``exe`` look
    like ``png``."""
    last = re.split(r"[/\\]", name)[-1]
    shown = "".join(c for c in last if unicodedata.category(c)[0] != "C").strip()
    if len(shown) > _MAX_NAME:
        stem, dot, ending = shown.rpartition(".")
        keep = f"{dot}{ending}" if dot and len(ending) <= 10 else ""
        shown = f"{(stem if keep else shown)[: _MAX_NAME - len(keep)]}{keep}"
    return "" if shown in {".", ".."} else shown


def _nothing(name: str, problem: str, *, url: str = "", mime: str = "", size: int = 0) -> Media:
    return Media(
        name=safe_name(name),
        url=_shown_url(url),
        mime=mime or "application/octet-stream",
        size=size,
        problem=problem,
    )


def _shown_url(url: str) -> str:
    """Return the URL to store with the medium; empty if the URL contains the medium itself."""
    return url[:2048] if url.lower().startswith(("http://", "https://")) else ""


def _read_bounded(path: Path, most: int) -> bytes | None:
    with path.open("rb") as file:
        data = file.read(most + 1)
    return data if len(data) <= most else None


def _read_plain(path: Path) -> bytes | None:
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(file, "rb") as opened:
        return opened.read()
