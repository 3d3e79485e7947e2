"""Stores the texts that an operator edits, such as ``settings.toml``, with their revisions.

A page, a command and a person with an editor may change the same document. So a writer names the
revision that it has read. If the document has another revision by then, nothing is written, and the
writer gets an error that shows what changed. `FileDocuments` stores documents as files.
`nekro_core.store.documents` stores documents in a database, for several processes that share the
database, and `nekro_core.system.working_copies` keeps copies of the database's documents in a
folder. All three pass the same tests (``tests/system/document_store_contract.py``).
"""

import difflib
import fcntl
import hashlib
import os
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Protocol

import anyio.to_thread

from nekro_core.system.atomic_files import write_whole
from nekro_core.system.errors import NekroError

KEPT = 20
"""Maximum number of revisions of a document that are kept, the current one included. Most documents
have a few kilobytes."""
MAX_NAME = 200
MAX_CHARS = 10_000_000
"""The longest text of a document. A persona with 200 versions has at most eight million characters.
A larger text is refused, because a document is read as a whole at each change."""
_PART = r"\w(?:[\w .()·-]*[\w.)-])?"
_NAME = re.compile(rf"{_PART}(?:/{_PART})*")
_REVISIONS = "revisions"
LOCK_S = 5.0
"""Longest wait for another process that writes a document, in seconds. A write takes
milliseconds."""
_SHOWN_LINES = 12
"""Maximum number of changed lines that the text of a `DocumentConflict` shows."""


class DocumentError(NekroError, OSError):
    """A document cannot be read or written. The text says why."""


class DocumentConflict(DocumentError):
    """Somebody else changed a document since it was read, so nothing was written.

    Attributes:
        name: The document's name.
        found: The document as it is now; None if it was removed.
        change: The lines that the other writer changed, as a unified diff. It is empty for a secret
            document, and also if the revision that this writer read is no longer stored.
    """

    def __init__(self, name: str, found: "Document | None", change: Sequence[str] = ()) -> None:
        shown = "".join(f"\n  {line}" for line in change[:_SHOWN_LINES])
        super().__init__(
            f"{name} was {'changed' if found else 'removed'} by somebody else since it was read, "
            f"so nothing was written: read it again, then repeat the change{shown}"
        )
        self.name = name
        self.found = found
        self.change = tuple(change)


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One revision of a document.

    Attributes:
        name: The document's name.
        text: The text of the document.
        revision: The name of this revision. Compare it only with ``==``: its form means nothing.
        saved: When it was written, in seconds since 1970. For a file that was edited by hand, this
            is the file's modification time.
    """

    name: str
    text: str
    revision: str
    saved: float


class DocumentStore(Protocol):
    """Stores documents by name. A name has the form of a relative path (``conduct.toml``,
    ``plugin_data/author.plugin/config.yaml``). All methods raise `DocumentError`."""

    async def read(self, name: str) -> Document | None:
        """Return the current revision of a document; None if there is no such document."""

    async def revision(self, name: str) -> str | None:
        """Return the name of the current revision; None if there is no such document. This is fast,
        so a caller can use it to notice changes, including changes that are made by hand."""

    async def write(self, name: str, text: str, *, expected: str | None) -> str:
        """Write a new revision and return its name.

        Args:
            name: The document.
            text: The whole text.
            expected: The revision that the writer has read; None if there was no document.

        Raises:
            DocumentConflict: The current revision is not ``expected``. Nothing was written.
        """

    async def remove(self, name: str, *, expected: str) -> None:
        """Remove a document. It can be written again, with None as the expected revision. Unless
        the document is secret, its last text and the texts before are kept as earlier revisions.

        Raises:
            DocumentConflict: The current revision is not ``expected``.
        """

    async def listed(self, *patterns: str) -> Mapping[str, str]:
        """Return the revisions of all documents whose name matches one of the patterns, by name. In
        a pattern, ``*`` matches any characters except ``/``."""

    async def revisions(self, name: str, limit: int = KEPT) -> Sequence[Document]:
        """Return the ``limit`` newest revisions, the current one first. At most `KEPT` are stored.
        A secret document has no earlier revisions."""

    async def forget_earlier(self, name: str) -> int:
        """Delete all revisions except the current one, for example because they name a person who
        was erased. Returns how many were deleted."""


class DocumentFolder(DocumentStore, Protocol):
    """A document store whose documents are also files of a folder. So they can be read without
    waiting, and edited by hand. The methods of this class block."""

    def read_now(self, name: str) -> Document | None:
        """Do the same as `read`."""

    def write_in_thread(self, name: str, text: str, expected: str | None) -> str:
        """Do the same as `write`. Call this in a worker thread of the event loop."""


def check_name(name: str) -> str:
    """Return the name of a document. Raises `DocumentError` if it is not valid."""
    if len(name) > MAX_NAME or not _NAME.fullmatch(name):
        raise DocumentError(
            f"{name[:MAX_NAME]!r} is no name of a document: expected letters, digits, spaces, '_', "
            "'-', '.', '(', ')' and '/', where no part begins with '.', '-' or a space"
        )
    return name


def check_text(name: str, text: str) -> str:
    """Return the text of a document. Raises `DocumentError` if it cannot be stored."""
    if len(text) > MAX_CHARS:
        raise DocumentError(f"{name}: {len(text)} characters, expected at most {MAX_CHARS}")
    if "\0" in text or not _is_unicode(text):
        raise DocumentError(f"{name}: it has a character that is no text (NUL or half a surrogate)")
    return text


def matches(name: str, patterns: Collection[str]) -> bool:
    """Return whether a name matches one of the patterns of `DocumentStore.listed`."""
    # In `fnmatchcase`, ``*`` matches slashes too. So the numbers of slashes are compared.
    depth = name.count("/")
    return any(each.count("/") == depth and fnmatchcase(name, each) for each in patterns)


def changed_lines(before: Document | None, found: Document | None) -> list[str]:
    """Return what changed from the revision ``before`` to the revision ``found``, as lines of a
    unified diff without its head. Empty if one of them is None."""
    if before is None or found is None:
        return []
    old, new = before.text.splitlines(), found.text.splitlines()
    return [*difflib.unified_diff(old, new, n=0, lineterm="")][2:]


class FileDocuments:
    """Stores documents as files of a folder. A revision is named after the file's content, so a
    change that was made in an editor is a revision too.

    Earlier revisions are in the folder ``revisions``. The text that a file had before a write is
    kept, even if somebody wrote that text by hand. Only the owner can read the files. Several
    processes of one machine can use the same folder.

    Args:
        folder: The folder.
        secret: The names, or patterns of names, of the documents that contain secrets. No earlier
            revisions of these documents are kept, and no error quotes them.
        kept: The number of revisions to keep, including the current one.
        lock_s: Longest wait in seconds for another process that writes a document.
        clock: Returns seconds since 1970.
    """

    def __init__(
        self,
        folder: Path,
        *,
        secret: Collection[str] = (),
        kept: int = KEPT,
        lock_s: float = LOCK_S,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._folder = folder
        self._secret = tuple(secret)
        self._kept = kept
        self._lock_s = lock_s
        self._clock = clock
        self._seen: dict[str, tuple[tuple[int, int, int], str]] = {}

    async def read(self, name: str) -> Document | None:
        """See `DocumentStore.read`."""
        return await anyio.to_thread.run_sync(self.read_now, check_name(name))

    async def revision(self, name: str) -> str | None:
        """See `DocumentStore.revision`. If the time, size and inode of the file are the same as
        before, the file is not read again."""
        return await anyio.to_thread.run_sync(self.revision_now, check_name(name))

    async def write(self, name: str, text: str, *, expected: str | None) -> str:
        """See `DocumentStore.write`."""
        check_text(check_name(name), text)
        return await anyio.to_thread.run_sync(self._write, name, text, expected)

    async def remove(self, name: str, *, expected: str) -> None:
        """See `DocumentStore.remove`."""
        await anyio.to_thread.run_sync(self._replace, check_name(name), None, expected)

    async def listed(self, *patterns: str) -> Mapping[str, str]:
        """See `DocumentStore.listed`. If a file cannot be read, this raises `DocumentError`."""
        return await anyio.to_thread.run_sync(self._listed, patterns)

    async def revisions(self, name: str, limit: int = KEPT) -> Sequence[Document]:
        """See `DocumentStore.revisions`."""
        return await anyio.to_thread.run_sync(self._revisions, check_name(name), limit)

    async def forget_earlier(self, name: str) -> int:
        """See `DocumentStore.forget_earlier`."""
        return await anyio.to_thread.run_sync(self._forget_earlier, check_name(name))

    def read_now(self, name: str) -> Document | None:
        """Do the same as `read`, for callers that run before the event loop starts. This call
        blocks."""
        path = self._folder / name
        try:
            # `read_text` is not used, because it would change line ends.
            text = path.read_bytes().decode()
            saved = path.stat().st_mtime
        except FileNotFoundError:
            return None
        except UnicodeDecodeError as error:
            raise DocumentError(f"{path} is not UTF-8: byte {error.start} is wrong") from None
        except OSError as error:
            raise DocumentError(f"{path} cannot be read: {error.strerror}") from None
        return Document(name=name, text=text, revision=revision_of(text), saved=saved)

    def revision_now(self, name: str) -> str | None:
        """Do the same as `revision`, for callers that run before the event loop starts. This call
        blocks."""
        try:
            status = (self._folder / name).stat()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise DocumentError(f"{self._folder / name}: {error.strerror}") from None
        stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
        seen = self._seen.get(name)
        if seen is None or seen[0] != stamp:
            found = self.read_now(name)
            if found is None:
                return None
            seen = self._seen[name] = stamp, found.revision
        return seen[1]

    def names_now(self, pattern: str) -> list[str]:
        """Return the names of the files that match a pattern of `listed`. This call blocks."""
        try:
            found = [each for each in self._folder.glob(pattern) if each.is_file()]
        except OSError as error:
            raise DocumentError(f"{self._folder} cannot be read: {error.strerror}") from None
        names = sorted(each.relative_to(self._folder).as_posix() for each in found)
        return [name for name in names if len(name) <= MAX_NAME and _NAME.fullmatch(name)]

    def write_in_thread(self, name: str, text: str, expected: str | None) -> str:
        """See `DocumentFolder.write_in_thread`."""
        return self._write(check_name(name), check_text(name, text), expected)

    def replace_now(
        self, name: str, text: str | None, *, expected: str | None, keep: bool = True
    ) -> None:
        """Do the same as `write`, or, if ``text`` is None, the same as `remove`. This call blocks.
        Without ``keep``, the old text is not kept as an earlier revision."""
        self._replace(name, text, expected, keep=keep)

    def _write(self, name: str, text: str, expected: str | None) -> str:
        self._replace(name, text, expected)
        return revision_of(text)

    def _replace(
        self, name: str, text: str | None, expected: str | None, *, keep: bool = True
    ) -> None:
        try:
            with self._locked():
                found = self.read_now(name)
                if (found.revision if found else None) != expected:
                    raise DocumentConflict(name, found, self._change(name, expected, found))
                if found is not None and keep and not matches(name, self._secret):
                    self._keep(found)
                if text is not None:
                    write_whole(self._folder / name, text.encode())
                else:
                    (self._folder / name).unlink(missing_ok=True)
        except DocumentError:
            raise
        except OSError as error:
            raise DocumentError(f"{self._folder / name} cannot be written: {error}") from error

    def _listed(self, patterns: Sequence[str]) -> Mapping[str, str]:
        names = [name for each in patterns for name in self.names_now(each)]
        found = {name: self.revision_now(name) for name in names}
        return {name: revision for name, revision in found.items() if revision is not None}

    def _change(self, name: str, expected: str | None, found: Document | None) -> list[str]:
        if matches(name, self._secret):
            return []
        before = (one for one in self._earlier(name) if one.revision == expected)
        return changed_lines(next(before, None), found)

    def _revisions(self, name: str, limit: int) -> Sequence[Document]:
        found = self.read_now(name)
        earlier = [] if matches(name, self._secret) else [*self._earlier(name)]
        newest = [*([found] if found else []), *earlier]
        return newest[: min(limit, self._kept)]

    def _earlier(self, name: str) -> Iterator[Document]:
        """Yield the revisions before the current one, the newest first."""
        folder = self._folder / _REVISIONS / name
        if not folder.is_dir():
            return
        for path in sorted(folder.iterdir(), reverse=True):
            if not path.name.startswith("."):
                text, saved = path.read_bytes().decode(), int(path.name) / 1e6
                yield Document(name=name, text=text, revision=revision_of(text), saved=saved)

    def _forget_earlier(self, name: str) -> int:
        folder = self._folder / _REVISIONS / name
        try:
            with self._locked():
                kept = [*folder.iterdir()] if folder.is_dir() else []
                for path in kept:
                    path.unlink()
        except DocumentError:
            raise
        except OSError as error:
            raise DocumentError(f"{folder} cannot be emptied: {error}") from error
        return len(kept)

    def _keep(self, document: Document) -> None:
        folder = self._folder / _REVISIONS / document.name
        kept = [p for p in sorted(folder.iterdir()) if p.name[0] != "."] if folder.is_dir() else []
        # The file's name is the time at which this revision was saved, in microseconds, but at most
        # the current time. It must be larger than the names of all earlier revisions, even if the
        # clock was set back.
        number = int(min(document.saved, self._clock()) * 1e6)
        number = max(number, int(kept[-1].name) + 1) if kept else number
        write_whole(folder / f"{number:020}", document.text.encode())
        for path in kept[: max(0, len(kept) + 2 - self._kept)]:
            path.unlink()

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Keep other processes from writing. Raises `DocumentError` if that takes too long."""
        folder = self._folder / _REVISIONS
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            began = time.monotonic()
            while True:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() - began > self._lock_s:
                        raise DocumentError(
                            f"{folder / '.lock'} is held by another process for {self._lock_s:g} s"
                        ) from None
                    time.sleep(0.01)
            yield
        finally:
            os.close(descriptor)


def revision_of(text: str) -> str:
    """Return the name of the revision of a file with this text."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
