"""The mail adapter passes the adapter contract against real servers."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from nekro_core.api.chat import ChatKey, ChatMessage
from nekro_core.testing.adapter_contract import AdapterContract, adapter_manifest
from tests.adapters.mail.running import Bot, Wire, mailbox, running
from tests.peers.mail import MailServer

pytestmark = pytest.mark.long

SILENCE_S = 1.0
"""The adapter's timeout, in seconds, in the test in which a send gets no answer. In other tests it
is 20 s."""


class Harness:
    def __init__(self, bot: Bot, wire: Wire, server: MailServer, us: str, them: str) -> None:
        self.adapter = bot.adapter
        self._bot, self._wire, self._server = bot, wire, server
        self._us, self._them = us, them
        self.chat_key: ChatKey
        self._first = ""
        self._said = 1

    async def begin(self) -> None:
        """Start a thread. The text of its first mail contains the subject. Later texts do not."""
        self._first = await self._server.send(self._them, self._us, "let us talk")
        (opening,) = await self._bot.host.received(1, limit_s=30)
        self.chat_key = opening.chat_key

    async def say(self, text: str, *, user: str = "", message_id: str = "") -> str:
        message_id = await self._server.send(
            self._them, self._us, text, subject="Re: Hello", In_Reply_To=self._first
        )
        # A second mail could overtake this one, so wait until this one is in the mailbox.
        self._said += 1
        await self._server.received(self._us, self._said)
        return message_id

    async def received(self, count: int) -> list[ChatMessage]:
        return (await self._bot.host.received(count + 1, limit_s=30))[1:]

    async def shown(self, count: int) -> list[str]:
        mails = await self._server.received(self._them, count)
        return [str(mail.get_content()).strip() for mail in mails]

    async def refuse_sends(self) -> None:
        self._wire.manner = "refuse"

    async def go_silent(self) -> None:
        self.adapter._send_s = SILENCE_S
        self._wire.manner = "silent"

    async def disconnect(self) -> None:
        self._wire.manner = "cut"


class TestMail(AdapterContract):
    manifest = adapter_manifest(Path("adapters/mail"))

    @pytest.fixture
    async def harness(
        self, tmp_path: Path, anyio_backend: str, server: MailServer, people: tuple[str, str, str]
    ) -> AsyncIterator[Harness]:
        us, them, _ = people
        async with Wire(server.ports.smtp) as wire:
            smtp = {"host": "127.0.0.1", "port": wire.port, "tls": False}
            box = mailbox(server, us, smtp=smtp)
            async with running(tmp_path, box) as bot:
                harness = Harness(bot, wire, server, us, them)
                await harness.begin()
                yield harness
