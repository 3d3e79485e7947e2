"""Keeps copies of shared documents in a folder. A change of a document is copied to the folder, and
a change of a file is copied to the document.

When several processes share the documents of a database, each has copies of them as files of its
data folder. Code that reads files reads these copies, and an operator edits the copies like other
files. `settle` compares both sides with the last revision that they had in common. A change on one
side is copied to the other side. If both sides changed, the shared document wins, and the text of
the file is stored in the folder `CONFLICTS`.
"""

import json
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import anyio
import anyio.from_thread
import anyio.to_thread
from loguru import logger

from nekro_core.system.atomic_files import write_whole
from nekro_core.system.documents import (
    KEPT,
    Document,
    DocumentConflict,
    DocumentError,
    DocumentStore,
    FileDocuments,
    changed_lines,
    check_name,
    check_text,
    matches,
    revision_of,
)

STATE = "documents.json"
"""The file that says which revisions were the same on both sides."""
CONFLICTS = "conflicts"
"""The folder with the texts of files that lost against a shared document."""
LOOK_S = 0.5
"""Seconds between two comparisons. A comparison reads the revisions from the database and the
status of each file."""
_FORM = 1


class DocumentsDiffer(DocumentError):
    """Files and shared documents differ, and it is unknown which are newer. ``names`` has the names
    of the documents that differ."""

    def __init__(self, names: Sequence[str], remedy: str) -> None:
        super().__init__(
            "these documents are not the same in the data folder and in the database, and nothing "
            f"says which are newer: {', '.join(names)}. {remedy}"
        )
        self.names = tuple(names)


class BrokenDocument(DocumentError):
    """A changed file cannot be parsed, so other processes do not get it. The text names the file
    and the line."""


@dataclass(frozen=True, slots=True)
class _Same:
    """A revision of the shared document and a revision of the file that had the same text."""

    shared: str
    own: str


class WorkingCopies:
    """A `nekro_core.system.documents.DocumentFolder`: shared documents with copies in a folder.

    A revision is named after the text, as in `FileDocuments`. The earlier revisions of a document
    are the earlier revisions of the shared document. `settle` must be called once before the copies
    are used.

    Args:
        shared: The shared documents.
        folder: The folder with the copies. One process uses it.
        patterns: The names of the documents, as patterns for `DocumentStore.listed`.
        secret: The names, or patterns of names, of the documents that contain secrets.
        in_existing_folders: Patterns of names of documents. Such a document is copied only if its
            folder exists below ``folder``. The folder belongs for example to a plugin that may be
            installed only for another process.
    """

    def __init__(
        self,
        shared: DocumentStore,
        folder: Path,
        *,
        patterns: Sequence[str],
        secret: Collection[str] = (),
        in_existing_folders: Sequence[str] = (),
    ) -> None:
        self._shared = shared
        self._folder = folder
        self._patterns = tuple(patterns)
        self._secret = tuple(secret)
        self._in_existing_folders = tuple(in_existing_folders)
        self._files = FileDocuments(folder, secret=secret)
        self._same: dict[str, _Same] | None = None
        self._problems: dict[str, str] = {}
        self._unreadable: frozenset[str] = frozenset()
        self._settling = anyio.Lock()

    @property
    def problems(self) -> Mapping[str, str]:
        """Return why a changed file is not taken over, by the document's name."""
        return self._problems

    async def follow(self) -> None:
        """Call `settle` every `LOOK_S` seconds until cancelled. An error is logged once."""
        problem = ""
        while True:
            await anyio.sleep(LOOK_S)
            try:
                await self.settle()
                problem = ""
            except (DocumentError, OSError) as error:
                if str(error) != problem:
                    logger.error("changes of documents wait: {}", error)
                problem = str(error)

    async def settle(self) -> bool:
        """Take over the changes of both sides. Returns whether there were any.

        Raises:
            DocumentsDiffer: The folder was never settled, and documents differ.
            DocumentError: A side cannot be read or written.
        """
        async with self._settling:
            shared, own = await self._both()
            if self._same is None:
                self._same = await anyio.to_thread.run_sync(self._read_state)
            if self._same is None:
                await self._refuse_different(shared, own)
                self._same = {}
            before = dict(self._same)
            try:
                for name in sorted({*shared, *own, *before} - self._unreadable):
                    await self._settle(name, shared.get(name), own.get(name))
            finally:
                await self._write_state(before)
            return self._same != before

    async def copy(self, *, to_shared: bool, overwrite: bool = False) -> list[str]:
        """Copy the documents of one side to the other side. Return the names of the documents that
        were copied or removed.

        Args:
            to_shared: True to copy the files to the shared documents, False to copy the shared
                documents to the files.
            overwrite: Also copy the documents that differ, and remove the documents that the source
                does not have.

        Raises:
            DocumentsDiffer: Documents differ, and ``overwrite`` was not given.
            DocumentError: A side cannot be read or written, or a file is broken.
        """
        async with self._settling:
            shared, own = await self._both()
            if to_shared and self._problems:
                raise BrokenDocument("; ".join(self._problems.values()))
            if not overwrite:
                await self._refuse_different(shared, own)
            self._same = self._same or {}
            copied = []
            for name in sorted({*shared, *own}):
                theirs, mine = shared.get(name), own.get(name)
                source, target = (mine, theirs) if to_shared else (theirs, mine)
                if source is None and not overwrite:
                    continue
                if await self._equal(name, theirs, mine):
                    continue
                if target != source:
                    await (self._push if to_shared else self._pull)(name, theirs, mine)
                    copied.append(name)
            await self._write_state({})
            return copied

    async def compared(self) -> dict[str, str]:
        """Describe in words, for each document, whether it is on both sides and whether both have
        the same text."""
        shared, own = await self._both()
        found = {}
        for name in sorted({*shared, *own}):
            if name not in own:
                found[name] = "in the database alone"
            elif name not in shared:
                found[name] = "a file alone"
            else:
                document = await self._shared.read(name)
                same = document is not None and revision_of(document.text) == own[name]
                found[name] = "the same in both" if same else "different"
        return found

    # -- DocumentFolder ----------------------------------------------------------------------

    async def read(self, name: str) -> Document | None:
        """See `DocumentStore.read`. It reads the file."""
        return await self._files.read(name)

    def read_now(self, name: str) -> Document | None:
        """See `DocumentFolder.read_now`."""
        return self._files.read_now(check_name(name))

    async def revision(self, name: str) -> str | None:
        """See `DocumentStore.revision`. It returns the revision of the file."""
        return await self._files.revision(name)

    async def listed(self, *patterns: str) -> Mapping[str, str]:
        """See `DocumentStore.listed`. It lists the files."""
        return await self._files.listed(*patterns)

    async def write(self, name: str, text: str, *, expected: str | None) -> str:
        """See `DocumentStore.write`. The shared document is written first."""
        check_text(check_name(name), text)
        await self._change(name, text, expected)
        return revision_of(text)

    def write_in_thread(self, name: str, text: str, expected: str | None) -> str:
        """See `DocumentFolder.write_in_thread`."""
        return anyio.from_thread.run(partial(self.write, name, text, expected=expected))

    async def remove(self, name: str, *, expected: str) -> None:
        """See `DocumentStore.remove`."""
        await self._change(check_name(name), None, expected)

    async def revisions(self, name: str, limit: int = KEPT) -> Sequence[Document]:
        """See `DocumentStore.revisions`."""
        found = await self._shared.revisions(name, limit)
        return [
            Document(name=name, text=one.text, revision=revision_of(one.text), saved=one.saved)
            for one in found
        ]

    async def forget_earlier(self, name: str) -> int:
        """See `DocumentStore.forget_earlier`."""
        await self._files.forget_earlier(name)
        await anyio.to_thread.run_sync(self._forget_conflicts, name)
        return await self._shared.forget_earlier(name)

    # -- inside ------------------------------------------------------------------------------

    async def _both(self) -> tuple[dict[str, str], dict[str, str]]:
        """Return the revisions of the shared documents, and of the files."""
        listed = await self._shared.listed(*self._patterns)
        return dict(listed), await anyio.to_thread.run_sync(self._own)

    async def _change(self, name: str, text: str | None, expected: str | None) -> None:
        """Write a new text to both sides. If ``text`` is None, remove the document from both.
        ``expected`` is the revision of the file that the caller has read."""
        async with self._settling:
            same = self._known()
            before = dict(same)
            try:
                theirs = await self._settle_one(name)
                found = await self._files.read(name)
                if (found.revision if found else None) != expected:
                    raise await self._conflict(name, expected, found)
                try:
                    shared = await self._write_shared(name, text, theirs)
                except DocumentConflict:
                    await self._settle_one(name)
                    raise await self._conflict(
                        name, expected, await self._files.read(name)
                    ) from None
                await self._replace(name, text, expected)
                self._note(name, shared, None if text is None else revision_of(text))
            finally:
                await self._write_state(before)

    async def _conflict(
        self, name: str, expected: str | None, found: Document | None
    ) -> DocumentConflict:
        if matches(name, self._secret):
            return DocumentConflict(name, found)
        before = (one for one in await self.revisions(name) if one.revision == expected)
        return DocumentConflict(name, found, changed_lines(next(before, None), found))

    async def _settle_one(self, name: str) -> str | None:
        """Take over the changes of one document, and return the revision of the shared document."""
        theirs = await self._shared.revision(name)
        mine = await self._files.revision(name)
        await self._settle(name, theirs, mine)
        return await self._shared.revision(name)

    async def _settle(self, name: str, theirs: str | None, mine: str | None) -> None:
        same = self._known().get(name)
        if not self._folder_exists(name):
            self._known().pop(name, None)
            return
        theirs_changed = theirs != (same.shared if same else None)
        mine_changed = mine != (same.own if same else None)
        try:
            if theirs_changed and mine_changed:
                await self._settle_both(name, theirs, mine)
            elif theirs_changed:
                await self._pull(name, theirs, mine)
            elif mine_changed:
                await self._push(name, theirs, mine)
            self._problems.pop(name, None)
        except BrokenDocument as error:
            self._complain(name, str(error))
        except DocumentConflict:
            # The next call takes over this change.
            logger.debug("{} changed again meanwhile", name)

    async def _settle_both(self, name: str, theirs: str | None, mine: str | None) -> None:
        if await self._equal(name, theirs, mine):
            return
        # One side has removed the document, and the other side has changed it. The changed text
        # stays.
        if mine is None or theirs is None:
            await (self._pull if mine is None else self._push)(name, theirs, mine)
            return
        found = await self._files.read(name)
        if found is not None:
            kept = await anyio.to_thread.run_sync(self._keep_aside, found)
            logger.error(
                "{} was changed here and by another process: the change of the other one is in "
                "force, and the text of the file is kept in {}",
                name,
                kept,
            )
        await self._pull(name, theirs, mine)

    async def _equal(self, name: str, theirs: str | None, mine: str | None) -> bool:
        """Return whether both sides have the same text. If they have, note that their revisions are
        the same; `_write_state` then stores this in the file `STATE`."""
        if theirs is None or mine is None:
            if theirs is mine:
                self._known().pop(name, None)
            return theirs is mine
        document = await self._shared.read(name)
        if document is None or revision_of(document.text) != mine:
            return False
        self._note(name, document.revision, mine)
        return True

    async def _pull(self, name: str, _theirs: str | None, mine: str | None) -> None:
        """Copy the shared document to the file. ``mine`` is the file's present revision."""
        document = await self._shared.read(name)
        text = document.text if document else None
        await self._replace(name, text, mine)
        self._note(
            name,
            document.revision if document else None,
            None if text is None else revision_of(text),
        )

    async def _push(self, name: str, theirs: str | None, mine: str | None) -> None:
        """Copy the file, with the revision ``mine``, to the shared document, if that still has the
        revision ``theirs``."""
        found = await self._files.read(name)
        if (found.revision if found else None) != mine:
            return  # The file has changed again. The next call copies it.
        if found is not None:
            await anyio.to_thread.run_sync(_check_form, name, found.text)
        shared = await self._write_shared(name, found.text if found else None, theirs)
        self._note(name, shared, mine)

    async def _write_shared(self, name: str, text: str | None, theirs: str | None) -> str | None:
        if text is not None:
            return await self._shared.write(name, text, expected=theirs)
        if theirs is not None:
            await self._shared.remove(name, expected=theirs)
        return None

    async def _replace(self, name: str, text: str | None, mine: str | None) -> None:
        await anyio.to_thread.run_sync(
            partial(self._files.replace_now, name, text, expected=mine, keep=False)
        )

    def _own(self) -> dict[str, str]:
        """Return the revisions of all files. A file that cannot be read is logged and left out."""
        found: dict[str, str] = {}
        unreadable = set()
        for name in [name for each in self._patterns for name in self._files.names_now(each)]:
            try:
                revision = self._files.revision_now(name)
            except DocumentError as error:
                self._complain(name, str(error))
                unreadable.add(name)
                continue
            if revision is not None:
                found[name] = revision
        self._unreadable = frozenset(unreadable)
        self._problems = {
            name: text for name, text in self._problems.items() if name in {*found, *unreadable}
        }
        return found

    def _complain(self, name: str, problem: str) -> None:
        if self._problems.get(name) != problem:
            logger.error("{}; until it is mended, other processes do not get it", problem)
        self._problems[name] = problem

    async def _refuse_different(self, shared: Mapping[str, str], own: Mapping[str, str]) -> None:
        names = [name for name in sorted(shared) if name in own]
        differ = []
        for name in names:
            document = await self._shared.read(name)
            if document is not None and revision_of(document.text) != own[name]:
                differ.append(name)
        if differ:
            raise DocumentsDiffer(
                differ,
                "Stop the bot and choose: `nekro documents copy --to database --overwrite` keeps "
                "the files, `nekro documents copy --to files --overwrite` keeps the database's",
            )

    def _folder_exists(self, name: str) -> bool:
        wanted = matches(name, self._in_existing_folders)
        return not wanted or (self._folder / name).parent.is_dir()

    def _known(self) -> dict[str, _Same]:
        if self._same is None:
            raise RuntimeError("call settle before the documents are used")
        return self._same

    def _note(self, name: str, shared: str | None, own: str | None) -> None:
        if shared is None or own is None:
            self._known().pop(name, None)
        else:
            self._known()[name] = _Same(shared, own)

    def _keep_aside(self, document: Document) -> Path:
        now = datetime.now(UTC).strftime("%Y%m%d-%H%M%S-%f")
        path = self._folder / CONFLICTS / f"{document.name}.{now}"
        write_whole(path, document.text.encode())
        return path

    def _forget_conflicts(self, name: str) -> None:
        path = self._folder / CONFLICTS / name
        for each in [*path.parent.glob(f"{path.name}.*")] if path.parent.is_dir() else []:
            each.unlink(missing_ok=True)

    def _read_state(self) -> dict[str, _Same] | None:
        path = self._folder / STATE
        try:
            written = json.loads(path.read_text("utf-8"))
            if written["form"] != _FORM:
                return None
            return {str(name): _Same(*map(str, each)) for name, each in written["same"].items()}
        except FileNotFoundError:
            return None
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            logger.warning("{} is not used: {}", path, error)
            return None

    async def _write_state(self, before: Mapping[str, _Same]) -> None:
        same = self._known()
        path = self._folder / STATE
        if same == before and path.exists():
            return
        written = {"form": _FORM, "same": {name: [x.shared, x.own] for name, x in same.items()}}
        text = json.dumps(written, ensure_ascii=False)
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(write_whole, path, text.encode())


def forget_state(folder: Path) -> None:
    """Delete the file `STATE` of a folder, because the folder's files are not copies of shared
    documents any more."""
    (folder / STATE).unlink(missing_ok=True)


def _check_form(name: str, text: str) -> None:
    """Check that the text of a TOML, JSON or YAML file can be parsed. Raises `BrokenDocument`."""
    text = text.removeprefix("\ufeff")
    try:
        if name.endswith(".toml"):
            tomllib.loads(text)
        elif name.endswith(".json"):
            json.loads(text)
        elif name.endswith((".yaml", ".yml")):
            _check_yaml(name, text)
    except ValueError as error:
        raise BrokenDocument(f"{name}: {error}") from None


def _check_yaml(name: str, text: str) -> None:
    import yaml  # noqa: PLC0415 - this import takes 10 ms; most bots have no such document

    try:
        yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "no YAML"
        raise BrokenDocument(f"{name}{line}: {problem}") from None
