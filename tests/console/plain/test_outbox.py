"""Over HTTP, the operator lists outgoing messages, sends them again, and drops them."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import httpx
import pytest
from fastapi import APIRouter, FastAPI

from nekro_core.api.console import Route
from nekro_core.chat import Delivery, DeliveryState, Receipt, Text
from nekro_core.console.plain.outbox_api import add_outbox
from nekro_core.delivery.activity import Broadcast
from nekro_core.delivery.outbound.outbox import Outbox
from nekro_core.store import Store
from tests.delivery.conftest import GROUP, QUICK
from tests.delivery.fakes import FakeAdapter


@dataclass
class Bench:
    outbox: Outbox
    adapter: FakeAdapter
    web: httpx.AsyncClient

    async def lost(self, text: str) -> None:
        """Send a message whose outcome is unknown."""

        async def answer(_: Delivery) -> Receipt:
            return Receipt(state=DeliveryState.UNKNOWN, reason="no answer within 5 s")

        self.adapter.behaviour = answer
        await self.outbox.send(GROUP, (Text(text),))
        self.adapter.behaviour = None

    async def listed(self, **asked: Any) -> list[dict[str, Any]]:
        answer = await self.web.get("/api/v1/outbox", params=asked)
        assert answer.status_code == 200, answer.text
        found: list[dict[str, Any]] = answer.json()["messages"]
        return found


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    adapter = FakeAdapter()
    async with (
        Store.open(f"sqlite://{tmp_path}/nekro.sqlite3") as store,
        Outbox(store, {"fake": adapter}, Broadcast(), QUICK) as outbox,
    ):
        operator: Any = SimpleNamespace(outbox=outbox.admin)
        app, router = FastAPI(), APIRouter(prefix="/api/v1", route_class=Route)
        add_outbox(router, operator)
        app.include_router(router)
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://bot") as web:
            yield Bench(outbox, adapter, web)


async def test_the_outbox_is_managed_over_http(bench: Bench) -> None:
    await bench.outbox.send(GROUP, (Text("fine"),))
    await bench.lost("are you there?")
    (found,) = await bench.listed()
    assert (found["text"], found["state"], found["chat_key"]) == (
        "are you there?",
        "unknown",
        str(GROUP),
    )
    assert len(await bench.listed(states="all")) == 2
    assert [each["text"] for each in await bench.listed(states="sent")] == ["fine"]
    assert await bench.listed(chat="fake-group_9") == []
    assert await bench.listed(before=found["id"]) == []
    answer = await bench.web.post(f"/api/v1/outbox/{found['id']}/resend")
    assert (answer.status_code, answer.json()["state"]) == (200, "pending")
    with anyio.fail_after(30):
        while await bench.listed():
            await anyio.sleep(0.005)
    assert bench.adapter.said() == [(Text("fine"),), (Text("are you there?"),)]


@pytest.mark.parametrize(
    ("method", "path", "status", "words"),
    [
        ("GET", "?states=sideways", 400, "expected all, or some of pending"),
        ("GET", "?chat=nowhere", 400, "is no chat key"),
        ("GET", "?limit=0", 400, "expected 1 to"),
        ("POST", "/nothing/resend", 409, "there is no message"),
        ("POST", "/nothing/drop", 409, "there is no message"),
    ],
)
async def test_invalid_requests_are_answered_with_the_reason(
    bench: Bench, method: str, path: str, status: int, words: str
) -> None:
    answer = await bench.web.request(method, f"/api/v1/outbox{path}")
    assert answer.status_code == status
    assert words in answer.json()["error"]["message"]


async def test_a_dropped_message_can_be_sent_again(bench: Bench) -> None:
    await bench.lost("gone")
    (found,) = await bench.listed()
    address = f"/api/v1/outbox/{found['id']}"
    answer = await bench.web.post(f"{address}/drop")
    assert (answer.status_code, answer.json()["state"]) == (200, "dropped")
    assert await bench.listed() == []
    again = await bench.web.post(f"{address}/drop")
    assert "is dropped: it cannot be dropped" in again.json()["error"]["message"]
    assert (await bench.web.post(f"{address}/resend")).status_code == 200
