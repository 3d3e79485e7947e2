"""Plugins' hooks can change or refuse a message before it is sent, and receive its outcome."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from nekro_core.chat import ChatKey, DeliveryState, Receipt, Segments, Text
from nekro_core.delivery.activity import Broadcast
from nekro_core.plugins.host.hooked_outbox import HookedOutbox
from nekro_core.store import Store
from tests.delivery.fakes import FakeAdapter

GROUP = ChatKey.parse("fake-group_1")
HI = (Text("hi"),)
SENT, DROPPED = DeliveryState.SENT, DeliveryState.DROPPED


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with Store.open(f"sqlite://{tmp_path}/nekro.sqlite3") as opened:
        await opened.accounts.bind("fake", "bot")
        yield opened


@pytest.fixture
def adapter() -> FakeAdapter:
    return FakeAdapter()


@pytest.fixture
async def outbox(store: Store, adapter: FakeAdapter) -> AsyncIterator[HookedOutbox]:
    async with HookedOutbox(store, {"fake": adapter}, Broadcast()) as opened:
        yield opened


class Hook:
    """Adds ``words`` to every message, or refuses every message if ``words`` is None."""

    def __init__(self, words: str | None) -> None:
        self.words = words
        self.seen: list[tuple[object, ...]] = []

    async def before(self, chat_key: ChatKey, segments: Segments, run_id: str) -> Segments | None:
        self.seen.append((chat_key, segments, run_id))
        return None if self.words is None else (*segments, Text(self.words))

    async def after(
        self, chat_key: ChatKey, segments: Segments, receipts: Sequence[Receipt]
    ) -> None:
        self.seen.append((chat_key, segments, tuple(receipts)))


async def test_each_hook_changes_the_message_in_turn(
    outbox: HookedOutbox, adapter: FakeAdapter, store: Store
) -> None:
    first, second = Hook("!"), Hook("?")
    ends = [outbox.add_hook(first), outbox.add_hook(second)]
    receipts = await outbox.send(GROUP, HI, run_id="r1", record=False)
    assert receipts == (Receipt(state=SENT, message_id="fake-1"),)
    whole = (*HI, Text("!"), Text("?"))
    assert adapter.said() == [whole]
    assert first.seen == [(GROUP, HI, "r1"), (GROUP, whole, receipts)]
    assert second.seen == [(GROUP, whole[:2], "r1"), (GROUP, whole, receipts)]
    assert len(await store.deliveries.of_run("r1")) == 1
    assert await store.messages.newest(GROUP, 10) == []
    ends[0]()
    await outbox.send(GROUP, HI)
    assert adapter.said()[1:] == [(*HI, Text("?"))]
    assert len(await store.messages.newest(GROUP, 10)) == 1
    ends[1]()
    await outbox.send(GROUP, HI)
    assert adapter.said()[2:] == [HI]


async def test_a_message_that_a_hook_refuses_is_not_sent(
    outbox: HookedOutbox, adapter: FakeAdapter
) -> None:
    refusing, later = Hook(None), Hook("?")
    outbox.add_hook(refusing)
    outbox.add_hook(later)
    assert await outbox.send(GROUP, HI) == (
        Receipt(state=DROPPED, reason="a plugin decided that it is not sent"),
    )
    assert (len(refusing.seen), later.seen, adapter.calls) == (1, [], [])
