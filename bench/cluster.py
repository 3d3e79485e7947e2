"""Measures a cluster of `nekro gateway` and `nekro worker` beside `nekro run` on the same machine:
turns per second with one and with four workers, the time from a question to its answer, processor
time and memory.

All processes of the cluster, its NATS server, its PostgreSQL database, the model and the platform
share this machine, so its cores limit the figures. The cluster and the single process are measured
in turn, so that a busy minute affects both.
"""

import asyncio
import statistics
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from bench.figure import Figure
from bench.idle_boxes import pss
from bench.turn_load import TOKEN, PacedModel, TurnLoad, bot_settings, busy_shares, processor_s
from tests.e2e.bot_process import BotProcess, running_bot
from tests.e2e.cluster.processes import Cluster, running_cluster, stop_all
from tests.peers.nats import NatsServer
from tests.peers.onebot_v11 import OneBotPeer
from tests.peers.postgres import PostgresServer
from tests.peers.scripted_model import ScriptedModelServer

WORKERS = 4
CHATS = 64
"""The number of chats in which people ask. If four workers share the chats, each has some more
chats than it answers at a time. If one worker has all chats, it can still hold all their boxes."""
TURNS_AT_ONCE = 8
"""The turns that a worker runs at the same time (``concurrent_turns``)."""
MODEL_S = 1.0
"""The time that the model takes, in seconds."""
ROUNDS = 3
RATE_S = 15.0
SETTLE_S = 8.0
"""Seconds after which workers have divided the partitions and their chats have boxes."""
WAYS = 100
"""How many questions are timed until their answers arrive."""
TURNS = 300
"""How many turns are measured for their processor time, in each round."""
COST_CHATS = 16
IDLE_S = 15.0
PARTITIONS = 64
MANY_PARTITIONS = 512
RATIO = 3.5
"""Four workers must run at least this many times as many turns per second as one worker."""
ADDED_MS = 8.0
"""How many milliseconds longer than in a single process the answer to a question may take."""


async def figures(*, small: bool = False) -> list[Figure]:
    """Return the figures of this part. With ``small``, each is measured once."""
    rounds = 1 if small else ROUNDS
    model = PacedModel()
    with PostgresServer() as postgres, tempfile.TemporaryDirectory() as folder:
        async with ScriptedModelServer(model) as server:
            place = Place(Path(folder), postgres, bot_settings(server.base_url))
            return [
                *await _turns(place, model, rounds),
                *await _beside_one_process(place, model, rounds),
                await _idle_partition(place),
            ]


class Place:
    """Where bots are started: a folder, a database server and the settings for all."""

    def __init__(self, folder: Path, postgres: PostgresServer, settings: dict[str, str]) -> None:
        self.postgres = postgres
        self._folder = folder
        self._settings = settings
        self._made = 0

    def _new_folder(self) -> Path:
        self._made += 1
        made = self._folder / str(self._made)
        made.mkdir(parents=True)
        return made

    @asynccontextmanager
    async def cluster(
        self, workers: int, partitions: int = PARTITIONS
    ) -> AsyncIterator[tuple[Cluster, NatsServer]]:
        """A new cluster with one gateway."""
        with NatsServer() as nats:
            async with running_cluster(
                self._new_folder(),
                nats_url=nats.url,
                database_url=await self.postgres.database(),
                gateways=1,
                workers=workers,
                settings=self._settings | {"NEKRO_CLUSTER_PARTITIONS": str(partitions)},
            ) as cluster:
                yield cluster, nats

    @asynccontextmanager
    async def single(self) -> AsyncIterator[BotProcess]:
        """A new bot in one process, on SQLite."""
        async with running_bot(self._new_folder(), **self._settings) as bot:
            yield bot


async def _turns(place: Place, model: PacedModel, rounds: int) -> list[Figure]:
    """The turns per second with all workers and with one, in turn."""
    all_workers, one_worker = [], []
    async with place.cluster(WORKERS) as (cluster, _):
        others = cluster.workers[1:]
        async with OneBotPeer("20002", TOKEN, cluster.gateways[0].onebot_url) as peer:
            await peer.wait_connected()
            load = TurnLoad(peer, 30_000)
            model.takes_s = MODEL_S
            async with load.busy(CHATS):
                for number in range(rounds):
                    if number:
                        await asyncio.gather(*(each.start() for each in others))
                    await anyio.sleep(SETTLE_S)
                    all_workers.append(await load.rate(RATE_S))
                    await stop_all(others)
                    await anyio.sleep(SETTLE_S)
                    one_worker.append(await load.rate(RATE_S))
    one, four = statistics.median(one_worker), statistics.median(all_workers)
    slots = TURNS_AT_ONCE / MODEL_S
    return [
        Figure(
            name="cluster: turns with 1 worker", unit="/s", p50=one,
            floor=slots, floor_name="8 turns at a time, 1 s each", more_is_better=True,
        ),
        Figure(
            name=f"cluster: turns with {WORKERS} workers", unit="/s", p50=four,
            floor=slots * WORKERS, floor_name="the same, 4 times", target=RATIO * one,
            more_is_better=True,
        ),
    ]  # fmt: skip


async def _beside_one_process(place: Place, model: PacedModel, rounds: int) -> list[Figure]:
    """The time from a question to its answer, processor time and memory, beside a single
    process."""
    model.takes_s = 0.0
    async with (
        place.single() as bot,
        place.cluster(2) as (cluster, nats),
        OneBotPeer("20003", TOKEN, bot.onebot_url) as near,
        OneBotPeer("20004", TOKEN, cluster.gateways[0].onebot_url) as far,
    ):
        await near.wait_connected()
        await far.wait_connected()
        alone, spread = TurnLoad(near, 31_000), TurnLoad(far, 32_000)
        await anyio.sleep(SETTLE_S)
        pids = {
            "single": _pid(bot),
            "gateway": _pid(cluster.gateways[0]),
            "worker": _pid(cluster.workers[0]),
            "nats": nats.pid,
            "postgres": place.postgres.pid,
        }
        idle = await busy_shares(pids, IDLE_S)
        ways = await _ways(alone, spread)
        cost = await _cost(alone, spread, pids | {"worker 2": _pid(cluster.workers[1])}, rounds)
        mib = {name: pss([pids[name]]) / 2**20 for name in ("single", "gateway", "worker")}
    single_ms = statistics.median(ways[0])
    used = "processor time of a turn"
    floor = {"floor": cost["single"], "floor_name": "nekro run on SQLite"}
    idle_floor = {"floor": idle["single"], "floor_name": "nekro run"}
    memory_floor = {"floor": mib["single"], "floor_name": "nekro run"}
    return [
        Figure.of(
            "cluster: message in -> answer out", "ms", ways[1], single_ms, "nekro run",
            single_ms + ADDED_MS,
        ),
        Figure(name=f"cluster: {used}, gateway", unit="ms", p50=cost["gateway"], **floor),
        Figure(
            name=f"cluster: {used}, workers", unit="ms",
            p50=cost["worker"] + cost["worker 2"], **floor,
        ),
        Figure(name=f"cluster: {used}, NATS", unit="ms", p50=cost["nats"], **floor),
        Figure(name=f"cluster: {used}, PostgreSQL", unit="ms", p50=cost["postgres"], **floor),
        Figure(name="cluster: idle gateway", unit="% of a core", p50=idle["gateway"], **idle_floor),
        Figure(name="cluster: idle worker", unit="% of a core", p50=idle["worker"], **idle_floor),
        Figure(name="cluster: idle NATS", unit="% of a core", p50=idle["nats"], **idle_floor),
        Figure(name="cluster: memory of a gateway", unit="MiB", p50=mib["gateway"], **memory_floor),
        Figure(name="cluster: memory of a worker", unit="MiB", p50=mib["worker"], **memory_floor),
    ]  # fmt: skip


async def _ways(alone: TurnLoad, spread: TurnLoad) -> tuple[list[float], list[float]]:
    """The milliseconds from each question to its answer, in the single process and in the cluster,
    which are asked in turn. The first question of each is left out, since its chat first gets a
    session and a box."""
    single, cluster = [], []
    for _ in range(WAYS + 1):
        single.append(await alone.way_ms())
        cluster.append(await spread.way_ms())
    return single[1:], cluster[1:]


async def _cost(
    alone: TurnLoad, spread: TurnLoad, pids: dict[str, int], rounds: int
) -> dict[str, float]:
    """The processor time of a turn in milliseconds, of each process. The boxes of a process
    count as the process."""
    samples: dict[str, list[float]] = {name: [] for name in pids}
    for number in range(rounds + 1):
        for load, names in ((alone, {"single"}), (spread, pids.keys() - {"single"})):
            async with load.busy(COST_CHATS):
                # In the first turns of the chats, their boxes are made.
                await load.turns(COST_CHATS * 2)
                before = {name: processor_s([pids[name]]) for name in names}
                done = len(load.answered_at)
                await load.turns(TURNS)
                turns = len(load.answered_at) - done
                if number:
                    for name in names:
                        used = processor_s([pids[name]]) - before[name]
                        samples[name].append(used / turns * 1000)
    return {name: statistics.median(values) for name, values in samples.items()}


async def _idle_partition(place: Place) -> Figure:
    """What one more partition costs while nobody writes."""
    shares = []
    for partitions in (PARTITIONS, MANY_PARTITIONS):
        async with place.cluster(1, partitions) as (cluster, nats):
            await anyio.sleep(SETTLE_S)
            pids = {"gateway": _pid(cluster.gateways[0]), "worker": _pid(cluster.workers[0])}
            found = await busy_shares(pids | {"nats": nats.pid}, IDLE_S)
            shares.append(sum(found.values()))
    each = (shares[1] - shares[0]) / (MANY_PARTITIONS - PARTITIONS)
    return Figure(
        name="cluster: one more idle partition, all processes", unit="% of a core", p50=each,
        floor=shares[0] / PARTITIONS, floor_name=f"all of {PARTITIONS} partitions, divided",
    )  # fmt: skip


def _pid(bot: BotProcess) -> int:
    assert bot.process is not None
    return bot.process.pid
