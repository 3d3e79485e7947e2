"""The database says whether it can be written, and how many messages are in the outbox."""

from nekro_core.chat import DeliveryState, Text
from nekro_core.store import DeliveryRow, Store
from nekro_core.store.condition import UNSENT
from tests.store.conftest import GROUP, Clock


def delivery(number: int, state: DeliveryState, created: float) -> DeliveryRow:
    return DeliveryRow(
        delivery_id=f"d{number}",
        chat_key=GROUP,
        run_id="",
        position=0,
        segments=(Text("hello"),),
        state=state,
        message_id="",
        reason="",
        record_seq=0,
        created=created,
        changed=created,
    )


async def test_messages_are_counted_by_state(store: Store, clock: Clock) -> None:
    assert await store.condition.outbox() == dict.fromkeys(UNSENT, 0)
    states = [DeliveryState.SENT, DeliveryState.PENDING, *[DeliveryState.UNKNOWN] * 3]
    rows = [delivery(number, state, 1_000.0 + number) for number, state in enumerate(states)]
    await store.deliveries.add(rows, [])
    counted = await store.condition.outbox()
    assert counted == {
        **dict.fromkeys(UNSENT, 0),
        DeliveryState.PENDING: 1,
        DeliveryState.UNKNOWN: 3,
    }
    assert await store.condition.unknown_since(1_000.0) == 3
    assert await store.condition.unknown_since(1_003.0) == 2


async def test_a_check_writes_the_same_row_each_time(store: Store) -> None:
    for now in (1.0, 2.0):
        await store.condition.check_writable(now)
    (row,) = await store.waiting.all("probe")
    assert row.created == 2.0
    assert store.condition.queued_writes == 0
