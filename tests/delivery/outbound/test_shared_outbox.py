"""Several processes send messages and share one database. Each process resumes only the platform
calls of its own chats."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import anyio
import pytest

from nekro_core.chat import ChatKey, Delivery, DeliveryState, Receipt, Text
from nekro_core.delivery.activity import Broadcast, Recorded
from nekro_core.delivery.errors import TooManySends
from nekro_core.delivery.inbound.inbox import Inbox
from nekro_core.delivery.outbound.outbox import Outbox
from nekro_core.delivery.settings import DeliverySettings
from nekro_core.store import (
    DeliveryRow,
    Ownership,
    OwnershipLost,
    Store,
    StoreSettings,
    StoreUnavailable,
    writing_as,
)
from tests.delivery.conftest import GROUP, ONLY_WHEN_NUDGED, OTHER, QUICK, Clock
from tests.delivery.fakes import FakeAdapter, message
from tests.peers.postgres import PostgresServer

SENDING, SENT, UNKNOWN = DeliveryState.SENDING, DeliveryState.SENT, DeliveryState.UNKNOWN


def only(*chats: ChatKey) -> Callable[[ChatKey], bool]:
    return lambda chat_key: chat_key in chats


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    with anyio.fail_after(30):
        while not await condition():
            await anyio.sleep(0.01)


async def states(store: Store) -> dict[str, DeliveryState]:
    rows = await store.deliveries.in_state(*DeliveryState)
    return {str(row.chat_key): row.state for row in rows}


async def leave_calls_under_way(store: Store, clock: Clock) -> None:
    """Store a delivery in each of two chats with the state `SENDING`, which a process leaves behind
    that is killed during the platform call."""

    async def never(_: Delivery) -> Receipt:
        await anyio.sleep_forever()
        raise AssertionError

    adapter = FakeAdapter()
    adapter.behaviour = never
    async with (
        Outbox(store, {"fake": adapter}, Broadcast(), QUICK, clock=clock) as outbox,
        anyio.create_task_group() as tasks,
    ):
        for chat in (GROUP, OTHER):
            tasks.start_soon(outbox.send, chat, (Text("hello"),))
        with anyio.fail_after(30):
            while len(adapter.calls) < 2:
                await anyio.sleep(0.01)
        tasks.cancel_scope.cancel()
    for row in await store.deliveries.in_state(UNKNOWN):
        # The cancelled sends have stored `UNKNOWN` as their outcome. A killed process could not
        # have stored that.
        await store.deliveries.mark(row, SENDING)


async def test_only_the_calls_of_the_own_chats_become_unknown(store: Store, clock: Clock) -> None:
    await leave_calls_under_way(store, clock)
    adapters = {"fake": FakeAdapter()}
    mine = only(GROUP)
    async with Outbox(store, adapters, Broadcast(), QUICK, clock=clock, chats=mine) as outbox:
        assert await states(store) == {str(GROUP): UNKNOWN, str(OTHER): SENDING}
        await outbox.resume(only(OTHER))
        assert await states(store) == {str(GROUP): UNKNOWN, str(OTHER): UNKNOWN}


async def test_waiting_messages_of_a_chat_that_is_taken_over_are_sent(
    store: Store, clock: Clock
) -> None:
    offline = FakeAdapter()
    offline.offline = True
    # This outbox must not retry. Otherwise its end could interrupt a retry, and the outcome of that
    # message would be unknown.
    async with Outbox(
        store, {"fake": offline}, Broadcast(), ONLY_WHEN_NUDGED, clock=clock
    ) as outbox:
        for chat in (GROUP, OTHER):
            await outbox.send(chat, (Text("later"),))
    adapter = FakeAdapter()
    nothing = only()
    async with Outbox(
        store, {"fake": adapter}, Broadcast(), QUICK, clock=clock, chats=nothing
    ) as outbox:
        await outbox.resume(only(OTHER))

        async def sent() -> bool:
            return bool(adapter.sent)

        await until(sent)
        assert [each.chat_key for each in adapter.sent] == [OTHER]
        await outbox.resume(only(GROUP))

        async def both_sent() -> bool:
            return len(adapter.sent) == 2

        await until(both_sent)
        await outbox.send(OTHER, (Text("now"),))
        assert [each.chat_key for each in adapter.sent] == [OTHER, GROUP, OTHER]


@pytest.mark.long
async def test_the_history_of_two_processes_is_in_the_order_of_the_conversation(
    postgres: PostgresServer, clock: Clock
) -> None:
    """One process stores what people write, and another one stores the answers."""
    url = await postgres.database()
    activity, adapter = Broadcast(), FakeAdapter()
    async with (
        Store.open(url, StoreSettings(node="gateway"), clock=clock) as near,
        Store.open(url, StoreSettings(node="worker"), clock=clock) as far,
        Outbox(far, {"fake": adapter}, activity, QUICK, clock=clock) as outbox,
        activity.watch() as watched,
    ):
        await near.accounts.bind("fake", "bot")
        await far.accounts.read_again()
        inbox = Inbox(near, activity, wall=clock)
        for number in range(3):
            stored = await inbox.accept(inbox.stamp(message(GROUP, f"question {number}")))
            assert stored is not None
            assert stored.seq > 0
            (receipt,) = await outbox.send(GROUP, (Text(f"answer {number}"),), run_id="r")
            assert receipt.state is SENT
        found = await far.messages.newest(GROUP, 9)
        texts = [each.segments[0].text for each in found]  # type: ignore[union-attr]
        assert texts == [f"{word} {n}" for n in range(3) for word in ("question", "answer")]
        assert all(each.state is SENT for each in found[1::2])
        rows = await far.deliveries.in_state(SENT)
        assert [row.record_seq for row in rows] == [each.seq for each in found[1::2]]
        told = [await anext(watched) for _ in range(3)]
        assert all(isinstance(each, Recorded) and each.record.seq > 0 for each in told)


async def test_an_old_owner_makes_no_platform_call(
    store: Store, adapter: FakeAdapter, outbox: Outbox
) -> None:
    old = await store.partitions.take(1, "worker-1")
    assert (await store.partitions.take(1, "worker-2")).epoch == old.epoch + 1
    with writing_as(old), pytest.raises(OwnershipLost):
        await outbox.send(GROUP, (Text("said by nobody"),))
    assert adapter.calls == []
    assert await store.messages.newest(GROUP, 9) == []


@dataclass
class Owned:
    """The chats that this process owns. While the gateway is ``away``, it is not known what a
    message to these chats can contain."""

    chats: dict[ChatKey, Ownership]
    away: bool = False
    asked: anyio.Event = field(default_factory=anyio.Event)
    told: list[DeliveryRow] = field(default_factory=list)

    def owns(self, chat_key: ChatKey) -> bool:
        return chat_key in self.chats

    def ownership(self, chat_key: ChatKey) -> Ownership | None:
        return self.chats.get(chat_key)

    async def prepare(self, chat_key: ChatKey) -> bool:
        if not self.away:
            self.asked.set()
        return not self.away

    def tell(self, row: DeliveryRow) -> None:
        self.told.append(row)


@pytest.mark.parametrize("account_offline", [False, True])
async def test_a_message_of_a_turn_to_another_chat_is_sent_although_the_turn_moves(
    store: Store, adapter: FakeAdapter, outbox: Outbox, account_offline: bool
) -> None:
    """The gateway, or only its account, is away when the turn sends the message. It is back after
    another process has taken the chat of the turn."""
    turn = await store.partitions.take(1, "worker-1")
    other = await store.partitions.take(2, "worker-1")
    owned = Owned({GROUP: turn, OTHER: other}, away=not account_offline)
    outbox.owner, adapter.offline = owned, account_offline
    with writing_as(turn):
        (receipt,) = await outbox.send(OTHER, (Text("to the other chat"),))
    assert receipt.state is DeliveryState.PENDING
    await store.partitions.take(1, "worker-2")
    owned.away = adapter.offline = False
    outbox.retry_now()

    async def stored_as_sent() -> bool:
        return await states(store) == {str(OTHER): SENT}

    await until(stored_as_sent)
    assert [each.chat_key for each in adapter.sent] == [OTHER]


async def test_a_message_that_comes_when_the_gateway_is_back_is_sent_after_the_stored_one(
    store: Store, adapter: FakeAdapter, outbox: Outbox
) -> None:
    owned = Owned({GROUP: await store.partitions.take(1, "worker-1")}, away=True)
    outbox.owner = owned
    async with anyio.create_task_group() as tasks:

        async def say_second() -> None:
            await owned.asked.wait()
            await outbox.send(GROUP, (Text("second"),))

        tasks.start_soon(say_second)
        (receipt,) = await outbox.send(GROUP, (Text("first"),))
        assert receipt.state is DeliveryState.PENDING
        owned.away = False

        async def both_sent() -> bool:
            return len(adapter.sent) == 2

        await until(both_sent)
    assert [each.segments for each in adapter.sent] == [(Text("first"),), (Text("second"),)]


async def test_a_message_that_is_left_to_the_new_owner_counts_once_and_is_shown_once(
    store: Store, adapter: FakeAdapter, clock: Clock
) -> None:
    old = await store.partitions.take(1, "worker-1")
    await store.partitions.take(1, "worker-2")
    owned, activity = Owned({GROUP: old}), Broadcast()
    settings = DeliverySettings(retry_s=0.01, sends_per_run=1)
    async with (
        activity.watch() as watched,
        Outbox(
            store, {"fake": adapter}, activity, settings, clock=clock, chats=only(), owner=owned
        ) as outbox,
    ):
        (receipt,) = await outbox.send(GROUP, (Text("hello"),), run_id="r")
        assert receipt.state is DeliveryState.PENDING
        assert [row.segments for row in owned.told] == [(Text("hello"),)]
        with pytest.raises(TooManySends):
            await outbox.send(GROUP, (Text("once more"),), run_id="r")
        (found,) = await store.messages.newest(GROUP, 9)
        shown = await anext(watched)
        assert isinstance(shown, Recorded)
        assert shown.record.seq == found.seq
    assert adapter.calls == []


async def test_a_bot_that_runs_alone_now_drops_an_old_message_that_a_cluster_stored_whole(
    store: Store, adapter: FakeAdapter, clock: Clock
) -> None:
    owned = Owned({})
    adapters = {"fake": adapter}
    async with Outbox(
        store, adapters, Broadcast(), QUICK, clock=clock, chats=only(), owner=owned
    ) as outbox:
        (receipt,) = await outbox.send(GROUP, (Text("to the owner"),))
        assert receipt.state is DeliveryState.PENDING
    clock.now += QUICK.resend_for_s + 1
    async with Outbox(store, adapters, Broadcast(), QUICK, clock=clock):

        async def dropped() -> bool:
            return await states(store) == {str(GROUP): DeliveryState.DROPPED}

        await until(dropped)
    assert adapter.calls == []


class RestartingServer:
    """The store's deliveries. The first two messages that should be split cannot be stored, and
    neither can the first two beginnings of a call. With ``only``, this holds only for the stored
    message with this id, and for no beginning of a call."""

    def __init__(self, store: Store, only: str = "") -> None:
        self._deliveries = store.deliveries
        self._only = only
        self.refused: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._deliveries, name)

    def add(self, rows: Any, records: Any, **more: Any) -> Awaitable[Any]:
        replaces = more["replaces"]
        concerns = replaces is not None and self._only in ("", replaces.delivery_id)
        if concerns and self.refused.count("add") < 2:
            return self._refuse("add")
        return self._deliveries.add(rows, records, **more)

    def mark(self, row: Any, state: DeliveryState, **more: Any) -> Awaitable[Any]:
        if not self._only and state is SENDING and self.refused.count("mark") < 2:
            return self._refuse("mark")
        return self._deliveries.mark(row, state, **more)

    async def _refuse(self, what: str) -> None:
        self.refused.append(what)
        raise StoreUnavailable("the database server is starting")


async def test_a_message_for_this_owner_is_sent_once_when_the_database_answers_again(
    store: Store, adapter: FakeAdapter, outbox: Outbox, clock: Clock
) -> None:
    """Another process has stored the message. Its owner does not get the item a second time."""
    elsewhere = Owned({})
    async with Outbox(
        store, {}, Broadcast(), QUICK, clock=clock, chats=only(), owner=elsewhere
    ) as far:
        await far.send(GROUP, (Text("for the owner"),))
    (row,) = elsewhere.told
    server = RestartingServer(store)
    store.deliveries = server  # type: ignore[assignment]
    await outbox.send_stored(row.delivery_id)

    async def stored_as_sent() -> bool:
        return await states(store) == {str(GROUP): SENT}

    await until(stored_as_sent)
    assert adapter.said() == [(Text("for the owner"),)]
    assert len(adapter.calls) == 1
    assert server.refused == ["add", "add", "mark", "mark"]
    assert len(await store.messages.newest(GROUP, 9)) == 1


async def test_a_stored_message_keeps_its_place_while_the_database_cannot_be_written(
    store: Store, adapter: FakeAdapter, outbox: Outbox, clock: Clock
) -> None:
    elsewhere = Owned({})
    async with Outbox(
        store, {}, Broadcast(), QUICK, clock=clock, chats=only(), owner=elsewhere
    ) as far:
        for text in ("first", "second"):
            await far.send(GROUP, (Text(text),))
    first, second = elsewhere.told
    server = RestartingServer(store, only=first.delivery_id)
    store.deliveries = server  # type: ignore[assignment]
    await outbox.send_stored(first.delivery_id)
    await outbox.send_stored(second.delivery_id)

    async def both_sent() -> bool:
        return len(adapter.sent) == 2

    await until(both_sent)
    assert adapter.said() == [(Text("first"),), (Text("second"),)]
    assert server.refused == ["add", "add"]
