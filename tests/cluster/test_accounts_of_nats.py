"""What every `PartitionLog`, `CallCarrier` and `ObjectStore` must do, done by a worker with its own
password: it reaches the streams and the gateways in another account of NATS."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from nekro_core.cluster.calls import CallHandler
from nekro_core.cluster.credentials import ClusterRole
from nekro_core.cluster.nats_calls import TO_ACCOUNTS, TO_WORKERS, CallSubjects, NatsCalls
from nekro_core.cluster.nats_connection import NatsConnection
from nekro_core.cluster.nats_log import NatsPartitionLog
from nekro_core.cluster.nats_objects import NatsObjects

from .conformance import CallContract, ObjectContract, PartitionLogContract
from .conftest import CountingBook, Roles

pytestmark = pytest.mark.long


class CallsBetweenAccounts:
    """Serves calls on one connection and makes calls on another one."""

    def __init__(
        self, called: NatsConnection, caller: NatsConnection, subjects: CallSubjects
    ) -> None:
        self._connection = called
        self._called = NatsCalls(called, subjects)
        self._caller = NatsCalls(caller, subjects)

    @asynccontextmanager
    async def serve(self, name: str, handler: CallHandler) -> AsyncIterator[None]:
        async with self._called.serve(name, handler):
            yield
        # The caller has another connection, so NATS must know now that nobody serves the name.
        await self._connection.client.flush()

    async def call(self, name: str, request: bytes, *, within_s: float) -> bytes:
        return await self._caller.call(name, request, within_s=within_s)


class TestLogOfAWorker(PartitionLogContract):
    @pytest.fixture
    async def log(self, roles: Roles) -> NatsPartitionLog:
        await NatsPartitionLog.open(roles[ClusterRole.GATEWAY], CountingBook(), partitions=8)
        worker = roles[ClusterRole.WORKER]
        return await NatsPartitionLog.open(worker, CountingBook(), partitions=8, make=False)


class TestCallsFromAWorker(CallContract):
    @pytest.fixture
    def calls(self, roles: Roles) -> CallsBetweenAccounts:
        gateway, worker = roles[ClusterRole.GATEWAY], roles[ClusterRole.WORKER]
        return CallsBetweenAccounts(gateway, worker, TO_ACCOUNTS)


class TestCallsToAWorker(CallContract):
    @pytest.fixture
    def calls(self, roles: Roles) -> CallsBetweenAccounts:
        gateway, worker = roles[ClusterRole.GATEWAY], roles[ClusterRole.WORKER]
        return CallsBetweenAccounts(worker, gateway, TO_WORKERS)


class TestObjectsOfAWorker(ObjectContract):
    @pytest.fixture
    async def objects(self, roles: Roles) -> NatsObjects:
        await NatsObjects.open(roles[ClusterRole.GATEWAY])
        worker = roles[ClusterRole.WORKER]
        return await NatsObjects.open(worker, most_bytes=1024 * 1024, make=False)
