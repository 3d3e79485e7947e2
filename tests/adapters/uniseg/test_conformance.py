"""The adapter of each fake platform passes the adapter contract."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from nekro_core.chat import ChatKey, ChatMessage
from nekro_core.testing.adapter_contract import AdapterContract, adapter_manifest
from tests.adapters.uniseg.peers import NAMES, Peer, peer_of

LONG = pytest.mark.long
SILENCE_S = 0.6
"""The adapter's timeout, in seconds, for a send that gets no answer. The default of the adapters is
30 s."""


class Harness:
    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.adapter = peer.bench.adapter
        self.host = peer.bench.host
        self.chat_key = ChatKey.parse(peer.chat)

    async def say(self, text: str, *, user: str = "", message_id: str = "") -> str:
        return await self.peer.speak(text, message_id)

    async def received(self, count: int) -> list[ChatMessage]:
        return await self.host.received(count)

    async def shown(self, count: int) -> list[str]:
        with anyio.fail_after(30):
            while len(self.peer.seen()) < count:
                await anyio.sleep(0.01)
        return self.peer.seen()

    async def refuse_sends(self) -> None:
        self.peer.refuse()

    async def go_silent(self) -> None:
        self.adapter._send_s = SILENCE_S
        self.peer.go_silent()

    async def disconnect(self) -> None:
        self.peer.bench.stock.bot_disconnect(self.peer.bot)


# Models of some adapters cause these warnings.
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
class TestPlatforms(AdapterContract):
    @pytest.fixture(
        params=["satori", *(pytest.param(n, marks=LONG) for n in NAMES if n != "satori")]
    )
    async def harness(
        self, request: pytest.FixtureRequest, tmp_path: Path, anyio_backend: str
    ) -> AsyncIterator[Any]:
        request.instance.manifest = adapter_manifest(Path("adapters/uniseg"), request.param)
        async with peer_of(request.param).connected(tmp_path) as peer:
            await peer.bench.bound()
            yield Harness(peer)
