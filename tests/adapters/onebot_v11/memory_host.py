"""A bot that only remembers: the `Host` protocol in memory, for tests of an adapter."""

import base64
import hashlib
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

from nekro_core.api.adapter import Activity, Expected
from nekro_core.api.chat import ChatKey, ChatMessage, Media, Record, RunRecord, Segments
from nekro_core.delivery.media.links import MediaLinks


class MemoryMedia:
    """`MediaKeeper` that fetches nothing from the network."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.asked: list[str] = []

    async def keep_bytes(
        self, chat_key: ChatKey, data: bytes, *, name: str = "", expect: Expected = ""
    ) -> Media:
        digest = hashlib.sha256(data).hexdigest()
        path = self._folder / digest
        path.write_bytes(data)
        return Media(path=str(path), name=name, size=len(data), sha256=digest)

    async def keep_url(
        self, chat_key: ChatKey, url: str, *, name: str = "", expect: Expected = ""
    ) -> Media:
        self.asked.append(url)
        if url.startswith("base64://"):
            data = base64.b64decode(url.removeprefix("base64://"))
            return await self.keep_bytes(chat_key, data, name=name)
        return Media(url=url, name=name, problem="this test has no network")


class MemoryHost:
    """Keeps what it is given, in order. ``before_storing`` may delay, to provoke races."""

    def __init__(self, data_dir: Path, settings: Mapping[str, Any] | None = None) -> None:
        self.data_dir = data_dir
        self.settings = settings or {}
        (data_dir / "media").mkdir(exist_ok=True)
        self.media = MemoryMedia(data_dir / "media")
        self.links = MediaLinks(data_dir, lambda: "a secret for tests")
        self.accepted: list[ChatMessage] = []
        self.recalled: list[tuple[ChatKey, str]] = []
        self.revised: list[tuple[ChatKey, str, str, Segments]] = []
        self.newest: dict[ChatKey, float] = {}
        self.lines: list[Record] = []
        """What the bot's store has of the chats; nothing comes here by itself."""
        self.failures = 0
        """How many times more the store will fail."""
        self.since: dict[tuple[str, str], float] = {}
        """When accounts were first heard of in an earlier life."""
        self._instances: dict[tuple[str, str], str] = {}
        self._changed = anyio.Event()

    async def accept(self, message: ChatMessage) -> None:
        if self.failures:
            self.failures -= 1
            raise OSError("disk full")
        self.accepted.append(message)
        self.newest[message.chat_key] = max(self.newest.get(message.chat_key, 0), message.time)
        self._note()

    async def recall(self, chat_key: ChatKey, message_id: str) -> None:
        self.recalled.append((chat_key, message_id))
        self._note()

    async def revise(
        self, chat_key: ChatKey, message_id: str, user_id: str, said: Segments
    ) -> None:
        self.revised.append((chat_key, message_id, user_id, said))
        self._note()

    async def instance_of(self, adapter: str, account: str) -> str:
        taken = self._instances.values()
        clean = re.sub(r"[^A-Za-z0-9_.]", "_", account)  # as the store does
        first = adapter if adapter not in taken else f"{adapter}.{clean}"
        return self._instances.setdefault((adapter, account), first)

    async def known_since(self, adapter: str, account: str) -> float | None:
        return self.since.get((adapter, account))

    async def account_of(self, instance: str) -> str | None:
        for (_, account), name in self._instances.items():
            if name == instance:
                return account
        return None

    async def newest_times(self, instance: str) -> Mapping[ChatKey, float]:
        return {key: at for key, at in self.newest.items() if key.instance == instance}

    async def until(self, condition: Callable[[], bool], timeout: float = 30) -> None:
        with anyio.fail_after(timeout):
            while not condition():
                await self._changed.wait()

    async def heard(self, count: int, timeout: float = 30) -> list[ChatMessage]:
        """The first so many messages, once they are there."""
        await self.until(lambda: len(self.accepted) >= count, timeout)
        return self.accepted[:count]

    async def next_message(self, timeout: float = 30) -> ChatMessage:
        """The oldest message that was not yet asked for."""
        self._seen = getattr(self, "_seen", 0) + 1
        return (await self.heard(self._seen, timeout))[-1]

    def _note(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    # What an adapter of this kind has no use for.

    def online(self) -> None: ...

    async def stop(self, chat_key: ChatKey) -> bool:
        return False

    def working(self, chat_key: ChatKey) -> bool:
        return False

    @asynccontextmanager
    async def watch(
        self, chat_key: ChatKey | None = None
    ) -> AsyncIterator[AsyncIterator[Activity]]:
        async def nothing() -> AsyncIterator[Activity]:
            for activity in ():
                yield activity

        yield nothing()

    async def records(self, chat_key: ChatKey, *, after: int = 0, limit: int = 200) -> list[Record]:
        return [line for line in self.lines if line.chat_key == chat_key and line.seq > after]

    async def chats(self, instance: str) -> list[ChatKey]:
        return list(self.newest)

    async def runs(self, run_id: str) -> list[RunRecord]:
        return []

    async def read_upload(self, chat_key: ChatKey, path: str) -> bytes | None:
        return None
