"""Each change of a delivery's state is stored in its row and its history line, and published as an
activity."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from nekro_core.chat import Author, ChatKey, DeliveryState, Receipt, Record, Segment, Text
from nekro_core.delivery.activity import Broadcast, Recorded
from nekro_core.delivery.inbound.inbox import Inbox
from nekro_core.delivery.outbound.ledger import DeliveryLedger, OutgoingCall
from nekro_core.delivery.outbound.split import Piece
from nekro_core.store import GuardFailed, Store, StoreSettings, StoreUnavailable
from tests.delivery.conftest import GROUP, OTHER, Clock
from tests.delivery.fakes import FullDisk, message

PENDING, SENDING = DeliveryState.PENDING, DeliveryState.SENDING
SENT, REJECTED = DeliveryState.SENT, DeliveryState.REJECTED
UNKNOWN, DROPPED = DeliveryState.UNKNOWN, DeliveryState.DROPPED


@pytest.fixture
def ledger(store: Store, activity: Broadcast, clock: Clock) -> DeliveryLedger:
    return DeliveryLedger(store, activity, clock=clock)


@asynccontextmanager
async def watched(activity: Broadcast) -> AsyncIterator[list[Record]]:
    """Collect the records that watchers get. The list is complete when the block has ended."""
    shown: list[Record] = []
    async with activity.watch() as stream:
        yield shown
        while stream.statistics().current_buffer_used:  # type: ignore[attr-defined]
            seen = await anext(stream)
            assert isinstance(seen, Recorded)
            shown.append(seen.record)


async def opened(
    ledger: DeliveryLedger, *pieces: Segment | Piece, chat: ChatKey = GROUP, **more: Any
) -> list[OutgoingCall]:
    """Store the rows of the calls of a send. The rows are committed when this function returns."""
    wanted = [each if isinstance(each, Piece) else Piece((each,)) for each in pieces]
    entries, written = ledger.open(chat, wanted, **({"run_id": "r1", "record": True} | more))
    await written
    return entries


async def test_a_send_stores_rows_and_history_lines_with_the_same_state(
    ledger: DeliveryLedger, store: Store, activity: Broadcast
) -> None:
    refused = Piece((Text("b"),), "too odd")
    async with watched(activity) as shown:
        first, second = await opened(ledger, Text("a"), refused)
    rows = await store.deliveries.of_run("r1")
    assert rows == [first.row, second.row]
    assert [(r.position, r.state, r.reason) for r in rows] == [
        (0, PENDING, ""),
        (1, REJECTED, "too odd"),
    ]
    assert [(r.chat_key, r.message_id, r.created, r.changed) for r in rows] == [
        (GROUP, "", 1_000.0, 1_000.0)
    ] * 2
    lines = await store.messages.newest(GROUP, 10)
    assert shown == lines == [first.record, second.record]
    assert [line.seq for line in lines] == [row.record_seq for row in rows]
    assert [(line.author, line.sender.user_id, line.run_id, line.state) for line in lines] == [
        (Author.BOT, "bot", "r1", PENDING),
        (Author.BOT, "bot", "r1", REJECTED),
    ]
    assert [(line.chat_key, line.segments, line.time) for line in lines] == [
        (GROUP, (Text("a"),), 1_000.0),
        (GROUP, (Text("b"),), 1_000.0),
    ]
    assert (first.receipt, second.receipt) == (None, Receipt(state=REJECTED, reason="too odd"))
    assert rows[0].delivery_id != rows[1].delivery_id
    assert await store.chats.all() == [GROUP]


async def test_a_send_that_is_kept_out_of_the_history_has_a_row_too(
    ledger: DeliveryLedger, store: Store, activity: Broadcast
) -> None:
    async with watched(activity) as shown:
        (entry,) = await opened(ledger, Text("a"), record=False)
        ledger.show(entry)
        await ledger.decide(entry, Receipt(state=SENT, message_id="m1"))
        ledger.show(entry)
    assert (entry.record, entry.row.record_seq, shown) == (None, 0, [])
    assert await store.messages.newest(GROUP, 10) == []
    assert (await store.deliveries.of_run("r1"))[0].state is SENT
    assert (await ledger.found(entry.row)).record is None


async def test_without_a_known_account_the_sender_is_empty(
    ledger: DeliveryLedger, store: Store
) -> None:
    (entry,) = await opened(ledger, Text("a"), chat=ChatKey.parse("web-private_lin"))
    assert entry.record is not None
    assert entry.record.sender.user_id == ""


async def test_a_call_gets_its_delivery_and_its_outcome_is_stored(
    ledger: DeliveryLedger, store: Store, activity: Broadcast
) -> None:
    (entry,) = await opened(ledger, Text("a"))
    given = entry.delivery
    assert (given.delivery_id, given.chat_key, given.segments, given.run_id) == (
        entry.row.delivery_id,
        GROUP,
        (Text("a"),),
        "r1",
    )
    entry.receipt, begun = Receipt(state=PENDING), anyio.current_time()
    await ledger.begin_call(entry)
    assert (entry.row.state, entry.receipt) == (SENDING, None)
    assert begun <= entry.doubted <= anyio.current_time()
    assert (await store.deliveries.of_run("r1"))[0].state is SENDING
    async with watched(activity) as shown:
        await ledger.decide(entry, Receipt(state=SENT, message_id="m1", reason="at last"))
        await ledger.decide(entry, Receipt(state=SENT, message_id="m1", reason="at last"))
    assert entry.receipt == Receipt(state=SENT, message_id="m1", reason="at last")
    (row,) = await store.deliveries.of_run("r1")
    assert (row.state, row.message_id, row.reason) == (SENT, "m1", "at last")
    assert (entry.row.state, entry.row.message_id, entry.row.reason) == (SENT, "m1", "at last")
    (line,) = await store.messages.newest(GROUP, 10)
    assert (line.state, line.message_id) == (SENT, "m1")
    assert shown == [line], "watchers must get each change exactly once"


async def test_the_method_show_publishes_a_state_that_another_writer_stored(
    ledger: DeliveryLedger, activity: Broadcast
) -> None:
    (entry,) = await opened(ledger, Text("a"))
    entry.row = replace(entry.row, state=UNKNOWN)
    async with watched(activity) as shown:
        ledger.show(entry)
    assert [each.state for each in shown] == [UNKNOWN]
    assert entry.record == shown[0]


async def test_a_revised_message_is_stored_and_published(
    ledger: DeliveryLedger, store: Store, activity: Broadcast
) -> None:
    (entry,) = await opened(ledger, Text("a"))
    await ledger.decide(entry, Receipt(state=SENT, message_id="m1"))
    async with watched(activity) as shown:
        await ledger.revise(GROUP, "no such message", (Text("c"),))
        await ledger.revise(GROUP, "m1", (Text("b"),))
    assert [each.segments for each in shown] == [(Text("b"),)]
    assert (await store.messages.newest(GROUP, 10)) == shown


async def test_a_message_whose_id_another_chat_has_is_found_under_its_id(
    ledger: DeliveryLedger, store: Store, inbox: Inbox, activity: Broadcast
) -> None:
    """Some programs of platforms make random ids, so two chats can have the same."""
    theirs = await inbox.accept(inbox.stamp(message(OTHER, message_id="m1")))
    (entry,) = await opened(ledger, Text("a"))
    await ledger.decide(entry, Receipt(state=SENT, message_id="m1"))
    async with watched(activity) as shown:
        await ledger.revise(GROUP, "m1", (Text("b"),))
    assert [each.segments for each in shown] == [(Text("b"),)]
    (line,) = await store.messages.newest(GROUP, 10)
    assert await store.messages.by_message_id(GROUP, "m1") == line
    assert await store.messages.by_message_id(OTHER, "m1") == theirs
    recalled = await store.messages.recall(GROUP, "m1")
    assert recalled is not None
    assert (recalled.seq, recalled.recalled) == (line.seq, True)


# ---- a stopped send


async def test_a_stopped_send_leaves_its_started_call_unknown_and_drops_the_rest(
    ledger: DeliveryLedger, store: Store
) -> None:
    done, calling, waiting = await opened(ledger, Text("a"), Text("b"), Text("c"))
    await ledger.begin_call(done)
    await ledger.decide(done, Receipt(state=SENT, message_id="m1"))
    await ledger.begin_call(calling)
    with anyio.CancelScope() as scope:
        scope.cancel()
        await ledger.abandon([done, calling, waiting], "it was stopped")
    rows = await store.deliveries.of_run("r1")
    assert [(row.state, row.reason) for row in rows] == [
        (SENT, ""),
        (UNKNOWN, "it was stopped"),
        (DROPPED, "it was stopped"),
    ]
    assert waiting.receipt == Receipt(state=DROPPED, reason="it was stopped")


# ---- over a restart


async def test_deliveries_of_a_killed_process_become_unknown_or_stay_pending(
    ledger: DeliveryLedger, store: Store, clock: Clock
) -> None:
    sending, waiting, unknown, sent = await opened(ledger, *map(Text, "abcd"))
    for entry in (sending, unknown, sent):
        await ledger.begin_call(entry)
    await ledger.decide(unknown, Receipt(state=UNKNOWN, reason="no answer"))
    await ledger.decide(sent, Receipt(state=REJECTED, reason="no"))
    (hidden,) = await opened(ledger, Text("e"), record=False)
    clock.now += 100.0
    begun = anyio.current_time()
    assert waiting.waited_s(begun) == begun, (
        "the age is also known for a delivery that was not loaded"
    )
    left = await ledger.load_unfinished(young_s=600.0)
    assert [each.row.delivery_id for each in left] == [
        each.row.delivery_id for each in (sending, waiting, unknown, hidden)
    ]
    assert [each.row.state for each in left] == [UNKNOWN, PENDING, UNKNOWN, PENDING]
    assert left[0].row.reason == "the bot was stopped while it was sent; it may have arrived"
    lines = await store.messages.newest(GROUP, 10)
    assert [each.record for each in left] == [*lines[:3], None]
    assert lines[0].state is UNKNOWN, "the history line must have the new state too"
    for each in left:
        assert each.age == 100.0
        assert begun <= each.parked == each.doubted <= anyio.current_time()
        assert each.waited_s(each.parked + 7.0) == 107.0


@pytest.mark.parametrize(("passed_s", "many"), [(599.0, 2), (600.0, 2), (601.0, 1)])
async def test_an_old_unknown_delivery_is_not_loaded_but_an_old_pending_one_is(
    ledger: DeliveryLedger, clock: Clock, passed_s: float, many: int
) -> None:
    asked, _ = await opened(ledger, Text("a"), Text("b"))
    await ledger.begin_call(asked)
    await ledger.decide(asked, Receipt(state=UNKNOWN, reason="no answer"))
    clock.now += passed_s
    assert len(await ledger.load_unfinished(young_s=600.0)) == many


async def test_a_clock_set_back_gives_no_negative_age(ledger: DeliveryLedger, clock: Clock) -> None:
    await opened(ledger, Text("a"))
    clock.now -= 500.0
    (left,) = await ledger.load_unfinished(young_s=600.0)
    assert left.age == 0.0


async def test_a_call_found_by_its_row_has_age_zero(
    ledger: DeliveryLedger, store: Store, clock: Clock
) -> None:
    (entry,) = await opened(ledger, Text("a"))
    clock.now += 100.0
    begun = anyio.current_time()
    again = await ledger.found(entry.row)
    assert (again.row, again.record, again.age) == (entry.row, entry.record, 0.0)
    assert begun <= again.parked == again.doubted <= anyio.current_time()


# ---- the messages beside an uncertain delivery


async def test_an_uncertain_delivery_lists_the_messages_before_and_after_it(
    ledger: DeliveryLedger, inbox: Inbox, store: Store, clock: Clock
) -> None:
    await inbox.accept(inbox.stamp(message(GROUP, message_id="m1")))
    await inbox.accept(inbox.stamp(message(OTHER, message_id="elsewhere")))
    await inbox.accept(inbox.stamp(message(GROUP)))
    clock.now = 1_007.0
    (entry,) = await opened(ledger, Text("a"))
    await inbox.accept(inbox.stamp(message(GROUP, message_id="m3")))
    doubt = await ledger.uncertain_delivery(entry)
    assert (doubt.delivery, doubt.since) == (entry.delivery, 1_007.0)
    assert (doubt.before, doubt.taken) == ({"m1"}, {"m1", "m3"})
    await ledger.decide(entry, Receipt(state=UNKNOWN, message_id="m2"))
    assert (await ledger.uncertain_delivery(entry)).before == {"m1"}, (
        "the message itself must not be in the list"
    )


async def test_an_uncertain_delivery_lists_at_most_the_newest_thousand_messages(
    ledger: DeliveryLedger, inbox: Inbox
) -> None:
    async with anyio.create_task_group() as tasks:
        for number in range(1001):
            stamped = inbox.stamp(message(GROUP, message_id=f"m{number}"))
            tasks.start_soon(inbox.accept, stamped)
    (entry,) = await opened(ledger, Text("a"))
    assert (await ledger.uncertain_delivery(entry)).taken == {
        f"m{number}" for number in range(1, 1001)
    }


async def test_a_call_without_a_history_line_lists_no_messages_before_it(
    ledger: DeliveryLedger, inbox: Inbox
) -> None:
    await inbox.accept(inbox.stamp(message(GROUP, message_id="m1")))
    (entry,) = await opened(ledger, Text("a"), record=False)
    doubt = await ledger.uncertain_delivery(entry)
    assert (doubt.before, doubt.taken) == (frozenset(), {"m1"})


# ---- a disk that is full


async def test_a_state_that_could_not_be_written_is_published_and_written_later(
    ledger: DeliveryLedger, store: Store, activity: Broadcast, disk: FullDisk
) -> None:
    (entry,) = await opened(ledger, Text("a"))
    async with watched(activity) as shown:
        await ledger.decide(entry, Receipt(state=SENT, message_id="m1", reason="fine"))
    assert (entry.receipt, [each.state for each in shown]) == (
        Receipt(state=SENT, message_id="m1", reason="fine"),
        [SENT],
    )
    assert (await store.deliveries.of_run("r1"))[0].state is PENDING
    with pytest.raises(StoreUnavailable):
        await ledger.retry_writes()
    disk.full = False
    await ledger.retry_writes()
    (row,) = await store.deliveries.of_run("r1")
    assert (row.state, row.message_id, row.reason) == (SENT, "m1", "fine")
    await ledger.retry_writes()
    assert disk.marked == [SENT], "once"


async def test_a_postponed_state_does_not_overwrite_a_newer_call(
    ledger: DeliveryLedger, store: Store, disk: FullDisk
) -> None:
    first, second = await opened(ledger, Text("a"), Text("b"))
    await ledger.decide(first, Receipt(state=PENDING, reason="offline"))
    await ledger.decide(second, Receipt(state=PENDING, reason="offline"))
    with pytest.raises(StoreUnavailable):
        await ledger.begin_call(first)
    disk.full = False
    await ledger.retry_writes()
    assert disk.marked == [PENDING], "no older state is written for a call that is being made"
    disk.marked.clear()
    await ledger.begin_call(first)
    await ledger.decide(second, Receipt(state=DROPPED, reason="too old"))
    await ledger.retry_writes()
    assert disk.marked == [SENDING, DROPPED]
    assert [row.state for row in await store.deliveries.of_run("r1")] == [SENDING, DROPPED]


async def test_a_postponed_state_is_not_written_after_a_later_one(
    ledger: DeliveryLedger, store: Store, disk: FullDisk
) -> None:
    (entry,) = await opened(ledger, Text("a"))
    await ledger.decide(entry, Receipt(state=PENDING, reason="offline"))
    disk.full = False
    await ledger.decide(entry, Receipt(state=DROPPED, reason="too old"))
    await ledger.retry_writes()
    assert disk.marked == [DROPPED]
    assert [row.state for row in await store.deliveries.of_run("r1")] == [DROPPED]


async def test_a_chat_that_could_not_be_stored_is_stored_with_the_next_send(
    tmp_path: Path, clock: Clock, activity: Broadcast
) -> None:
    """Another program locks the database file. The store handles this like a full disk."""
    path, settings = tmp_path / "nekro.sqlite3", StoreSettings(busy_timeout_s=0.05)
    async with Store.open(f"sqlite://{path}", settings, clock=clock) as store:
        ledger = DeliveryLedger(store, activity, clock=clock)
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreUnavailable):
                await opened(ledger, Text("a"))
            other.execute("ROLLBACK")
        await opened(ledger, Text("b"))
        assert await store.chats.all() == [GROUP]


async def test_a_call_whose_start_cannot_be_stored_is_not_made(
    ledger: DeliveryLedger, disk: FullDisk
) -> None:
    (entry,) = await opened(ledger, Text("a"))
    with pytest.raises(StoreUnavailable):
        await ledger.begin_call(entry)
    assert entry.row.state is PENDING


async def test_a_row_that_another_process_marked_as_sent_stays_sent(
    ledger: DeliveryLedger, store: Store, activity: Broadcast
) -> None:
    (stale,) = await opened(ledger, Text("hello"))
    await store.deliveries.mark(stale.row, SENT, message_id="m1")
    async with watched(activity) as shown:
        await ledger.decide(stale, Receipt(state=UNKNOWN, reason="no answer"))
    assert stale.receipt == Receipt(state=SENT, message_id="m1")
    (row,) = await store.deliveries.of_run("r1")
    line = await store.messages.get(row.record_seq)
    assert line is not None
    assert (row.state, row.message_id, row) == (SENT, "m1", stale.row)
    assert (line.state, line.message_id) == (SENT, "m1")
    assert shown == [line]


async def test_a_call_does_not_begin_if_another_process_has_sent_the_message(
    ledger: DeliveryLedger, store: Store
) -> None:
    (stale,) = await opened(ledger, Text("hello"))
    assert await ledger.begin_call(stale)
    await store.deliveries.mark(stale.row, SENT, message_id="m1")
    assert not await ledger.begin_call(stale)
    assert stale.receipt == Receipt(state=SENT, message_id="m1")
    (row,) = await store.deliveries.of_run("r1")
    assert row.state is SENT


@pytest.mark.parametrize("outcome", [REJECTED, DROPPED, SENT])
async def test_a_row_that_gets_its_outcome_while_unfinished_rows_are_loaded_keeps_it(
    ledger: DeliveryLedger, store: Store, outcome: DeliveryState
) -> None:
    """The next owner of a chat reads a row that is ``sending``. Before it writes ``unknown``, the
    gateway stores the outcome of the call."""
    (entry,) = await opened(ledger, Text("hello"))
    await ledger.begin_call(entry)
    written = []

    def chats(_: ChatKey) -> bool:
        # This is called for each row that was read. The write is in the queue of the database when
        # `mark` returns, before the ledger can write anything.
        if not written:
            written.append(store.deliveries.mark(entry.row, outcome, reason="said the gateway"))
        return True

    assert await ledger.load_unfinished(young_s=600.0, chats=chats) == []
    await written[0]
    (row,) = await store.deliveries.of_run("r1")
    assert (row.state, row.reason) == (outcome, "said the gateway")
    line = await store.messages.get(row.record_seq)
    assert line is not None
    assert line.state is outcome


@pytest.mark.parametrize("outcome", [REJECTED, DROPPED])
async def test_a_call_does_not_begin_if_its_message_was_refused_or_dropped_meanwhile(
    ledger: DeliveryLedger, store: Store, activity: Broadcast, outcome: DeliveryState
) -> None:
    (stale,) = await opened(ledger, Text("hello"))
    await store.deliveries.mark(stale.row, outcome, reason="no")
    async with watched(activity) as shown:
        assert not await ledger.begin_call(stale)
    assert stale.receipt == Receipt(state=outcome, reason="no")
    (row,) = await store.deliveries.of_run("r1")
    line = await store.messages.get(row.record_seq)
    assert line is not None
    assert (row.state, line.state, shown) == (outcome, outcome, [line])


async def test_a_row_is_not_renewed_if_its_late_outcome_came_meanwhile(
    ledger: DeliveryLedger, store: Store
) -> None:
    (entry,) = await opened(ledger, Text("hello"))
    await ledger.begin_call(entry)
    await ledger.decide(entry, Receipt(state=UNKNOWN, reason="no answer"))
    await store.deliveries.mark(entry.row, SENT, message_id="m1")
    with pytest.raises(GuardFailed):
        await store.deliveries.renew(entry.row, "again")
    (row,) = await store.deliveries.of_run("r1")
    line = await store.messages.get(row.record_seq)
    assert line is not None
    assert (row.state, row.message_id, line.state) == (SENT, "m1", SENT)
