"""Waiting messages are sent in order as soon as possible. The caller need not call `send` again."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from nekro_core.chat import Delivery, DeliveryState, Receipt, Text
from nekro_core.delivery.activity import Broadcast
from nekro_core.delivery.outbound.outbox import Outbox
from nekro_core.store import DeliveryRow, Store, writing_as
from tests.delivery.conftest import GROUP, ONLY_WHEN_NUDGED, OTHER, Clock
from tests.delivery.fakes import FakeAdapter, FullDisk
from tests.delivery.outbound.test_unknown_deliveries import AskedAdapter, Bench, Platform
from tests.delivery.outbound.test_unknown_deliveries import bench as settling

SENT, UNKNOWN, PENDING = DeliveryState.SENT, DeliveryState.UNKNOWN, DeliveryState.PENDING
DROPPED, REJECTED = DeliveryState.DROPPED, DeliveryState.REJECTED


@asynccontextmanager
async def away(
    store: Store, adapter: FakeAdapter, clock: Clock, *texts: str, **limits: float
) -> AsyncIterator[Outbox]:
    """An outbox in which the messages ``texts`` wait, because the account was offline when they
    were sent. After that the outbox retries only when `retry_now` is called, unless ``limits``
    have a shorter ``retry_s``."""
    settings = ONLY_WHEN_NUDGED.model_copy(update=limits)
    async with Outbox(store, {"fake": adapter}, Broadcast(), settings, clock=clock) as outbox:
        adapter.offline = True
        for text in texts:
            (receipt,) = await outbox.send(GROUP, (Text(text),), run_id=f"r-{text}")
            assert receipt.state is PENDING
        # The sends above may have caused a retry at once. The account stays offline until that
        # retry has failed, so the test sees only the retries that come later.
        await anyio.sleep(0.02)
        await until(lambda: not is_retrying(outbox))
        adapter.offline = False
        yield outbox


def is_retrying(outbox: Outbox) -> bool:
    """Return whether a round of retries is under way."""
    return any(each.flushing for each in outbox._queues._queues.values())


async def state(store: Store, text: str) -> DeliveryState:
    (row,) = await store.deliveries.of_run(f"r-{text}")
    return row.state


async def until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(30):
        while not condition():
            await anyio.sleep(0.005)


async def until_state(store: Store, text: str, wanted: DeliveryState) -> None:
    with anyio.fail_after(30):
        while await state(store, text) is not wanted:
            await anyio.sleep(0.005)


def said(adapter: FakeAdapter) -> list[str]:
    return [segment.text for (segment,) in adapter.said() if isinstance(segment, Text)]


async def test_one_retry_round_sends_all_waiting_messages(
    store: Store, adapter: FakeAdapter, clock: Clock
) -> None:
    async with away(store, adapter, clock, "one", "two", "three") as outbox:
        outbox.retry_now()
        await until_state(store, "three", SENT)
        assert len(outbox._queues) == 1, "only this chat may have a queue"
    assert said(adapter) == ["one", "two", "three"]


async def test_waiting_sends_are_retried_periodically(
    store: Store, adapter: FakeAdapter, clock: Clock
) -> None:
    async with away(store, adapter, clock, "one", retry_s=0.02) as _:
        await until_state(store, "one", SENT)
        adapter.offline = True
    async with away(store, adapter, clock, "two") as outbox:
        await anyio.sleep(0.05)
        assert await state(store, "two") is PENDING, "the next retry is due only in an hour"
        outbox.retry_now()
        await until_state(store, "two", SENT)


async def test_a_waiting_chat_does_not_delay_other_chats(
    store: Store, adapter: FakeAdapter, clock: Clock
) -> None:
    go_on = anyio.Event()

    async def slow(delivery: Delivery) -> Receipt:
        if delivery.chat_key == GROUP:
            await go_on.wait()
        return Receipt(state=SENT, message_id=delivery.delivery_id)

    async with away(store, adapter, clock, "one") as outbox:
        adapter.offline = True
        await outbox.send(OTHER, (Text("other"),), run_id="r-other")
        adapter.offline, adapter.behaviour = False, slow
        outbox.retry_now()
        await until_state(store, "other", SENT)
        assert await state(store, "one") is DeliveryState.SENDING
        outbox.retry_now()
        await anyio.sleep(0.02)
        assert len(adapter.calls) == 2, "a call that is being made must not be made again"
        go_on.set()
        await until_state(store, "one", SENT)


async def test_an_account_that_comes_online_during_a_failing_retry_is_tried_again_at_once(
    store: Store, adapter: FakeAdapter, clock: Clock
) -> None:
    asked, go_on = anyio.Event(), anyio.Event()

    async def fails_late(_: Delivery) -> Receipt:
        asked.set()
        await go_on.wait()
        adapter.behaviour = None
        return Receipt(state=PENDING, reason="the account is offline")

    async with away(store, adapter, clock, "one") as outbox:
        adapter.behaviour = fails_late
        outbox.retry_now()
        await asked.wait()
        outbox.retry_now()
        go_on.set()
        await until_state(store, "one", SENT)
    assert len(adapter.calls) == 2


async def test_retries_stop_when_the_account_goes_offline_again(
    store: Store, adapter: FakeAdapter, clock: Clock
) -> None:
    async def once(delivery: Delivery) -> Receipt:
        adapter.offline = True
        return Receipt(state=SENT, message_id="1")

    async with away(store, adapter, clock, "one", "two") as outbox:
        adapter.behaviour = once
        outbox.retry_now()
        await until_state(store, "one", SENT)
        await until(lambda: not is_retrying(outbox))
        assert await state(store, "two") is PENDING
        adapter.offline = False
        outbox.retry_now()
        await until_state(store, "two", SENT)
        assert len(adapter.calls) == 2


async def test_a_rejected_retry_does_not_delay_the_next_sends(
    store: Store, adapter: FakeAdapter, clock: Clock
) -> None:
    async def refuse_first(delivery: Delivery) -> Receipt:
        if len(adapter.calls) == 1:
            return Receipt(state=REJECTED, reason="muted")
        return Receipt(state=SENT, message_id="2")

    async with away(store, adapter, clock, "one", "two") as outbox:
        adapter.behaviour = refuse_first
        outbox.retry_now()
        await until_state(store, "two", SENT)
        assert await state(store, "one") is REJECTED


async def test_an_unknown_delivery_that_cannot_be_confirmed_delays_no_others(
    store: Store, adapter: FakeAdapter, clock: Clock
) -> None:
    async def unsure_first(_: Delivery) -> Receipt:
        if len(adapter.calls) == 1:
            return Receipt(state=UNKNOWN, reason="no answer")
        return Receipt(state=SENT, message_id="2")

    async with away(store, adapter, clock, "one", "two") as outbox:
        adapter.behaviour = unsure_first
        outbox.retry_now()
        await until_state(store, "two", SENT)
        assert await state(store, "one") is UNKNOWN
    assert len(adapter.calls) == 2


async def test_deliveries_that_became_too_old_are_dropped_with_a_reason(
    store: Store, adapter: FakeAdapter, clock: Clock
) -> None:
    async with away(store, adapter, clock, "one", "two", resend_for_s=0.05) as outbox:
        await anyio.sleep(0.06)
        outbox.retry_now()
        await until_state(store, "two", DROPPED)
        rows = [*await store.deliveries.of_run("r-one"), *await store.deliveries.of_run("r-two")]
    assert [(row.state, row.reason) for row in rows] == [
        (DROPPED, "it waited 0.05 s: too old to be said now")
    ] * 2
    assert adapter.sent == []


async def test_a_chat_over_its_send_rate_gets_waiting_messages_later(
    store: Store, adapter: FakeAdapter, clock: Clock
) -> None:
    limits = {"sends_per_window": 1, "window_s": 0.2}
    async with away(store, adapter, clock, "one", "two", **limits) as outbox:
        began = anyio.current_time()
        outbox.retry_now()
        await until_state(store, "two", SENT)
        assert anyio.current_time() - began >= 0.19


async def test_a_new_message_does_not_wait_with_the_messages_that_wait_for_the_send_rate(
    store: Store, adapter: FakeAdapter, clock: Clock
) -> None:
    limits = {"sends_per_window": 1, "window_s": 0.5}
    async with away(store, adapter, clock, "one", "two", "three", **limits) as outbox:
        outbox.retry_now()
        await until_state(store, "one", SENT)
        # If the new message waited with the others, it would be sent when this call ends.
        (receipt,) = await outbox.send(GROUP, (Text("four"),), run_id="r-four")
        assert receipt.state is PENDING
        assert said(adapter) == ["one"]
        await until_state(store, "four", SENT)
    assert said(adapter) == ["one", "two", "three", "four"]


async def test_the_send_rate_drops_new_messages_once_those_of_an_outage_are_sent(
    store: Store, adapter: FakeAdapter, clock: Clock
) -> None:
    """What waited for the account may be late. Later messages wait at most `longest_wait_s`."""
    limits = {"sends_per_window": 1, "window_s": 1.5, "longest_wait_s": 2.7}
    async with away(store, adapter, clock, "one", "two", **limits) as outbox:
        outbox.retry_now()
        await until_state(store, "one", SENT)
        for text in ("three", "four"):  # behind "two", which waits because of the outage
            (receipt,) = await outbox.send(GROUP, (Text(text),), run_id=f"r-{text}")
            assert (receipt.state, receipt.reason) == (PENDING, "waits for the messages before it")
        await until_state(store, "two", SENT)
        (receipt,) = await outbox.send(GROUP, (Text("five"),), run_id="r-five")
        assert receipt.state is DROPPED
        assert "would have waited over 2.7 s" in receipt.reason
        await until_state(store, "four", SENT)
    assert said(adapter) == ["one", "two", "three", "four"]


async def test_a_waiting_message_that_becomes_too_old_does_not_wait_for_the_send_rate(
    store: Store, adapter: FakeAdapter, clock: Clock
) -> None:
    limits = {"sends_per_window": 1, "window_s": 600.0, "resend_for_s": 0.3}
    async with away(store, adapter, clock, "one", "two", **limits) as outbox:
        outbox.retry_now()
        await until_state(store, "two", DROPPED)
    assert said(adapter) == ["one"]


class _StopsRun:
    """A store. When the state of a delivery is written, the run that sent it is stopped."""

    def __init__(self, store: Store, run: anyio.CancelScope) -> None:
        self._store = store
        self._run = run
        self.deliveries = self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name, None) or getattr(self._store.deliveries, name)

    def mark(self, row: DeliveryRow, state: DeliveryState, **more: Any) -> Awaitable[Any]:
        self._run.cancel()
        return self._store.deliveries.mark(row, state, **more)


async def test_a_send_that_is_cancelled_while_it_is_parked_is_dropped(
    store: Store, adapter: FakeAdapter, clock: Clock
) -> None:
    limits = {"sends_per_window": 1, "window_s": 600.0}
    async with away(store, adapter, clock, "one", "two", **limits) as outbox:
        outbox.retry_now()
        await until_state(store, "one", SENT)
        with anyio.CancelScope() as run:
            outbox._ledger._store = _StopsRun(store, run)  # type: ignore[assignment]
            await outbox.send(GROUP, (Text("three"),), run_id="r-three")
        assert run.cancelled_caught
        assert await state(store, "three") is DROPPED
    assert await state(store, "two") is PENDING


async def test_a_message_dropped_while_it_waits_for_the_send_rate_is_not_sent(
    store: Store, adapter: FakeAdapter, clock: Clock
) -> None:
    limits = {"sends_per_window": 1, "window_s": 1.0}
    async with away(store, adapter, clock, "one", "two", "three", **limits) as outbox:
        outbox.retry_now()
        await until_state(store, "one", SENT)
        await anyio.sleep(0.02)
        (row,) = await store.deliveries.of_run("r-two")
        await outbox.admin.drop(row.delivery_id)
        await until_state(store, "three", SENT)
        assert await state(store, "two") is DROPPED
    assert said(adapter) == ["one", "three"]


async def test_a_delivery_becomes_unknown_if_the_bot_ends_during_its_retry(
    store: Store, adapter: FakeAdapter, clock: Clock
) -> None:
    calling = anyio.Event()

    async def hang(_: Delivery) -> Receipt:
        calling.set()
        await anyio.sleep_forever()
        raise AssertionError

    async with away(store, adapter, clock, "one", "two") as outbox:
        adapter.behaviour = hang
        outbox.retry_now()
        with anyio.fail_after(30):
            await calling.wait()
    (row,) = await store.deliveries.of_run("r-one")
    assert (row.state, row.reason) == (UNKNOWN, "the bot was stopped while sending it")
    assert await state(store, "two") is PENDING


async def test_a_message_waiting_for_the_send_rate_stays_pending_when_the_bot_stops(
    store: Store, adapter: FakeAdapter, clock: Clock
) -> None:
    limits = {"sends_per_window": 1, "window_s": 600.0}
    async with away(store, adapter, clock, "one", "two", **limits) as outbox:
        outbox.retry_now()
        await until_state(store, "one", SENT)
        await anyio.sleep(0.02)
    assert await state(store, "two") is PENDING


async def test_queues_of_idle_chats_are_removed(
    store: Store, adapter: FakeAdapter, clock: Clock
) -> None:
    async with away(store, adapter, clock, "one", retry_s=0.01, window_s=0.05) as outbox:
        await until_state(store, "one", SENT)
        await until(lambda: len(outbox._queues) == 0)


async def test_a_send_that_cannot_be_stored_waits_and_is_retried(
    store: Store, adapter: FakeAdapter, clock: Clock, disk: FullDisk
) -> None:
    disk.full = False
    async with away(store, adapter, clock, "one") as outbox:
        disk.full = True
        outbox.retry_now()
        await anyio.sleep(0.05)
        assert adapter.calls == []
        disk.full = False
        outbox.retry_now()
        await until_state(store, "one", SENT)
    assert said(adapter) == ["one"]


async def test_a_state_decided_on_a_full_disk_is_written_in_the_next_round(
    store: Store, adapter: FakeAdapter, clock: Clock, disk: FullDisk
) -> None:
    disk.full = False

    async def fill(_: Delivery) -> Receipt:
        disk.full = True
        return Receipt(state=SENT, message_id="7")

    async with away(store, adapter, clock) as outbox:
        adapter.behaviour = fill
        (receipt,) = await outbox.send(GROUP, (Text("one"),), run_id="r-one")
        assert receipt.state is SENT
        assert await state(store, "one") is DeliveryState.SENDING
        disk.full = False
        outbox.retry_now()
        await until_state(store, "one", SENT)


# ---- unknown deliveries


@pytest.fixture
async def doubtful(store: Store, clock: Clock) -> AsyncIterator[Bench]:
    """A chat in which a person and the bot have written. If the outcome of a send is unknown, the
    outbox asks the platform right after the send, and then not again for an hour. If the platform
    does not have the message, the outbox sends it again at once."""
    async with settling(store, clock, retry_s=3600, settle_s=1e-9) as begun:
        await begun.receive("hello")
        assert await begun.say("hi") is SENT
        yield begun


async def test_one_answer_of_the_platform_releases_the_waiting_messages(doubtful: Bench) -> None:
    doubtful.adapter.offline = False
    doubtful.platform.fate = "mute"
    asked = Asking(doubtful.adapter)
    assert await doubtful.say("one") is UNKNOWN
    doubtful.platform.fate = "fine"
    assert await doubtful.say("two") is PENDING
    await asked.go_on()
    await until_state(doubtful.store, "two", SENT)
    assert await doubtful.state("one") is SENT
    assert doubtful.platform.texts() == ["hello", "hi", "one", "two"]


class Asking:
    """Holds back the platform's answers to `confirm` until a test calls `go_on`."""

    def __init__(self, adapter: AskedAdapter) -> None:
        self._confirm, self._free = adapter.confirm, anyio.Event()
        self.asked = anyio.Event()
        adapter.confirm = self.confirm  # type: ignore[method-assign]

    async def confirm(self, doubt: object) -> Receipt:
        self.asked.set()
        await self._free.wait()
        return await self._confirm(doubt)  # type: ignore[arg-type]

    async def go_on(self) -> None:
        with anyio.fail_after(30):
            await self.asked.wait()
        self._free.set()


async def test_a_message_dropped_while_the_platform_is_asked_is_not_sent_again(
    doubtful: Bench,
) -> None:
    doubtful.platform.fate = "loses"
    asked = Asking(doubtful.adapter)
    assert await doubtful.say("one") is UNKNOWN
    doubtful.platform.fate = "fine"
    assert await doubtful.say("two") is PENDING
    with anyio.fail_after(30):
        await asked.asked.wait()
    (row,) = await doubtful.store.deliveries.of_run("r-one")
    await doubtful.outbox.admin.drop(row.delivery_id)
    await asked.go_on()
    await until_state(doubtful.store, "two", SENT)
    assert await doubtful.state("one") is DROPPED
    assert doubtful.platform.texts() == ["hello", "hi", "two"]


async def test_a_message_that_did_not_arrive_is_sent_again_once(doubtful: Bench) -> None:
    seen: list[tuple[DeliveryState, str]] = []
    doubtful.platform.fate = "loses"
    asked = Asking(doubtful.adapter)
    assert await doubtful.say("one") is UNKNOWN
    carry_out = doubtful.adapter.behaviour
    assert carry_out is not None

    async def look(delivery: Delivery) -> Receipt:
        row = await doubtful.store.deliveries.get(delivery.delivery_id)
        assert row is not None
        seen.append((row.state, row.reason))
        return await carry_out(delivery)

    doubtful.adapter.behaviour, doubtful.platform.fate = look, "fine"
    await asked.go_on()
    await until_state(doubtful.store, "one", SENT)
    assert seen == [(DeliveryState.SENDING, "")]
    assert doubtful.platform.texts() == ["hello", "hi", "one"]


async def test_an_unknown_delivery_that_is_too_old_stays_unknown_and_the_rest_is_sent(
    store: Store, clock: Clock
) -> None:
    async with settling(store, clock, Platform(), retry_s=3600, resend_for_s=0.05) as old:
        await old.receive("hello")
        assert await old.say("hi") is SENT
        old.platform.fate = "loses"
        assert await old.say("one") is UNKNOWN
        await anyio.sleep(0.06)
        old.outbox.retry_now()
        await until(lambda: not old.outbox.waiting)
        assert await old.state("one") is UNKNOWN
        old.platform.fate = "fine"
        assert await old.say("two") is SENT
        assert old.platform.texts() == ["hello", "hi", "two"]


async def test_messages_of_an_old_owner_are_left_to_the_new_one(
    store: Store, adapter: FakeAdapter, clock: Clock
) -> None:
    """A process loses the ownership of a chat while messages to that chat wait. The process does
    not send these messages later."""
    old = await store.partitions.take(1, "worker-1")
    async with away(store, adapter, clock) as outbox:
        adapter.offline = True
        for text in ("one", "two"):
            with writing_as(old):
                (receipt,) = await outbox.send(GROUP, (Text(text),), run_id=f"r-{text}")
            assert receipt.state is PENDING
        await store.partitions.take(1, "worker-2")
        adapter.offline = False
        outbox.retry_now()
        await until(lambda: not outbox._queues.parked())
        await anyio.sleep(0.05)
        assert adapter.calls == []
        assert [await state(store, text) for text in ("one", "two")] == [PENDING, PENDING]
