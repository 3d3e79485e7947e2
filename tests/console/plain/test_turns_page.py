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
from nekro_core.console.plain.turns_page import add_turns, turns_page
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
    app.include_router(turns_page(operator))
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://bot") as client:
        yield client


async def test_the_page_lists_the_turns_of_all_chats(store: Store, web: httpx.AsyncClient) -> None:
    empty = await web.get("/ui/turns", headers={"Accept-Language": "zh"})
    assert "还没有人问过什么" in empty.text
    first = await turn(store, GROUP, "roll & win", "finished")
    second = await turn(store, OTHER, "hello", "model_unreachable")
    third = await turn(store, GROUP, "again", "")

    page = (await web.get("/ui/turns")).text
    assert page.index("again") < page.index("hello") < page.index("roll &amp; win")
    assert "at work" in page
    assert "the model failed</span><br><small>model_unreachable" in page
    assert "3 answered, 2,700 tokens. By the prices in the settings: 0.75." in page
    of_one = (await web.get(f"/ui/turns?chat={OTHER}")).text
    assert "hello" in of_one
    assert "again" not in of_one

    listed = (await web.get("/api/v1/turns")).json()["turns"]
    assert [each["id"] for each in listed] == [third, second, first]
    assert (listed[1]["asked"], listed[1]["stop"]) == ("hello", "model_unreachable")
    assert (listed[2]["tokens"], listed[2]["cost"], listed[2]["steps"]) == (900, 0.25, 1)
    older = (await web.get(f"/api/v1/turns?before={second}&chat={GROUP}")).json()["turns"]
    assert [each["id"] for each in older] == [first]


async def test_the_page_shows_the_code_and_the_error_of_a_turn(
    store: Store, web: httpx.AsyncClient
) -> None:
    number = await turn(store, GROUP, "roll", "limit_repairs")
    page = (await web.get(f"/ui/turns/{number}")).text
    assert "roll(&lt;20&gt;)" in page
    assert "<pre class=bad>NameError: roll</pre>" in page
    assert "<pre>&lt;b&gt;</pre>" in page
    assert "a limit was reached" in page
    read = (await web.get(f"/api/v1/turns/{number}")).json()
    assert read["replies"] == ["<b>"]
    assert read["runs"][0]["error"] == "NameError: roll"
    assert (await web.get("/ui/turns/999")).status_code == 404
    assert (await web.get("/api/v1/turns/999")).json()["error"]["code"] == "turn"


@pytest.mark.parametrize(("asked", "code"), [("limit=0", "number"), ("chat=nowhere", "chat")])
async def test_invalid_requests_are_answered_with_the_reason(
    web: httpx.AsyncClient, asked: str, code: str
) -> None:
    answer = await web.get(f"/api/v1/turns?{asked}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, code)
