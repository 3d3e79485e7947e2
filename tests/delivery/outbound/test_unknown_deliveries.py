"""When a call ended without an answer, the outbox asks the platform whether the message arrived, if
the platform can be asked."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Literal

import anyio
import pytest

from nekro_core.chat import ChatKey, Delivery, DeliveryState, Receipt, Text
from nekro_core.delivery.activity import Broadcast
from nekro_core.delivery.adapter import PlatformMessage, UncertainDelivery
from nekro_core.delivery.inbound.inbox import Inbox
from nekro_core.delivery.outbound.match_delivery import match_delivery
from nekro_core.delivery.outbound.outbox import Outbox
from nekro_core.store import Store
from tests.delivery.conftest import GROUP, OTHER, QUICK, Clock
from tests.delivery.fakes import FakeAdapter, message

SENT, UNKNOWN, PENDING = DeliveryState.SENT, DeliveryState.UNKNOWN, DeliveryState.PENDING
DROPPED = DeliveryState.DROPPED


@dataclass
class Platform:
    """What people see. With the fate ``loses``, messages do not arrive. With ``mute`` they arrive,
    but the call gets no answer. ``breaks`` is like ``mute``, but the history shows the messages
    late."""

    shows: list[PlatformMessage] = field(default_factory=list)
    fate: Literal["fine", "mute", "loses", "breaks"] = "fine"
    late: list[PlatformMessage] = field(default_factory=list)
    """Messages that arrived but are not in the history yet."""
    questions: int = 0

    def texts(self) -> list[str]:
        return [each.segments[0].text for each in self.shows if isinstance(each.segments[0], Text)]

    def show(self, text: str, *, own: bool = True) -> str:
        name = f"m{len(self.shows) + len(self.late)}"
        shown = PlatformMessage(message_id=name, own=own, segments=(Text(text),), time=1000.0)
        (self.late if self.fate == "breaks" else self.shows).append(shown)
        return name


class AskedAdapter(FakeAdapter):
    """A platform with a history."""

    def __init__(self, platform: Platform) -> None:
        super().__init__(text_length=4000)
        self.platform = platform
        self.behaviour = self._carry_out

    async def _carry_out(self, delivery: Delivery) -> Receipt:
        (text,) = delivery.segments
        assert isinstance(text, Text)
        if self.platform.fate == "loses":
            return Receipt(state=UNKNOWN, reason="no answer")
        name = self.platform.show(text.text)
        if self.platform.fate != "fine":
            return Receipt(state=UNKNOWN, reason="no answer")
        return Receipt(state=SENT, message_id=name)

    async def confirm(self, doubt: UncertainDelivery) -> Receipt:
        self.platform.questions += 1
        if self.offline:
            return Receipt(state=PENDING, reason="offline")
        return match_delivery(doubt, self.platform.shows)


class Bench:
    def __init__(self, store: Store, adapter: AskedAdapter, outbox: Outbox) -> None:
        self.store, self.adapter, self.outbox = store, adapter, outbox
        self.platform = adapter.platform
        self._number = 0

    async def receive(self, text: str, key: ChatKey = GROUP) -> None:
        name = self.platform.show(text, own=False)
        inbox = Inbox(self.store, Broadcast())
        await inbox.accept(inbox.stamp(message(key, text, message_id=name)))

    async def say(self, text: str, key: ChatKey = GROUP) -> DeliveryState:
        (receipt,) = await self.outbox.send(key, (Text(text),), run_id=f"r-{text}")
        return receipt.state

    async def state(self, text: str) -> DeliveryState:
        (row,) = await self.store.deliveries.of_run(f"r-{text}")
        return row.state

    async def until(self, text: str, state: DeliveryState) -> None:
        with anyio.fail_after(30):
            while await self.state(text) is not state:
                self.outbox.retry_now()
                await anyio.sleep(0.005)

    async def die_saying(self, text: str, *, arrives: bool) -> None:
        """Start a send and cancel it during its platform call, as the end of the process would."""
        under_way = anyio.Event()

        async def carry_out(_: Delivery) -> Receipt:
            if arrives:
                self.platform.show(text)
            under_way.set()
            await anyio.sleep_forever()
            raise AssertionError

        self.adapter.behaviour = carry_out
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.say, text)
            await under_way.wait()
            tasks.cancel_scope.cancel()


@asynccontextmanager
async def bench(
    store: Store, clock: Clock, platform: Platform | None = None, **limits: float
) -> AsyncIterator[Bench]:
    adapter = AskedAdapter(platform or Platform())
    settings = QUICK.model_copy(update={"settle_s": 0.02, **limits})
    async with Outbox(store, {"fake": adapter}, Broadcast(), settings, clock=clock) as outbox:
        yield Bench(store, adapter, outbox)


@pytest.fixture
async def at_work(store: Store, clock: Clock) -> AsyncIterator[Bench]:
    """A chat in which a person and the bot have written. The outbox asks the platform about an
    unknown delivery only when a test waits for a state with `Bench.until`."""
    async with bench(store, clock, retry_s=3600) as begun:
        await begun.receive("hello")
        assert await begun.say("hi") is SENT
        yield begun


async def test_a_delivery_found_in_the_history_becomes_sent(at_work: Bench) -> None:
    at_work.platform.fate = "mute"
    assert await at_work.say("are you there?") is UNKNOWN
    await at_work.until("are you there?", SENT)
    assert at_work.platform.texts().count("are you there?") == 1
    (row,) = await at_work.store.deliveries.of_run("r-are you there?")
    assert row.message_id == at_work.platform.shows[-1].message_id
    line = (await at_work.store.messages.newest(GROUP, 1))[0]
    assert (line.state, line.message_id) == (SENT, row.message_id)


async def test_a_delivery_missing_in_the_history_is_sent_again_in_its_place(at_work: Bench) -> None:
    at_work.platform.fate = "loses"
    assert await at_work.say("one") is UNKNOWN
    at_work.platform.fate = "fine"
    assert await at_work.say("two") is PENDING, (
        "the message waits until the outcome of the one before it is known"
    )
    await at_work.until("two", SENT)
    assert at_work.platform.texts() == ["hello", "hi", "one", "two"]
    assert await at_work.state("one") is SENT


async def test_a_delivery_that_the_history_shows_late_is_not_sent_twice(
    store: Store, clock: Clock
) -> None:
    async with bench(store, clock, settle_s=20, retry_s=3600) as late:
        await late.receive("hello")
        await late.say("hi")
        late.platform.fate = "breaks"
        assert await late.say("one") is UNKNOWN
        with anyio.fail_after(30):
            while not late.platform.questions:
                late.outbox.retry_now()
                await anyio.sleep(0.005)
        late.platform.shows += late.platform.late
        await late.until("one", SENT)
        assert late.platform.texts().count("one") == 1


async def test_a_lost_message_is_sent_again_although_an_earlier_one_has_the_same_words(
    at_work: Bench,
) -> None:
    assert await at_work.say("ha") is SENT
    at_work.platform.fate = "loses"
    (receipt,) = await at_work.outbox.send(GROUP, (Text("ha"),), run_id="second")
    assert receipt.state is UNKNOWN
    at_work.platform.fate = "fine"
    with anyio.fail_after(30):
        while at_work.platform.texts().count("ha") < 2:
            at_work.outbox.retry_now()
            await anyio.sleep(0.005)


async def test_the_platform_is_asked_when_the_account_is_back(at_work: Bench) -> None:
    at_work.platform.fate = "mute"
    at_work.adapter.offline = False
    assert await at_work.say("one") is UNKNOWN
    at_work.adapter.offline = True
    at_work.platform.fate = "fine"
    assert await at_work.say("two") is PENDING
    at_work.outbox.retry_now()
    await anyio.sleep(0.05)
    at_work.adapter.offline = False
    at_work.outbox.retry_now()
    await at_work.until("two", SENT)
    assert at_work.platform.texts()[-2:] == ["one", "two"]


async def test_a_delivery_stays_unknown_if_the_platform_cannot_tell(
    store: Store, clock: Clock
) -> None:
    """The platform's history has never shown a message of this bot. Perhaps it never shows messages
    of bots."""
    async with bench(store, clock) as fresh:
        await fresh.receive("hello")
        fresh.platform.fate = "loses"
        assert await fresh.say("one") is UNKNOWN
        fresh.platform.fate = "fine"
        await fresh.say("two")
        await fresh.until("two", SENT)
        assert await fresh.state("one") is UNKNOWN
        assert fresh.platform.texts() == ["hello", "two"]
        assert await fresh.say("elsewhere", OTHER) is SENT


async def test_the_platform_is_not_asked_if_the_operator_switched_this_off(
    store: Store, clock: Clock
) -> None:
    async with bench(store, clock, settle_s=0) as silent:
        await silent.receive("hello")
        await silent.say("hi")
        silent.platform.fate = "loses"
        assert await silent.say("one") is UNKNOWN
        silent.platform.fate = "fine"
        assert await silent.say("two") is SENT
        assert silent.platform.questions == 0
        assert await silent.state("one") is UNKNOWN


@pytest.mark.parametrize("arrived", [True, False])
async def test_after_a_restart_the_platform_is_asked_too(
    url: str, clock: Clock, arrived: bool
) -> None:
    platform = Platform()
    async with Store.open(url, clock=clock) as store, bench(store, clock, platform) as before:
        await store.accounts.bind("fake", "bot")
        await before.receive("hello")
        await before.say("hi")
        await before.die_saying("one", arrives=arrived)
    async with Store.open(url, clock=clock) as store, bench(store, clock, platform) as after:
        await after.say("two")
        await after.until("two", SENT)
        await after.until("one", SENT)
    assert platform.texts() == ["hello", "hi", "one", "two"]


async def test_a_send_of_a_stopped_turn_is_not_sent_later(url: str, clock: Clock) -> None:
    platform = Platform()
    async with Store.open(url, clock=clock) as store, bench(store, clock, platform) as before:
        await store.accounts.bind("fake", "bot")
        await before.receive("hello")
        await before.say("hi")
        turn = await store.turns.begin(GROUP, trigger_seq=1, through_seq=1)
        await store.runs.begin("r-one", GROUP, code="", turn_id=turn.turn_id)
        await before.die_saying("one", arrives=False)
        await store.turns.end(turn.turn_id, stop="stopped")
    async with Store.open(url, clock=clock) as store, bench(store, clock, platform) as after:
        await after.say("two")
        await anyio.sleep(0.1)
        assert await after.state("one") is UNKNOWN
    assert platform.texts() == ["hello", "hi", "two"]


async def test_an_unknown_delivery_is_not_sent_after_later_messages(url: str, clock: Clock) -> None:
    """The history now shows that the message did not arrive. But later messages have arrived, so
    the message is not sent any more. ``make crash``, seed 8, found this case."""
    platform = Platform()
    async with Store.open(url, clock=clock) as store, bench(store, clock, platform) as before:
        await store.accounts.bind("fake", "bot")
        await before.receive("hello")
        platform.fate = "loses"
        assert await before.say("one") is UNKNOWN
        platform.fate = "fine"
        await before.say("two")
        await before.until("two", SENT)
    async with Store.open(url, clock=clock) as store, bench(store, clock, platform) as after:
        await after.say("three")
        await after.until("three", SENT)
        await anyio.sleep(0.1)
        assert await after.state("one") is UNKNOWN
    assert platform.texts() == ["hello", "two", "three"]
