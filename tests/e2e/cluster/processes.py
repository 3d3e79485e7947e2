"""Runs a cluster as an operator starts it: gateways and workers as processes, each in a folder of
its own, on one NATS server and one PostgreSQL database."""

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.bot_process import BotProcess
from tests.e2e.forked_bots import BotForker
from tests.peers.ports import free_port

NEKRO = (sys.executable, "-c", "import sys; from nekro_core.cli import main; sys.exit(main())")
"""The command ``nekro`` of this checkout."""


@dataclass
class ClusterProcess(BotProcess):
    """A gateway or a worker in its own process."""

    name: str = ""
    """Its ``NEKRO_NODE``."""

    @property
    def role(self) -> str:
        """``gateway`` or ``worker``."""
        return self.arguments[0]


@dataclass(frozen=True, slots=True)
class Cluster:
    """The running processes of a cluster."""

    gateways: Sequence[ClusterProcess]
    workers: Sequence[ClusterProcess]

    @property
    def processes(self) -> Sequence[ClusterProcess]:
        """All gateways and workers."""
        return [*self.gateways, *self.workers]


@asynccontextmanager
async def running_cluster(
    folder: Path,
    *,
    nats_url: str,
    database_url: str,
    gateways: int = 2,
    workers: int = 3,
    bots: BotForker | None = None,
    settings: Mapping[str, str] | None = None,
) -> AsyncIterator[Cluster]:
    """Start the processes, wait until all are ready, and end them with the block.

    Args:
        folder: The processes get their folders in it.
        nats_url: The value of ``NEKRO_CLUSTER_URL``.
        database_url: The value of ``NEKRO_DATABASE_URL``.
        gateways: The number of gateways.
        workers: The number of workers.
        bots: Forks the processes. If it is None, each starts as a new interpreter.
        settings: More settings for all, named as in ``.env``.
    """
    shared = {
        "LOG_LEVEL": "INFO",
        "NEKRO_CLUSTER_URL": nats_url,
        "NEKRO_DATABASE_URL": database_url,
        **(settings or {}),
    }

    def process(role: str, number: int) -> ClusterProcess:
        name = f"{role}-{number}"
        # A gateway has the same port after a restart, so that its accounts find it again.
        port = str(free_port()) if role == "gateway" else "0"
        (folder / name).mkdir(parents=True, exist_ok=True)
        return ClusterProcess(
            data=folder / name / "data",
            environment={**shared, "NEKRO_NODE": name, "PORT": port},
            command=NEKRO,
            bot_forker=bots,
            arguments=(role,),
            name=name,
        )

    cluster = Cluster(
        [process("gateway", number) for number in range(1, gateways + 1)],
        [process("worker", number) for number in range(1, workers + 1)],
    )
    try:
        # The first gateway makes the tables and the streams, so the others do not wait for each
        # other.
        await cluster.gateways[0].start()
        await asyncio.gather(*(each.start() for each in cluster.processes[1:]))
        yield cluster
    finally:
        await stop_all(cluster.processes)


async def stop_all(processes: Sequence[ClusterProcess]) -> None:
    """End processes as an operator does, all at once. A worker hands its partitions over before it
    ends, and the last worker of a cluster has nobody to hand them to."""
    ended = await asyncio.gather(
        *(each.stop() for each in processes if each.process is not None), return_exceptions=True
    )
    faults = [each for each in ended if isinstance(each, BaseException)]
    if faults:
        raise faults[0]
