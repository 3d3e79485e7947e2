"""`TestPlatform`, on which authors test their plugins, passes the contract suite for adapters.
So it behaves like an adapter."""

import pytest

from nekro_core.chat import ChatKey, ChatMessage, DeliveryState, Receipt, Text
from nekro_core.testing import TestPlatform
from nekro_core.testing.adapter_contract import AdapterContract
from tests.delivery.fakes import message

GROUP = ChatKey.parse("test-group_30003")


class Harness:
    def __init__(self) -> None:
        self.adapter = TestPlatform()
        self.chat_key = GROUP
        self._inbound: list[ChatMessage] = []

    async def say(self, text: str, *, user: str = "10001", message_id: str = "") -> str:
        message_id = message_id or str(len(self._inbound) + 1)
        self._inbound.append(
            message(GROUP, user=user, message_id=message_id, segments=(Text(text),))
        )
        return message_id

    async def received(self, count: int) -> list[ChatMessage]:
        assert len(self._inbound) >= count
        return self._inbound

    async def shown(self, count: int) -> list[str]:
        await self.adapter.until(lambda: len(self.adapter.sent) >= count)
        return [sent.text for sent in self.adapter.sent]

    async def refuse_sends(self) -> None:
        self.adapter.answer = Receipt(state=DeliveryState.REJECTED, reason="muted")

    async def go_silent(self) -> None:
        self.adapter.answer = Receipt(state=DeliveryState.UNKNOWN, reason="no answer")

    async def disconnect(self) -> None:
        self.adapter.answer = Receipt(state=DeliveryState.PENDING, reason="offline")


class TestTheTestPlatform(AdapterContract):
    @pytest.fixture
    def harness(self) -> Harness:
        return Harness()
