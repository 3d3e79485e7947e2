"""A message was sent, but the store could not write this. As soon as the store can write again, it
stores that the message was sent."""

import sqlite3
from contextlib import closing
from pathlib import Path

import anyio
import pytest

from nekro_core.chat import Delivery, DeliveryState, Receipt, Text
from nekro_core.delivery.activity import Broadcast
from nekro_core.delivery.outbound.outbox import Outbox
from nekro_core.store import Store, StoreSettings, StoreUnavailable
from tests.delivery.conftest import GROUP, QUICK, Clock
from tests.delivery.fakes import FakeAdapter

SENT = DeliveryState.SENT


async def test_a_sent_state_is_stored_once_the_store_can_write_again(tmp_path: Path) -> None:
    """Another program locks the database file. The store handles this like a full disk."""
    path, adapter = tmp_path / "nekro.sqlite3", FakeAdapter()
    settings = StoreSettings(busy_timeout_s=0.05)
    async with (
        Store.open(f"sqlite://{path}", settings, clock=Clock()) as store,
        Outbox(store, {"fake": adapter}, Broadcast(), QUICK, clock=Clock()) as outbox,
    ):
        with closing(sqlite3.connect(path, isolation_level=None)) as other:

            async def hold(_: Delivery) -> Receipt:
                other.execute("BEGIN IMMEDIATE")
                return Receipt(state=SENT, message_id="7")

            adapter.behaviour = hold
            (receipt,) = await outbox.send(GROUP, (Text("hi"),), run_id="r")
            assert receipt.state is SENT, "people see the message, although its state is not stored"
            (row,) = await store.deliveries.of_run("r")
            assert row.state is DeliveryState.SENDING
            with pytest.raises(StoreUnavailable):
                await outbox.send(GROUP, (Text("not now"),))
            other.execute("ROLLBACK")
        with anyio.fail_after(30):
            while (await store.deliveries.of_run("r"))[0].state is not SENT:
                await anyio.sleep(0.01)
        adapter.behaviour = None
        assert (await outbox.send(GROUP, (Text("now"),)))[0].state is SENT
        (line, _) = await store.messages.newest(GROUP, 2)
        assert (line.state, line.message_id) == (SENT, "7")
    assert adapter.said() == [(Text("hi"),), (Text("now"),)]
