"""Implements the `Host` protocol in memory, to test an adapter without a bot."""

import base64
import hashlib
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import anyio

from nekro_core.chat import ChatKey, ChatMessage, Media, Record, Segments
from nekro_core.delivery.account_settings import (
    AccountSettingsFiles,
    AccountSettingsStore,
)
from nekro_core.delivery.contact_request import ContactRequest
from nekro_core.delivery.media.links import MediaLinks
from nekro_core.delivery.media_contract import Expected

_WAIT_S = 30.0
"""Maximum time that a test waits, in seconds. It is long enough for a busy machine."""


class MemoryMedia:
    """A `MediaKeeper` that makes no network requests.

    Args:
        folder: The folder for the files. It must exist.

    Attributes:
        asked: The addresses that the adapter passed to `keep_url`, in order.
    """

    def __init__(self, folder: Path) -> None:
        self.asked: list[str] = []
        self._folder = folder

    async def keep_bytes(
        self, chat_key: ChatKey, data: bytes, *, name: str = "", expect: Expected = ""
    ) -> Media:
        """See `MediaKeeper.keep_bytes`.

        Args:
            chat_key: The chat; ignored.
            data: The bytes; they are not checked.
            name: The file's name on the platform.
            expect: The expected kind of file; ignored.

        Returns:
            The stored medium.
        """
        del chat_key, expect
        digest = hashlib.sha256(data).hexdigest()
        path = anyio.Path(self._folder / digest)
        await path.write_bytes(data)
        return Media(path=str(path), name=name, size=len(data), sha256=digest)

    async def keep_url(
        self, chat_key: ChatKey, url: str, *, name: str = "", expect: Expected = ""
    ) -> Media:
        """See `MediaKeeper.keep_url`.

        Args:
            chat_key: The chat; ignored.
            url: The address. Only an address with ``base64://`` gives bytes.
            name: The file's name on the platform.
            expect: The expected kind of file; ignored.

        Returns:
            The stored medium; for any other address, a medium with a ``problem``.
        """
        self.asked.append(url)
        if url.startswith("base64://"):
            data = base64.b64decode(url.removeprefix("base64://"))
            return await self.keep_bytes(chat_key, data, name=name, expect=expect)
        return Media(url=url, name=name, problem="this test has no network")


class MemoryHost:
    """A `Host` that stores everything that an adapter gives it, in order.

    Args:
        data_dir: The data folder. It must exist; a folder ``media`` is made in it.
        settings: NoneBot's configuration, with lower-case names; None for no settings.

    Attributes:
        data_dir: The data folder.
        settings: The configuration from which the adapter reads its settings.
        media: Stores the media.
        links: Makes links to media. No server answers them.
        account_settings: Stores accounts in files of ``data_dir``.
        requests: The requests that the adapter passed to `receive_request`.
        accepted: The messages that the adapter passed to `accept`.
        recalled: The chat and message id of each recalled message.
        revised: The chat, message id, user id and new text of each edited message.
        names: The names of chats that the adapter passed to `name_chat`.
        newest: The time of each chat's newest message, in seconds since 1970; `newest_times`
            returns these times. A test may change them.
        lines: The records that `records` returns. Only a test adds records.
        failures: How many more calls of `accept` raise `OSError`, like a full disk.
        since: When the bot first saw an account, in seconds since 1970, by adapter and account;
            `known_since` returns this.
    """

    def __init__(self, data_dir: Path, settings: Mapping[str, Any] | None = None) -> None:
        self.data_dir = data_dir
        self.settings: Mapping[str, Any] = settings or {}
        (data_dir / "media").mkdir(exist_ok=True)
        self.media = MemoryMedia(data_dir / "media")
        self.links = MediaLinks(data_dir, lambda: "a secret for tests")
        self.account_settings: AccountSettingsStore = AccountSettingsFiles(data_dir)
        self.requests: list[ContactRequest] = []
        self.accepted: list[ChatMessage] = []
        self.recalled: list[tuple[ChatKey, str]] = []
        self.revised: list[tuple[ChatKey, str, str, Segments]] = []
        self.names: dict[ChatKey, str] = {}
        self.newest: dict[ChatKey, float] = {}
        self.lines: list[Record] = []
        self.failures = 0
        self.since: dict[tuple[str, str], float] = {}
        self._instances: dict[tuple[str, str], str] = {}
        self._changed = anyio.Event()
        self._taken = 0

    async def accept(self, message: ChatMessage) -> None:
        """See `Host.accept`. Duplicates are stored too: in a real bot, the store drops them.

        Args:
            message: The message.

        Raises:
            OSError: ``failures`` was not 0.
        """
        if self.failures:
            self.failures -= 1
            raise OSError("disk full")
        self.accepted.append(message)
        self.newest[message.chat_key] = max(self.newest.get(message.chat_key, 0), message.time)
        self._tell()

    async def recall(self, chat_key: ChatKey, message_id: str) -> None:
        """See `Host.recall`.

        Args:
            chat_key: The chat.
            message_id: The platform's id of the message.
        """
        self.recalled.append((chat_key, message_id))
        self._tell()

    async def revise(
        self, chat_key: ChatKey, message_id: str, user_id: str, said: Segments
    ) -> None:
        """See `Host.revise`.

        Args:
            chat_key: The chat.
            message_id: The platform's id of the message.
            user_id: The platform's id of the person who edited the message.
            said: The new text.
        """
        self.revised.append((chat_key, message_id, user_id, said))
        self._tell()

    async def receive_request(self, request: ContactRequest) -> None:
        """See `Host.receive_request`.

        Args:
            request: The request.
        """
        self.requests.append(request)
        self._tell()

    async def instance_of(self, adapter: str, account: str) -> str:
        """See `Host.instance_of`.

        Args:
            adapter: The adapter's name.
            account: The platform's id of the bot's account.

        Returns:
            ``adapter`` for the adapter's first account, and ``adapter.account`` for each further
            account.
        """
        clean = re.sub(r"[^A-Za-z0-9_.]", "_", account)  # The store of a real bot does the same.
        first = f"{adapter}.{clean}" if adapter in self._instances.values() else adapter
        return self._instances.setdefault((adapter, account), first)

    async def known_since(self, adapter: str, account: str) -> float | None:
        """See `Host.known_since`.

        Args:
            adapter: The adapter's name.
            account: The platform's id of the bot's account.

        Returns:
            The time in ``since``, in seconds since 1970; None if there is no time.
        """
        return self.since.get((adapter, account))

    async def account_of(self, instance: str) -> str | None:
        """See `Host.account_of`.

        Args:
            instance: The instance part of a chat key.

        Returns:
            The platform's id of the account; None if `instance_of` never returned this instance.
        """
        for (_, account), name in self._instances.items():
            if name == instance:
                return account
        return None

    def online(self) -> None:
        """See `Host.online`. Does nothing: no deliveries wait for the account."""

    async def records(self, chat_key: ChatKey, *, after: int = 0, limit: int = 200) -> list[Record]:
        """See `Host.records`.

        Args:
            chat_key: The chat.
            after: Only records whose ``seq`` is greater are returned.
            limit: The largest number of records to return; 1 or more.

        Returns:
            The chat's records in ``lines``: the oldest if ``after`` is given, otherwise the newest.
        """
        found = [each for each in self.lines if each.chat_key == chat_key and each.seq > after]
        return found[:limit] if after else found[-limit:]

    async def name_chat(self, chat_key: ChatKey, name: str) -> None:
        """See `Host.name_chat`.

        Args:
            chat_key: The chat.
            name: The name of the group or channel.
        """
        self.names[chat_key] = name
        self._tell()

    async def newest_times(self, instance: str) -> Mapping[ChatKey, float]:
        """See `Host.newest_times`.

        Args:
            instance: The instance part of chat keys.

        Returns:
            The times in ``newest``, in seconds since 1970.
        """
        return {key: at for key, at in self.newest.items() if key.instance == instance}

    async def until(self, condition: Callable[[], bool], limit_s: float = _WAIT_S) -> None:
        """Wait until a condition about what the adapter passed to this host is true.

        Args:
            condition: Called at once, and after each message, recall, edit, contact request and
                name of a chat.
            limit_s: The longest wait, in seconds.

        Raises:
            TimeoutError: The condition was not true in time.
        """
        with anyio.fail_after(limit_s):
            while not condition():
                await self._changed.wait()

    async def received(self, count: int, limit_s: float = _WAIT_S) -> list[ChatMessage]:
        """Wait for the first messages of the adapter.

        Args:
            count: How many messages to wait for.
            limit_s: The longest wait, in seconds.

        Returns:
            The first ``count`` messages.

        Raises:
            TimeoutError: There were fewer messages in that time.
        """
        await self.until(lambda: len(self.accepted) >= count, limit_s)
        return self.accepted[:count]

    async def next_message(self, limit_s: float = _WAIT_S) -> ChatMessage:
        """Wait for the oldest message that this method has not returned yet.

        Args:
            limit_s: The longest wait, in seconds.

        Returns:
            The message.

        Raises:
            TimeoutError: There was no such message in that time.
        """
        await self.until(lambda: len(self.accepted) > self._taken, limit_s)
        # Counted after the wait: a call that found no message in time takes none.
        message = self.accepted[self._taken]
        self._taken += 1
        return message

    def _tell(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()


__all__ = ["MemoryHost", "MemoryMedia"]
