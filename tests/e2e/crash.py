"""Kills a bot under load again and again and judges what its platform saw: ``make crash``.

People in many groups ask numbered questions through several accounts, and the scripted model
answers each question once. Some events arrive twice, connections are cut, and the whole process is
killed: while it starts, as soon as a call has started, or at any moment. Two of the accounts have
an implementation with a history that the bot can read; the third has none. `crash_judge` says what
must hold.

These commands make 500 kills on SQLite and on PostgreSQL: ten rounds with a new database each::

    make crash ARGS="--rounds 10 --kills 50"
    make crash ARGS="--rounds 10 --kills 50 --database postgres"

With ``--cluster``, the processes of a cluster are killed and stopped instead, and its servers are
started again (`tests.e2e.cluster.crash`)::

    make crash ARGS="--cluster --rounds 10 --kills 30 --results FOLDER"

``FOLDER`` gets a file for each round. A round whose file is there already is not run again.
"""

import argparse
import random
import tempfile
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass
from pathlib import Path

import anyio

from tests.e2e.bot_process import BotProcess, running_bot
from tests.e2e.cluster.rounds import cluster_rounds
from tests.e2e.crash_judge import ON_THEIR_WAY, UNKNOWN, Cut, Outcome, chat_of, judge
from tests.e2e.crash_load import (
    CALL_S,
    TOKEN,
    Questions,
    ask,
    log_problems,
    reply,
    until_answered,
)
from tests.e2e.forked_bots import BotForker, bot_forker
from tests.e2e.read_database import StoreLook
from tests.peers.onebot_v11 import Late, OneBotPeer
from tests.peers.ports import free_port
from tests.peers.postgres import PostgresServer
from tests.peers.scripted_model import ScriptedModelServer

_DEAD_CALL_S = 30.0
"""Maximum number of seconds for which a cut waits for a call into the dead connection. A bot on a
busy machine may need seconds for the next answer."""


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
    dead_s: float = 0.0
    """For this many seconds before a cut, the peer does not read what the bot sends. If the bot has
    made no call in this time, the cut waits for one."""
    longest_life_s: float = 1.5
    histories: tuple[bool, ...] = (True, True, False)
    """For each account, whether its implementation has a history that the bot can read."""
    seed: int = 1
    mode: str = "code"


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
            "PORT": str(free_port()),
        }
        if database_url:
            settings["NEKRO_DATABASE_URL"] = database_url
        bot = await stack.enter_async_context(running_bot(folder, bot_forker=bots, **settings))
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
            outcome.faults += [outcome.evidence, f"the bot's log:\n{log_problems(bot.log)}"]
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
        self._asked = Questions(self._peer_of)
        self._killed = anyio.Event()
        self._cuts: list[Cut] = []
        """The cuts since the last kill."""

    async def run(self) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._ask)
            tasks.start_soon(self._strike)
        last = time.monotonic()
        await until_answered(self._asked.counts, self._peer_of, self._look)
        self.outcome.quiet_s = time.monotonic() - last
        await self._note_cuts()
        await judge(self._asked.counts, self._peer_of, self._look, self.outcome)

    async def _ask(self) -> None:
        await ask(self._load, self._asked, ended=self._killed)

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
            if self._load.dead_s:
                peer.stop_reading()
                await anyio.sleep(self._load.dead_s)
                with anyio.move_on_after(_DEAD_CALL_S):
                    while not await self._on_their_way(peer):
                        await anyio.sleep(0.01)
        peer.abort()
        self.outcome.in_flight |= before | await self._on_their_way(peer)
        self.outcome.cuts += 1

    async def _on_their_way(self, peer: OneBotPeer) -> set[str]:
        rows = await self._look.rows(ON_THEIR_WAY)
        return {each for each, key in rows if self._peer_of[chat_of(key)] is peer}


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
    parser.add_argument("--cluster", action="store_true", help="2 gateways and 3 workers")
    parser.add_argument(
        "--results", type=Path, help="with --cluster: keeps the rounds that have ended"
    )
    options = parser.parse_args()
    if options.cluster:
        return await cluster_rounds(
            rounds=options.rounds,
            seed=options.seed,
            blows=options.kills,
            mode=options.mode,
            cold=options.cold,
            results=options.results,
        )
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
