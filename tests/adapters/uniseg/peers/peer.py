"""What every other side can be asked for."""

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar, Self

from nonebot.drivers import Request

from nekro_core.api.chat import ChatKey
from tests.adapters.uniseg.stock import Bench, bench


class Peer:
    """``chat`` is a group's key, ``settings`` are the adapter's own."""

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
        """The platform's adapter, started in a folder, and this on its other side."""
        async with bench(folder, ChatKey.parse(cls.chat).instance, **cls.settings) as made:
            peer = cls(made)
            made.connect(peer.bot)
            yield peer

    def _answer(self, request: Request) -> Any:
        return self.refusal(request) if self.refusing else self.answer(request)

    def answer(self, request: Request) -> Any:
        """What the platform says to a request."""
        raise NotImplementedError

    def refusal(self, request: Request) -> Any:
        """Its clear no."""
        raise NotImplementedError

    def refuse(self) -> None:
        self.refusing = True

    def go_silent(self) -> None:
        """It takes what is sent, and does not answer."""
        self.bench.driver.silent = self.is_sending

    def is_sending(self, request: Request) -> bool:
        """Whether the request says something to people; all are, unless one asks."""
        del request
        return True

    async def speak(self, text: str, message_id: str = "") -> str:
        """Somebody says a text in the group."""
        identity = message_id or f"{next(self._numbers)}"
        await self.spoken(text, identity)
        return identity

    async def spoken(self, text: str, message_id: str) -> None:
        """The platform tells of it."""
        raise NotImplementedError

    def seen(self) -> list[str]:
        """The texts that people saw."""
        raise NotImplementedError
