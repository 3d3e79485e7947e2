"""Messages that were already sent are edited."""

from dataclasses import replace

import anyio
import pytest

from nekro_core.chat import (
    ChatKey,
    Delivery,
    DeliveryState,
    Image,
    Media,
    Receipt,
    Text,
    plain_text,
)
from nekro_core.delivery.activity import Broadcast, Recorded
from nekro_core.delivery.outbound.outbox import Outbox
from nekro_core.store import Store
from nekro_core.testing.adapter_contract import AdapterContract
from tests.delivery.conftest import GROUP, OTHER, QUICK, Clock
from tests.delivery.fakes import Behaviour, FakeAdapter
from tests.delivery.test_fake_adapter import FakeHarness

HI = (Text("hi"),)


class EditingAdapter(FakeAdapter):
    """A platform on which a sent message can be edited as often as wanted."""

    def __init__(self) -> None:
        super().__init__()
        self.edits: list[tuple[str, str]] = []
        self.edit_behaviour: Behaviour | None = None

    def capabilities(self, chat_key: ChatKey):
        return replace(super().capabilities(chat_key), edit_every_s=0.0)

    async def edit(self, message_id: str, delivery: Delivery) -> Receipt:
        if self.edit_behaviour is not None:
            return await self.edit_behaviour(delivery)
        self.edits.append((message_id, delivery.segments[0].text))
        place = int(message_id.rpartition("-")[2]) - 1
        self.sent[place] = replace(self.sent[place], segments=delivery.segments)
        return Receipt(state=DeliveryState.SENT, message_id=message_id)


class EditingHarness(FakeHarness):
    def __init__(self) -> None:
        super().__init__()
        self.adapter = EditingAdapter()
        self.adapter.behaviour = self._answer

    async def shown(self, count: int) -> list[str]:
        assert len(self.adapter.sent) >= count
        return [plain_text(delivery.segments) for delivery in self.adapter.sent]


class TestEditingAdapter(AdapterContract):
    @pytest.fixture
    def harness(self) -> EditingHarness:
        return EditingHarness()


@pytest.fixture
def adapter() -> EditingAdapter:
    return EditingAdapter()


@pytest.fixture
async def sent(outbox: Outbox) -> str:
    (receipt,) = await outbox.send(GROUP, HI, run_id="r1")
    return receipt.message_id


async def test_people_history_and_watchers_get_the_new_text(
    outbox: Outbox, adapter: EditingAdapter, store: Store, activity: Broadcast, sent: str
) -> None:
    assert outbox.edit_every_s(GROUP) == 0.0
    before = store.messages.changes(GROUP)
    async with activity.watch(GROUP) as stream:
        receipt = await outbox.edit(GROUP, sent, (Text("hello"),))
        changed = await anext(stream)
    assert receipt == Receipt(state=DeliveryState.SENT, message_id=sent)
    assert adapter.said(GROUP) == [(Text("hello"),)]
    (line,) = await store.messages.newest(GROUP, 10)
    assert (line.segments, line.run_id, line.state) == ((Text("hello"),), "r1", DeliveryState.SENT)
    assert changed == Recorded(line)
    assert store.messages.changes(GROUP) > before


async def test_the_row_keeps_the_text_that_was_sent_first(
    outbox: Outbox, store: Store, sent: str
) -> None:
    await outbox.edit(GROUP, sent, (Text("hello"),))
    (row,) = await store.deliveries.of_run("r1")
    assert (row.segments, row.state, row.message_id) == (HI, DeliveryState.SENT, sent)


async def test_an_edit_whose_new_content_cannot_be_sent_as_one_message_is_refused(
    outbox: Outbox, adapter: EditingAdapter, store: Store, sent: str
) -> None:
    gone = Image(Media(problem="it is not there"))
    for segments, words in (
        ((Text("x" * 101),), "it is no single message"),
        ((), "it is no single message"),
        ((gone,), "not there"),
    ):
        receipt = await outbox.edit(GROUP, sent, segments)
        assert receipt.state is DeliveryState.REJECTED
        assert words in receipt.reason
    assert adapter.edits == []
    (line,) = await store.messages.newest(GROUP, 10)
    assert line.segments == HI


@pytest.mark.parametrize("fails", ["raises", "says no", "says nothing"])
async def test_a_failed_edit_leaves_the_history_unchanged(
    store: Store, adapter: EditingAdapter, clock: Clock, fails: str
) -> None:
    async def behaviour(delivery: Delivery) -> Receipt:
        if fails == "raises":
            raise OSError("the line is down")
        if fails == "says nothing":
            await anyio.sleep_forever()
        return Receipt(state=DeliveryState.REJECTED, reason="too old")

    settings = QUICK.model_copy(update={"call_s": 0.5 if fails == "says nothing" else 30})
    async with Outbox(store, {"fake": adapter}, Broadcast(), settings, clock=clock) as outbox:
        (first,) = await outbox.send(GROUP, HI)
        adapter.edit_behaviour = behaviour
        receipt = await outbox.edit(GROUP, first.message_id, (Text("hello"),))
        refused = fails == "says no"
        assert receipt.state is (DeliveryState.REJECTED if refused else DeliveryState.UNKNOWN)
        assert receipt.reason
    (line,) = await store.messages.newest(GROUP, 10)
    assert line.segments == HI


async def test_only_the_bots_messages_in_this_chat_are_changed(
    outbox: Outbox, store: Store, sent: str
) -> None:
    await outbox.edit(OTHER, sent, (Text("elsewhere"),))
    await outbox.edit(GROUP, "another", (Text("another"),))
    (line,) = await store.messages.newest(GROUP, 10)
    assert line.segments == HI


async def test_edits_may_be_allowed_in_one_chat_and_not_in_another(
    store: Store, adapter: EditingAdapter, clock: Clock
) -> None:
    class InGroupsAlone(EditingAdapter):
        def capabilities(self, chat_key: ChatKey):
            can = super().capabilities(chat_key)
            return can if chat_key == GROUP else replace(can, edit_every_s=None)

    adapters = {"fake": InGroupsAlone()}
    async with Outbox(store, adapters, Broadcast(), QUICK, clock=clock) as outbox:
        assert (outbox.edit_every_s(GROUP), outbox.edit_every_s(OTHER)) == (0.0, None)
        (first,) = await outbox.send(OTHER, HI)
        receipt = await outbox.edit(OTHER, first.message_id, (Text("hello"),))
        assert receipt == Receipt(
            state=DeliveryState.REJECTED,
            reason=f"messages of {OTHER} cannot be changed once they are sent",
        )


async def test_an_edit_is_rejected_on_a_platform_without_edits(store: Store, clock: Clock) -> None:
    async with Outbox(store, {"fake": FakeAdapter()}, Broadcast(), QUICK, clock=clock) as outbox:
        (first,) = await outbox.send(GROUP, HI)
        assert outbox.edit_every_s(GROUP) is None
        assert outbox.edit_every_s(ChatKey.parse("nobody-group_1")) is None
        receipt = await outbox.edit(GROUP, first.message_id, (Text("hello"),))
        assert receipt.state is DeliveryState.REJECTED
        assert "cannot be changed" in receipt.reason
