"""Measures all figures of one bot."""

import ctypes
import json
import re
import signal
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import anyio

from bench.figure import percentiles
from bench.peers.bots import Bot
from tests.peers.onebot_v11 import OneBotPeer
from tests.peers.scripted_model import Answer, Asked, ScriptedModelServer, pieces

ROUNDS = 100
NEW_CHATS = 15
FLOOD = (500, 50)
"""How many messages are sent at once, and to how many groups."""
FILLED = (1_000, 100)
"""How many messages are sent before memory is measured, and to how many groups. A group gets its
next message only when all earlier messages have an answer."""
AT_KILL = 200
"""How many questions are asked in all, before and after the bot is killed, each in its own
group."""
KILL_AFTER_S = 1.0
SAID_EVERY_S = 0.01
MODEL_S = 0.2
"""Seconds that the model waits before each reply in the test that kills the bot."""
PAUSE_S = 0.15
REST_S = 2.0
"""Seconds between the last answer and the measurement of memory."""
SILENT_S = 20.0
"""Seconds without an answer after which no more answers are expected."""
_ASKED = re.compile(r"ask(\d+)y")
_ANSWERED = re.compile(r"ans(\d+)y")

FIGURES = {
    "to the reply, p50": "ms",
    "to the reply, p99": "ms",
    "to the model's request, p50": "ms",
    "to the model's request, p99": "ms",
    "to the reply in a new chat, p50": "ms",
    "to the first reply right after connecting": "ms",
    f"{FLOOD[0]} messages to {FLOOD[1]} groups, all answered": "s",
    "start -> connected": "s",
    "start -> first answer": "s",
    f"kill -9: of {AT_KILL} questions never answered": "",
    f"kill -9: of {AT_KILL} questions answered twice": "",
    f"memory after {FILLED[0]:,} messages in {FILLED[1]} groups": "MB",
}
"""The names of the figures in the order of the table, with their units."""


class ScriptedAnswers:
    """The scripted model. It answers all questions in the newest user message that the bot has not
    answered yet. With ``in_code`` it answers in code, otherwise in words."""

    def __init__(self, *, in_code: bool) -> None:
        self.in_code = in_code
        self.delay_s = 0.0
        self.asked_at: dict[int, float] = {}
        self.answered: Callable[[], set[int]] = set

    def __call__(self, asked: Asked) -> Answer:
        now, done = time.monotonic(), self.answered()
        wanted = dict.fromkeys(int(number) for number in _ASKED.findall(asked.last_user_text))
        open_ = [number for number in wanted if number not in done]
        for number in open_:
            self.asked_at.setdefault(number, now)
        words = " ".join(f"ans{number}y" for number in open_) or "nothing"
        if self.in_code:
            words = f'send_channel_message("{words}")'
        if asked.body.get("stream"):
            chunks = pieces(words)
            return Answer(chunks=[self.delay_s, *chunks] if self.delay_s else chunks)
        return Answer(body=_whole(words), content_type="application/json")


@dataclass
class PeerRun:
    """A running bot with its OneBot peer and its model. Each question has a unique number."""

    bot: Bot
    mind: ScriptedAnswers
    peer: OneBotPeer
    said_at: dict[int, float] = field(default_factory=dict)
    looked: int = 0
    answered_at: dict[int, float] = field(default_factory=dict)
    answers: Counter[int] = field(default_factory=Counter)

    def answered(self) -> set[int]:
        """The numbers of the questions that have an answer in a chat."""
        calls = self.peer.calls
        while self.looked < len(calls):
            call = calls[self.looked]
            self.looked += 1
            if not call.action.startswith("send_"):
                continue
            for number in {int(found) for found in _ANSWERED.findall(json.dumps(call.params))}:
                self.answered_at.setdefault(number, call.at)
                self.answers[number] += 1
        return set(self.answered_at)

    async def ask(self, group: int) -> int:
        """Ask a question in a group; returns its number."""
        number = len(self.said_at) + 1
        self.said_at[number] = time.monotonic()
        await self.peer.say_in_group(group, 10001, f"ask{number}y", at_me=True)
        return number

    async def until_answered(self, numbers: Iterable[int]) -> bool:
        """Wait until all these questions have an answer, and return True. Return False if at some
        point no new answer comes for `SILENT_S` seconds."""
        wanted = set(numbers)
        while not wanted <= self.answered():
            with anyio.move_on_after(SILENT_S) as silence:
                await self._until_more(len(self.answered_at))
            if silence.cancelled_caught:
                return False
        return True

    async def _until_more(self, known: int) -> None:
        await self.peer.until(lambda: len(self.answered()) > known, SILENT_S * 2)

    def to_reply(self, number: int) -> float:
        """Milliseconds from the question to its answer."""
        return (self.answered_at[number] - self.said_at[number]) * 1000

    def to_model(self, number: int) -> float:
        """Milliseconds from the question to the bot's request to the model."""
        return (self.mind.asked_at[number] - self.said_at[number]) * 1000


async def measure(bot: Bot, folder: Path, *, in_code: bool) -> dict[str, float]:
    """Measure all `FIGURES` of one bot in a new folder."""
    names = [*FIGURES]
    found = dict.fromkeys(names, float("nan"))
    _keep_orphans()
    mind = ScriptedAnswers(in_code=in_code)
    async with ScriptedModelServer(mind) as model:
        await bot.prepare(folder, model.base_url)
        began = time.monotonic()
        bot.start()
        try:
            async with OneBotPeer("20002", bot.token, bot.url, reconnect_s=0.02) as peer:
                await peer.wait_connected(90)
                found[names[7]] = time.monotonic() - began
                run = PeerRun(bot, mind, peer)
                mind.answered = run.answered
                first = await run.ask(30001)
                if await run.until_answered([first]):
                    found[names[5]] = run.to_reply(first)
                    found[names[8]] = run.answered_at[first] - began
                await anyio.sleep(3)
                found |= dict(zip(names[:5], await _rounds(run), strict=True))
                found[names[6]] = await _flood(run)
                found[names[11]] = await _memory(run)
                found |= dict(zip(names[9:11], await _kill(run), strict=True))
        finally:
            await bot.end(signal.SIGTERM)
    return found


async def _rounds(run: PeerRun) -> tuple[float, float, float, float, float]:
    numbers = []
    for group in [30003] * (ROUNDS + 1) + [30100 + each for each in range(NEW_CHATS)]:
        numbers.append(await run.ask(group))
        assert await run.until_answered(numbers[-1:]), f"{run.bot.name} stopped answering"
        await anyio.sleep(PAUSE_S)
    old, new = numbers[1 : ROUNDS + 1], numbers[ROUNDS + 1 :]
    reply = percentiles([run.to_reply(number) for number in old])
    model = percentiles([run.to_model(number) for number in old])
    return *reply, *model, statistics.median([run.to_reply(number) for number in new])


async def _flood(run: PeerRun) -> float:
    many, groups = FLOOD
    began = time.monotonic()
    numbers = [await run.ask(31000 + each % groups) for each in range(many)]
    if not await run.until_answered(numbers):
        return float("inf")
    return max(run.answered_at[number] for number in numbers) - began


async def _memory(run: PeerRun) -> float:
    many, groups = FILLED
    for _ in range(many // groups):
        numbers = [await run.ask(32000 + each) for each in range(groups)]
        assert await run.until_answered(numbers), f"{run.bot.name} stopped answering"
    await anyio.sleep(REST_S)
    return sum(_pss_mb(process) for process in _below(_own_pid()))


async def _kill(run: PeerRun) -> tuple[float, float]:
    run.mind.delay_s = MODEL_S
    numbers = []
    began = time.monotonic()
    while time.monotonic() - began < KILL_AFTER_S and len(numbers) < AT_KILL:
        numbers.append(await run.ask(40000 + len(numbers)))
        await anyio.sleep(SAID_EVERY_S)
    await run.bot.end(signal.SIGKILL)
    await run.peer.wait_disconnected()
    run.bot.start()
    await run.peer.wait_connected(90)
    while len(numbers) < AT_KILL:
        numbers.append(await run.ask(40000 + len(numbers)))
        await anyio.sleep(SAID_EVERY_S)
    await run.until_answered(numbers)
    await anyio.sleep(3)
    run.answered()
    lost = sum(number not in run.answered_at for number in numbers)
    return lost, sum(run.answers[number] > 1 for number in numbers)


def _whole(words: str) -> bytes:
    message = {"role": "assistant", "content": words}
    return json.dumps(
        {
            "id": "scripted",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": "scripted",
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        }
    ).encode()


def _keep_orphans() -> None:
    """Make this process adopt descendants whose parent ended, so that their memory is counted."""
    subreaper = 36  # PR_SET_CHILD_SUBREAPER of prctl(2)
    ctypes.CDLL(None).prctl(subreaper, 1, 0, 0, 0)


def _own_pid() -> int:
    return int(Path("/proc/self").readlink().name)


def _below(ancestor: int) -> list[int]:
    """All descendants of a process."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue  # the process has ended
        children.setdefault(parent, []).append(int(folder.name))
    found, new = [], children.get(ancestor, [])
    while new:
        found += new
        new = [child for process in new for child in children.get(process, [])]
    return found


def _pss_mb(process: int) -> float:
    """The memory of a process in MB. A shared page counts with the share of this process."""
    try:
        rollup = Path(f"/proc/{process}/smaps_rollup").read_text()
    except OSError:
        return 0.0
    return sum(
        int(line.split()[1]) * 1024 / 1e6 for line in rollup.splitlines() if line.startswith("Pss:")
    )
