"""Reads the overrides from the document ``conduct.toml`` whenever it changes, and writes the
changes that commands and pages make."""

from collections.abc import Callable, Collection, Sequence
from typing import Any

import anyio
from loguru import logger

from nekro_core.chat import ChatKey
from nekro_core.policy.overrides import ChatOverrides, ChatState, PersonOverrides, PolicyOverrides
from nekro_core.system.documents import Document, DocumentConflict, DocumentError, DocumentStore
from nekro_core.system.errors import NekroError

FILE_NAME = "conduct.toml"
POLL_S = 1.0
"""Seconds between two checks of the file."""
_TRIES = 5
"""Maximum number of attempts to write a change, if somebody else writes at the same moment."""
_MOST_CACHED = 10_000
_HEAD = "# How the bot behaves: read again when it is saved. See docs/commands.md.\n"


class InvalidOverride(NekroError, ValueError):
    """A change would make the file invalid. The text says why."""


class PolicyFile:
    """The current overrides of the document.

    While the document cannot be read, the overrides that were read last stay in force. Without a
    document store there are no overrides. `look` must be called once before the overrides are used.
    """

    def __init__(self, documents: DocumentStore | None = None) -> None:
        self._documents = documents
        self._revision: str | None = None
        self._problem = ""
        self._book = PolicyOverrides()
        self._cached: dict[ChatKey, ChatOverrides] = {}
        self._writing = anyio.Lock()
        self._followers: list[Callable[[], None]] = []

    def of(self, chat_key: ChatKey) -> ChatOverrides:
        """Return all overrides that apply to a chat, merged."""
        overrides = self._cached.get(chat_key)
        if overrides is None:
            if len(self._cached) >= _MOST_CACHED:
                self._cached.clear()
            overrides = self._cached[chat_key] = self._book.of(chat_key)
        return overrides

    def state(self, chat_key: ChatKey) -> ChatState:
        """Return whether the bot answers in a chat, only reads it, or is switched off there."""
        return self._book.state(chat_key)

    def person(self, adapter: str, instance: str, user_id: str) -> PersonOverrides:
        """Return the overrides of a person."""
        return self._book.person(adapter, instance, user_id)

    @property
    def book(self) -> PolicyOverrides:
        """The content of the file when it was last read."""
        return self._book

    def listen(self, follower: Callable[[], None]) -> None:
        """Call ``follower`` after each change. ``follower`` must not raise."""
        self._followers.append(follower)

    async def follow(self) -> None:
        """Check the document every `POLL_S` seconds until cancelled."""
        while True:
            await anyio.sleep(POLL_S)
            await self.look()

    async def look(self) -> bool:
        """Read the document if it changed. Returns whether the overrides changed."""
        if self._documents is None:
            return False
        try:
            if await self._documents.revision(FILE_NAME) == self._revision:
                return False
            document = await self._documents.read(FILE_NAME)
            self._revision = document.revision if document else None
            book = PolicyOverrides.parse(document.text) if document else PolicyOverrides()
        except (DocumentError, ValueError) as error:
            if str(error) != self._problem:
                logger.error(
                    "{} is not applied, its last content stays in force: {}", FILE_NAME, error
                )
            self._problem = str(error)
            return False
        self._problem = ""
        if book == self._book:
            return False
        self._book = book
        self._cached.clear()
        for follower in self._followers:
            follower()
        return True

    async def put(self, table: Sequence[str], field: str, value: object | None) -> None:
        """Write one field of a table, such as ``("chats", "web-private_lin")``, into the document.

        None removes the field. Comments and all other entries stay unchanged. The change is in
        force when this method returns. Raises `InvalidOverride` if the document would become
        invalid and `DocumentError` if it cannot be written.
        """

        def change(document: Any) -> bool:
            place = document
            for name in table:
                if name not in place:
                    place[name] = _new_table(super_table=name == table[0] and len(table) > 1)
                place = place[name]
            if value is None:
                place.pop(field, None)
            else:
                place[field] = value
            return True

        await self._edit(change)

    async def forget(self, table: Sequence[str]) -> bool:
        """Remove a whole table. Returns False if there is no such table. Raises the errors of
        `put`."""

        def change(document: Any) -> bool:
            place = document
            for name in table[:-1]:
                place = place.get(name, {})
            if table[-1] not in place:
                return False
            del place[table[-1]]
            return True

        return await self._edit(change)

    async def forget_earlier(self, words: Collection[str]) -> int:
        """Delete all earlier texts of the document if one of them contains one of the words, for
        example the id of a person. Returns how many were deleted. Raises `DocumentError`."""
        if self._documents is None:
            return 0
        earlier = (await self._documents.revisions(FILE_NAME))[1:]
        if not any(word in one.text for one in earlier for word in words):
            return 0
        return await self._documents.forget_earlier(FILE_NAME)

    async def _edit(self, change: Callable[[Any], bool]) -> bool:
        """Change the document, unless ``change`` returns False. If somebody else writes at the same
        moment, the change is made again in the new text."""
        if self._documents is None:
            raise InvalidOverride("this bot has no file for overrides")
        async with self._writing:
            for tries_left in reversed(range(_TRIES)):
                found = await self._documents.read(FILE_NAME)
                text = _changed(found, change)
                if text is None:
                    return False
                try:
                    expected = found.revision if found else None
                    await self._documents.write(FILE_NAME, text, expected=expected)
                    break
                except DocumentConflict:
                    if not tries_left:
                        raise
            await self.look()
        return True


def _changed(found: Document | None, change: Callable[[Any], bool]) -> str | None:
    """Return the text after a change; None if there is nothing to change. Raises
    `InvalidOverride`."""
    import tomlkit  # noqa: PLC0415 - this import takes 20 ms; only a write needs it

    try:
        document = tomlkit.parse(found.text if found else _HEAD)
    except ValueError as error:
        raise InvalidOverride(f"{FILE_NAME} cannot be read: {error}") from None
    if not change(document):
        return None
    text = tomlkit.dumps(document)
    try:
        PolicyOverrides.parse(text)
    except ValueError as error:
        raise InvalidOverride(str(error)) from None
    return text


def _new_table(*, super_table: bool) -> Any:
    import tomlkit  # noqa: PLC0415 - only a change needs it

    return tomlkit.table(is_super_table=super_table)
