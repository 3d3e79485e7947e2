"""Implements the `Host` protocol in memory, for tests of an adapter."""

import base64
import hashlib
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import anyio

from nekro_core.chat import ChatKey, ChatMessage, Media, Record, Segments
from nekro_core.delivery.media.links import MediaLinks
from nekro_core.delivery.media_contract import Expected

_WAIT_S = 30.0
"""How long a test waits for something, on a machine that is busy with other things."""


class MemoryMedia:
    """A `MediaKeeper` that reaches no network.

    Args:
        folder: Where the files are kept. It must exist.

    Attributes:
        asked: The addresses that the adapter wanted fetched, in order.
    """

    def __init__(self, folder: Path) -> None:
        self.asked: list[str] = []
        self._folder = folder

    async def keep_bytes(
        self, chat_key: ChatKey, data: bytes, *, name: str = "", expect: Expected = ""
    ) -> Media:
        """See `MediaKeeper.keep_bytes`.

        Args:
            chat_key: The chat; not looked at.
            data: The bytes; they are not checked.
            name: The file's name on the platform.
            expect: What it should be; not looked at.

        Returns:
            The kept medium.
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
            chat_key: The chat; not looked at.
            url: The address. Bytes are had from ``base64://`` only.
            name: The file's name on the platform.
            expect: What it should be; not looked at.

        Returns:
            The kept medium; one with a ``problem`` for any other address.
        """
        self.asked.append(url)
        if url.startswith("base64://"):
            data = base64.b64decode(url.removeprefix("base64://"))
            return await self.keep_bytes(chat_key, data, name=name, expect=expect)
        return Media(url=url, name=name, problem="this test has no network")


class MemoryHost:
    """A `Host` that keeps what an adapter gives it, in order.

    Args:
        data_dir: The data folder. It must exist; a folder ``media`` is made in it.
        settings: NoneBot's configuration, with lower-case names; None for no setting.

    Attributes:
        data_dir: The data folder.
        settings: What the adapter reads its settings from.
        media: Where media go.
        links: Makes links to media; nothing serves them.
        accepted: The messages that the adapter handed over.
        recalled: Chat and message id of each message that was taken back.
        revised: Chat, message id, user id and new words of each message that was changed.
        newest: The time of each chat's newest message, in seconds since 1970; what
            `newest_times` answers from. A test may set times of its own.
        lines: What `records` answers from; nothing comes here by itself.
        failures: How many times more `accept` raises `OSError` as a full disk would.
        since: For an adapter and account, when the bot first knew it: what `known_since` answers.
    """

    def __init__(self, data_dir: Path, settings: Mapping[str, Any] | None = None) -> None:
        self.data_dir = data_dir
        self.settings: Mapping[str, Any] = settings or {}
        (data_dir / "media").mkdir(exist_ok=True)
        self.media = MemoryMedia(data_dir / "media")
        self.links = MediaLinks(data_dir, lambda: "a secret for tests")
        self.accepted: list[ChatMessage] = []
        self.recalled: list[tuple[ChatKey, str]] = []
        self.revised: list[tuple[ChatKey, str, str, Segments]] = []
        self.newest: dict[ChatKey, float] = {}
        self.lines: list[Record] = []
        self.failures = 0
        self.since: dict[tuple[str, str], float] = {}
        self._instances: dict[tuple[str, str], str] = {}
        self._changed = anyio.Event()
        self._taken = 0

    async def accept(self, message: ChatMessage) -> None:
        """See `Host.accept`. Duplicates are kept too: that is the store's work.

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
            user_id: The platform's id of who changed it.
            said: The new words.
        """
        self.revised.append((chat_key, message_id, user_id, said))
        self._tell()

    async def instance_of(self, adapter: str, account: str) -> str:
        """See `Host.instance_of`.

        Args:
            adapter: The adapter's name.
            account: The platform's id of our account.

        Returns:
            ``adapter`` for its first account, ``adapter.account`` for each further one.
        """
        clean = re.sub(r"[^A-Za-z0-9_.]", "_", account)  # as the store does
        first = f"{adapter}.{clean}" if adapter in self._instances.values() else adapter
        return self._instances.setdefault((adapter, account), first)

    async def known_since(self, adapter: str, account: str) -> float | None:
        """See `Host.known_since`.

        Args:
            adapter: The adapter's name.
            account: The platform's id of our account.

        Returns:
            What ``since`` has, in seconds since 1970; None for nothing.
        """
        return self.since.get((adapter, account))

    async def account_of(self, instance: str) -> str | None:
        """See `Host.account_of`.

        Args:
            instance: The instance part of a chat key.

        Returns:
            The platform's id of the account; None where `instance_of` was not asked for it.
        """
        for (_, account), name in self._instances.items():
            if name == instance:
                return account
        return None

    def online(self) -> None:
        """See `Host.online`. Nothing waits here."""

    async def records(self, chat_key: ChatKey, *, after: int = 0, limit: int = 200) -> list[Record]:
        """See `Host.records`.

        Args:
            chat_key: The chat.
            after: Only lines whose ``seq`` is greater.
            limit: How many at most; 1 or more.

        Returns:
            The chat's lines in ``lines``.
        """
        found = [each for each in self.lines if each.chat_key == chat_key and each.seq > after]
        return found[:limit] if after else found[-limit:]

    async def newest_times(self, instance: str) -> Mapping[ChatKey, float]:
        """See `Host.newest_times`.

        Args:
            instance: The instance part of chat keys.

        Returns:
            The times in ``newest``, in seconds since 1970.
        """
        return {key: at for key, at in self.newest.items() if key.instance == instance}

    async def until(self, condition: Callable[[], bool], limit_s: float = _WAIT_S) -> None:
        """Wait until what the adapter brought fulfils a condition.

        Args:
            condition: Called at once and after each message, recall and change.
            limit_s: The longest wait, in seconds.

        Raises:
            TimeoutError: It was not fulfilled in time.
        """
        with anyio.fail_after(limit_s):
            while not condition():
                await self._changed.wait()

    async def received(self, count: int, limit_s: float = _WAIT_S) -> list[ChatMessage]:
        """Wait for messages.

        Args:
            count: How many.
            limit_s: The longest wait, in seconds.

        Returns:
            The first ``count`` messages.

        Raises:
            TimeoutError: There were fewer in that time.
        """
        await self.until(lambda: len(self.accepted) >= count, limit_s)
        return self.accepted[:count]

    async def next_message(self, limit_s: float = _WAIT_S) -> ChatMessage:
        """Wait for the oldest message that was not yet asked for here.

        Args:
            limit_s: The longest wait, in seconds.

        Returns:
            The message.

        Raises:
            TimeoutError: There was none in that time.
        """
        self._taken += 1
        return (await self.received(self._taken, limit_s))[-1]

    def _tell(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()


__all__ = ["MemoryHost", "MemoryMedia"]
