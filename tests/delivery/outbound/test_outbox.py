"""The outbox sends messages and stores their state."""

import asyncio
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from nekro_core.chat import (
    Author,
    ChatKey,
    Delivery,
    DeliveryState,
    File,
    Image,
    Media,
    Receipt,
    Text,
    Voice,
)
from nekro_core.delivery.activity import Broadcast, Recorded
from nekro_core.delivery.errors import NothingToSend, TooManySends
from nekro_core.delivery.inbound.inbox import Inbox
from nekro_core.delivery.media.store import MediaStore
from nekro_core.delivery.outbound.outbox import Outbox
from nekro_core.delivery.settings import DeliverySettings
from nekro_core.store import DeliveryRow, Store, StoreUnavailable
from tests.delivery.conftest import GROUP, OTHER, QUICK, Clock
from tests.delivery.fakes import FakeAdapter, FullDisk, message

PENDING, SENDING = DeliveryState.PENDING, DeliveryState.SENDING
SENT, REJECTED = DeliveryState.SENT, DeliveryState.REJECTED
UNKNOWN, DROPPED = DeliveryState.UNKNOWN, DeliveryState.DROPPED
HI = (Text("hi"),)


def outbox_with(store: Store, adapter: FakeAdapter, clock: Clock, **limits: float) -> Outbox:
    settings = DeliverySettings.model_validate({**QUICK.model_dump(), **limits})
    return Outbox(store, {"fake": adapter}, Broadcast(), settings, clock=clock)


async def test_a_text_is_sent_and_stored_in_the_history(
    outbox: Outbox, adapter: FakeAdapter, store: Store, activity: Broadcast
) -> None:
    async with activity.watch(GROUP) as stream:
        receipts = await outbox.send(GROUP, HI, run_id="r1")
        assert receipts == (Receipt(state=SENT, message_id="fake-1"),)
        begun, done = await anext(stream), await anext(stream)
    assert adapter.said(GROUP) == [HI]
    (row,) = await store.deliveries.of_run("r1")
    assert (row.state, row.message_id, row.segments) == (SENT, "fake-1", HI)
    (line,) = await store.messages.newest(GROUP, 10)
    assert (line.author, line.state, line.message_id) == (Author.BOT, SENT, "fake-1")
    assert line.sender.user_id == "bot"
    assert isinstance(begun, Recorded)
    assert begun.record.state is PENDING
    assert done == Recorded(line)


async def test_the_state_sending_is_committed_before_the_platform_call(
    outbox: Outbox, adapter: FakeAdapter, store: Store
) -> None:
    seen: list[DeliveryState] = []

    async def look(delivery: Delivery) -> Receipt:
        row = await store.deliveries.get(delivery.delivery_id)
        assert row is not None
        seen.append(row.state)
        return Receipt(state=SENT, message_id="1")

    adapter.behaviour = look
    await outbox.send(GROUP, HI)
    assert seen == [SENDING]


async def test_an_echo_of_the_bots_own_message_is_not_stored_again(
    outbox: Outbox, inbox: Inbox
) -> None:
    (receipt,) = await outbox.send(GROUP, HI)
    echo = message(GROUP, "hi", message_id=receipt.message_id, user="bot")
    assert await inbox.accept(inbox.stamp(echo)) is None


async def test_a_voice_is_sent_alone_between_the_other_segments(
    outbox: Outbox, adapter: FakeAdapter, store: Store
) -> None:
    voice = Voice(Media(path="/v.wav"))
    receipts = await outbox.send(GROUP, (*HI, voice, Text("x" * 150)), run_id="r1")
    assert [receipt.state for receipt in receipts] == [SENT] * 4
    assert adapter.said() == [HI, (voice,), (Text("x" * 100),), (Text("x" * 50),)]
    assert [row.position for row in await store.deliveries.of_run("r1")] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("answer", "state"),
    [
        (Receipt(state=SENT, message_id="1"), SENT),
        (Receipt(state=REJECTED, reason="muted"), REJECTED),
        (Receipt(state=UNKNOWN, reason="async"), UNKNOWN),
        (Receipt(state=DROPPED), UNKNOWN),
        (Receipt(state=SENDING), UNKNOWN),
        (RuntimeError("a bug of the adapter"), UNKNOWN),
    ],
)
async def test_the_platforms_answer_decides_the_state(
    outbox: Outbox,
    adapter: FakeAdapter,
    store: Store,
    answer: Receipt | Exception,
    state: DeliveryState,
) -> None:
    async def behave(_: Delivery) -> Receipt:
        if isinstance(answer, Exception):
            raise answer
        return answer

    adapter.behaviour = behave
    (receipt,) = await outbox.send(GROUP, HI, run_id="r1")
    assert receipt.state is state
    assert receipt.ok or receipt.reason
    (row,) = await store.deliveries.of_run("r1")
    assert (row.state, row.reason) == (state, receipt.reason)
    adapter.behaviour = None
    await anyio.sleep(0.05)
    assert len(adapter.calls) == 1, "a call without a known outcome must not be repeated"
    assert (await outbox.send(GROUP, HI))[0].ok, "the next message of the chat is sent"


async def test_a_send_without_an_answer_in_time_is_unknown(
    store: Store, adapter: FakeAdapter, clock: Clock
) -> None:
    async def hang(_: Delivery) -> Receipt:
        await anyio.sleep_forever()
        raise AssertionError

    adapter.behaviour = hang
    async with outbox_with(store, adapter, clock, call_s=0.01) as outbox:
        (receipt,) = await outbox.send(GROUP, HI)
    assert receipt.state is UNKNOWN
    assert "may have arrived" in receipt.reason


async def test_a_cancelled_send_leaves_its_started_call_unknown_and_drops_the_rest(
    outbox: Outbox, adapter: FakeAdapter, store: Store
) -> None:
    calling = anyio.Event()

    async def hang(_: Delivery) -> Receipt:
        calling.set()
        await anyio.sleep_forever()
        raise AssertionError

    adapter.behaviour = hang
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: outbox.send(GROUP, (Text("x" * 250),), run_id="r1"))
        await calling.wait()
        tasks.cancel_scope.cancel()
    rows = await store.deliveries.of_run("r1")
    assert [row.state for row in rows] == [UNKNOWN, DROPPED, DROPPED]
    assert {row.reason for row in rows} == {"the run that sent it was stopped"}
    adapter.behaviour = None
    assert (await outbox.send(GROUP, HI))[0].ok


async def test_a_task_cancelled_during_a_send_does_not_go_on(
    outbox: Outbox, adapter: FakeAdapter
) -> None:
    async def stop(_: Delivery) -> Receipt:
        scope.cancel()
        await anyio.sleep_forever()
        raise AssertionError

    adapter.behaviour, after = stop, []
    with anyio.CancelScope() as scope:
        after.append(await outbox.send(GROUP, HI))
    assert scope.cancelled_caught
    assert after == []


async def test_a_send_cancelled_while_it_waits_is_never_sent(
    outbox: Outbox, adapter: FakeAdapter, store: Store
) -> None:
    calling, go_on = anyio.Event(), anyio.Event()

    async def slow(delivery: Delivery) -> Receipt:
        calling.set()
        await go_on.wait()
        return Receipt(state=SENT, message_id=delivery.delivery_id)

    adapter.behaviour = slow
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(outbox.send, GROUP, HI)
        await calling.wait()
        async with anyio.create_task_group() as others:
            others.start_soon(lambda: outbox.send(GROUP, (Text("too late"),), run_id="r2"))
            with anyio.fail_after(30):
                while not await store.deliveries.of_run("r2"):
                    await anyio.sleep(0.01)
            others.cancel_scope.cancel()
        go_on.set()
    (row,) = await store.deliveries.of_run("r2")
    assert row.state is DROPPED
    assert adapter.said() == [HI]


async def test_order_is_kept_in_a_chat_and_chats_do_not_wait_for_each_other(
    outbox: Outbox, adapter: FakeAdapter
) -> None:
    held = anyio.Event()
    running = dict.fromkeys((GROUP, OTHER), 0)

    async def behave(delivery: Delivery) -> Receipt:
        running[delivery.chat_key] += 1
        assert running[delivery.chat_key] == 1, "a chat may have only one call at a time"
        if delivery.chat_key == GROUP:
            await held.wait()
        await anyio.sleep(0)
        running[delivery.chat_key] -= 1
        return Receipt(state=SENT, message_id=delivery.delivery_id)

    adapter.behaviour = behave
    async with anyio.create_task_group() as tasks:
        for number in range(10):
            tasks.start_soon(outbox.send, GROUP, (Text(str(number)),))
        await anyio.sleep(0)
        assert (await outbox.send(OTHER, HI))[0].ok
        held.set()
    assert adapter.said(GROUP) == [(Text(str(number)),) for number in range(10)]


# ---- limits


async def test_a_send_over_the_limit_of_its_run_is_refused(
    outbox: Outbox, adapter: FakeAdapter
) -> None:
    for _ in range(7):
        await outbox.send(GROUP, HI, run_id="r1")
    with pytest.raises(TooManySends, match="7 of 8 messages and this would be 2 more"):
        await outbox.send(GROUP, (Text("x" * 150),), run_id="r1")
    await outbox.send(GROUP, HI, run_id="r1")
    with pytest.raises(TooManySends):
        await outbox.send(GROUP, HI, run_id="r1")
    assert len(adapter.sent) == 8
    assert (await outbox.send(GROUP, HI, run_id="r2"))[0].ok
    assert (await outbox.send(GROUP, HI))[0].ok


async def test_a_send_over_the_send_rate_of_its_chat_waits(
    store: Store, adapter: FakeAdapter, clock: Clock
) -> None:
    async with outbox_with(store, adapter, clock, sends_per_window=2, window_s=0.3) as outbox:
        begun = anyio.current_time()
        for _ in range(3):
            assert (await outbox.send(GROUP, HI))[0].ok
        assert anyio.current_time() - begun >= 0.29
        assert (await outbox.send(OTHER, HI))[0].ok


async def test_a_send_that_would_wait_too_long_is_dropped(
    store: Store, adapter: FakeAdapter, clock: Clock
) -> None:
    async with outbox_with(store, adapter, clock, sends_per_window=2, longest_wait_s=1) as outbox:
        receipts = [(await outbox.send(GROUP, HI))[0] for _ in range(3)]
    assert [receipt.state for receipt in receipts] == [SENT, SENT, DROPPED]
    assert "2 messages went to this chat within 60 s" in receipts[-1].reason


@pytest.mark.parametrize("segments", [(), (Text("  \n"),)])
async def test_an_empty_message_is_not_sent(outbox: Outbox, segments: tuple[Text, ...]) -> None:
    with pytest.raises(NothingToSend, match=r"^the message is empty: give it a text or a medium$"):
        await outbox.send(GROUP, segments)


async def test_a_send_to_a_chat_without_an_adapter_is_rejected(
    outbox: Outbox, adapter: FakeAdapter
) -> None:
    (receipt,) = await outbox.send(ChatKey.parse("pigeon-group_1"), HI)
    assert receipt.state is REJECTED
    assert "no adapter serves pigeon" in receipt.reason


async def test_a_send_with_record_false_is_not_in_the_history(outbox: Outbox, store: Store) -> None:
    assert (await outbox.send(GROUP, HI, run_id="r1", record=False))[0].ok
    assert await store.messages.newest(GROUP, 10) == []
    assert [row.state for row in await store.deliveries.of_run("r1")] == [SENT]


# ---- an account that is offline, and a restart


async def test_the_receipt_of_a_waiting_send_says_why_it_waits(
    store: Store, adapter: FakeAdapter, clock: Clock
) -> None:
    adapter.offline = True
    async with outbox_with(store, adapter, clock, retry_s=3600) as outbox:
        reasons = [(await outbox.send(GROUP, HI))[0].reason for _ in range(2)]
        assert reasons == ["the account is offline"] * 2
    for row, state in zip(
        await store.deliveries.in_state(PENDING), (DROPPED, PENDING), strict=True
    ):
        await store.deliveries.mark(row, state)  # an earlier version stored no reason
    async with outbox_with(store, adapter, clock, retry_s=3600) as outbox:
        (receipt,) = await outbox.send(GROUP, HI)
        assert (receipt.state, receipt.reason) == (PENDING, "waits for the messages before it")


async def test_messages_of_an_offline_account_are_sent_when_it_is_back(
    outbox: Outbox, adapter: FakeAdapter, store: Store
) -> None:
    adapter.offline = True
    (first,) = await outbox.send(GROUP, (Text("1"),), run_id="r1")
    (second,) = await outbox.send(GROUP, (Text("2"),), run_id="r1")
    assert (first.state, first.reason) == (PENDING, "the account is offline")
    assert second.state is PENDING
    await anyio.sleep(0.05)
    adapter.offline = False
    with anyio.fail_after(30):
        while len(adapter.sent) < 2:
            await anyio.sleep(0.01)
        (third,) = await outbox.send(GROUP, (Text("3"),), run_id="r1")
    assert adapter.said() == [(Text("1"),), (Text("2"),), (Text("3"),)]
    assert third.ok
    assert {row.state for row in await store.deliveries.of_run("r1")} == {SENT}
    assert {line.state for line in await store.messages.newest(GROUP, 10)} == {SENT}


async def test_watchers_do_not_see_each_failed_try(
    outbox: Outbox, adapter: FakeAdapter, activity: Broadcast
) -> None:
    adapter.offline = True
    async with activity.watch(GROUP) as stream:
        await outbox.send(GROUP, HI)
        await anyio.sleep(0.1)
        adapter.offline = False
        states = []
        while not states or states[-1] is not SENT:
            seen = await anext(stream)
            assert isinstance(seen, Recorded)
            states.append(seen.record.state)
    assert states == [PENDING, SENT]


async def test_sends_wait_for_an_adapter_that_is_added_later(
    url: str, clock: Clock, adapter: FakeAdapter
) -> None:
    adapters: dict[str, FakeAdapter] = {"fake": adapter}
    async with Store.open(url, clock=clock) as store:
        adapter.offline = True
        async with Outbox(store, adapters, Broadcast(), QUICK, clock=clock) as outbox:
            await outbox.send(GROUP, HI, run_id="r1")
        adapters.clear()
        async with Outbox(store, adapters, Broadcast(), QUICK, clock=clock):
            await anyio.sleep(0.05)
            adapter.offline = False
            adapters["fake"] = adapter
            with anyio.fail_after(30):
                while not adapter.sent:
                    await anyio.sleep(0.01)


async def test_a_send_that_waited_too_long_is_dropped(
    adapter: FakeAdapter, store: Store, clock: Clock
) -> None:
    async with outbox_with(store, adapter, clock, resend_for_s=0.1) as outbox:
        adapter.offline = True
        await outbox.send(GROUP, HI, run_id="r1")
        await anyio.sleep(0.15)
        adapter.offline = False
        outbox.retry_now()
        with anyio.fail_after(30):
            while (await store.deliveries.of_run("r1"))[0].state is not DROPPED:
                await anyio.sleep(0.01)
    assert adapter.sent == []


@pytest.mark.parametrize("jump_s", [86_400.0, -86_400.0])
async def test_setting_the_clock_does_not_change_the_age_of_a_send(
    adapter: FakeAdapter, store: Store, clock: Clock, jump_s: float
) -> None:
    async with outbox_with(store, adapter, clock, resend_for_s=5) as outbox:
        adapter.offline = True
        await outbox.send(GROUP, HI, run_id="r1")
        clock.now += jump_s
        adapter.offline = False
        with anyio.fail_after(30):
            while (await store.deliveries.of_run("r1"))[0].state is not SENT:
                await anyio.sleep(0.01)
    assert len(adapter.sent) == 1


async def test_the_number_of_waiting_messages_of_a_chat_is_limited(
    adapter: FakeAdapter, store: Store, clock: Clock
) -> None:
    """The limit holds while the account is offline and while the platform is slow. Further sends
    are dropped at once, and other chats are not affected."""
    async with outbox_with(store, adapter, clock, waiting_per_chat=3) as outbox:
        adapter.offline = True
        states = [(await outbox.send(GROUP, HI))[0].state for _ in range(5)]
        assert states == [PENDING] * 3 + [DROPPED] * 2
        assert (await outbox.send(OTHER, HI))[0].state is PENDING
        adapter.offline = False
        outbox.retry_now()
        with anyio.fail_after(30):
            while await outbox.admin.listed():
                await anyio.sleep(0.01)
        assert len(adapter.said(GROUP)) == 3
        slow = anyio.Event()

        async def hang(_: Delivery) -> Receipt:
            await slow.wait()
            return Receipt(state=SENT, message_id="x")

        adapter.behaviour = hang
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(outbox.send, GROUP, HI)
            await anyio.sleep(0.02)
            (receipt,) = await outbox.send(GROUP, HI)
            assert receipt.state is DROPPED
            assert "wait already" in receipt.reason
            slow.set()


async def test_pending_deliveries_are_sent_after_a_restart_and_started_ones_become_unknown(
    url: str, clock: Clock
) -> None:
    """A call that had started becomes unknown. A call that had not started is made."""
    first, second = FakeAdapter(), FakeAdapter()

    async with Store.open(url, clock=clock) as store:
        first.offline = True
        async with outbox_with(store, first, clock) as outbox:
            await outbox.send(GROUP, (Text("was offline"),), run_id="r1")
        row = (await store.deliveries.of_run("r1"))[0]
        await store.deliveries.mark(row, SENDING)
        await store.deliveries.add(
            [_copy(row, "d2", "never begun", PENDING)], [], before=store.chats.seen(GROUP)
        )
    async with Store.open(url, clock=clock) as store:
        async with outbox_with(store, second, clock) as outbox:
            with anyio.fail_after(30):
                while not second.sent:
                    await anyio.sleep(0.01)
            assert (await outbox.send(GROUP, HI))[0].ok
        states = [row.state for row in await store.deliveries.of_run("r1")]
        assert states == [UNKNOWN, SENT]
        (line, _) = await store.messages.newest(GROUP, 10)
        assert line.state is UNKNOWN
    assert second.said() == [(Text("never begun"),), HI]


def _copy(row: DeliveryRow, delivery_id: str, text: str, state: DeliveryState) -> DeliveryRow:
    return replace(row, delivery_id=delivery_id, segments=(Text(text),), state=state, record_seq=0)


# ---- a disk that is full


async def test_a_send_whose_start_could_not_be_stored_is_dropped_with_all_pieces(
    outbox: Outbox, adapter: FakeAdapter, store: Store, disk: FullDisk
) -> None:
    with pytest.raises(StoreUnavailable):
        await outbox.send(GROUP, (Text("x" * 150),), run_id="r1")
    assert adapter.calls == []
    disk.full = False
    with anyio.fail_after(30):
        while {row.state for row in await store.deliveries.of_run("r1")} != {DROPPED}:
            outbox.retry_now()
            await anyio.sleep(0.005)
    reasons = [row.reason for row in await store.deliveries.of_run("r1")]
    assert reasons == ["the database could not be written"] * 2
    assert (await outbox.send(GROUP, HI))[0].ok


# ---- media


async def test_an_outgoing_file_is_copied_before_it_is_sent(
    store: Store, adapter: FakeAdapter, clock: Clock, tmp_path: Path
) -> None:
    source = tmp_path / "report.txt"
    source.write_text("figures")
    async with (
        MediaStore(tmp_path / "data") as media,
        Outbox(store, {"fake": adapter}, Broadcast(), QUICK, media=media, clock=clock) as outbox,
    ):
        assert (await outbox.send(GROUP, (File(Media(path=str(source))),)))[0].ok
        source.unlink()
        ((sent,),) = adapter.said()
        assert isinstance(sent, File)
        assert (sent.media.name, sent.media.mime, sent.media.size) == (
            "report.txt",
            "text/plain",
            7,
        )
        assert await media.read(GROUP, sent.media.path) == b"figures"
        gone = Image(Media(path=str(source)))
        receipts = await outbox.send(GROUP, (Text("look"), gone, Image(Media())))
    assert [receipt.state for receipt in receipts] == [SENT, REJECTED, REJECTED]
    assert "report.txt: cannot be read" in receipts[1].reason
    assert "neither a path nor a URL" in receipts[2].reason


async def test_a_large_picture_is_not_overtaken_by_a_text(
    store: Store, adapter: FakeAdapter, clock: Clock, tmp_path: Path
) -> None:
    source = tmp_path / "large.bin"
    source.write_bytes(b"\1" * 20_000_000)
    async with (
        MediaStore(tmp_path / "data") as media,
        Outbox(store, {"fake": adapter}, Broadcast(), QUICK, media=media, clock=clock) as outbox,
    ):
        await asyncio.gather(
            outbox.send(GROUP, (File(Media(path=str(source))),)), outbox.send(GROUP, HI)
        )
    assert [type(segments[0]) for segments in adapter.said()] == [File, Text]


async def test_further_messages_of_a_run_come_at_the_pace_of_a_person(
    store: Store, adapter: FakeAdapter, clock: Clock
) -> None:
    times = []

    async def note(delivery: Delivery) -> Receipt:
        times.append(anyio.current_time())
        return Receipt(state=SENT, message_id=str(len(times)))

    adapter.behaviour = note
    paced = outbox_with(store, adapter, clock, pace_chars_s=20, pace_longest_s=1.0)
    async with paced as outbox:
        for text in ("x" * 60, "y" * 10, "z" * 60):
            await outbox.send(GROUP, (Text(text),), run_id="r1")
        await outbox.send(GROUP, HI, run_id="r2")
    first, second, third, other = times
    assert second - first >= 0.5, "ten characters at twenty characters a second take 0.5 s"
    assert third - second >= 1.0, "sixty characters would take 3 s, but the longest wait is 1 s"
    assert third - second < 3.0
    assert other - third < 1.0, "the first message of a run is not delayed"
