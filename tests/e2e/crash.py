"""A bot under load that is killed, judged on what its platform saw: ``make crash``.

People in many groups ask numbered questions through two accounts; the scripted model answers each
once. Events come twice, a connection is cut, and the whole process is killed while turns run and
sends are on their way. Afterwards the peer's wire log and the store must agree:

* every question is in the store once, in the order in which its chat asked;
* every question has exactly one answer on the wire, but where the store says ``unknown`` (none or
  one), and there are no more of those than sends that were in flight;
* inside a chat the answers keep the questions' order.
"""

import argparse
import json
import random
import re
import sqlite3
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import anyio

from tests.e2e.bot_process import BotProcess, running_bot
from tests.peers.onebot_v11 import Late, OneBotPeer
from tests.peers.scripted_model import Answer, Asked, Call, ScriptedModelServer

ASKED = re.compile(r"ask(\d+)x(\d+)y")
ANSWERED = re.compile(r"ans(\d+)x(\d+)y")
MOST_A_REPLY = 8
"""What one run may send (`DeliverySettings.sends_per_run`)."""
TOKEN = "crash-test-token"

Question = tuple[int, int]
"""Group and number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """How much, how fast, and what goes wrong."""

    messages: int = 1000
    chats: int = 50
    per_second: float = 60.0
    duplicates: float = 0.1
    drops: int = 1
    kills: int = 1
    seed: int = 1
    mode: str = "code"


@dataclass(slots=True)
class Outcome:
    """What the wire and the store say at the end. ``faults`` is empty where all promises held."""

    asked: int = 0
    answered: int = 0
    unknown: set[Question] = field(default_factory=set)
    in_flight: int = 0
    restarts_s: list[float] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        restarts = ", ".join(f"{seconds:.1f} s" for seconds in self.restarts_s)
        return (
            f"{self.asked} asked, {self.answered} answers on the wire, {len(self.unknown)} of "
            f"unknown outcome ({self.in_flight} sends in flight when it was killed or cut), "
            f"restarted in {restarts or 'none'}; {len(self.faults)} faults"
        )


def reply(asked: Asked) -> Answer:
    """What the model says: one send for each question of the prompt that has no answer there; of
    more than a run may send, several answers share a message."""
    prompt = json.dumps(asked.body["messages"])
    answered = set(ANSWERED.findall(prompt))
    asking = dict.fromkeys(ASKED.findall(prompt))
    todo = [f"ans{chat}x{n}y" for chat, n in asking if (chat, n) not in answered]
    size = max(1, -(-len(todo) // MOST_A_REPLY))
    texts = [" ".join(todo[start : start + size]) for start in range(0, len(todo), size)]
    if "tools" in asked.body:
        calls = [Call("send_channel_message", {"text": text}) for text in texts]
        return Answer(calls=calls, delay_s=0.01)
    lines = [f'send_channel_message("{text}")\n' for text in texts]
    return Answer(chunks=["```python\n", *(lines or ["pass\n"]), "```"], delay_s=0.01)


async def crash(load: Load, folder: Path) -> Outcome:
    """Run one load against a fresh bot in ``folder`` and judge it."""
    chance = random.Random(load.seed)
    outcome = Outcome()
    async with ScriptedModelServer(reply) as model:
        settings = {
            "NEKRO_LLM__BASE_URL": model.base_url,
            "NEKRO_LLM__MODEL": "scripted",
            "NEKRO_AGENT__MODE": load.mode,
            "NEKRO_TRIGGER__DEBOUNCE_S": "0.05",
            "ONEBOT_ACCESS_TOKEN": TOKEN,
            "LOG_LEVEL": "INFO",
        }
        async with running_bot(folder, **settings) as bot:
            bot.environment = {**bot.environment, "PORT": str(bot.running["port"])}
            async with (
                OneBotPeer("20002", TOKEN, bot.onebot_url) as first,
                OneBotPeer("20003", TOKEN, bot.onebot_url) as second,
            ):
                peers = (first, second)
                for peer in peers:
                    await peer.wait_connected()
                    # A platform takes a moment, so that sends are in flight whenever we strike.
                    peer.answer("send", *[Late(0.03)] * load.messages)
                await _ask_everything(load, chance, bot, peers, outcome)
                await _quiet(bot, peers, load)
                _judge(load, bot, peers, outcome)
                if outcome.faults:
                    outcome.faults.append(f"the bot's log:\n{_worst(bot.log)}")
    return outcome


def _worst(log: str) -> str:
    """Its warnings and errors, the first and the last of them."""
    lines = [line for line in log.splitlines() if "[WARNING]" in line or "[ERROR]" in line]
    return "\n".join(lines if len(lines) < 40 else [*lines[:20], "...", *lines[-20:]])


async def _ask_everything(
    load: Load,
    chance: random.Random,
    bot: BotProcess,
    peers: tuple[OneBotPeer, OneBotPeer],
    outcome: Outcome,
) -> None:
    order = [(n % load.chats, n // load.chats) for n in range(load.messages)]
    moments = chance.sample(range(load.messages // 5, load.messages), load.drops + load.kills)
    drops, kills = set(moments[: load.drops]), set(moments[load.drops :])
    async with anyio.create_task_group() as tasks:
        began = anyio.current_time()
        for position, (chat, number) in enumerate(order):
            await anyio.sleep_until(began + position / load.per_second)
            peer = peers[chat % 2]
            await peer.say_in_group(30000 + chat, 10000 + chat, f"ask{chat}x{number}y", at_me=True)
            if chance.random() < load.duplicates:
                await peer.emit(peer.account.history["group", str(30000 + chat)][-1])
            if position in drops:
                outcome.in_flight += load.chats // 2  # one a chat of the account, at the most
                peer.abort()
            if position in kills:
                tasks.start_soon(_kill_and_restart, bot, outcome)
    outcome.asked = len(order)


async def _kill_and_restart(bot: BotProcess, outcome: Outcome) -> None:
    in_flight = "SELECT 1 FROM deliveries WHERE state = 'sending'"
    with anyio.move_on_after(10):
        while not _rows(bot, in_flight):
            await anyio.sleep(0.01)
    await bot.kill()
    outcome.in_flight += len(_rows(bot, in_flight))
    await bot.start()
    outcome.restarts_s.append(bot.started_in)


async def _quiet(
    bot: BotProcess, peers: Iterable[OneBotPeer], load: Load, within: float = 240.0
) -> None:
    """Wait until everything is answered or of unknown outcome, or nothing has been for a
    minute; then a moment more, in which nothing may come twice."""
    with anyio.move_on_after(within):
        before, still = -1, 0
        while still < 120 and before < load.messages:
            answered = {q for peer in peers for call in peer.sends for q in _answers_in(call.text)}
            now = len(answered | _unknown(bot))
            before, still = now, still + 1 if now == before else 0
            await anyio.sleep(0.5)
    await anyio.sleep(2.0)


def _answers_in(text: str) -> set[Question]:
    return {(int(chat), int(number)) for chat, number in ANSWERED.findall(text)}


def _unknown(bot: BotProcess) -> set[Question]:
    rows = _rows(bot, "SELECT segments FROM deliveries WHERE state = 'unknown'")
    return {question for (segments,) in rows for question in _answers_in(segments)}


def _judge(
    load: Load, bot: BotProcess, peers: tuple[OneBotPeer, OneBotPeer], outcome: Outcome
) -> None:
    stored: dict[int, list[int]] = defaultdict(list)
    for (segments,) in _rows(
        bot, "SELECT segments FROM messages WHERE author = 'person' ORDER BY seq"
    ):
        for chat, number in ASKED.findall(segments):
            stored[int(chat)].append(int(number))
    outcome.unknown = _unknown(bot)
    wire: dict[int, list[int]] = defaultdict(list)
    for peer in peers:
        for call in peer.sends:
            for chat, number in ANSWERED.findall(call.text):
                wire[int(chat)].append(int(number))
                if int(call.params.get("group_id", 0)) != 30000 + int(chat):
                    outcome.faults.append(f"{call.text} went to {call.params}")
    per_chat = load.messages // load.chats
    for chat in range(load.chats):
        numbers = list(range(per_chat))
        if sorted(stored[chat]) != numbers:
            outcome.faults.append(f"chat {chat}: the store has {stored[chat]}")
        elif stored[chat] != numbers:
            outcome.faults.append(f"chat {chat}: stored out of order, {stored[chat]}")
        if wire[chat] != sorted(wire[chat]):
            outcome.faults.append(f"chat {chat}: answered out of order, {wire[chat]}")
        counts = Counter(wire[chat])
        outcome.answered += counts.total()
        for number in numbers:
            fine = {0, 1} if (chat, number) in outcome.unknown else {1}
            if counts[number] not in fine:
                outcome.faults.append(f"ask{chat}x{number}y: {counts[number]} answers")
    if len(outcome.unknown) > outcome.in_flight:
        outcome.faults.append(f"{len(outcome.unknown)} unknown, {outcome.in_flight} in flight")


def _rows(bot: BotProcess, query: str) -> list[tuple[str, ...]]:
    connection = sqlite3.connect(f"file:{bot.data / 'nekro.sqlite3'}?mode=ro", uri=True)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


async def main() -> int:
    """Run loads of growing seeds and print each outcome; 0 where all promises held."""
    parser = argparse.ArgumentParser(prog="make crash", description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kills", type=int, default=1)
    parser.add_argument("--mode", choices=("code", "tools"), default="code")
    options = parser.parse_args()
    bad = 0
    for seed in range(options.seed, options.seed + options.rounds):
        with tempfile.TemporaryDirectory() as folder:
            load = Load(seed=seed, kills=options.kills, mode=options.mode)
            outcome = await crash(load, Path(folder))
        print(f"seed {seed}: {outcome}", *outcome.faults, sep="\n  ", flush=True)
        bad += bool(outcome.faults)
    return min(bad, 1)


if __name__ == "__main__":
    raise SystemExit(anyio.run(main))
