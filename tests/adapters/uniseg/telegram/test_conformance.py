"""The Telegram adapter passes the adapter contract over a real socket."""

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from nekro_core.api.chat import ChatMessage
from nekro_core.testing.adapter_contract import AdapterContract, adapter_manifest
from tests.adapters.uniseg.stock import Bench
from tests.adapters.uniseg.telegram.running import ACCOUNT, GROUP, GROUP_ID, bot_with_peer
from tests.peers.telegram import Failed, Silence, TelegramPeer

pytestmark = pytest.mark.long


class Harness:
    chat_key = GROUP

    def __init__(self, bot: Bench, peer: TelegramPeer) -> None:
        self.adapter = bot.adapter
        self._bot, self._peer = bot, peer

    async def say(self, text: str, *, user: str = "10001", message_id: str = "") -> str:
        return f"{await self._peer.say(GROUP_ID, int(user), text)}@{GROUP_ID}"

    async def received(self, count: int) -> list[ChatMessage]:
        return await self._bot.host.received(count)

    async def shown(self, count: int) -> list[str]:
        sends = await self._peer.sent(count)
        return [call.result["text"] for call in sends]

    async def refuse_sends(self) -> None:
        self._peer.answer("send", *[Failed(403, "Forbidden: bot was kicked")] * 10)

    async def go_silent(self) -> None:
        self._peer.answer("send", *[Silence()] * 10)

    async def disconnect(self) -> None:
        await self._peer.cut()
        while self._bot.adapter._intake.bot(ACCOUNT) is not None:
            await anyio.sleep(0.005)


class TestTelegram(AdapterContract):
    manifest = adapter_manifest(Path("adapters/uniseg"), "telegram")

    @pytest.fixture
    async def harness(self, tmp_path: Path, anyio_backend: str) -> AsyncIterator[Harness]:
        async with bot_with_peer(tmp_path, send_s=1.0) as (bot, peer):
            yield Harness(bot, peer)
