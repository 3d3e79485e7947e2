"""The web adapter passes the adapter contract over its HTTP API."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from nekro_core.api.chat import Author, ChatKey, ChatKind, ChatMessage, Delivery, Receipt
from nekro_core.testing.adapter_contract import AdapterContract, AdapterHarness
from tests.adapters.web.running import Web, web

ROOM = ChatKey("web", ChatKind.GROUP, "lobby")


class SendingAsTheOutbox:
    """The adapter, which also stores a record for each send, as the outbox does. People see these
    records."""

    def __init__(self, running: Web) -> None:
        self._web = running
        self.name = running.adapter.name
        self.capabilities = running.adapter.capabilities
        self.own_accounts = running.adapter.own_accounts
        self.start = running.adapter.start
        self.aclose = running.adapter.aclose

    async def send(self, delivery: Delivery) -> Receipt:
        receipt = await self._web.adapter.send(delivery)
        self._web.host.add(
            delivery.chat_key,
            Author.BOT,
            delivery.segments,
            time=self._web.clock(),
            message_id=receipt.message_id,
            state=receipt.state,
        )
        return receipt

    async def edit(self, message_id: str, delivery: Delivery) -> Receipt:
        receipt = await self._web.adapter.edit(message_id, delivery)
        if receipt.ok:
            (shown,) = [
                record
                for record in self._web.host.history[delivery.chat_key]
                if record.message_id == message_id
            ]
            self._web.host.change(shown, segments=delivery.segments)
        return receipt


class Harness:
    """A running adapter, with the HTTP API as the platform."""

    def __init__(self, running: Web) -> None:
        self.adapter = SendingAsTheOutbox(running)
        self.chat_key = ROOM
        self._web = running

    async def say(self, text: str, *, user: str = "10001", message_id: str = "") -> str:
        body = {"speaker": user, "text": text}
        headers = {"Idempotency-Key": message_id} if message_id else {}
        answer = await self._web.post("group_lobby", body, **headers)
        return str(answer.json()["message_id"])

    async def received(self, count: int) -> list[ChatMessage]:
        assert len(self._web.host.accepted) == count
        return self._web.host.accepted

    async def shown(self, count: int) -> list[str]:
        history = (await self._web.client.get("/api/v1/rooms/lobby/messages")).json()["messages"]
        texts = [line["segments"][0]["text"] for line in history if line["author"] == "bot"]
        assert len(texts) == count
        return texts

    async def refuse_sends(self) -> None:
        # The web chat refuses every message to a channel, but no message to a group.
        self.chat_key = replace(self.chat_key, kind=ChatKind.CHANNEL)

    async def go_silent(self) -> None:
        """Does nothing: a send to the web chat asks no server that could fail to answer."""

    async def disconnect(self) -> None:
        await self._web.adapter.aclose()


class TestWeb(AdapterContract):
    @pytest.fixture
    async def harness(self, tmp_path: Path, anyio_backend: str) -> AsyncIterator[Harness]:
        async with web(tmp_path) as running:
            yield Harness(running)

    async def test_no_answer_is_unknown(self, harness: AdapterHarness) -> None:
        """A send only reads the bot's own store, so no answer can be lost."""
        await super().test_a_send_is_reported_as_sent_when_people_see_it(harness)
