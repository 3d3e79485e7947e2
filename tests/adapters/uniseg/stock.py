"""Runs an adapter of NoneBot without a network. Tests give it events, and its requests are
recorded."""

import importlib
import itertools
import json
import warnings
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import nonebot
from nonebot.adapters import Bot, Event
from nonebot.config import Config, Env
from nonebot.drivers import (
    HTTPClientMixin,
    HTTPClientSession,
    Request,
    Response,
    WebSocketClientMixin,
)
from nonebot.drivers.fastapi import Driver as FastAPIDriver

from adapters.uniseg import factories
from nekro_core.api.chat import ChatKey, Delivery, Receipt, Record, Segment, Text
from nekro_core.testing.memory_host import MemoryHost


def quietly(module: str) -> Any:
    """Import a module without the deprecation warnings that it causes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return importlib.import_module(module)


Answer = Callable[[Request], Any]
"""The platform's answer to a request: JSON, bytes, a `Response`, or an exception to raise."""


class Recorder(FastAPIDriver, HTTPClientMixin, WebSocketClientMixin):
    """A driver for NoneBot without a network. It records the requests of an adapter and answers
    them itself."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(Env(environment="test"), Config(_env_file=None, **settings))
        self.requests: list[Request] = []
        self.answer: Answer = lambda _: {}
        self.silent: Callable[[Request], bool] = lambda _: False
        self.socket: Any = None
        """The WebSocket that an adapter gets when it opens one. If it is None, the adapter waits
        for ever."""

    @property
    def type(self) -> str:
        return "recorder"

    async def request(self, setup: Request) -> Response:
        self.requests.append(setup)
        answer = self.answer(setup)
        if self.silent(setup):
            await anyio.sleep_forever()
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, Response):
            return answer
        content = answer if isinstance(answer, bytes) else json.dumps(answer)
        return Response(200, content=content, request=setup)

    async def stream_request(self, setup: Request, *, chunk_size: int = 1024) -> Any:
        yield await self.request(setup)

    def get_session(self, *_: Any, headers: Any = None, **__: Any) -> HTTPClientSession:
        return Session(self)

    @asynccontextmanager
    async def websocket(self, setup: Request) -> AsyncIterator[Any]:
        if self.socket is None:
            await anyio.sleep_forever()
        yield self.socket


class Session(HTTPClientSession):
    def __init__(self, driver: Recorder) -> None:
        self.driver = driver

    async def request(self, setup: Request) -> Response:
        return await self.driver.request(setup)

    async def stream_request(self, setup: Request, *, chunk_size: int = 1024) -> Any:
        yield await self.request(setup)

    async def setup(self) -> None: ...

    async def close(self) -> None: ...


@contextmanager
def as_nonebots(driver: Recorder) -> Iterator[None]:
    """Make this driver the global driver of NoneBot, from which NoneBot's adapters read their
    settings."""
    before, nonebot._driver = nonebot._driver, driver
    try:
        yield
    finally:
        nonebot._driver = before


@dataclass
class Bench:
    """An adapter of this project, with the NoneBot adapter that it uses."""

    host: MemoryHost
    driver: Recorder
    adapter: Any
    deliveries: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))

    @property
    def stock(self) -> Any:
        """The NoneBot adapter."""
        return self.adapter.stock

    def connect(self, bot: Bot) -> None:
        """Let the NoneBot adapter report that an account is connected."""
        self.stock.bot_connect(bot)

    async def bound(self) -> None:
        """Wait until an account is bound to its instance."""
        with anyio.fail_after(30):
            while await self.host.account_of(self.adapter.name) is None:
                await anyio.sleep(0.002)

    async def hear(self, bot: Bot, event: Event) -> None:
        """Give the adapter of this project an event, as the NoneBot adapter would."""
        await bot.handle_event(event)  # type: ignore[attr-defined]

    async def send(self, chat_key: ChatKey | str, *segments: Segment | str) -> Receipt:
        key = ChatKey.parse(chat_key) if isinstance(chat_key, str) else chat_key
        parts = tuple(Text(part) if isinstance(part, str) else part for part in segments)
        identity = f"d{next(self.deliveries)}"
        return await self.adapter.send(Delivery(delivery_id=identity, chat_key=key, segments=parts))

    async def edit(self, chat_key: ChatKey, message_id: str, text: str) -> Receipt:
        delivery = Delivery(delivery_id="edit", chat_key=chat_key, segments=(Text(text),))
        return await self.adapter.edit(message_id, delivery)


@asynccontextmanager
async def bench(
    folder: Path,
    platform: str,
    *,
    socket: Any = None,
    answer: Answer | None = None,
    lines: Sequence[Record] = (),
    **settings: Any,
) -> AsyncIterator[Bench]:
    """Start a platform's adapter with these settings. The records ``lines`` are already stored."""
    driver = Recorder(**settings)
    driver.socket = socket
    if answer is not None:
        driver.answer = answer
    host = MemoryHost(folder, {"nekro_platforms": (platform,), **settings})
    host.lines += lines
    with as_nonebots(driver):
        create = factories(host.settings)[platform]
        adapter = create(host, driver)
        async with driver._lifespan:
            await adapter.start()
            try:
                yield Bench(host, driver, adapter)
            finally:
                await adapter.aclose()
