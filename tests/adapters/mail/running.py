"""Runs the adapter against Postfix and Dovecot, with an SMTP proxy in between that can fail."""

import itertools
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Self

import anyio
from anyio.abc import SocketAttribute, SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

from adapters.mail import create
from nekro_core.api.adapter import Adapter
from nekro_core.api.chat import ChatKey, Delivery, Receipt, Segment, Text
from nekro_core.testing.memory_host import MemoryHost
from tests.adapters.onebot_v11.running import new_driver
from tests.peers.mail import PASSWORD, MailServer

BOT, ANN, BO = "bot@example.test", "ann@example.test", "bo@example.test"
_OVER = (
    anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.IncompleteRead,
)  # fmt: skip
_END = b"\r\n.\r\n"


class Wire:
    """An SMTP proxy between the bot and Postfix.

    ``manner`` says what the proxy does. With ``fair``, everything is forwarded. With ``refuse``, a
    recipient is refused, and with ``full``, a recipient is refused for now. With ``silent``, a mail
    is not forwarded and gets no answer. With ``cut``, a new connection is closed.
    """

    def __init__(self, port: int) -> None:
        self._behind = port
        self._stack = AsyncExitStack()
        self.manner = "fair"
        self.port = 0

    async def __aenter__(self) -> Self:
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        self.port = listener.extra(SocketAttribute.local_port)
        await self._stack.enter_async_context(listener)
        self._tasks = await self._stack.enter_async_context(anyio.create_task_group())
        self._tasks.start_soon(listener.serve, self._serve)
        return self

    async def __aexit__(self, *error: object) -> None:
        self._tasks.cancel_scope.cancel()
        await self._stack.aclose()

    async def _serve(self, near: SocketStream) -> None:
        if self.manner == "cut":
            await near.aclose()
            return
        async with (
            near,
            await anyio.connect_tcp("127.0.0.1", self._behind) as far,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(self._answers, far, near)
            with suppress(*_OVER):
                await self._words(near, far)
            tasks.cancel_scope.cancel()

    async def _words(self, near: SocketStream, far: SocketStream) -> None:
        reader = BufferedByteReceiveStream(near)
        while True:
            line = await reader.receive_until(b"\r\n", 65_536)
            answers = {"refuse": b"550 5.7.1 not here\r\n", "full": b"451 4.3.0 later\r\n"}
            if line.upper().startswith(b"RCPT") and self.manner in answers:
                await near.send(answers[self.manner])
                continue
            await far.send(line + b"\r\n")
            if line.upper() == b"DATA":
                data = await reader.receive_until(_END, 10_000_000)
                if self.manner == "silent":
                    await anyio.sleep_forever()
                await far.send(data + _END)

    async def _answers(self, far: SocketStream, near: SocketStream) -> None:
        with suppress(*_OVER):
            async for data in far:
                await near.send(data)


class Bot:
    """A started adapter."""

    def __init__(self, host: MemoryHost, adapter: Adapter) -> None:
        self.host, self.adapter = host, adapter
        self._numbers = itertools.count(1)

    async def send(self, key: ChatKey, *segments: Segment | str) -> Receipt:
        parts = tuple(Text(part) if isinstance(part, str) else part for part in segments)
        identity = f"d{next(self._numbers)}"
        return await self.adapter.send(Delivery(delivery_id=identity, chat_key=key, segments=parts))


def mailbox(server: MailServer, address: str = BOT, **more: Any) -> dict[str, Any]:
    """Return one item of the setting ``MAIL_BOTS``."""
    return {
        "id": address,
        "password": PASSWORD,
        "imap": {"host": "127.0.0.1", "port": server.ports.imap, "tls": False},
        "smtp": {"host": "127.0.0.1", "port": server.ports.smtp, "tls": False},
        "poll_s": 0.05,
        **more,
    }


@asynccontextmanager
async def running(folder: Path, box: dict[str, Any], host: MemoryHost | None = None,
                  send_s: float = 20.0) -> AsyncIterator[Bot]:  # fmt: skip
    """Start the adapter and wait until it reads its mailbox."""
    host = host or MemoryHost(folder, {"nekro_platforms": ("mail",), "mail_bots": [box]})
    host.settings = {"nekro_platforms": ("mail",), "mail_bots": [box]}
    driver = new_driver()
    adapter = create(host, driver)
    adapter._send_s = send_s  # type: ignore[attr-defined]
    async with driver._lifespan:
        await adapter.start()
        try:
            with anyio.fail_after(30):
                while await host.account_of("mail") is None:
                    await anyio.sleep(0.01)
                # The adapter makes this file when it stores how far it has read the mailbox.
                while not [*(folder / "mail").glob("*.json")]:
                    await anyio.sleep(0.01)
            yield Bot(host, adapter)
        finally:
            await adapter.aclose()
