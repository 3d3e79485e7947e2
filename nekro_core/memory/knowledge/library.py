"""Keeps the folders of documents and their index, and finds pieces of documents.

``data/knowledge/bot/`` has the documents of all chats, ``data/knowledge/chats/NAME/`` those of one
chat. ``bot`` and ``chats/NAME`` are the *scopes* of the documents. A chat never finds a document of
another chat, unless an operator has linked the two chats. The documents that a member gave with
``/learn`` are in a folder whose name is a digest of the member's id. So an erasure of this member
finds and deletes them.
"""

import os
import re
import shutil
import sqlite3
from collections.abc import Collection, Sequence
from functools import partial
from itertools import islice
from pathlib import Path, PurePosixPath

import anyio
import anyio.to_thread
from loguru import logger
from watchfiles import awatch

from nekro_core.chat import ChatKey
from nekro_core.media.documents import MAX_BYTES, READABLE, DocumentReader, DocumentText
from nekro_core.media.errors import MediaError, UnusableMedia
from nekro_core.memory.knowledge.pieces import indexed_pieces, searchable
from nekro_core.memory.scope import MemoryScope
from nekro_core.memory.settings import MemorySettings
from nekro_core.memory.words import split_words
from nekro_core.store.knowledge_index import FoundPiece, KnowledgeIndex, KnownFile
from nekro_core.system.atomic_files import write_whole
from nekro_core.system.errors import NekroError
from nekro_core.system.folder_watch import stop_event_of_watch

BOT = "bot"
"""The scope of the documents of all chats."""
_CHATS = "chats"
_LEARNED = "learned-"
"""The beginning of the names of the folders of documents that members gave."""
_INDEX = ".index.sqlite3"
_MAX_FILES = 2_000
"""Maximum number of documents of the bot or of one chat. Further documents are not read, and the
log says so."""
_MAX_PIECES = 5_000
"""Maximum number of pieces of one document, about 5,000,000 characters. Of a longer document the
first pieces are read, and the list of documents says so."""
_MAX_LEARNED = 50
"""Maximum number of documents that one member may give to a chat."""
_MARKDOWN = (".md", ".markdown")
_AGAIN_S = 600.0
"""Seconds after which the folders are compared with the index even if no change was reported: some
file systems report no changes."""
_STEP_MS = 200
"""Milliseconds after which the watch looks again for changes, and whether it should end."""
_UNSAFE = re.compile(r"[^\w.\- ]+")
_MAX_NAME = 100
_MAX_PROBLEM = 300
"""Maximum number of characters of the reason why a document cannot be read."""
_TOO_LARGE = f"it has more than {MAX_BYTES // 1024 // 1024} MB"
MAX_FOUND = 20


class DocumentRefused(NekroError):
    """A document cannot be learned. The text says why."""


class KnowledgeLibrary:
    """The documents of the bot and of all chats."""

    def __init__(
        self,
        folder: Path,
        scope: MemoryScope,
        settings: MemorySettings,
        reader: DocumentReader | None = None,
    ) -> None:
        self._folder = folder
        self._scope = scope
        self._settings = settings
        self._reader = reader or DocumentReader()
        self._index = KnowledgeIndex(folder / _INDEX)
        self._one = anyio.Lock()
        self._opened = False

    def folder_of(self, chat_key: ChatKey | None) -> Path:
        """Return the folder of the documents of a chat; of those of all chats if ``chat_key`` is
        None."""
        return self._folder / self._scope_of(chat_key)

    @staticmethod
    def _scope_of(chat_key: ChatKey | None) -> str:
        return BOT if chat_key is None else f"{_CHATS}/{chat_key.file_name}"

    async def _open(self) -> None:
        if self._opened:
            return
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        (self._folder / BOT).mkdir(exist_ok=True)
        await anyio.to_thread.run_sync(self._index.open)
        self._opened = True

    def close(self) -> None:
        """Close the index."""
        self._index.close()
        self._opened = False

    async def live(self) -> None:
        """Read new and changed documents until cancelled. If a document cannot be read, the index
        stores the reason with its name."""
        while True:
            try:
                await self.look()
                await self._changed()
            except (OSError, sqlite3.Error) as error:
                logger.warning("the documents cannot be followed: {}", error)
                await anyio.sleep(_AGAIN_S / 10)

    async def _changed(self) -> None:
        """Wait until a document has changed, at most `_AGAIN_S`."""
        with anyio.move_on_after(_AGAIN_S):
            async with stop_event_of_watch() as stop:
                async for _ in awatch(
                    self._folder, watch_filter=_is_document, stop_event=stop, step=_STEP_MS
                ):
                    return

    async def look(self) -> int:
        """Compare the folders with the index, read new and changed documents, and remove deleted
        documents from the index. Returns how many documents were read or removed. Raises `OSError`
        and `sqlite3.Error`."""
        if not self._settings.knowledge:
            return 0
        async with self._one:
            await self._open()
            known = {
                (each.scope, each.path): each
                for each in await anyio.to_thread.run_sync(self._index.files)
            }
            there = await anyio.to_thread.run_sync(self._walk)
            changes = 0
            for key in known.keys() - there.keys():
                await anyio.to_thread.run_sync(self._index.delete, *key)
                changes += 1
            for key, (modified, size) in there.items():
                before = known.get(key)
                if before and (before.modified, before.size) == (modified, size):
                    continue
                await self._read(KnownFile(scope=key[0], path=key[1], modified=modified, size=size))
                changes += 1
            return changes

    def _walk(self) -> dict[tuple[str, str], tuple[float, int]]:
        """Return all documents in the folders: their scopes and paths, with the time of the last
        change and the size."""
        scopes = [BOT]
        chats = self._folder / _CHATS
        if chats.is_dir():
            # A link could point to the folder of another chat, or out of the data folder.
            found_chats = (each for each in sorted(chats.iterdir()) if not each.is_symlink())
            scopes += (f"{_CHATS}/{each.name}" for each in found_chats if each.is_dir())
        found: dict[tuple[str, str], tuple[float, int]] = {}
        for scope in scopes:
            root, count = self._folder / scope, 0
            for parent, folders, names in os.walk(root):
                folders[:] = sorted(each for each in folders if not each.startswith("."))
                for name in sorted(names):
                    path = Path(parent) / name
                    # Skip links: a link could point to any file of the machine.
                    if name.startswith(".") or path.is_symlink() or not path.is_file():
                        continue
                    count += 1
                    if count > _MAX_FILES:
                        logger.warning(
                            "{}: more than {} documents: the rest is not read", scope, _MAX_FILES
                        )
                        break
                    status = path.stat()
                    key = (scope, path.relative_to(root).as_posix())
                    found[key] = (status.st_mtime, status.st_size)
                if count > _MAX_FILES:
                    break
        return found

    async def _read(self, file: KnownFile) -> None:
        """Read a document into the index. If it cannot be read, the index says why."""
        path = self._folder / file.scope / file.path
        try:
            if file.size > MAX_BYTES:
                raise UnusableMedia(_TOO_LARGE)
            data = await anyio.to_thread.run_sync(path.read_bytes)
            document = await self._reader.read(file.path, data)
            await anyio.to_thread.run_sync(self._put, file, document)
        except (MediaError, OSError) as error:
            why = error.strerror or str(error) if isinstance(error, OSError) else str(error)
            logger.warning("knowledge/{}/{}: {}", file.scope, file.path, why)
            failed = partial(self._index.put, _with(file, problem=why[:_MAX_PROBLEM]), ())
            await anyio.to_thread.run_sync(failed)

    def _put(self, file: KnownFile, document: DocumentText) -> None:
        """Put the pieces of a document into the index."""
        name = PurePosixPath(file.path)
        found = indexed_pieces(document, markdown=name.suffix.lower() in _MARKDOWN)
        pieces = [*islice(found, _MAX_PIECES)]
        cut = document.cut or next(found, None) is not None
        self._index.put(_with(file, cut=cut), pieces, name_words=searchable(name.name))

    def readable(self, chat_key: ChatKey) -> frozenset[str]:
        """Return the scopes whose documents may be read in a chat."""
        return frozenset((BOT, *map(self._scope_of, self._scope.readable(chat_key))))

    async def files(
        self, chat_key: ChatKey | None = None, *, all_chats: bool = False
    ) -> Sequence[KnownFile]:
        """List the documents that may be read in a chat. If ``chat_key`` is None, list only the
        bot's documents, which every chat may read. With ``all_chats``, list all documents. Raises
        `OSError` and `sqlite3.Error`."""
        await self._open()
        scopes: Collection[str] | None = self.readable(chat_key) if chat_key else {BOT}
        return await anyio.to_thread.run_sync(self._index.files, None if all_chats else scopes)

    async def search(self, chat_key: ChatKey, words: str, limit: int = 5) -> list[FoundPiece]:
        """Find pieces of the documents that may be read in a chat, the best first. Raises `OSError`
        and `sqlite3.Error`."""
        if not self._settings.knowledge:
            return []
        await self._open()
        limit = max(1, min(limit, MAX_FOUND))
        return await anyio.to_thread.run_sync(
            self._index.search, split_words(words[:1000]), self.readable(chat_key), limit
        )

    async def learn(
        self, chat_key: ChatKey | None, name: str, data: bytes, *, given_by: str = ""
    ) -> KnownFile:
        """Read a document, and store it for a chat, or for all chats. A document of the same name
        is replaced.

        Args:
            chat_key: The chat; None for all chats.
            name: The name that people see. It is made safe, because people choose it.
            data: The whole file.
            given_by: The id of the member who gave it; empty for an operator.

        Raises:
            DocumentRefused: The document is not stored: its kind is not supported, the member has
                given too many documents, or it is too large, damaged or encrypted. An earlier
                document of the same name stays.
            OSError: The file cannot be written.
        """
        safe = _safe_name(name)
        if PurePosixPath(safe).suffix.lower() not in READABLE:
            known = ", ".join(sorted(each[1:] for each in READABLE))
            raise DocumentRefused(f"{safe}: such files are not read; these are: {known}")
        path = safe
        if chat_key is not None and given_by:
            path = f"{_LEARNED}{self._scope.digest(chat_key, given_by)[:32]}/{safe}"
        target = self.folder_of(chat_key) / path
        others = [*target.parent.glob("*")] if target.parent.is_dir() else []
        if given_by and target not in others and len(others) >= _MAX_LEARNED:
            raise DocumentRefused(f"{_MAX_LEARNED} of your documents are here already")
        await self._open()
        async with self._one:
            try:
                if len(data) > MAX_BYTES:
                    raise UnusableMedia(_TOO_LARGE)
                document = await self._reader.read(path, data)
            except MediaError as error:
                raise DocumentRefused(f"{safe}: {str(error)[:_MAX_PROBLEM]}") from None
            await anyio.to_thread.run_sync(write_whole, target, data)
            status = target.stat()
            scope = self._scope_of(chat_key)
            file = KnownFile(scope=scope, path=path, modified=status.st_mtime, size=status.st_size)
            await anyio.to_thread.run_sync(self._put, file, document)
        (stored,) = (
            each
            for each in await anyio.to_thread.run_sync(self._index.files, {scope})
            if each.path == path
        )
        return stored

    def has(self, chat_key: ChatKey | None, name: str) -> bool:
        """Return whether `learn` of an operator would replace a document.

        Args:
            chat_key: The chat; None for all chats.
            name: The name that people see.
        """
        return (self.folder_of(chat_key) / _safe_name(name)).exists()

    async def forget(self, scope: str, path: str) -> None:
        """Delete a document. Raises `DocumentRefused` if the index does not know it."""
        await self._open()
        async with self._one:
            known = await anyio.to_thread.run_sync(self._index.files, {scope})
            if path not in {each.path for each in known}:
                raise DocumentRefused(f"there is no document {path!r}")
            (self._folder / scope / path).unlink(missing_ok=True)
            await anyio.to_thread.run_sync(self._index.delete, scope, path)

    async def erase(self, private: Collection[ChatKey], digests: Collection[str]) -> int:
        """Delete the documents of the private chats in ``private``, and the documents that a person
        gave. ``digests`` are the digests of the person's id. Returns how many documents were
        deleted. Raises `OSError` and `sqlite3.Error`."""
        if not self._folder.exists():
            return 0
        await self._open()
        async with self._one:
            theirs = {f"{_LEARNED}{each[:32]}" for each in digests}
            private_scopes = set(map(self._scope_of, private))
            gone = [
                each
                for each in await anyio.to_thread.run_sync(self._index.files)
                if each.scope in private_scopes or each.path.partition("/")[0] in theirs
            ]
            folders = [self._folder / each for each in private_scopes]
            folders += (
                path for each in theirs for path in (self._folder / _CHATS).glob(f"*/{each}")
            )
            for folder in folders:
                if folder.exists():
                    await anyio.to_thread.run_sync(shutil.rmtree, folder)
            for each in gone:
                await anyio.to_thread.run_sync(self._index.delete, each.scope, each.path)
            if gone:
                await anyio.to_thread.run_sync(self._index.vacuum)
            return len(gone)


def cited(piece: FoundPiece) -> str:
    """Return the source of a piece: file, page and heading."""
    name = re.sub(rf"^{_LEARNED}[0-9a-f]+/", "", piece.path)
    page = f", page {piece.page}" if piece.page else ""
    heading = f", {piece.heading}" if piece.heading else ""
    return f"{name}{page}{heading}"


def _with(file: KnownFile, *, problem: str = "", cut: bool = False) -> KnownFile:
    return KnownFile(
        scope=file.scope,
        path=file.path,
        modified=file.modified,
        size=file.size,
        problem=problem,
        cut=cut,
    )


def _safe_name(name: str) -> str:
    """Return a file name without folders and unusual characters."""
    last = name.replace("\\", "/").rpartition("/")[2]
    clean = _UNSAFE.sub("_", last).strip(" .")
    stem, dot, ending = clean.rpartition(".")
    if not dot:
        return clean[:_MAX_NAME] or "document"
    return f"{stem[:_MAX_NAME] or 'document'}.{ending[:10]}"


def _is_document(_: object, path: str) -> bool:
    """Return whether a changed file is a document, and not the index."""
    return not PurePosixPath(path).name.startswith(".")
