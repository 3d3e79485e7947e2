"""Several messages of one turn come at the pace of a person, and a kill during a pause loses
none."""

import tempfile
from pathlib import Path

import anyio
import pytest

from nekro_core.chat import Delivery, DeliveryState, Receipt, Text, plain_text
from nekro_core.delivery.activity import Broadcast
from nekro_core.delivery.outbound.outbox import Outbox
from nekro_core.policy.overrides import ChatOverrides
from nekro_core.store import Store
from tests.delivery.conftest import GROUP, OTHER, QUICK, Clock
from tests.delivery.fakes import FakeAdapter
from tests.delivery.outbound.killed_processes import watched

HI = (Text("hi"),)


class TimedAdapter(FakeAdapter):
    """A platform that notes when each message arrived."""

    def __init__(self) -> None:
        super().__init__()
        self.times: list[float] = []

    async def send(self, delivery: Delivery) -> Receipt:
        self.times.append(anyio.current_time())
        return await super().send(delivery)


def paced(store: Store, adapter: FakeAdapter, clock: Clock, **settings: float) -> Outbox:
    return Outbox(
        store, {"fake": adapter}, Broadcast(), QUICK.model_copy(update=settings), clock=clock
    )


async def test_messages_of_a_further_run_of_a_turn_are_paced_and_those_of_another_turn_are_not(
    store: Store, clock: Clock
) -> None:
    adapter = TimedAdapter()
    for run_id, turn_id in (("r1", 7), ("r2", 7), ("r3", 8), ("r4", 0), ("r5", 0)):
        await store.runs.begin(run_id, GROUP, code="", turn_id=turn_id)
    async with paced(store, adapter, clock, pace_chars_s=50, pace_longest_s=1.0) as outbox:
        for run_id in ("r1", "r2", "r3", "r4", "r5"):
            await outbox.send(GROUP, (Text("x" * 60),), run_id=run_id)
    first, second, third, fourth, fifth = adapter.times
    assert second - first >= 1.0
    assert third - second < 1.0, "a new turn does not wait for the messages of the one before"
    assert fourth - third < 1.0
    assert fifth - fourth < 1.0, "runs of no turn do not belong together"


@pytest.mark.parametrize(
    ("bot", "chat", "waits"), [(0, 50, True), (50, 0, False), (50, None, True)]
)
async def test_the_operator_sets_the_pace_for_the_bot_or_a_chat(
    store: Store, clock: Clock, bot: float, chat: float | None, waits: bool
) -> None:
    adapter = TimedAdapter()
    async with paced(store, adapter, clock, pace_chars_s=bot, pace_longest_s=1.0) as outbox:
        outbox.overrides = lambda key: ChatOverrides(pace_chars_s=chat if key == GROUP else 0)
        for key in (GROUP, OTHER):
            for _ in range(2):
                await outbox.send(key, (Text("x" * 60),), run_id="r1")
    first, second, third, fourth = adapter.times
    assert (second - first >= 1.0) == waits
    assert fourth - third < 1.0


async def test_a_kill_during_the_pause_loses_no_message_and_sends_none_twice(
    tmp_path: Path, empty_database: bytes, clock: Clock
) -> None:
    folder = tmp_path / "first"
    folder.mkdir()
    (folder / "nekro.sqlite3").write_bytes(empty_database)
    adapter, second = TimedAdapter(), (Text("second " + "x" * 60),)
    async with Store.open(f"sqlite://{folder}/nekro.sqlite3", clock=clock) as store:
        await store.accounts.bind("fake", "bot")
        slow = {"pace_chars_s": 50, "pace_longest_s": 0.4}
        async with (
            paced(store, adapter, clock, **slow) as outbox,
            watched(folder, lambda: len(adapter.sent)) as moments,
        ):
            await outbox.send(GROUP, HI, run_id="r1")
            await outbox.send(GROUP, second, run_id="r1")
    pauses = [each for each in moments if each.seen == 1 and plain_text(second) in each.messages()]
    assert pauses, "the second message is stored before the pause"
    with tempfile.TemporaryDirectory(dir=tmp_path) as after:
        left = pauses[0].put(Path(after) / "left")
        again = FakeAdapter()
        async with (
            Store.open(f"sqlite://{left}/nekro.sqlite3", clock=clock) as store,
            paced(store, again, clock, **slow) as outbox,
        ):
            with anyio.fail_after(30):
                while not again.sent:
                    outbox.retry_now()
                    await anyio.sleep(0.01)
            await anyio.sleep(0.1)
            assert again.said(GROUP) == [second]
            rows = await store.deliveries.of_run("r1")
            assert [row.state for row in rows] == [DeliveryState.SENT] * 2
