"""The process is killed between any two steps of a send, of the recovery after a start, or of
asking the platform whether a message arrived. No message is sent twice or lost, and the order
stays."""

import random
import tempfile
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import anyio
import pytest

from nekro_core.chat import DeliveryState, Receipt, Text
from nekro_core.delivery.activity import Broadcast
from nekro_core.delivery.adapter import PlatformMessage, UncertainDelivery
from nekro_core.delivery.inbound.inbox import Inbox
from nekro_core.delivery.outbound.outbox import Outbox
from nekro_core.store import Store
from tests.delivery.conftest import GROUP, QUICK, Clock
from tests.delivery.fakes import FakeAdapter, message
from tests.delivery.outbound.killed_processes import Moment, until, watched
from tests.delivery.outbound.test_unknown_deliveries import AskedAdapter, Platform

UNKNOWN, SENT = DeliveryState.UNKNOWN, DeliveryState.SENT
WORDS = ["one", "two", "three"]
SETTINGS = QUICK.model_copy(update={"settle_s": 0.03, "retry_s": 0.01})


class DeafAdapter(AskedAdapter):
    """Like `AskedAdapter`, but the platform cannot tell whether a message arrived."""

    async def confirm(self, doubt: UncertainDelivery) -> Receipt:
        return Receipt(state=UNKNOWN, reason="cannot tell")


class Life:
    """One process. At its start the platform shows the messages that it showed when the previous
    process was killed."""

    def __init__(self, folder: Path, shows: list[PlatformMessage], *, asked: bool) -> None:
        self.url = f"sqlite://{folder}/nekro.sqlite3"
        self.platform = Platform(shows=[*shows])
        self.adapter: FakeAdapter = (AskedAdapter if asked else DeafAdapter)(self.platform)

    async def run(self, stack: AsyncExitStack) -> tuple[Store, Outbox]:
        store = await stack.enter_async_context(Store.open(self.url, clock=Clock()))
        outbox = Outbox(store, {"fake": self.adapter}, Broadcast(), SETTINGS, clock=Clock())
        return store, await stack.enter_async_context(outbox)

    async def recover(self) -> dict[str, DeliveryState]:
        """Run until the outcome of every delivery is known. Return the state of each message."""
        async with AsyncExitStack() as stack:
            store, _ = await self.run(stack)

            async def decided() -> bool:
                rows = await store.deliveries.in_state(*DeliveryState)
                open_now = {DeliveryState.PENDING, DeliveryState.SENDING}
                if isinstance(self.adapter, DeafAdapter):
                    return not any(row.state in open_now for row in rows)
                return not any(row.state in open_now | {UNKNOWN} for row in rows)

            await until(decided)
            rows = await store.deliveries.in_state(*DeliveryState)
            return {
                row.segments[0].text: row.state for row in rows if isinstance(row.segments[0], Text)
            }


async def first_life(folder: Path, *, asked: bool) -> tuple[list[Moment], list[PlatformMessage]]:
    """Run the first process. A person and the bot have written before. Then the bot sends three
    messages: the first arrives, the second is lost, and the third arrives but its call gets no
    answer."""
    life = Life(folder, [], asked=asked)
    async with AsyncExitStack() as stack:
        store, outbox = await life.run(stack)
        await store.accounts.bind("fake", "bot")
        heard = message(GROUP, "hello", message_id=life.platform.show("hello", own=False))
        inbox = Inbox(store, Broadcast())
        await inbox.accept(inbox.stamp(heard))
        await outbox.send(GROUP, (Text("hi"),))
        async with watched(folder, lambda: len(life.platform.shows)) as moments:
            for words, fate in zip(WORDS, ("fine", "loses", "mute"), strict=True):
                life.platform.fate = fate  # type: ignore[assignment]  # one of its words
                await outbox.send(GROUP, (Text(words),))
                life.platform.fate = "fine"
            await anyio.sleep(0.1 if asked else 0)
    return moments, life.platform.shows


def _shown_by(life: Life) -> int:
    return len(life.platform.shows)


def check(life: Life, became: dict[str, DeliveryState], *, asked: bool) -> None:
    texts = life.platform.texts()
    assert len(texts) == len(set(texts)), f"sent twice: {texts}"
    assert [each for each in WORDS if each in texts] == [each for each in texts if each in WORDS]
    for words in WORDS:
        state = became.get(words)  # None if the kill came before the send
        if asked:
            assert state in {None, SENT}
            assert (words in texts) == (state is SENT)
        else:
            assert state in {None, SENT, UNKNOWN}
            assert words in texts or state is not SENT
            assert words not in texts or state is not None


@pytest.mark.parametrize("asked", [True, False], ids=["asked", "not asked"])
@pytest.mark.parametrize("again_each", [1, pytest.param(10_000, marks=pytest.mark.long)])
async def test_a_kill_at_any_moment_doubles_and_loses_no_message(
    tmp_path: Path, asked: bool, again_each: int
) -> None:
    (tmp_path / "first").mkdir()
    moments, shows = await first_life(tmp_path / "first", asked=asked)
    # A kill leaves one of these moments. Everything else was in the memory of the process and is
    # lost.
    assert len(moments) >= 7, "each commit and each call must give a separate moment"
    chance = random.Random(4)
    few = again_each < len(moments)
    for moment in chance.sample(moments, 5) if few else moments:
        with tempfile.TemporaryDirectory(dir=tmp_path) as folder:
            # The second process is killed too, while it recovers from the first kill.
            second = Life(moment.put(Path(folder) / "a"), shows[: moment.seen], asked=asked)
            seen = partial(_shown_by, second)
            async with watched(Path(folder) / "a", seen) as again:
                became = await second.recover()
            check(second, became, asked=asked)
            for later in chance.sample(again, min(again_each, len(again))):
                with tempfile.TemporaryDirectory(dir=tmp_path) as last:
                    shows_then = second.platform.shows[: later.seen]
                    third = Life(later.put(Path(last) / "b"), shows_then, asked=asked)
                    check(third, await third.recover(), asked=asked)


def test_check_reports_messages_that_were_sent_twice_or_lost() -> None:
    """This test shows that `check` can fail."""
    platform = Platform()
    for text in ("one", "two", "one"):
        platform.show(text)
    life = Life.__new__(Life)
    life.platform = platform
    with pytest.raises(AssertionError, match="sent twice"):
        check(life, {}, asked=True)
    life.platform = Platform()
    with pytest.raises(AssertionError):
        check(life, {"one": SENT}, asked=True)
