"""`FakeAdapter` passes the contract suite for adapters, so it behaves like a real adapter in
tests."""

import anyio
import pytest

from nekro_core.chat import (
    ChatMessage,
    Delivery,
    DeliveryState,
    Image,
    Receipt,
    Text,
    Voice,
    plain_text,
)
from nekro_core.testing.adapter_contract import AdapterContract

from .conftest import GROUP
from .fakes import FakeAdapter, message


class FakeHarness:
    def __init__(self) -> None:
        self.adapter = FakeAdapter()
        self.adapter.behaviour = self._answer
        self.chat_key = GROUP
        self._inbound: list[ChatMessage] = []
        self._seen: list[str] = []

    async def _answer(self, delivery: Delivery) -> Receipt:
        if any(isinstance(segment, Image | Voice) for segment in delivery.segments):
            return Receipt(state=DeliveryState.REJECTED, reason="no such file")
        self._seen.append(plain_text(delivery.segments))
        return Receipt(state=DeliveryState.SENT, message_id="1")

    async def say(self, text: str, *, user: str = "10001", message_id: str = "") -> str:
        message_id = message_id or str(len(self._inbound) + 1)
        said = message(GROUP, user=user, message_id=message_id, segments=(Text(text),))
        self._inbound.append(said)
        return message_id

    async def received(self, count: int) -> list[ChatMessage]:
        assert len(self._inbound) >= count
        return self._inbound

    async def shown(self, count: int) -> list[str]:
        assert len(self._seen) >= count
        return self._seen

    async def refuse_sends(self) -> None:
        async def refuse(_: Delivery) -> Receipt:
            return Receipt(state=DeliveryState.REJECTED, reason="muted")

        self.adapter.behaviour = refuse

    async def go_silent(self) -> None:
        async def silent(_: Delivery) -> Receipt:
            with anyio.move_on_after(0.1):
                await anyio.sleep_forever()
            return Receipt(state=DeliveryState.UNKNOWN, reason="no answer")

        self.adapter.behaviour = silent

    async def disconnect(self) -> None:
        self.adapter.offline = True


class TestFakeAdapter(AdapterContract):
    @pytest.fixture
    def harness(self) -> FakeHarness:
        return FakeHarness()
