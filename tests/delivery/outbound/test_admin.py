"""An operator lists deliveries, sends them again, and drops them."""

from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest

from nekro_core.chat import Delivery, DeliveryState, Receipt, Text
from nekro_core.delivery.activity import Broadcast, Recorded
from nekro_core.delivery.errors import CannotDo
from nekro_core.delivery.outbound.outbox import Outbox
from nekro_core.store import DeliveryRow, Store
from tests.delivery.conftest import GROUP, ONLY_WHEN_NUDGED, OTHER, Clock
from tests.delivery.fakes import FakeAdapter

SENT, UNKNOWN, PENDING = DeliveryState.SENT, DeliveryState.UNKNOWN, DeliveryState.PENDING
REJECTED, DROPPED = DeliveryState.REJECTED, DeliveryState.DROPPED


@pytest.fixture
async def outbox(
    store: Store, activity: Broadcast, adapter: FakeAdapter, clock: Clock
) -> AsyncIterator[Outbox]:
    settings = ONLY_WHEN_NUDGED
    async with Outbox(store, {"fake": adapter}, activity, settings, clock=clock) as opened:
        yield opened


async def sent_as(outbox: Outbox, adapter: FakeAdapter, state: DeliveryState, text: str) -> str:
    """Send a message that ends in this state. Returns its id."""

    async def answer(_: Delivery) -> Receipt:
        return Receipt(state=state, reason="because")

    adapter.behaviour = answer if state is not SENT else None
    await outbox.send(GROUP, (Text(text),))
    adapter.behaviour = None
    rows = await outbox.admin.listed([*DeliveryState])
    return rows[0].delivery_id


async def settled(store: Store, delivery_id: str, state: DeliveryState) -> DeliveryRow:
    with anyio.fail_after(30):
        while True:
            row = await store.deliveries.get(delivery_id)
            assert row is not None
            if row.state is state:
                return row
            await anyio.sleep(0.005)


async def test_sent_messages_are_not_listed_by_default(
    outbox: Outbox, adapter: FakeAdapter
) -> None:
    await sent_as(outbox, adapter, SENT, "fine")
    doubtful = await sent_as(outbox, adapter, UNKNOWN, "who knows")
    refused = await sent_as(outbox, adapter, REJECTED, "no")
    listed = await outbox.admin.listed()
    assert [row.delivery_id for row in listed] == [refused, doubtful]
    assert [row.reason for row in listed] == ["because", "because"]
    assert await outbox.admin.listed(chat_key=OTHER) == []
    assert [r.delivery_id for r in await outbox.admin.listed(before=refused)] == [doubtful]
    assert [r.state for r in await outbox.admin.listed([SENT])] == [SENT]


@pytest.mark.parametrize("state", [UNKNOWN, REJECTED])
async def test_the_operator_can_resend_a_message(
    outbox: Outbox, adapter: FakeAdapter, store: Store, activity: Broadcast, state: DeliveryState
) -> None:
    delivery_id = await sent_as(outbox, adapter, state, "again")
    async with activity.watch(GROUP) as stream:
        row = await outbox.admin.resend(delivery_id)
        assert (row.state, row.reason) == (PENDING, "sent again by the operator")
        row = await settled(store, delivery_id, SENT)
        seen = [await anext(stream), await anext(stream)]
    assert adapter.said() == [(Text("again"),)]
    assert [each.record.state for each in seen if isinstance(each, Recorded)] == [PENDING, SENT]
    (line,) = await store.messages.newest(GROUP, 1)
    assert (line.state, line.message_id) == (SENT, row.message_id)


async def test_a_dropped_message_is_not_sent_unless_the_operator_resends_it(
    outbox: Outbox, adapter: FakeAdapter, store: Store
) -> None:
    adapter.offline = True
    await outbox.send(GROUP, (Text("never"),))
    await outbox.send(GROUP, (Text("later"),))
    # The outbox retries once at its start, and a row is not pending while a retry sends it.
    with anyio.fail_after(30):
        while len(waiting := await outbox.admin.listed([PENDING])) < 2:
            await anyio.sleep(0.005)
    later, never = waiting
    assert (await outbox.admin.drop(never.delivery_id)).state is DROPPED
    adapter.offline = False
    outbox.retry_now()
    await settled(store, later.delivery_id, SENT)
    assert adapter.said() == [(Text("later"),)]
    assert await outbox.admin.listed() == []
    unknown = await sent_as(outbox, adapter, UNKNOWN, "?")
    await outbox.admin.drop(unknown)
    assert await outbox.admin.listed() == []
    await outbox.admin.resend(unknown)
    await settled(store, unknown, SENT)


async def test_impossible_actions_are_refused_with_a_reason(
    outbox: Outbox, adapter: FakeAdapter
) -> None:
    admin = outbox.admin
    fine = await sent_as(outbox, adapter, SENT, "fine")
    with pytest.raises(CannotDo, match="is sent: it cannot be sent again"):
        await admin.resend(fine)
    with pytest.raises(CannotDo, match="is sent: it cannot be dropped"):
        await admin.drop(fine)
    with pytest.raises(CannotDo, match="no message 'x'"):
        await admin.drop("x")
    adapter.offline = True
    await outbox.send(GROUP, (Text("waits"),))
    (waits,) = await admin.listed()
    with pytest.raises(CannotDo, match="waits to be sent"):
        await admin.resend(waits.delivery_id)


async def test_a_message_that_is_being_sent_cannot_be_dropped(
    outbox: Outbox, adapter: FakeAdapter, store: Store
) -> None:
    adapter.offline = True
    await outbox.send(GROUP, (Text("slow"),))
    (row,) = await outbox.admin.listed()
    arrived, go_on = anyio.Event(), anyio.Event()

    async def slow(_: Delivery) -> Receipt:
        arrived.set()
        await go_on.wait()
        return Receipt(state=SENT, message_id="1")

    adapter.behaviour = slow
    adapter.offline = False
    outbox.retry_now()
    await arrived.wait()
    with pytest.raises(CannotDo, match="on its way"):
        await outbox.admin.drop(row.delivery_id)
    go_on.set()
    await settled(store, row.delivery_id, SENT)


class OutcomeMeanwhile:
    """The store's deliveries. After a row was read, another process stores its outcome."""

    def __init__(self, store: Store, outcome: DeliveryState) -> None:
        self._deliveries = store.deliveries
        self._outcome = outcome

    def __getattr__(self, name: str) -> Any:
        return getattr(self._deliveries, name)

    async def get(self, delivery_id: str) -> DeliveryRow | None:
        row = await self._deliveries.get(delivery_id)
        assert row is not None
        await self._deliveries.mark(row, self._outcome)
        return row


@pytest.mark.parametrize("outcome", [SENT, REJECTED])
async def test_an_action_is_refused_if_the_outcome_of_the_message_comes_at_the_same_time(
    outbox: Outbox, adapter: FakeAdapter, store: Store, outcome: DeliveryState
) -> None:
    resent = await sent_as(outbox, adapter, UNKNOWN, "again?")
    dropped = await sent_as(outbox, adapter, UNKNOWN, "never mind")
    before = store.deliveries
    store.deliveries = OutcomeMeanwhile(store, outcome)  # type: ignore[assignment]
    with pytest.raises(CannotDo, match="was changed meanwhile"):
        await outbox.admin.resend(resent)
    with pytest.raises(CannotDo, match=f"is {outcome.value} by now: it was not dropped"):
        await outbox.admin.drop(dropped)
    store.deliveries = before
    assert {row.state for row in await outbox.admin.listed([*DeliveryState])} == {outcome}
    assert adapter.said() == []
