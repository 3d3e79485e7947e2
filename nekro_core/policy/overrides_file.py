"""Reads the overrides from ``data/conduct.toml`` whenever the file changes, and writes the changes
that commands make."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
from loguru import logger

from nekro_core.chat import ChatKey
from nekro_core.policy.overrides import ChatOverrides, ChatState, PersonOverrides, PolicyOverrides
from nekro_core.system.atomic_files import WatchedFile, write_whole
from nekro_core.system.errors import NekroError

FILE_NAME = "conduct.toml"
POLL_S = 1.0
"""Seconds between two checks of the file."""
_MOST_CACHED = 10_000
_HEAD = "# How the bot behaves: read again when it is saved. See docs/commands.md.\n"


class InvalidOverride(NekroError, ValueError):
    """A change would make the file invalid. The text says why."""


class PolicyFile:
    """The current overrides of the file.

    While the file cannot be read, the overrides that were read last stay in force. Without a path
    there are no overrides.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._file = WatchedFile(path) if path is not None else None
        self._book = PolicyOverrides()
        self._cached: dict[ChatKey, ChatOverrides] = {}
        self._writing = anyio.Lock()
        self._followers: list[Callable[[], None]] = []
        self.look()

    def of(self, chat_key: ChatKey) -> ChatOverrides:
        """Return all overrides that apply to a chat, merged."""
        overrides = self._cached.get(chat_key)
        if overrides is None:
            if len(self._cached) >= _MOST_CACHED:
                self._cached.clear()
            overrides = self._cached[chat_key] = self._book.of(chat_key)
        return overrides

    def state(self, chat_key: ChatKey) -> ChatState:
        """Return what the bot does in a chat."""
        return self.of(chat_key).state or ChatState.ON

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
        """Check the file every `POLL_S` seconds until cancelled."""
        while True:
            await anyio.sleep(POLL_S)
            self.look()

    def look(self) -> bool:
        """Read the file if it changed. Returns whether the overrides changed."""
        if self._file is None:
            return False
        try:
            if not self._file.changed():
                return False
            book = PolicyOverrides.parse(self._file.path.read_text("utf-8"))
        except FileNotFoundError:
            book = PolicyOverrides()
        except (OSError, ValueError) as error:
            logger.error(
                "{} is not applied, its last content stays in force: {}", self._file.path, error
            )
            return False
        if book == self._book:
            return False
        self._book = book
        self._cached.clear()
        for follower in self._followers:
            follower()
        return True

    async def put(self, table: Sequence[str], field: str, value: object | None) -> None:
        """Write one field of a table, such as ``("chats", "web-private_lin")``, into the file.

        None removes the field. Comments and all other entries stay unchanged. The change is in
        force when this method returns. Raises `InvalidOverride` if the file would become invalid
        and `OSError` if it cannot be written.
        """
        async with self._writing:
            await anyio.to_thread.run_sync(self._put, tuple(table), field, value)
            self.look()

    async def forget(self, table: Sequence[str]) -> bool:
        """Remove a whole table. Returns False if there is no such table."""
        async with self._writing:
            gone = await anyio.to_thread.run_sync(self._forget, tuple(table))
            self.look()
            return gone

    def _put(self, table: tuple[str, ...], field: str, value: object | None) -> None:
        document = self._document()
        place = document
        for name in table:
            if name not in place:
                place[name] = _new_table(super_table=name == table[0] and len(table) > 1)
            place = place[name]
        if value is None:
            place.pop(field, None)
        else:
            place[field] = value
        self._write(document)

    def _forget(self, table: tuple[str, ...]) -> bool:
        document = self._document()
        place = document
        for name in table[:-1]:
            place = place.get(name, {})
        if table[-1] not in place:
            return False
        del place[table[-1]]
        self._write(document)
        return True

    def _document(self) -> Any:
        import tomlkit  # noqa: PLC0415 - this import takes 20 ms; only a write needs it

        path = self._path()
        try:
            return tomlkit.parse(path.read_text("utf-8"))
        except FileNotFoundError:
            return tomlkit.parse(_HEAD)
        except ValueError as error:
            raise InvalidOverride(f"{path.name} cannot be read: {error}") from None

    def _write(self, document: Any) -> None:
        import tomlkit  # noqa: PLC0415 - as above

        text = tomlkit.dumps(document)
        try:
            PolicyOverrides.parse(text)
        except ValueError as error:
            raise InvalidOverride(str(error)) from None
        write_whole(self._path(), text.encode())

    def _path(self) -> Path:
        if self._file is None:
            raise InvalidOverride("this bot has no file for overrides")
        return self._file.path


def _new_table(*, super_table: bool) -> Any:
    import tomlkit  # noqa: PLC0415 - as above

    return tomlkit.table(is_super_table=super_table)
