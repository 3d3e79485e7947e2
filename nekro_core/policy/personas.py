"""Keeps named personas with their versions, one document for each: ``personas/NAME.json``.

A policy uses a persona by its name (``persona_name`` in ``conduct.toml``), and always gets the
newest version. Older versions are kept and can be restored.
"""

import json
import re
import time
import unicodedata
from collections.abc import Callable, Mapping
from pathlib import Path

import anyio
import anyio.to_thread
from loguru import logger
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from nekro_core.system.documents import (
    Document,
    DocumentConflict,
    DocumentStore,
    FileDocuments,
)
from nekro_core.system.errors import NekroError

FOLDER = "personas"
DOCUMENTS = f"{FOLDER}/*.json"
"""The pattern of the documents' names, in the form of `DocumentStore.listed`. Each document
contains the persona's earlier versions."""
MAX_TEXT = 20_000
"""Maximum number of characters of a persona, as in ``conduct.toml``."""
MOST_VERSIONS = 200
"""Maximum number of versions of a persona that are kept. The oldest are dropped first."""
MOST_PERSONAS = 2_000
_MAX_NAME = 64
_MAX_FILE_NAME = 240
"""Maximum length of a file name in bytes. File systems allow 255 bytes, and the name of the
temporary file has six more."""
_LOOK_S = 1.0
"""Seconds between two checks of the folder, for changes that another program makes."""
_NAME = re.compile(r"\w(?:[\w .()·-]*[\w.)])?")


class PersonaError(NekroError):
    """A persona cannot be used or changed. The text says why."""


class PersonaChanged(PersonaError):
    """The persona was changed by somebody else since it was read. Read it again."""


class UnknownPersona(PersonaError):
    """There is no such persona or version."""


class PersonaVersion(BaseModel):
    """One version of a persona. ``number`` counts from 1. ``saved_at`` is in seconds since 1970.
    ``by`` says who saved it, and ``note`` why."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    number: int = Field(ge=1)
    text: str = Field(max_length=MAX_TEXT)
    saved_at: float = 0.0
    by: str = ""
    note: str = Field(default="", max_length=500)


class Persona(BaseModel):
    """A named persona. ``versions`` are oldest first. ``removed_at`` is the time at which the
    persona was removed, or 0."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    name: str
    versions: tuple[PersonaVersion, ...] = Field(min_length=1)
    removed_at: float = 0.0

    @property
    def newest(self) -> PersonaVersion:
        """The version that chats use: the one that was saved last."""
        return self.versions[-1]

    @property
    def revision(self) -> int:
        """The number of the newest version. It changes with every save."""
        return self.newest.number


class PersonaLibrary:
    """The personas of a data folder. When a method that changes a persona returns, chats already
    use the change.

    Args:
        data: The data folder. The files are in its folder ``personas``, which is made at the first
            save.
        wall: Returns seconds since 1970.
        documents: Writes the files and keeps their earlier revisions; None for `FileDocuments` of
            the data folder. The files themselves are read without it.
    """

    def __init__(
        self,
        data: Path,
        wall: Callable[[], float] = time.time,
        documents: DocumentStore | None = None,
    ) -> None:
        self._folder = data / FOLDER
        self._documents = documents or FileDocuments(data, secret=[DOCUMENTS])
        self._wall = wall
        self._stamps: dict[Path, tuple[int, int]] = {}
        self._known: Mapping[Path, Persona] = {}
        self._fresh: Mapping[Path, Persona] = {}
        self._changing = anyio.Lock()
        self._followers: list[Callable[[], None]] = []
        self._look()

    def text(self, name: str) -> str | None:
        """Return the text of the persona ``name``; None if no persona in use has this name."""
        persona = self._find(name)
        return persona.newest.text if persona is not None and not persona.removed_at else None

    def all(self, *, removed: bool = False) -> tuple[Persona, ...]:
        """Return all personas that are in use, or all that were removed, sorted by name."""
        found = (each for each in self._known.values() if bool(each.removed_at) == removed)
        return tuple(sorted(found, key=lambda each: each.name.casefold()))

    def get(self, name: str) -> Persona:
        """Return a persona, even if it was removed. Raises `UnknownPersona`."""
        persona = self._find(name)
        if persona is None:
            raise UnknownPersona(f"there is no persona {name!r}")
        return persona

    def listen(self, follower: Callable[[], None]) -> None:
        """Call ``follower`` after each change. ``follower`` must not raise."""
        self._followers.append(follower)

    async def follow(self) -> None:
        """Check the folder every second until cancelled."""
        while True:
            await anyio.sleep(_LOOK_S)
            async with self._changing:
                await anyio.to_thread.run_sync(self._read_changed)
                self._tell()

    async def save(
        self, name: str, text: str, *, revision: int | None = None, by: str = "", note: str = ""
    ) -> Persona:
        """Save a new version, or a new persona. A removed persona of this name comes back.

        Args:
            name: The name: letters, digits, spaces and ``_ . - ( )``, at most 64 characters.
            text: The persona.
            revision: The revision that the writer saw; 0 for a new persona; None to save without
                this check.
            by: Who saves it.
            note: Why it is saved.

        Returns:
            The persona with its new version. If the newest version has the same text, nothing is
            saved.

        Raises:
            PersonaChanged: Somebody else saved or removed the persona in the meantime, or the new
                name is taken.
            PersonaError: The name or the text is not valid, or there are too many personas.
            DocumentError: The persona cannot be written.
        """
        name = _checked_name(name)
        text = _checked_text(text)
        async with self._changing:
            self._look()
            old = self._find(name)
            present = 0 if old is None or old.removed_at else old.revision
            if revision is not None and revision != present:
                raise PersonaChanged(
                    f"the persona {name!r} was saved by somebody else as version {present}: look "
                    "at it, then save again"
                    if present
                    else f"the persona {name!r} was removed by somebody else"
                )
            if old is not None and not old.removed_at and old.newest.text == text:
                return old
            if old is None and len(self._known) >= MOST_PERSONAS:
                raise PersonaError(f"there are {MOST_PERSONAS} personas already: remove some")
            version = PersonaVersion(
                number=(old.revision if old else 0) + 1,
                text=text,
                saved_at=self._wall(),
                by=by,
                note=note[:500],
            )
            versions = (*(old.versions if old else ()), version)[-MOST_VERSIONS:]
            saved = Persona(name=old.name if old else name, versions=versions)
            await self._write(saved, old)
            return saved

    async def restore(self, name: str, number: int, *, by: str = "") -> Persona:
        """Save an older version as the newest one. Raises the errors of `save`, and
        `UnknownPersona`."""
        persona = self.get(name)
        text = next((each.text for each in persona.versions if each.number == number), None)
        if text is None:
            raise UnknownPersona(f"the persona {name!r} has no version {number}")
        return await self.save(persona.name, text, by=by, note=f"version {number} restored")

    async def remove(self, name: str, *, revision: int | None = None) -> Persona:
        """Take a persona out of use. Its file is kept, so that `bring_back` finds it. Chats that
        name it use the bot's own persona. ``revision`` is the one that the caller saw; None to
        remove without this check. Raises the errors of `save`, and `UnknownPersona`."""
        async with self._changing:
            self._look()
            persona = self.get(name)
            if persona.removed_at:
                raise UnknownPersona(f"the persona {name!r} was removed already")
            if revision is not None and revision != persona.revision:
                raise PersonaChanged(f"the persona {name!r} was saved by somebody else meanwhile")
            removed = persona.model_copy(update={"removed_at": max(self._wall(), 1.0)})
            await self._write(removed, persona)
            return removed

    async def bring_back(self, name: str) -> Persona:
        """Put a removed persona into use again. Raises `UnknownPersona`, `PersonaChanged` and
        `DocumentError`."""
        async with self._changing:
            self._look()
            persona = self.get(name)
            back = persona.model_copy(update={"removed_at": 0.0})
            await self._write(back, persona)
            return back

    async def _write(self, persona: Persona, old: Persona | None) -> None:
        """Write a persona in the place of ``old``. Raises `PersonaChanged` and `DocumentError`."""
        text = json.dumps(persona.model_dump(mode="json"), ensure_ascii=False, indent=1)
        name = f"{FOLDER}/{_file_name(persona.name)}"
        changed = PersonaChanged(
            f"{persona.name!r} was changed by somebody else: look at it, then save again"
        )
        found = await self._documents.read(name)
        if found is not None and _parsed(found) not in (old, None):
            self._look()
            raise changed
        try:
            expected = found.revision if found else None
            await self._documents.write(name, f"{text}\n", expected=expected)
        except DocumentConflict:
            raise changed from None
        finally:
            self._look()

    def _find(self, name: str) -> Persona | None:
        return self._known.get(self._folder / _file_name(_plain(name)))

    def _look(self) -> None:
        """Read the files that changed. The caller holds the lock."""
        self._read_changed()
        self._tell()

    def _read_changed(self) -> None:
        """Read the files whose size or time changed. If a file cannot be read, chats keep using its
        last readable content."""
        stamps = _stamps(self._folder)
        known = {path: each for path, each in self._known.items() if path in stamps}
        for path, stamp in stamps.items():
            if self._stamps.get(path) == stamp:
                continue
            try:
                persona = _read(path)
            except (OSError, ValueError) as error:
                logger.error("{} is not used, its last content stays in force: {}", path, error)
                continue
            known[path] = persona
        self._stamps = stamps
        self._fresh = known

    def _tell(self) -> None:
        if self._fresh == self._known:
            return
        self._known = self._fresh
        for follower in self._followers:
            follower()


def _stamps(folder: Path) -> dict[Path, tuple[int, int]]:
    found: dict[Path, tuple[int, int]] = {}
    try:
        paths = sorted(folder.glob("*.json"))[:MOST_PERSONAS]
    except OSError:
        return found
    for path in paths:
        try:
            status = path.stat()
        except OSError:
            continue
        found[path] = (status.st_mtime_ns, status.st_size)
    return found


def _parsed(document: Document) -> Persona | None:
    """Return the persona of a document, or None if the document is broken. The next save of this
    persona then replaces the broken document."""
    try:
        return Persona.model_validate_json(document.text)
    except ValidationError:
        return None


def _read(path: Path) -> Persona:
    """Read the persona of a file. Raises `OSError` if the file cannot be read, and `ValueError` if
    its content is not a persona."""
    try:
        persona = Persona.model_validate(json.loads(path.read_text("utf-8")))
    except ValidationError as error:
        fault = error.errors(include_input=False)[0]
        place = ".".join(map(str, fault["loc"]))
        raise ValueError(f"{place}: {fault['msg']}") from None
    if path.name != _file_name(persona.name):
        raise ValueError(f"the name {persona.name!r} does not belong to this file")
    return persona


def _plain(name: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", name).split())


def _file_name(name: str) -> str:
    """Return the name of a persona's file. Two names that differ only in capital and small letters
    give the same file name."""
    return f"{name.casefold()}.json"


def _checked_name(name: str) -> str:
    plain = _plain(name)
    # A name may contain only letters, digits and a few harmless characters. So it contains no path
    # separator.
    too_long = len(plain) > _MAX_NAME or len(_file_name(plain).encode()) > _MAX_FILE_NAME
    if too_long or not _NAME.fullmatch(plain):
        raise PersonaError(
            f"the name {name[:80]!r}: expected letters, digits, spaces and _ . - ( ), at most "
            f"{_MAX_NAME} characters"
        )
    return plain


def _checked_text(text: str) -> str:
    text = text.replace("\r\n", "\n").strip()
    if not text:
        raise PersonaError("the persona is empty: write who the bot is")
    if len(text) > MAX_TEXT:
        raise PersonaError(f"the persona has {len(text)} characters: at most {MAX_TEXT} are used")
    if "\0" in text or any(0xD800 <= ord(each) < 0xE000 for each in text):
        raise PersonaError("the persona has characters that cannot be stored")
    return text
