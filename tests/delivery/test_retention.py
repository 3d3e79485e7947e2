"""Retention deletes old data and keeps everything else."""

import os
from pathlib import Path

import pytest

from nekro_core.chat import Author, ChatKey, Delivery, DeliveryState, Receipt, Record, Text
from nekro_core.delivery.activity import Broadcast
from nekro_core.delivery.inbound.inbox import Inbox
from nekro_core.delivery.media.settings import MediaSettings
from nekro_core.delivery.media.store import MediaStore
from nekro_core.delivery.outbound.outbox import Outbox
from nekro_core.delivery.retention import DAY_S, RetentionLoop
from nekro_core.store import (
    ModelUse,
    RetentionSettings,
    Step,
    Store,
    TimerRow,
    ToolCall,
    final_seq,
)
from nekro_core.store.retention import MIN_MESSAGES_PER_CHAT

from .conftest import GROUP, ONLY_WHEN_NUDGED, OTHER, Clock
from .fakes import FakeAdapter, message

KEEP = RetentionSettings(messages_days=10, turns_days=5, uses_days=5)


class NoMedia:
    async def tidy(self, now: float) -> int:
        return 0


def tidying(store: Store, clock: Clock, keep: RetentionSettings = KEEP) -> RetentionLoop:
    return RetentionLoop(store, NoMedia(), keep, wall=clock)


async def say(inbox: Inbox, count: int, clock: Clock, key: ChatKey = GROUP) -> None:
    for _ in range(count):
        await inbox.accept(inbox.stamp(message(key, message_id=os.urandom(6).hex(), time=clock())))


async def seqs(store: Store, key: ChatKey = GROUP) -> list[int]:
    return [record.seq for record in await store.messages.newest(key, 100_000)]


async def test_old_messages_are_deleted_except_the_newest_of_each_chat(
    store: Store, inbox: Inbox, clock: Clock
) -> None:
    await say(inbox, 450, clock)
    await say(inbox, 3, clock, OTHER)
    before = await seqs(store)
    clock.now += 20 * DAY_S
    await say(inbox, 50, clock)
    await tidying(store, clock).run_once()
    left = await seqs(store)
    assert len(left) == MIN_MESSAGES_PER_CHAT
    assert left[:150] == before[-150:]
    assert len(await seqs(store, OTHER)) == 3
    await say(inbox, 1, clock)
    assert (await seqs(store))[-1] > left[-1]


async def test_old_turns_are_deleted_with_all_their_rows(
    store: Store, inbox: Inbox, clock: Clock, adapter: FakeAdapter
) -> None:
    async def turn(number: int, *, over: bool = True) -> None:
        begun = await store.turns.begin(GROUP, trigger_seq=number, through_seq=number)
        await store.runs.begin(f"r{number}", GROUP, code="x", turn_id=begun.turn_id)
        call = ToolCall(position=0, name="t", arguments="", outcome="ok", started=0, seconds=0)
        await store.runs.add_calls(f"r{number}", [call])
        await store.turns.add_step(begun.turn_id, Step(position=0, reply="", started=clock()))
        if over:
            await store.turns.end(begun.turn_id, stop="finished")

    async def unknown(_: Delivery) -> Receipt:
        return Receipt(state=DeliveryState.UNKNOWN, reason="?")

    for number in range(120):
        await turn(number)
    await turn(120, over=False)
    await store.runs.begin("loose", GROUP, code="x")
    use = ModelUse(plugin="p", model="m", prompt_tokens=1, completion_tokens=1, started=clock())
    await store.model_uses.add(use)
    adapters = {"fake": adapter}
    async with Outbox(store, adapters, Broadcast(), ONLY_WHEN_NUDGED, clock=clock) as outbox:
        await outbox.send(GROUP, (Text("sent"),))
        adapter.behaviour = unknown
        await outbox.send(GROUP, (Text("unknown"),))
        adapter.behaviour, adapter.offline = None, True
        await outbox.send(GROUP, (Text("waits"),))
        clock.now += 6 * DAY_S
        await say(inbox, 1, clock)
        await tidying(store, clock).run_once()
        left = await store.deliveries.in_state(*DeliveryState)
        assert [row.state for row in left] == [DeliveryState.PENDING]
    (running,) = await store.turns.latest(GROUP, 1000)
    assert running.trigger_seq == 120
    assert await store.runs.get("r120") is not None
    for gone in ("r0", "r119", "loose"):
        assert await store.runs.get(gone) is None
        assert await store.runs.calls(gone) == []
    assert (await store.turns.usage(since=0)).steps == 1
    assert await store.model_uses.usage(since=0, plugin="p") == (
        await store.model_uses.usage(since=1e12, plugin="p")
    )


async def test_a_clock_that_jumped_ten_years_ahead_deletes_nothing(
    store: Store, inbox: Inbox, clock: Clock
) -> None:
    await say(inbox, 250, clock)
    clock.now += 3650 * DAY_S
    await tidying(store, clock).run_once()
    assert len(await seqs(store)) == 250


async def test_a_setting_of_zero_days_deletes_nothing(
    store: Store, inbox: Inbox, clock: Clock
) -> None:
    await say(inbox, 250, clock)
    clock.now += 3650 * DAY_S
    await say(inbox, 1, clock)
    await tidying(store, clock, RetentionSettings(messages_days=0)).run_once()
    assert len(await seqs(store)) == 251


async def test_a_line_that_a_timer_refers_to_stays(store: Store, clock: Clock) -> None:
    def line(seq: int) -> Record:
        return Record(
            seq=seq, chat_key=GROUP, author=Author.SYSTEM, segments=(Text("x"),), time=clock()
        )

    first = store.messages.reserve()
    await store.messages.add(line(first), unique_id=None, before=store.chats.seen(GROUP))
    for _ in range(210):
        await store.messages.add(line(store.messages.reserve()), unique_id=None)
    row = TimerRow(
        timer_id="t", chat_key=GROUP, kind="once", state="over", text="x", record_seq=first
    )
    await store.timers.put(row)
    clock.now += 20 * DAY_S
    inbox = Inbox(store, Broadcast())
    await inbox.accept(inbox.stamp(message(GROUP, message_id="new", time=clock())))
    await tidying(store, clock).run_once()
    left = await seqs(store)
    assert final_seq(first) in left
    assert len(left) == MIN_MESSAGES_PER_CHAT + 1


@pytest.mark.parametrize(("total", "left"), [(10_000, 6), (400, 3), (350, 3), (150, 1)])
async def test_media_are_deleted_by_age_and_then_the_oldest_until_the_rest_fits(
    tmp_path: Path, total: int, left: int
) -> None:
    settings = MediaSettings(keep_days=10, total_bytes=total)
    async with MediaStore(tmp_path, settings) as media:
        kept = []
        for number in range(8):
            key = GROUP if number % 2 else OTHER
            kept.append(await media.keep_bytes(key, bytes([number]) * 100))
            day = 1.0 if number < 2 else 20.0 + number  # the first two are too old
            os.utime(kept[-1].path, (day * DAY_S, day * DAY_S))
        gone = await media.tidy(30 * DAY_S)
        there = [Path(each.path).exists() for each in kept]
        assert sum(there) == left
        assert gone == 8 - left
        assert there == [False] * (8 - left) + [True] * left, (
            "the oldest files must be deleted first"
        )
        assert (await media.keep_bytes(GROUP, b"and on")).path
        assert await media.tidy(0.0) == 0 or total < 10_000
