"""Kills a bot under load again and again and judges what its platform saw: ``make crash``.

People in many groups ask numbered questions through several accounts, and the scripted model
answers each question once. Some events arrive twice, connections are cut, and the whole process is
killed: while it starts, as soon as a call has started, or at any moment. Two of the accounts have
an implementation with a history that the bot can read; the third has none. `crash_judge` says what
must hold.

These commands make 500 kills on SQLite and on PostgreSQL: ten rounds with a new database each::

    make crash ARGS="--rounds 10 --kills 50"
    make crash ARGS="--rounds 10 --kills 50 --database postgres"
"""

import argparse
import itertools
import json
import random
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass
from pathlib import Path

import anyio

from tests.e2e.bot_process import BotProcess, running_bot
from tests.e2e.crash_judge import (
    ANSWERED,
    ASKED,
    FIRST_GROUP,
    ON_THEIR_WAY,
    UNKNOWN,
    Cut,
    Outcome,
    Question,
    chat_of,
    given_up,
    judge,
    on_the_wire,
    questions,
    unknown,
)
from tests.e2e.forked_bots import BotForker, bot_forker
from tests.e2e.read_database import StoreLook
from tests.peers.onebot_v11 import Late, OneBotPeer
from tests.peers.postgres import PostgresServer
from tests.peers.scripted_model import Answer, Asked, Call, ScriptedModelServer

MOST_A_REPLY = 8
"""How many messages one run may send (`DeliverySettings.sends_per_run`)."""
TOKEN = "crash-test-token"
CALL_S = 0.2
"""The time that the platform takes for a call, in seconds. It is so long that a kill usually hits
some calls."""
_NOT_SAID = ("+ it called", "+ refused by the platform", "+ never sent")
"""Lines of a prompt that begin so are about calls, or about messages that nobody has seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The questions of one round, and the kills and cuts of connections in it. People ask
    ``messages`` questions. If this is 0, they ask until one second after the last kill."""

    messages: int = 0
    chats: int = 24
    """Each chat needs a new box after a restart. The boxes take most of the time of a restart."""
    per_second: float = 12.0
    duplicates: float = 0.1
    kills: int = 20
    cuts: int = 1
    """How often a connection is cut."""
    longest_life_s: float = 1.5
    histories: tuple[bool, ...] = (True, True, False)
    """For each account, whether its implementation has a history that the bot can read."""
    seed: int = 1
    mode: str = "code"


def reply(asked: Asked) -> Answer:
    """The model's reply. It answers each question of the prompt for which the prompt has no answer.
    If there are more answers than a run may send, some messages contain several answers."""
    asking: dict[Question, None] = {}
    answered: set[Question] = set()
    for line in _told(asked):
        asking |= dict.fromkeys(questions(ASKED, line))
        answered |= set(questions(ANSWERED, line))
    todo = [f"ans{chat}x{n}y" for chat, n in asking if (chat, n) not in answered]
    size = max(1, -(-len(todo) // MOST_A_REPLY))
    texts = [" ".join(todo[start : start + size]) for start in range(0, len(todo), size)]
    if "tools" in asked.body:
        calls = [Call("send_channel_message", {"text": text}) for text in texts]
        return Answer(calls=calls, delay_s=0.01)
    lines = [f'send_channel_message("{text}")\n' for text in texts]
    return Answer(chunks=["```python\n", *(lines or ["pass\n"]), "```"], delay_s=0.01)


def _told(asked: Asked) -> Iterator[str]:
    """The lines of a prompt that show messages which people have seen. Code and calls from before a
    restart are left out, since the restart may have stopped them."""
    for message in asked.messages:
        # This is a reply of the present attempt. Its code has run completely.
        if message["role"] == "assistant":
            yield json.dumps(message)
        if message["role"] != "user":
            continue
        content = message["content"]
        parts = [content] if isinstance(content, str) else [p.get("text", "") for p in content]
        code = False
        for line in "\n".join(parts).splitlines():
            if line.startswith("["):
                code = line.startswith("[before]")
            elif not (code and line.startswith("> ")) and not line.startswith(_NOT_SAID):
                yield line


async def crash(
    load: Load, folder: Path, *, bots: BotForker | None = None, database_url: str = ""
) -> Outcome:
    """Run one load against a fresh bot in ``folder`` and judge it."""
    began = time.monotonic()
    async with AsyncExitStack() as stack:
        model = await stack.enter_async_context(ScriptedModelServer(reply))
        settings = {
            "NEKRO_LLM__BASE_URL": model.base_url,
            "NEKRO_LLM__MODEL": "scripted",
            "NEKRO_AGENT__MODE": load.mode,
            "NEKRO_TRIGGER__DEBOUNCE_S": "0.05",
            # Each person asks more often than the cooldown allows, so the cooldown is switched off.
            "NEKRO_TRIGGER__BURST_TURNS": "0",
            "NEKRO_TRIGGER__HOUR_TURNS": "0",
            "ONEBOT_ACCESS_TOKEN": TOKEN,
            "LOG_LEVEL": "INFO",
        }
        if database_url:
            settings["NEKRO_DATABASE_URL"] = database_url
        bot = await stack.enter_async_context(running_bot(folder, bot_forker=bots, **settings))
        bot.environment = {**bot.environment, "PORT": str(bot.running["port"])}
        peers = [
            await stack.enter_async_context(
                OneBotPeer(str(account), TOKEN, bot.onebot_url, has_history=has_history)
            )
            for account, has_history in enumerate(load.histories, 20_002)
        ]
        for peer in peers:
            await peer.wait_connected()
            peer.answer("send", *[Late(CALL_S)] * 100_000)
        look = await stack.enter_async_context(StoreLook(bot.data, database_url))
        round_ = _Round(load, bot, peers, look)
        await round_.run()
        outcome = round_.outcome
        outcome.seconds = time.monotonic() - began
        if outcome.faults:
            outcome.faults += [outcome.evidence, f"the bot's log:\n{_worst(bot.log)}"]
    return outcome


class _Round:
    """One load, its kills and cuts, and their outcome."""

    def __init__(
        self, load: Load, bot: BotProcess, peers: Sequence[OneBotPeer], look: StoreLook
    ) -> None:
        self.outcome = Outcome()
        self._load = load
        self._bot = bot
        self._peers = peers
        self._look = look
        self._peer_of = {chat: peers[chat % len(peers)] for chat in range(load.chats)}
        self._asked: Counter[int] = Counter()
        self._killed = anyio.Event()
        self._cuts: list[Cut] = []
        """The cuts since the last kill."""

    async def run(self) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._ask)
            tasks.start_soon(self._strike)
        last = time.monotonic()
        await self._quiet()
        self.outcome.quiet_s = time.monotonic() - last
        await self._note_cuts()
        await judge(self._asked, self._peer_of, self._look, self.outcome)

    async def _ask(self) -> None:
        """Ask questions until one second after the last kill, whatever happens to the bot."""
        chance = random.Random(self._load.seed)
        began = anyio.current_time()
        end = float("inf")
        for position in itertools.count():
            if self._killed.is_set() and end == float("inf"):
                end = anyio.current_time() + 1.0
            if position >= self._load.messages > 0 or (
                not self._load.messages and anyio.current_time() > end
            ):
                return
            await anyio.sleep_until(began + position / self._load.per_second)
            chat = position % self._load.chats
            peer, group = self._peer_of[chat], FIRST_GROUP + chat
            what = f"ask{chat}x{self._asked[chat]}y"
            self._asked[chat] += 1
            await peer.say_in_group(group, 10000 + chat, what, at_me=True)
            if chance.random() < self._load.duplicates:
                await peer.emit(peer.account.history["group", str(group)][-1])

    async def _strike(self) -> None:
        chance, kills = random.Random(-self._load.seed), self.outcome.kills
        cuts = set(chance.sample(range(self._load.kills + self._load.cuts), self._load.cuts))
        for blow in range(self._load.kills + self._load.cuts):
            moment = await self._live(chance)
            if blow in cuts:
                await self._cut(chance.choice(self._peers))
                continue
            await self._kill()
            kills[moment] += 1
            if chance.random() < 0.1:
                await self._bot.begin()
                await anyio.sleep(chance.uniform(0.0, 0.5))
                await self._kill()
                kills["while starting"] += 1
            await self._bot.start()
            self.outcome.restarts_s.append(self._bot.started_in)
        self._killed.set()

    async def _kill(self) -> None:
        """Kill the bot, and record the calls whose outcome may be unknown after it."""
        await self._bot.kill()
        await self._look.settled()
        self.outcome.in_flight |= {each for each, _ in await self._look.rows(ON_THEIR_WAY)}
        await self._note_cuts()

    async def _note_cuts(self) -> None:
        rows = await self._look.rows(UNKNOWN) if self._cuts else []
        for cut in self._cuts:
            self.outcome.in_flight |= cut.explains(rows, self._peer_of)
        self._cuts.clear()

    async def _live(self, chance: random.Random) -> str:
        """Wait for the moment of the next kill or cut. Returns a name for this moment."""
        if chance.random() >= 0.3:
            await anyio.sleep(chance.uniform(0.0, self._load.longest_life_s))
            return "at any moment"
        with anyio.move_on_after(self._load.longest_life_s):
            while not await self._look.rows(ON_THEIR_WAY):
                await anyio.sleep(0.01)
        return "while sending"

    async def _cut(self, peer: OneBotPeer) -> None:
        """Cut a connection, and record the calls that were under way on it."""
        before = await self._on_their_way(peer)
        doubted = frozenset(row[0] for row in await self._look.rows(UNKNOWN))
        if peer.connected:
            self._cuts.append(Cut(peer=peer, connection=peer.connections, doubted=doubted))
        peer.abort()
        self.outcome.in_flight |= before | await self._on_their_way(peer)
        self.outcome.cuts += 1

    async def _on_their_way(self, peer: OneBotPeer) -> set[str]:
        rows = await self._look.rows(ON_THEIR_WAY)
        return {each for each, key in rows if self._peer_of[chat_of(key)] is peer}

    async def _quiet(self, within: float = 240.0) -> None:
        """Wait until each question has an answer, has an answer with unknown outcome, or belongs to
        a turn that was given up. Stop waiting when nothing new has come for a minute. Then wait 2
        more seconds, so that an answer that is sent twice is seen."""
        with anyio.move_on_after(within):
            before, still = -1, 0
            while still < 120:
                stored = await self._look.column(
                    "SELECT COUNT(*) FROM messages WHERE author = 'person'"
                )
                done = set(on_the_wire(self._peers))
                done |= await unknown(self._look) | await given_up(self._look)
                expected = sum(
                    count for chat, count in self._asked.items() if self._peer_of[chat].has_history
                )
                busy = await self._look.column(
                    "SELECT 1 FROM turns WHERE running_chat IS NOT NULL "
                    "UNION ALL SELECT 1 FROM deliveries WHERE state IN ('pending', 'sending')"
                )
                if len(done) >= stored[0] and stored[0] >= expected and not busy:
                    break
                before, still = len(done), still + 1 if len(done) == before else 0
                await anyio.sleep(0.5)
        await anyio.sleep(2.0)


def _worst(log: str) -> str:
    """The warnings and errors of a log: all, or the first 20 and the last 20."""
    lines = [line for line in log.splitlines() if "[WARNING]" in line or "[ERROR]" in line]
    return "\n".join(lines if len(lines) < 40 else [*lines[:20], "...", *lines[-20:]])


async def main() -> int:
    """Run loads with increasing seeds and print each outcome. Returns 0 if no fault was found."""
    parser = argparse.ArgumentParser(
        prog="make crash", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kills", type=int, default=20, help="in each round")
    parser.add_argument("--mode", choices=("code", "tools"), help="else one after the other")
    parser.add_argument("--database", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--cold", action="store_true", help="start each bot from nothing")
    options = parser.parse_args()
    bad, kills, began = 0, 0, time.monotonic()
    with ExitStack() as servers:
        server = None
        if options.database == "postgres":
            server = servers.enter_context(PostgresServer())
        async with AsyncExitStack() as stack:
            bots = None if options.cold else await stack.enter_async_context(bot_forker())
            for seed in range(options.seed, options.seed + options.rounds):
                folder = stack.enter_context(tempfile.TemporaryDirectory())
                mode = options.mode or ("code", "tools")[seed % 2]
                cuts = 1 + options.kills // 20
                load = Load(seed=seed, kills=options.kills, cuts=cuts, mode=mode)
                url = await server.empty_database() if server else ""
                outcome = await crash(load, Path(folder), bots=bots, database_url=url)
                print(f"seed {seed}, {mode}: {outcome}", *outcome.faults, sep="\n  ", flush=True)
                bad += bool(outcome.faults)
                kills += outcome.kills.total()
    took = time.monotonic() - began
    print(f"{kills} kills in {took:.0f} s on {options.database}, {bad} rounds with faults")
    return min(bad, 1)


if __name__ == "__main__":
    raise SystemExit(anyio.run(main))
