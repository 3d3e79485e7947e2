"""What every adapter promises, as tests.

An adapter's own test module imports `AdapterConformance`, subclasses it as ``Test...`` and gives it
a ``harness`` fixture: the adapter at work against its own peer, and what that peer can be told.
"""

import time
from typing import Protocol

import anyio
import pytest

from nekro_core.chat import (
    ChatKey,
    ChatMessage,
    Delivery,
    DeliveryState,
    Image,
    Media,
    Notice,
    Receipt,
    Segment,
    Text,
    Voice,
)
from nekro_core.delivery.adapter import (
    Adapter,
    SupportsConfirmation,
    SupportsEditing,
    UncertainDelivery,
)


class AdapterHarness(Protocol):
    """An adapter that was started, and the other side of its protocol."""

    adapter: Adapter
    chat_key: ChatKey
    """A group that the account is in."""

    async def speak(self, text: str, *, user: str = "10001", message_id: str = "") -> str:
        """A person says something in the group; the platform's id of it."""

    async def heard(self, count: int) -> list[ChatMessage]:
        """What the adapter handed on, once it was so many."""

    async def seen(self, count: int) -> list[str]:
        """The texts that people of the group saw from the bot, once they were so many."""

    async def refuse_sends(self) -> None:
        """From now on the platform answers each send with a clear no."""

    async def go_silent(self) -> None:
        """From now on the platform takes calls and answers none; the adapter's own time-out for a
        call should be short in the harness."""

    async def disconnect(self) -> None:
        """The account loses its connection and does not come back."""


def _delivery(harness: AdapterHarness, *segments: Segment, number: int = 1) -> Delivery:
    return Delivery(
        delivery_id=f"d{number}", chat_key=harness.chat_key, segments=segments, run_id="r1"
    )


class AdapterConformance:
    """The promises of `nekro_core.delivery.adapter.Adapter`."""

    @pytest.fixture
    def harness(self) -> AdapterHarness:
        raise NotImplementedError("give the suite a harness fixture")

    def test_has_a_name_that_can_stand_in_a_chat_key(self, harness: AdapterHarness) -> None:
        assert ChatKey.parse(f"{harness.adapter.name}-group_1")

    def test_no_type_is_both_inline_and_alone(self, harness: AdapterHarness) -> None:
        can = harness.adapter.capabilities(harness.chat_key)
        assert Text in can.inline | can.alone
        assert not can.inline & can.alone
        assert Notice not in can.inline | can.alone
        assert can.text_length >= 1
        assert can.images_per_call >= 1

    async def test_what_people_say_arrives_in_order_in_the_chats_key(
        self, harness: AdapterHarness
    ) -> None:
        for number in range(10):
            await harness.speak(f"line {number}")
        heard = await harness.heard(10)
        assert [message.text for message in heard] == [f"line {number}" for number in range(10)]
        assert {message.chat_key for message in heard} == {harness.chat_key}
        assert len({message.message_id for message in heard}) == 10
        assert all(message.sender.user_id and message.time > 0 for message in heard)

    async def test_hostile_text_is_only_text(self, harness: AdapterHarness) -> None:
        texts = ["[CQ:at,qq=all]", "\u202etxt.exe", "a\u200bb", "<b>&amp;</b>", "{0} %s ${x}"]
        for text in texts:
            await harness.speak(text)
        heard = await harness.heard(len(texts))
        assert [message.segments for message in heard] == [(Text(text),) for text in texts]

    async def test_a_send_is_sent_once_people_can_see_it(self, harness: AdapterHarness) -> None:
        receipt = await harness.adapter.send(_delivery(harness, Text("good evening")))
        assert receipt.state is DeliveryState.SENT
        assert receipt.message_id
        assert await harness.seen(1) == ["good evening"]

    async def test_platform_markup_in_a_text_is_only_characters(
        self, harness: AdapterHarness
    ) -> None:
        markup = "[CQ:at,qq=all] & <script> `x`"
        receipt = await harness.adapter.send(_delivery(harness, Text(markup)))
        assert receipt.ok
        assert await harness.seen(1) == [markup]

    async def test_an_edited_message_is_seen_as_it_is_now(self, harness: AdapterHarness) -> None:
        adapter, can = harness.adapter, harness.adapter.capabilities(harness.chat_key)
        assert isinstance(adapter, SupportsEditing) == (can.edit_every_s is not None)
        if isinstance(adapter, SupportsEditing):
            sent = await adapter.send(_delivery(harness, Text("one")))
            for text in ("two", "two", "three"):
                edited = await adapter.edit(sent.message_id, _delivery(harness, Text(text)))
                assert (edited.state, edited.message_id) == (DeliveryState.SENT, sent.message_id)
            assert await harness.seen(1) == ["three"]

    async def test_a_no_is_rejected_with_its_reason(self, harness: AdapterHarness) -> None:
        await harness.refuse_sends()
        receipt = await harness.adapter.send(_delivery(harness, Text("hello")))
        assert receipt.state is DeliveryState.REJECTED
        assert receipt.reason

    async def test_no_answer_is_unknown(self, harness: AdapterHarness) -> None:
        await harness.go_silent()
        with anyio.fail_after(30):
            receipt = await harness.adapter.send(_delivery(harness, Text("hello")))
        assert receipt.state is DeliveryState.UNKNOWN
        assert receipt.reason

    async def test_what_was_not_answered_for_can_be_asked_about(
        self, harness: AdapterHarness
    ) -> None:
        adapter = harness.adapter
        if not isinstance(adapter, SupportsConfirmation):
            return
        first = await harness.speak("hello")
        known = await adapter.send(_delivery(harness, Text("known"), number=1))
        ids = frozenset({first, known.message_id})
        await harness.go_silent()
        with anyio.fail_after(30):
            lost = await adapter.send(_delivery(harness, Text("is it there?"), number=2))
        assert lost.state is DeliveryState.UNKNOWN

        async def asked(text: str, number: int) -> Receipt:
            delivery = _delivery(harness, Text(text), number=number)
            doubt = UncertainDelivery(delivery=delivery, since=time.time(), before=ids, taken=ids)
            with anyio.fail_after(30):
                return await adapter.confirm(doubt)

        with anyio.fail_after(30):
            # The platform may be at it still: a no is for now, and is asked about again.
            while (found := await asked("is it there?", 2)).state is DeliveryState.REJECTED:
                await anyio.sleep(0.05)
        assert found.state is DeliveryState.SENT
        assert found.message_id not in {"", *ids}
        never = await asked("never said", 3)
        assert never.state in {DeliveryState.REJECTED, DeliveryState.UNKNOWN}
        assert never.reason
        await harness.disconnect()
        away = await asked("is it there?", 2)
        assert away.state is DeliveryState.PENDING
        assert away.reason

    async def test_an_offline_account_never_had_the_call(self, harness: AdapterHarness) -> None:
        await harness.disconnect()
        with anyio.fail_after(30):
            receipt = await harness.adapter.send(_delivery(harness, Text("hello")))
        assert receipt.state is DeliveryState.PENDING
        assert receipt.reason

    async def test_a_medium_that_is_not_there_is_rejected(self, harness: AdapterHarness) -> None:
        can = harness.adapter.capabilities(harness.chat_key)
        gone = Media(path="/nowhere/at/all.png", name="all.png", mime="image/png")
        for kind in (Image, Voice):
            if kind in can.inline | can.alone:
                receipt = await harness.adapter.send(_delivery(harness, kind(media=gone)))
                assert receipt.state is DeliveryState.REJECTED
                assert receipt.reason

    async def test_own_accounts_are_known(self, harness: AdapterHarness) -> None:
        assert await harness.adapter.own_accounts(harness.chat_key)

    async def test_a_cancelled_send_ends_at_once(self, harness: AdapterHarness) -> None:
        await harness.go_silent()
        with anyio.fail_after(30), anyio.move_on_after(0.05):
            await harness.adapter.send(_delivery(harness, Text("hello")))

    async def test_closing_twice_is_fine(self, harness: AdapterHarness) -> None:
        await harness.adapter.aclose()
        await harness.adapter.aclose()
