"""Whatever the platform does, and whenever the process is killed, no message is sent twice or out
of order, and the state in every row is true."""

import tempfile
from pathlib import Path

import anyio
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nekro_core.chat import Delivery, DeliveryState, Receipt, Text
from nekro_core.delivery.activity import Broadcast
from nekro_core.delivery.outbound.outbox import Outbox
from nekro_core.store import Store
from tests.delivery.conftest import GROUP, QUICK, Clock
from tests.delivery.fakes import FakeAdapter

ANSWERS = st.sampled_from(["sent", "rejected", "unknown", "raise", "cancel", "offline"])
PROCESSES = st.lists(st.lists(ANSWERS, min_size=1, max_size=4), min_size=1, max_size=3)


class Platform(FakeAdapter):
    """A platform that answers each call by a script. ``arrived`` has every message that people saw,
    also those whose call failed."""

    def __init__(self) -> None:
        super().__init__()
        self.script = ""
        self.arrived: list[str] = []
        self.handed: list[str] = []
        self.cancel = anyio.CancelScope()

    async def send(self, delivery: Delivery) -> Receipt:
        if self.script == "offline":
            return Receipt(state=DeliveryState.PENDING, reason="offline")
        (text,) = delivery.segments
        assert isinstance(text, Text)
        self.handed.append(text.text)
        match self.script:
            case "rejected":
                return Receipt(state=DeliveryState.REJECTED, reason="no")
            case "raise":
                raise RuntimeError("a bug")
            case "cancel":
                self.arrived.append(text.text)
                self.cancel.cancel()
                await anyio.sleep(1)
        self.arrived.append(text.text)
        if self.script == "unknown":
            return Receipt(state=DeliveryState.UNKNOWN, reason="async")
        return Receipt(state=DeliveryState.SENT, message_id=text.text)


async def _live(url: str, platform: Platform, process: list[str], number: int) -> None:
    """Run one process that sends one message after another and ends."""
    async with (
        Store.open(url, clock=Clock()) as store,
        Outbox(store, {"fake": platform}, Broadcast(), QUICK, clock=Clock()) as outbox,
    ):
        for position, answer in enumerate(process):
            platform.script = answer
            with anyio.CancelScope() as platform.cancel:
                text = Text(f"{number}.{position}")
                await outbox.send(GROUP, (text,), run_id=f"r{number}.{position}")
        platform.script = "offline"


@given(processes=PROCESSES)
@example(processes=[["unknown"], ["sent", "sent"]])
@settings(max_examples=25, deadline=None)
async def test_the_final_state_of_every_row_is_true(
    processes: list[list[str]], empty_database: bytes
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "nekro.sqlite3").write_bytes(empty_database)
        url = f"sqlite://{folder}/nekro.sqlite3"
        platform = Platform()
        for number, process in enumerate(processes):
            await _live(url, platform, process, number)
        async with Store.open(url, clock=Clock()) as store:
            rows = await store.deliveries.in_state(*DeliveryState)
    assert len(rows) == sum(len(process) for process in processes)
    assert len(platform.handed) == len(set(platform.handed)), "nothing is handed over twice"
    order = [
        f"{number}.{position}"
        for number, process in enumerate(processes)
        for position in range(len(process))
    ]
    assert platform.handed == [text for text in order if text in platform.handed], (
        "the messages must be handed over in order"
    )
    for row, text in zip(rows, order, strict=True):
        assert row.run_id == f"r{text}"
        match row.state:
            case DeliveryState.SENT:
                assert text in platform.arrived
            case DeliveryState.REJECTED | DeliveryState.PENDING | DeliveryState.DROPPED:
                assert text not in platform.arrived
            case DeliveryState.SENDING:
                raise AssertionError("nobody is sending any more")
