"""Asks questions in many chats through one account, each chat again as soon as it was answered, and
measures what processes use meanwhile."""

import os
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio

from bench.idle_boxes import children
from tests.peers.onebot_v11 import OneBotPeer
from tests.peers.onebot_v11.calls import SENDS, WireFrame
from tests.peers.scripted_model import Answer, Asked

TOKEN = "bench-token"
DEBOUNCE_S = 0.05
_LAST_ANSWERS_S = 120.0
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


class PacedModel:
    """A model that takes a set time for each answer. The answer sends one message with code. The
    texts differ, because a resumed turn does not send again what it has sent."""

    def __init__(self) -> None:
        self.takes_s = 0.0
        self._answers = 0

    def __call__(self, _asked: Asked) -> Answer:
        self._answers += 1
        code = f'send_channel_message("answer {self._answers}")'
        return Answer(chunks=[self.takes_s, f"```python\n{code}\n", "```"])


def bot_settings(model_url: str) -> dict[str, str]:
    """The settings of every bot that is measured."""
    return {
        "NEKRO_LLM__BASE_URL": model_url,
        "NEKRO_LLM__MODEL": "scripted",
        "NEKRO_TRIGGER__DEBOUNCE_S": str(DEBOUNCE_S),
        "NEKRO_TRIGGER__BURST_TURNS": "0",
        "NEKRO_TRIGGER__HOUR_TURNS": "0",
        # The bot sends to one chat again and again: more often than the default allows.
        "NEKRO_DELIVERY__SENDS_PER_WINDOW": "100000",
        "ONEBOT_ACCESS_TOKEN": TOKEN,
        "LOG_LEVEL": "WARNING",
    }


class TurnLoad:
    """Counts the answers of one account, and can ask each chat again when it was answered."""

    def __init__(self, peer: OneBotPeer, first_group: int) -> None:
        self.answered_at: list[float] = []
        """When each answer arrived, in seconds of `time.monotonic`."""
        self._peer = peer
        self._first_group = first_group
        self._asked = 0
        self._answered, self._groups = anyio.create_memory_object_stream[int](float("inf"))
        peer.on_frame = self._notice

    def _notice(self, frame: WireFrame) -> None:
        if frame.outbound or frame.frame.get("action") not in SENDS:
            return
        self.answered_at.append(frame.at)
        self._answered.send_nowait(int(frame.frame["params"]["group_id"]))

    async def ask(self, group: int) -> None:
        """Ask a question in a group."""
        self._asked += 1
        await self._peer.say_in_group(group, 10001, f"question {self._asked}", at_me=True)

    async def way_ms(self) -> float:
        """Ask one question, and return the milliseconds until its answer has arrived."""
        said = time.monotonic()
        await self.ask(self._first_group)
        with anyio.fail_after(60):
            await self._groups.receive()
        return (self.answered_at[-1] - said) * 1000

    @asynccontextmanager
    async def busy(self, chats: int) -> AsyncIterator[None]:
        """Ask in this many chats, in each again as soon as it was answered. At the end of the
        block, wait for the last answers."""
        go_on = True
        ended = anyio.Event()

        async def ask_again() -> None:
            waiting = chats
            while waiting:
                group = await self._groups.receive()
                if go_on:
                    await self.ask(group)
                else:
                    waiting -= 1
            ended.set()

        async with anyio.create_task_group() as tasks:
            for group in range(self._first_group, self._first_group + chats):
                await self.ask(group)
            tasks.start_soon(ask_again)
            yield
            go_on = False
            with anyio.fail_after(_LAST_ANSWERS_S):
                await ended.wait()

    async def turns(self, count: int) -> None:
        """Wait until this many more answers have arrived."""
        wanted = len(self.answered_at) + count
        await self._peer.until(lambda: len(self.answered_at) >= wanted, 300)

    async def rate(self, seconds: float) -> float:
        """How many answers arrive in a second, measured for some seconds."""
        began, before = time.monotonic(), len(self.answered_at)
        await anyio.sleep(seconds)
        return (len(self.answered_at) - before) / (time.monotonic() - began)


def processor_s(pids: Iterable[int]) -> float:
    """The processor time in seconds that processes and all their descendants have used, also those
    descendants that have ended and were waited for."""
    used = 0
    for pid in pids:
        living = [pid]
        for each in living:
            # A process may end meanwhile. Its parent then has its time.
            with suppress(FileNotFoundError, ProcessLookupError):
                living += children(each)
                fields = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
                used += sum(map(int, fields[11:15]))
    return used * _TICK_S


async def busy_shares(pids: Mapping[str, int], seconds: float) -> dict[str, float]:
    """Which share of a core each process uses, in percent, measured for some seconds."""
    before = {name: processor_s([pid]) for name, pid in pids.items()}
    began = time.monotonic()
    await anyio.sleep(seconds)
    passed = time.monotonic() - began
    return {name: (processor_s([pid]) - before[name]) / passed * 100 for name, pid in pids.items()}
