"""Kills and stops the processes of a cluster at random under load and judges what its platform saw:
``make crash ARGS=--cluster``.

The load is that of `tests.e2e.crash`: people in many groups ask numbered questions through several
accounts, and the model answers each question once. The first account is at the first gateway, the
others are at the others. After each blow, somebody asks in each group at once. `crash_judge` says
what must hold. Besides:

* Each question is answered within 5 s. If a blow concerned its chat meanwhile, the 5 s begin with
  the blow; if the gateway was stopped or a server was away, they begin when it is back.
* A call may have an unknown outcome only if a blow to what serves its chat can have lost it.
* On a platform without a history, a question may be missing only if the gateway was killed before
  it can have stored the question, or the platform had no connection.
"""

import shutil
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import asyncpg

from nekro_core.chat import ChatKey
from nekro_core.cluster.partition_log import DEFAULT_PARTITIONS, partition_of
from tests.e2e.cluster.blows import SERVED_S, Blow, Place, Wait, may_be_lost, waits
from tests.e2e.cluster.processes import Cluster, running_cluster
from tests.e2e.cluster.striking import Owner, Owners, Striker
from tests.e2e.crash_judge import (
    ANSWERED,
    ASKED,
    Outcome,
    Question,
    chat_of,
    judge,
    questions,
)
from tests.e2e.crash_load import (
    CALL_S,
    TOKEN,
    Questions,
    ask,
    log_problems,
    reply,
    until_answered,
)
from tests.e2e.forked_bots import BotForker
from tests.e2e.read_database import Rows, StoreLook
from tests.peers.nats import NatsServer
from tests.peers.onebot_v11 import Late, OneBotPeer
from tests.peers.postgres import PostgresServer
from tests.peers.scripted_model import ScriptedModelServer

SETTLE_S = 1.0
"""A message of unknown outcome gets so many seconds to arrive. Then the bot sends it again, and
serves its chat again. The default, 15 s, is for platforms on the internet, where a shorter time can
send a message twice; the platform of this test answers within 0.2 s."""
_OWNERS_S = 1.0
"""Time limit in seconds for reading the owners of the partitions before a blow."""
_UNKNOWN = (
    "SELECT delivery_id, chat_key, created, changed, reason FROM deliveries WHERE state = 'unknown'"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterLoad:
    """The questions of one round, and the blows in it."""

    blows: int = 20
    pause_s: tuple[float, float] = (1.5, 6.5)
    """The shortest and the longest pause between two blows, in seconds."""
    gateways: int = 2
    workers: int = 3
    messages: int = 0
    chats: int = 24
    per_second: float = 4.0
    duplicates: float = 0.1
    histories: tuple[bool, ...] = (True, True, False)
    """For each account, whether its implementation has a history that the bot can read."""
    seed: int = 1
    mode: str = "code"


@dataclass(slots=True)
class ClusterOutcome:
    """What the wire and the store show at the end, and how long the chats waited."""

    judged: Outcome
    blows: list[Blow] = field(default_factory=list)
    waits: list[Wait] = field(default_factory=list)
    """The longest first."""
    unknown: list[str] = field(default_factory=list)
    """For each call of unknown outcome, the kinds of the blows that can have lost it."""
    ended: list[str] = field(default_factory=list)
    """Processes that ended by themselves."""
    seconds: float = 0.0
    quiet_s: float = 0.0

    @property
    def faults(self) -> list[str]:
        """What is wrong; empty if all is correct. Slow chats are not in it: see `slow`."""
        return self.judged.faults

    @property
    def slow(self) -> list[Wait]:
        """Chats that were not served in time."""
        return [each for each in self.waits if each.seconds > SERVED_S]

    def __str__(self) -> str:
        kinds = Counter(blow.kind for blow in self.blows)
        return (
            f"{len(self.blows)} blows ({', '.join(f'{n} {kind}' for kind, n in kinds.items())}) in "
            f"{self.seconds:.0f} s, of which {self.quiet_s:.0f} s until all was answered; "
            f"{self.judged.asked} asked, {self.judged.heard} heard, {self.judged.answered} answers "
            f"on the wire; {len(self.judged.unknown)} answers are of unknown outcome, "
            f"{self.judged.unanswered} questions are unanswered because their turn was killed each "
            f"time; longest wait {self.waits[0] if self.waits else 'none'}; {len(self.slow)} waits "
            f"of more than {SERVED_S:g} s; ended by themselves: {', '.join(self.ended) or 'none'}; "
            f"{len(self.faults)} faults"
        )


class ClusterLook(StoreLook):
    """Reads the database while the server may be restarted: each query has its own connection, and
    is repeated until the server answers."""

    async def rows(self, query: str) -> Rows:
        """See `StoreLook.rows`."""
        with anyio.fail_after(60):
            while True:
                try:
                    async with StoreLook(self._path.parent, self._url) as look:
                        return await look.rows(query)
                except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
                    await anyio.sleep(0.1)

    async def owners(self) -> Owners | None:
        """The owners of the partitions; None if the database does not answer now."""
        with anyio.move_on_after(_OWNERS_S):
            rows = await self.rows("SELECT partition, worker, taken FROM partition_owners")
            return {partition: Owner(worker, taken) for partition, worker, taken in rows}
        return None


async def cluster_crash(
    load: ClusterLoad,
    folder: Path,
    postgres: PostgresServer,
    *,
    bots: BotForker | None = None,
    logs: Path | None = None,
) -> ClusterOutcome:
    """Run one load against a fresh cluster in ``folder`` and judge it. If something is wrong,
    ``logs`` gets the logs of the processes and the times of the blows."""
    began = time.monotonic()
    database_url = await postgres.empty_database()
    async with AsyncExitStack() as stack:
        nats = stack.enter_context(NatsServer())
        model = await stack.enter_async_context(ScriptedModelServer(reply))
        settings = {
            "NEKRO_LLM__BASE_URL": model.base_url,
            "NEKRO_LLM__MODEL": "scripted",
            "NEKRO_AGENT__MODE": load.mode,
            "NEKRO_TRIGGER__DEBOUNCE_S": "0.05",
            # Each person asks more often than the cooldown allows, so the cooldown is switched off.
            "NEKRO_TRIGGER__BURST_TURNS": "0",
            "NEKRO_TRIGGER__HOUR_TURNS": "0",
            "NEKRO_DELIVERY__SETTLE_S": str(SETTLE_S),
            "ONEBOT_ACCESS_TOKEN": TOKEN,
        }
        cluster = await stack.enter_async_context(
            running_cluster(
                folder,
                nats_url=nats.url,
                database_url=database_url,
                gateways=load.gateways,
                workers=load.workers,
                bots=bots,
                settings=settings,
            )
        )
        accounts = await _connect(stack, cluster, load.histories)
        look = ClusterLook(folder, database_url)
        peers = [peer for some in accounts.values() for peer in some]
        asked = Questions({chat: peers[chat % len(peers)] for chat in range(load.chats)})
        striker = Striker(
            cluster, nats, postgres, accounts, look.owners, _AskAll(asked).ask, load.seed
        )
        outcome = await _round(load, striker, asked, look)
        outcome.seconds = time.monotonic() - began
        if outcome.faults and logs is None:
            problems = (f"{each.name}:\n{log_problems(each.log)}" for each in cluster.processes)
            outcome.faults.extend([outcome.judged.evidence, *problems])
        if logs is not None and (outcome.faults or outcome.slow):
            await _keep(outcome, cluster, look, logs)
            (logs / "nats.log").write_text(nats.log)
            (logs / "postgres.log").write_text(postgres.log)
    return outcome


async def _connect(
    stack: AsyncExitStack, cluster: Cluster, histories: Sequence[bool]
) -> Mapping[str, Sequence[OneBotPeer]]:
    """Connect the accounts to the gateways. Returns the accounts of each gateway."""
    accounts: dict[str, list[OneBotPeer]] = {each.name: [] for each in cluster.gateways}
    last = len(cluster.gateways) - 1
    for number, has_history in enumerate(histories):
        gateway = cluster.gateways[min(number, last)]
        peer = OneBotPeer(str(20_002 + number), TOKEN, gateway.onebot_url, has_history=has_history)
        await stack.enter_async_context(peer)
        await peer.wait_connected()
        peer.answer("send", *[Late(CALL_S)] * 100_000)
        accounts[gateway.name].append(peer)
    return accounts


@dataclass(frozen=True, slots=True)
class _AskAll:
    """Asks a question in each chat."""

    asked: Questions

    async def ask(self, since: float) -> None:
        """Ask at once. On a platform without a history, ask when there is a connection, since it
        forgets what is said without one; the time counts from ``since`` all the same."""
        async with anyio.create_task_group() as tasks:
            for chat, peer in self.asked.peer_of.items():
                tasks.start_soon(self._ask, chat, peer, since)

    async def _ask(self, chat: int, peer: OneBotPeer, since: float) -> None:
        if not peer.has_history:
            await anyio.sleep(0.1)  # a connection that a kill has cut is noticed in this time
            await peer.wait_connected(timeout=120)
        await self.asked.ask(chat, since)


async def _round(
    load: ClusterLoad, striker: Striker, asked: Questions, look: StoreLook
) -> ClusterOutcome:
    struck = anyio.Event()
    outcome = ClusterOutcome(Outcome())
    async with anyio.create_task_group() as supervising:
        supervising.start_soon(striker.supervise)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: ask(load, asked, ended=struck))
            await striker.strike(load.blows, load.pause_s)
            struck.set()
        last = time.monotonic()
        await until_answered(asked.counts, asked.peer_of, look)
        outcome.quiet_s = time.monotonic() - last
        supervising.cancel_scope.cancel()
    outcome.blows, outcome.ended = striker.done, striker.ended
    # The peers and anyio's event loops read the same clock of the machine.
    since_1970 = time.time() - anyio.current_time()
    times = {question: at + since_1970 for question, at in asked.times.items()}
    answered = {question: at + since_1970 for question, at in _answered(asked).items()}
    places = await _places(asked, look)
    outcome.waits = waits(striker.done, times, answered, places)
    await _explain_unknown(outcome, places, look)
    outcome.judged.faults += await _lost(asked, times, striker.done, look)
    await judge(asked.counts, asked.peer_of, look, outcome.judged)
    return outcome


async def _places(asked: Questions, look: StoreLook) -> dict[int, Place]:
    keys = await look.column("SELECT DISTINCT chat_key FROM messages WHERE author = 'person'")
    return {
        chat_of(key): Place(
            asked.peer_of[chat_of(key)].self_id,
            partition_of(ChatKey.parse(key), DEFAULT_PARTITIONS),
        )
        for key in keys
    }


def _answered(asked: Questions) -> dict[Question, float]:
    """When the first answer to each question arrived, in seconds of anyio's clock."""
    found: dict[Question, float] = {}
    for peer in {peer.self_id: peer for peer in asked.peer_of.values()}.values():
        for call in peer.sends:
            for question in questions(ANSWERED, call.text):
                found.setdefault(question, call.at)
    return found


async def _explain_unknown(
    outcome: ClusterOutcome, places: Mapping[int, Place], look: StoreLook
) -> None:
    """Find the blows that can have lost the calls of unknown outcome."""
    for row, chat_key, created, changed, reason in await look.rows(_UNKNOWN):
        place = places[chat_of(chat_key)]
        why = {blow.kind for blow in outcome.blows if blow.explains(place, created, changed)}
        if why:
            outcome.judged.in_flight.add(row)
            outcome.unknown.append(f"{' or '.join(sorted(why))}: {reason}")
            continue
        outcome.faults.append(
            f"{row} of {chat_key} in {place} was under way from {created:.1f} to {changed:.1f}, "
            f"and no blow can have lost it: {reason}; {[*map(_line, outcome.blows)]}"
        )


async def _lost(
    asked: Questions, times: Mapping[Question, float], blows: Sequence[Blow], look: StoreLook
) -> list[str]:
    """The questions on platforms without a history that are not stored, although their gateway was
    not killed. `judge` finds those on the other platforms."""
    stored = {
        question
        for segments in await look.column("SELECT segments FROM messages WHERE author = 'person'")
        for question in questions(ASKED, segments)
    }
    faults = []
    for question, at in times.items():
        peer = asked.peer_of[question[0]]
        excused = question in asked.unsent or may_be_lost(blows, peer.self_id, at)
        if not (peer.has_history or question in stored or excused):
            faults.append(f"ask{question[0]}x{question[1]}y of {at:.1f} is not stored")
    return faults


def _line(blow: Blow) -> str:
    partitions = "all" if blow.partitions is None else ",".join(map(str, sorted(blow.partitions)))
    return (
        f"{blow.began:.2f} {time.strftime('%H:%M:%S', time.localtime(blow.began))} {blow}, over at "
        f"{blow.over:.2f}, went on at {blow.went_on:.2f}, partitions {partitions}"
    )


async def _keep(outcome: ClusterOutcome, cluster: Cluster, look: StoreLook, logs: Path) -> None:
    """Keep what explains faults and long waits: the logs, the blows and the rows."""
    logs.mkdir(parents=True, exist_ok=True)
    for process in cluster.processes:
        with suppress(FileNotFoundError):
            shutil.copy(process.data.parent / "bot.log", logs / f"{process.name}.log")
    slow = [
        f"{time.strftime('%H:%M:%S', time.localtime(each.answered))} {each.answered:.2f} {each}"
        for each in outcome.slow
    ]
    (logs / "times").write_text("\n".join([*map(_line, outcome.blows), "", *slow]) + "\n")
    (logs / "evidence").write_text("\n".join([*outcome.faults, "", outcome.judged.evidence]) + "\n")
    for table in ("messages", "turns", "deliveries", "partition_owners"):
        rows = await look.rows(f"SELECT * FROM {table}")
        (logs / f"{table}.rows").write_text("\n".join(repr(tuple(row)) for row in rows) + "\n")
