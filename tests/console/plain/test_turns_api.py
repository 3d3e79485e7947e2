"""The operator sees each turn: who caused it, how it ended, its cost, and its code."""

import time
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from fastapi import APIRouter, FastAPI

from nekro_core.api.console import Route
from nekro_core.chat import Author, ChatKey, Record, Sender, Text
from nekro_core.console.plain.moved_pages import moved_outbox, moved_turns
from nekro_core.console.plain.turns_api import add_turns
from nekro_core.store import Step, Store

GROUP = ChatKey.parse("onebot_v11-group_30003")
OTHER = ChatKey.parse("telegram-private_7")


async def turn(store: Store, chat: ChatKey, said: str, stop: str) -> int:
    """Store a turn of one step and one run. Returns its number."""
    record = Record(
        seq=store.messages.reserve(),
        chat_key=chat,
        author=Author.PERSON,
        sender=Sender("10001", "Lin"),
        segments=(Text(said),),
        time=1.0,
    )
    await store.messages.add(record, unique_id=None)
    begun = await store.turns.begin(
        chat, trigger_seq=record.seq, through_seq=record.seq, user_id="10001"
    )
    step = Step(
        position=0,
        reply="<b>",
        model="big",
        prompt_tokens=900,
        cost=0.25,
        started=time.time(),
    )
    await store.turns.add_step(begun.turn_id, step)
    await store.runs.begin(f"run {said}", chat, code="roll(<20>)", turn_id=begun.turn_id)
    await store.runs.end(f"run {said}", output="", stop="error", error="NameError: roll", seconds=1)
    if stop:
        await store.turns.end(begun.turn_id, stop=stop)
    return begun.turn_id


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with Store.open(f"sqlite://{tmp_path}/nekro.sqlite3") as store:
        yield store


@pytest.fixture
async def web(store: Store) -> AsyncIterator[httpx.AsyncClient]:
    operator: Any = SimpleNamespace(turns=store.turn_log)
    app, router = FastAPI(), APIRouter(prefix="/api/v1", route_class=Route)
    add_turns(router, operator)
    app.include_router(router)
    app.include_router(moved_turns())
    app.include_router(moved_outbox())
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://bot") as client:
        yield client


async def test_the_turns_of_all_chats_are_listed(store: Store, web: httpx.AsyncClient) -> None:
    assert (await web.get("/api/v1/turns")).json() == {"turns": []}
    first = await turn(store, GROUP, "roll & win", "finished")
    second = await turn(store, OTHER, "hello", "model_unreachable")
    third = await turn(store, GROUP, "again", "")

    listed = (await web.get("/api/v1/turns")).json()["turns"]
    assert [each["id"] for each in listed] == [third, second, first]
    assert (listed[1]["asked"], listed[1]["stop"]) == ("hello", "model_unreachable")
    assert (listed[2]["tokens"], listed[2]["cost"], listed[2]["steps"]) == (900, 0.25, 1)
    older = (await web.get(f"/api/v1/turns?before={second}&chat={GROUP}")).json()["turns"]
    assert [each["id"] for each in older] == [first]


async def test_a_turn_has_its_replies_and_its_code(store: Store, web: httpx.AsyncClient) -> None:
    number = await turn(store, GROUP, "roll", "limit_repairs")
    read = (await web.get(f"/api/v1/turns/{number}")).json()
    assert read["replies"] == ["<b>"]
    assert read["runs"][0]["code"] == "roll(<20>)"
    assert read["runs"][0]["error"] == "NameError: roll"
    assert (await web.get("/api/v1/turns/999")).json()["error"]["code"] == "turn"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("/ui/turns", "/ui/console/turns"),
        ("/ui/turns?chat=web-group_a%26b", "/ui/console/turns?chat=web-group_a%26b"),
        ("/ui/turns/7", "/ui/console/turns/7"),
        ("/ui/outbox", "/ui/console/undelivered"),
    ],
)
async def test_the_addresses_of_the_old_pages_lead_to_the_console(
    web: httpx.AsyncClient, old: str, new: str
) -> None:
    answer = await web.get(old)
    assert (answer.status_code, answer.headers["location"]) == (308, new)


@pytest.mark.parametrize(("asked", "code"), [("limit=0", "number"), ("chat=nowhere", "chat")])
async def test_invalid_requests_are_answered_with_the_reason(
    web: httpx.AsyncClient, asked: str, code: str
) -> None:
    answer = await web.get(f"/api/v1/turns?{asked}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, code)
