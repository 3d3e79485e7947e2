"""Kills and stops the processes of a cluster and restarts its servers, at random, and starts each
process again that has ended."""

import asyncio
import itertools
import random
import signal
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import anyio

from tests.e2e.cluster.blows import Blow, Kind
from tests.e2e.cluster.processes import Cluster, ClusterProcess
from tests.peers.nats import NatsServer
from tests.peers.onebot_v11 import OneBotPeer
from tests.peers.postgres import PostgresServer

RESTART_S = 0.2
"""Seconds after which a process that ended is started again, as a supervisor such as systemd
does."""
STOP_S = (10.0, 40.0)
"""The shortest and the longest time in seconds for which a process is stopped."""
AWAY_S = (0.0, 3.0)
"""The shortest and the longest time in seconds between a server's end and its start."""
WEIGHTS: Mapping[Kind, float] = {
    Kind.KILL_WORKER: 9,
    Kind.KILL_GATEWAY: 5,
    Kind.STOP_WORKER: 2,
    Kind.STOP_GATEWAY: 1,
    Kind.NATS: 1.5,
    Kind.POSTGRES: 1.5,
}
"""How often each kind of blow happens, relative to the other kinds."""


@dataclass(frozen=True, slots=True)
class Owner:
    """The last owner of a partition: its name, empty if it gave the partition up, and when it took
    the partition, in seconds since 1970."""

    worker: str
    taken: float


Owners = Mapping[int, Owner]


class Striker:
    """Does the blows.

    Args:
        cluster: The processes.
        nats: The NATS server.
        postgres: The PostgreSQL server.
        accounts: The accounts of each gateway.
        owners: Reads the owners of the partitions. Returns None if the database is away.
        ask_all: Asks a question in each chat. Called after each blow, with the time of the blow on
            anyio's clock.
        seed: The seed of all random choices. The choices also depend on which processes run at each
            time, so two runs with one seed can differ.
    """

    def __init__(
        self,
        cluster: Cluster,
        nats: NatsServer,
        postgres: PostgresServer,
        accounts: Mapping[str, Sequence[OneBotPeer]],
        owners: Callable[[], Awaitable[Owners | None]],
        ask_all: Callable[[float], Coroutine[Any, Any, None]],
        seed: int,
    ) -> None:
        self.done: list[Blow] = []
        self.ended: list[str] = []
        """Processes that ended although nobody killed them: name and exit status."""
        self._cluster = cluster
        self._nats = nats
        self._postgres = postgres
        self._accounts = accounts
        self._owners = owners
        self._ask_all = ask_all
        self._all = frozenset(peer.self_id for peers in accounts.values() for peer in peers)
        self._chance = random.Random(-seed)
        self._stopped: set[str] = set()
        self._killed: set[str] = set()
        self._away: set[Kind] = set()
        self._struck: dict[str, float] = {}
        """When each process was last killed or stopped."""
        self._ways: dict[Kind, Iterator[bool]] = {
            kind: itertools.cycle((False, True)) for kind in (Kind.NATS, Kind.POSTGRES)
        }

    async def strike(self, count: int, pause_s: tuple[float, float]) -> None:
        """Do this number of blows at random, with pauses between them. Returns when every stopped
        process goes on and every server is back."""
        kinds, weights = list(WEIGHTS), list(WEIGHTS.values())
        async with anyio.create_task_group() as tasks:
            while len(self.done) < count:
                await anyio.sleep(self._chance.uniform(*pause_s))
                kind = self._chance.choices(kinds, weights)[0]
                at, before = anyio.current_time(), len(self.done)
                match kind:
                    case Kind.KILL_WORKER | Kind.STOP_WORKER:
                        await self._hit(kind, self._cluster.workers, tasks.start_soon)
                    case Kind.KILL_GATEWAY | Kind.STOP_GATEWAY:
                        await self._hit(kind, self._cluster.gateways, tasks.start_soon)
                    case Kind.NATS | Kind.POSTGRES:
                        self._restart(kind, tasks.start_soon)
                if len(self.done) > before:
                    tasks.start_soon(self._ask_all, at)

    async def supervise(self) -> None:
        """Start each process again that has ended, until the caller cancels this."""
        async with anyio.create_task_group() as tasks:
            for process in self._cluster.processes:
                tasks.start_soon(self._supervise, process)

    async def _supervise(self, process: ClusterProcess) -> None:
        while True:
            assert process.process is not None
            status = await process.process.wait()
            if process.name in self._killed:
                self._killed.discard(process.name)
            else:
                self.ended.append(f"{process.name} ({status})")
            await anyio.sleep(RESTART_S)
            await process.begin()

    async def _hit(
        self, kind: Kind, processes: Sequence[ClusterProcess], start_soon: Callable[..., object]
    ) -> None:
        """Kill a process, or stop one if another one of its role runs."""
        stops = kind in (Kind.STOP_WORKER, Kind.STOP_GATEWAY)
        owners = None if Kind.POSTGRES in self._away else await self._owners()
        running = self._running(processes)
        if len(running) < (2 if stops else 1):
            return
        process = self._chance.choice(running)
        assert process.process is not None
        peers = self._accounts.get(process.name)
        blow = Blow(
            kind=kind,
            target=process.name,
            began=time.time(),
            accounts=self._all if peers is None else frozenset(peer.self_id for peer in peers),
            partitions=self._served_by(process.name, owners) if peers is None else None,
        )
        self.done.append(blow)
        process.process.send_signal(signal.SIGSTOP if stops else signal.SIGKILL)
        self._struck[process.name] = time.time()
        if kind is not Kind.STOP_GATEWAY:
            blow.over = time.time()
        if stops:
            self._stopped.add(process.name)
            start_soon(self._go_on, process, blow, self._chance.uniform(*STOP_S))
        else:
            self._killed.add(process.name)

    def _running(self, processes: Sequence[ClusterProcess]) -> list[ClusterProcess]:
        return [
            each
            for each in processes
            if each.name not in self._stopped | self._killed
            and each.process is not None
            and each.process.returncode is None
        ]

    def _served_by(self, worker: str, owners: Owners | None) -> frozenset[int] | None:
        """The partitions that a worker owns, and those that nobody owns now, which this worker may
        be about to take. None if the owners are not known."""
        if owners is None:
            return None
        return frozenset(
            partition
            for partition, owner in owners.items()
            if owner.worker in ("", worker) or self._struck.get(owner.worker, 0.0) > owner.taken
        )

    async def _go_on(self, process: ClusterProcess, blow: Blow, after_s: float) -> None:
        try:
            await anyio.sleep(after_s)
        finally:
            assert process.process is not None
            with suppress(ProcessLookupError):
                process.process.send_signal(signal.SIGCONT)
            self._stopped.discard(process.name)
            blow.went_on = time.time()
            blow.over = min(blow.over, blow.went_on)

    def _restart(self, kind: Kind, start_soon: Callable[..., object]) -> None:
        """End a server, in turn properly and by SIGKILL, and start it again. Other blows can happen
        while it is away."""
        if kind in self._away:
            return
        self._away.add(kind)
        killed = next(self._ways[kind])
        how = "killed" if killed else "ended properly"
        blow = Blow(kind=kind, target=how, began=time.time(), accounts=self._all)
        self.done.append(blow)
        start_soon(self._end_and_start, blow, killed, self._chance.uniform(*AWAY_S))

    async def _end_and_start(self, blow: Blow, killed: bool, away_s: float) -> None:
        server = self._nats if blow.kind is Kind.NATS else self._postgres
        await asyncio.to_thread(server.kill if killed else server.stop)
        await anyio.sleep(away_s)
        await asyncio.to_thread(server.start)
        blow.over = time.time()
        self._away.discard(blow.kind)
