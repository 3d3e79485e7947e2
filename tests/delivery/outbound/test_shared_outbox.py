"""Several processes send messages and share one database. Each process resumes only the platform
calls of its own chats."""

from collections.abc import Awaitable, Callable

import anyio
import pytest

from nekro_core.chat import ChatKey, Delivery, DeliveryState, Receipt, Text
from nekro_core.delivery.activity import Broadcast, Recorded
from nekro_core.delivery.inbound.inbox import Inbox
from nekro_core.delivery.outbound.outbox import Outbox
from nekro_core.store import Ownership, OwnershipLost, Store, StoreSettings, writing_as
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
    # It must not retry: a retry that the end of this outbox interrupts leaves an unknown outcome.
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
    assert await store.partitions.take(1, "worker-2") == Ownership(1, 2)
    with writing_as(old), pytest.raises(OwnershipLost):
        await outbox.send(GROUP, (Text("said by nobody"),))
    assert adapter.calls == []
    assert await store.messages.newest(GROUP, 9) == []
