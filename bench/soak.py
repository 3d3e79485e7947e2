"""Runs a busy bot for an hour: ``make soak``, ``make soak MINUTES=5``. CI does not run this test.

The bot gets fifty messages per second in 500 groups of five accounts. One message in twenty is for
the bot, and the scripted model answers it with one message. All the time, the test measures the
messages that are not stored yet and their age, the deliveries that are not sent yet, the time of
each answer, and the bot's memory. At the end, memory and queues must not have grown. This means,
apart from noise: in the last third of the time, the memory is not larger than in the middle third,
and the queues are at most twice as long.
"""

import argparse
import random
import re
import statistics
import tempfile
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

import anyio

from tests.e2e.bot_process import BotProcess, running_bot
from tests.e2e.read_database import StoreLook
from tests.peers.onebot_v11 import Late, OneBotPeer
from tests.peers.postgres import PostgresServer
from tests.peers.scripted_model import Answer, Asked, Call, ScriptedModelServer

_NUMBER = re.compile(r"soak (\d+)\.")
_TOKEN = "soak-test-token"
_ACCOUNTS = 5
_LOOK_S = 0.5
_WARM = 1 / 3
"""The first part of the time, in which each chat gets its first message. The samples of this part
are not checked."""
_SHORTEST_MIN = 30.0
"""If the test takes fewer minutes, memory growth is not checked: the first third is too short for
each chat to have its first turn."""
_MEMORY_NOISE = 0.02
_MEMORY_NOISE_MIB = 3.0
_QUEUE_NOISE = 25


@dataclass(frozen=True, slots=True, kw_only=True)
class SoakPlan:
    """The load of the test."""

    minutes: float = 60.0
    per_second: float = 50.0
    chats: int = 500
    asked: float = 0.05
    mode: str = "code"


@dataclass(slots=True)
class Sample:
    """Memory and queue lengths at one moment."""

    at: float
    rss_mib: float
    inward: int
    outward: int


@dataclass(slots=True)
class SoakResult:
    """Everything that the test measured."""

    said_at: list[float] = field(default_factory=list)
    stored: int = 0
    answered: int = 0
    asked: int = 0
    late_s: list[float] = field(default_factory=list)
    """For each sample, how long the oldest message that is not stored has waited."""
    answer_s: list[float] = field(default_factory=list)
    looks: list[Sample] = field(default_factory=list)


def reply(asked: Asked) -> Answer:
    """The model's answer to the newest message of the prompt."""
    newest = max((int(n) for n in _NUMBER.findall(asked.last_user_text)), default=-1)
    if "tools" in asked.body:
        if asked.results:
            return Answer()
        return Answer(calls=[Call("send_channel_message", {"text": f"answer {newest}."})])
    return Answer(chunks=["```python\n", f'send_channel_message("answer {newest}.")\n', "```"])


async def soak(plan: SoakPlan, folder: Path, database_url: str = "") -> SoakResult:
    """Run the test and return what it measured."""
    seen = SoakResult()
    async with AsyncExitStack() as stack:
        model = await stack.enter_async_context(ScriptedModelServer(reply))
        settings = {
            "NEKRO_LLM__BASE_URL": model.base_url,
            "NEKRO_LLM__MODEL": "scripted",
            "NEKRO_AGENT__MODE": plan.mode,
            "ONEBOT_ACCESS_TOKEN": _TOKEN,
            "LOG_LEVEL": "WARNING",
        }
        if database_url:
            settings["NEKRO_DATABASE_URL"] = database_url
        bot = await stack.enter_async_context(running_bot(folder, **settings))
        peers = [
            await stack.enter_async_context(
                OneBotPeer(str(20_000 + number), _TOKEN, bot.onebot_url)
            )
            for number in range(_ACCOUNTS)
        ]
        for peer in peers:
            await peer.wait_connected()
            peer.answer("send", *[Late(0.02)] * 100_000)
        look = await stack.enter_async_context(StoreLook(bot.data, database_url))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_watch, bot, peers, look, model, seen)
            await _talk(plan, peers, seen)
            await anyio.sleep(5)
            tasks.cancel_scope.cancel()
        await bot.kill()  # The end of the bot is not part of this test.
    return seen


async def _talk(plan: SoakPlan, peers: Sequence[OneBotPeer], seen: SoakResult) -> None:
    chance = random.Random(1)
    began = anyio.current_time()
    for number in range(int(plan.minutes * 60 * plan.per_second)):
        await anyio.sleep_until(began + number / plan.per_second)
        chat = chance.randrange(plan.chats)
        peer, at_me = peers[chat % len(peers)], chance.random() < plan.asked
        seen.said_at.append(anyio.current_time())
        seen.asked += at_me
        await peer.say_in_group(30_000 + chat, 10_000 + chat, f"soak {number}.", at_me=at_me)


async def _watch(
    bot: BotProcess,
    peers: Sequence[OneBotPeer],
    look: StoreLook,
    model: ScriptedModelServer,
    seen: SoakResult,
) -> None:
    taken = [0] * len(peers)
    next_line = anyio.current_time() + 60
    while True:
        await anyio.sleep(_LOOK_S)
        for index, peer in enumerate(peers):
            taken[index] = _take(peer, taken[index], seen)
        model.requests.clear()
        now = anyio.current_time()
        seen.stored = await _stored(look, seen.stored)
        said = seen.said_at
        seen.late_s.append(now - said[seen.stored] if seen.stored < len(said) else 0.0)
        (waiting,) = await look.column(
            "SELECT COUNT(*) FROM deliveries WHERE state IN ('pending', 'sending')"
        )
        inward = len(said) - seen.stored
        seen.looks.append(Sample(now, _rss_mib(bot), inward, waiting))
        if now >= next_line:
            next_line += 60
            print(_line(seen), flush=True)


async def _stored(look: StoreLook, before: int) -> int:
    rows = await look.column(
        "SELECT segments FROM messages WHERE author = 'person' ORDER BY seq DESC LIMIT 50"
    )
    numbers = [int(n) for segments in rows for n in _NUMBER.findall(segments)]
    return max([before, *(n + 1 for n in numbers)])


def _take(peer: OneBotPeer, taken: int, seen: SoakResult) -> int:
    """Count the new answers, and free the records that are not needed again."""
    for call in peer.sends[taken:]:
        found = re.search(r"answer (\d+)\.", call.text)
        if found:
            seen.answered += 1
            seen.answer_s.append(call.at - seen.said_at[int(found[1])])
    peer.log.clear()
    peer.calls.clear()
    for said in peer.account.history.values():
        del said[:-50]
    return 0


def _rss_mib(bot: BotProcess) -> float:
    assert bot.process is not None
    status = Path(f"/proc/{bot.process.pid}/status").read_text()
    return int(re.findall(r"VmRSS:\s+(\d+)", status)[0]) / 1024


def _line(seen: SoakResult) -> str:
    now = seen.looks[-1]
    minutes = (now.at - seen.looks[0].at) / 60
    return (
        f"{minutes:5.1f} min: {seen.stored} stored, {seen.answered} of {seen.asked} answered, "
        f"{now.rss_mib:.1f} MiB, {now.inward} not stored yet, {now.outward} not sent yet"
    )


def percentiles(samples: Sequence[float]) -> str:
    """The median and the 99th percentile, in milliseconds."""
    ordered = sorted(samples) or [0.0]
    last = ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
    return f"p50 {ordered[len(ordered) // 2] * 1000:.0f} ms, p99 {last * 1000:.0f} ms"


def verdict(seen: SoakResult) -> list[str]:
    """Return the faults: what grew or was lost. The list is empty if there are none."""
    looks = seen.looks
    middle = looks[int(len(looks) * _WARM) : int(len(looks) * 2 / 3)]
    end = looks[int(len(looks) * 2 / 3) :]
    faults = []
    before, after = (statistics.median(each.rss_mib for each in part) for part in (middle, end))
    long_enough = looks[-1].at - looks[0].at >= _SHORTEST_MIN * 60
    if long_enough and after > before * (1 + _MEMORY_NOISE) + _MEMORY_NOISE_MIB:
        faults.append(f"memory grew from {before:.1f} to {after:.1f} MiB")
    for name in ("inward", "outward"):
        first, last = (statistics.median(getattr(e, name) for e in part) for part in (middle, end))
        if last > first * 2 + _QUEUE_NOISE:
            faults.append(f"the way {name} grew from {first} to {last} waiting")
    if seen.stored < len(seen.said_at):
        faults.append(f"{len(seen.said_at) - seen.stored} messages were not stored in the end")
    return faults


async def main() -> int:
    """Run the test and print the result. Returns 0 if there are no faults."""
    usual = SoakPlan()
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=usual.minutes)
    parser.add_argument("--per-second", type=float, default=usual.per_second)
    parser.add_argument("--chats", type=int, default=usual.chats)
    parser.add_argument("--asked", type=float, default=usual.asked, help="share for the bot")
    parser.add_argument("--mode", choices=("code", "tools"), default="code")
    parser.add_argument("--database", choices=("sqlite", "postgres"), default="sqlite")
    options = parser.parse_args()
    plan = SoakPlan(
        minutes=options.minutes,
        per_second=options.per_second,
        chats=options.chats,
        asked=options.asked,
        mode=options.mode,
    )
    began = time.monotonic()
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        url = ""
        if options.database == "postgres":
            url = await stack.enter_context(PostgresServer()).empty_database()
        seen = await soak(plan, folder, url)
    took = time.monotonic() - began
    memory = [each.rss_mib for each in seen.looks]
    print(
        f"{took / 60:.1f} min, {plan.mode} on {options.database}: {len(seen.said_at)} messages in "
        f"{plan.chats} chats, {seen.stored} stored; {seen.answered} of {seen.asked} that asked "
        f"the bot answered (several may share an answer)\n"
        f"stored within: {percentiles(seen.late_s)}; answered within: "
        f"{percentiles(seen.answer_s)}\n"
        f"memory {memory[0]:.1f} MiB at first, {max(memory):.1f} at most, {memory[-1]:.1f} in the "
        f"end; most not stored yet {max(each.inward for each in seen.looks)}, most not sent yet "
        f"{max(each.outward for each in seen.looks)}"
    )
    faults = verdict(seen)
    if plan.minutes < _SHORTEST_MIN:
        print(f"in less than {_SHORTEST_MIN:g} minutes memory is not judged, only queues")
    print("flat" if not faults else "NOT FLAT: " + "; ".join(faults))
    return min(len(faults), 1)


if __name__ == "__main__":
    raise SystemExit(anyio.run(main))
