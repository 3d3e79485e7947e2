"""``kill -9`` under load: each message that was reported as stored is stored, and none is sent
twice."""

import signal
import subprocess
import sys
from pathlib import Path

import anyio

from nekro_core.chat import DeliveryState, Text
from nekro_core.delivery.activity import Broadcast
from nekro_core.delivery.outbound.outbox import Outbox
from nekro_core.store import Store

from .conftest import GROUP, QUICK, Clock
from .fakes import FakeAdapter

VICTIM = """
import asyncio, sys
from nekro_core.chat import DeliveryState, Receipt, Text
from nekro_core.delivery.activity import Broadcast
from nekro_core.delivery.inbound.inbox import Inbox
from nekro_core.delivery.outbound.outbox import Outbox
from nekro_core.delivery.settings import DeliverySettings
from nekro_core.store import Store
from tests.delivery.conftest import GROUP, Clock
from tests.delivery.fakes import FakeAdapter, message

class Loud(FakeAdapter):
    async def send(self, delivery):
        print("handed", delivery.segments[0].text, flush=True)
        return await super().send(delivery)

async def chatter(inbox):
    for number in range(100_000):
        await inbox.accept(inbox.stamp(message(GROUP, str(number), message_id=str(number))))
        print("stored", number, flush=True)

async def answer(outbox):
    for number in range(100_000):
        (receipt,) = await outbox.send(GROUP, (Text(str(number)),))
        print("receipt", number, receipt.state, flush=True)

async def main():
    async with Store.open(sys.argv[1], clock=Clock()) as store:
        activity = Broadcast()
        await store.accounts.bind("fake", "bot")
        settings = DeliverySettings(sends_per_window=1_000_000)
        async with Outbox(store, {"fake": Loud()}, activity, settings, clock=Clock()) as outbox:
            await asyncio.gather(chatter(Inbox(store, activity)), answer(outbox))
asyncio.run(main())
"""


async def test_a_bot_killed_under_load_keeps_every_stored_message(url: str) -> None:
    lines: list[list[str]] = []
    with subprocess.Popen(
        [sys.executable, "-c", VICTIM, url],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    ) as victim:
        assert victim.stdout is not None
        for line in victim.stdout:
            lines.append(line.split())
            if sum(line[0] == "handed" for line in lines) >= 50:
                victim.send_signal(signal.SIGKILL)
                break
        lines += [line.split() for line in victim.stdout if line.endswith("\n")]
    handed = [line[1] for line in lines if line[0] == "handed"]
    sent = [line[1] for line in lines if line[0] == "receipt"]

    adapter = FakeAdapter()
    async with Store.open(url, clock=Clock()) as store:
        async with Outbox(store, {"fake": adapter}, Broadcast(), QUICK, clock=Clock()):
            with anyio.fail_after(30):
                on_their_way = (DeliveryState.PENDING, DeliveryState.SENDING)
                while await store.deliveries.in_state(*on_their_way):
                    await anyio.sleep(0.02)
        history = await store.messages.newest(GROUP, 100_000)
        stored = {record.message_id for record in history if record.sender.user_id == "lin"}
        rows = await store.deliveries.in_state(*DeliveryState)
    assert {line[1] for line in lines if line[0] == "stored"} <= stored
    late = [segments[0].text for segments in adapter.said() if isinstance(segments[0], Text)]
    assert not set(late) & set(handed), "nothing is sent twice"
    by_state: dict[DeliveryState, list[str]] = {}
    for row in rows:
        (text,) = row.segments
        assert isinstance(text, Text)
        by_state.setdefault(row.state, []).append(text.text)
    assert set(by_state) <= {DeliveryState.SENT, DeliveryState.UNKNOWN}
    assert set(sent) <= set(by_state[DeliveryState.SENT])
    assert len(by_state.get(DeliveryState.UNKNOWN, [])) <= 1, (
        "only the call that was being made may be unknown"
    )
