"""A value travels from cells through `ctx.show` and the outbox to the history and a platform."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from nekro_core.agent.turn.already_sent import DeduplicatingSender
from nekro_core.api.reactive import Resources, cell, computed, load, scope
from nekro_core.chat import ChatKey, Text, plain_text
from nekro_core.delivery.activity import Broadcast
from nekro_core.delivery.outbound.outbox import Outbox
from nekro_core.delivery.settings import DeliverySettings
from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.store import Store
from tests.delivery.fakes import FakeAdapter
from tests.delivery.outbound.test_edits import EditingAdapter
from tests.plugins.world import World

GROUP = ChatKey.parse("fake-group_1")


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with Store.open(f"sqlite://{tmp_path / 'nekro.sqlite3'}") as opened:
        await opened.accounts.bind("fake", "bot")
        yield opened


def context(tmp_path: Path, outbox: Outbox) -> AgentCtx:
    services = replace(World(tmp_path).services, outgoing=outbox, editor=outbox)
    return AgentCtx(services=services, chat=GROUP, run_id="r1")


async def count_down(ctx: AgentCtx, step_s: float = 0.02) -> None:
    """Do what a tool may do: run three steps and show one line about them."""

    async def step(number: int) -> int:
        await anyio.sleep(step_s)
        return number - 1

    async with scope(Resources()):
        three = cell(3)
        two = load(step, number=three)
        one = load(step, number=two)
        left = computed(lambda: one.result or two.result or three())
        await ctx.show(left, render=lambda number: f"{number} left")


async def history(store: Store) -> list[str]:
    return [plain_text(record.segments) for record in await store.messages.newest(GROUP, 10)]


async def test_one_message_is_edited_as_the_value_changes(store: Store, tmp_path: Path) -> None:
    adapter = EditingAdapter()
    async with Outbox(store, {"fake": adapter}, Broadcast(), DeliverySettings()) as outbox:
        await count_down(context(tmp_path, outbox))
    assert adapter.said() == [(Text("1 left"),)]
    assert adapter.edits[-1] == ("fake-1", "1 left")
    assert {text for _, text in adapter.edits} <= {"2 left", "1 left"}
    assert await history(store) == ["1 left"]
    (row,) = await store.deliveries.of_run("r1")
    assert row.segments == (Text("3 left"),)


async def test_on_a_platform_without_edits_one_message_is_sent_at_the_end(
    store: Store, tmp_path: Path
) -> None:
    adapter = FakeAdapter()
    async with Outbox(store, {"fake": adapter}, Broadcast(), DeliverySettings()) as outbox:
        await count_down(context(tmp_path, outbox))
    assert adapter.said() == [(Text("1 left"),)]
    assert await history(store) == ["1 left"]


async def test_a_turn_resumed_after_a_crash_edits_the_same_message(
    store: Store, tmp_path: Path
) -> None:
    adapter = EditingAdapter()
    async with Outbox(store, {"fake": adapter}, Broadcast(), DeliverySettings()) as outbox:
        async with anyio.create_task_group() as turn:
            turn.start_soon(count_down, context(tmp_path, outbox), 60.0)
            while not any(row.message_id for row in await store.deliveries.of_run("r1")):
                await anyio.sleep(0.01)
            turn.cancel_scope.cancel()
        again = context(tmp_path, outbox)
        once = DeduplicatingSender(outbox, await store.deliveries.of_run("r1"))
        await count_down(replace(again, services=replace(again.services, outgoing=once)))
    assert adapter.said() == [(Text("1 left"),)]
    assert await history(store) == ["1 left"]
