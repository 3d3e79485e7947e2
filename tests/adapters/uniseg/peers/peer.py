"""Defines the base class of all fake platforms."""

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar, Self

from nonebot.drivers import Request

from nekro_core.api.chat import ChatKey
from tests.adapters.uniseg.stock import Bench, bench


class Peer:
    """A fake platform. ``chat`` is the chat key of a group. ``settings`` configure the adapter."""

    chat: ClassVar[str]
    settings: ClassVar[dict[str, Any]] = {}
    bot: Any

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.refusing = False
        self._numbers = itertools.count(1)
        bench.driver.answer = self._answer

    @classmethod
    @asynccontextmanager
    async def connected(cls, folder: Path) -> AsyncIterator[Self]:
        """Start the platform's adapter in a folder and connect a fake platform to it."""
        async with bench(folder, ChatKey.parse(cls.chat).instance, **cls.settings) as made:
            peer = cls(made)
            made.connect(peer.bot)
            yield peer

    def _answer(self, request: Request) -> Any:
        return self.refusal(request) if self.refusing else self.answer(request)

    def answer(self, request: Request) -> Any:
        """Return the platform's answer to a request."""
        raise NotImplementedError

    def refusal(self, request: Request) -> Any:
        """Return the platform's answer when it refuses a request."""
        raise NotImplementedError

    def refuse(self) -> None:
        self.refusing = True

    def go_silent(self) -> None:
        """From now on, accept what the bot sends and do not answer."""
        self.bench.driver.silent = self.is_sending

    def is_sending(self, request: Request) -> bool:
        """Return True if the request sends something to people. By default every request does."""
        del request
        return True

    async def speak(self, text: str, message_id: str = "") -> str:
        """Send a person's text to the group. Returns the id of the message."""
        identity = message_id or f"{next(self._numbers)}"
        await self.spoken(text, identity)
        return identity

    async def spoken(self, text: str, message_id: str) -> None:
        """Give the adapter the event of a person's message."""
        raise NotImplementedError

    def seen(self) -> list[str]:
        """Return the texts that the bot sent to people."""
        raise NotImplementedError
