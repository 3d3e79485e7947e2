"""The OneBot v11 adapter passes the adapter contract over a real WebSocket."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from nekro_core.api.chat import ChatMessage
from nekro_core.testing.adapter_contract import AdapterContract, adapter_manifest
from tests.adapters.onebot_v11.running import GROUP, Bot, bot_with_peer
from tests.peers.onebot_v11 import Failed, OneBotPeer, Silence


class Harness:
    """A running adapter connected to the fake implementation."""

    chat_key = GROUP

    def __init__(self, bot: Bot, peer: OneBotPeer) -> None:
        self.adapter = bot.adapter
        self._bot = bot
        self._peer = peer

    async def say(self, text: str, *, user: str = "10001", message_id: str = "") -> str:
        chosen = message_id or None
        return str(await self._peer.say_in_group(30003, user, text, message_id=chosen))

    async def received(self, count: int) -> list[ChatMessage]:
        return await self._bot.host.received(count)

    async def shown(self, count: int) -> list[str]:
        await self._peer.until(lambda: len(self._peer.sends) >= count)
        return [call.text for call in self._peer.sends]

    async def refuse_sends(self) -> None:
        self._peer.answer("send", *[Failed()] * 10)

    async def go_silent(self) -> None:
        self._peer.answer("send", *[Silence()] * 10)

    async def disconnect(self) -> None:
        self._peer.reconnect_s = None
        await self._peer.close()
        await self._bot.gone(self._peer.self_id)


class TestOneBotV11(AdapterContract):
    manifest = adapter_manifest(Path("adapters/onebot_v11"))

    @pytest.fixture
    async def harness(self, tmp_path: Path, anyio_backend: str) -> AsyncIterator[Harness]:
        # Naming the backend lets tests without an `await` use this asynchronous fixture too.
        async with bot_with_peer(tmp_path, "reverse", api_timeout=1.0) as (bot, peer):
            yield Harness(bot, peer)
