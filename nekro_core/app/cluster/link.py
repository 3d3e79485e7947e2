"""Connects a process to the cluster."""

import hashlib
import platform
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Self, TypeVar

import anyio
from loguru import logger

from nekro_core.app.cluster.object_place import agree_on_place
from nekro_core.app.object_stores import choose_objects, s3_address
from nekro_core.app.settings import Settings
from nekro_core.app.settings_sources import SettingsError
from nekro_core.cluster.calls import CallCarrier
from nekro_core.cluster.cluster_url import read_cluster_url
from nekro_core.cluster.credentials import ClusterRole
from nekro_core.cluster.errors import ClusterMisconfigured, ClusterUnavailable
from nekro_core.cluster.nats_calls import TO_GATEWAYS, TO_WORKERS, NatsCalls
from nekro_core.cluster.nats_connection import NatsConnection
from nekro_core.cluster.nats_leases import NatsLeases
from nekro_core.cluster.nats_log import NatsPartitionLog
from nekro_core.cluster.nats_objects import NatsObjects
from nekro_core.cluster.objects import ObjectStore
from nekro_core.cluster.s3_address import NATS_OBJECTS
from nekro_core.cluster.stream_keeper import StreamKeeper
from nekro_core.store import Store
from nekro_core.store.engines import is_postgres

_START_S = 60.0
"""Maximum number of seconds that a start waits for NATS, and that a worker waits for a gateway that
makes the streams. The processes of a cluster are often started all at once."""
_AGAIN_S = 0.5
_Opened = TypeVar("_Opened")


def cluster_settings(settings: Settings, role: ClusterRole) -> Settings:
    """Return the settings of a gateway or a worker: with a name for the process, and with the
    operator's documents in the database. Raises `SettingsError`, which says what is missing."""
    command = f"nekro {role}"
    url = settings.nekro_cluster_url.get_secret_value()
    if not url:
        raise SettingsError(
            f"NEKRO_CLUSTER_URL is not set: `{command}` needs the address of the cluster's NATS "
            "server, for example nats://127.0.0.1:4222"
        )
    try:
        read_cluster_url(url)
        s3_address(settings)
    except ClusterMisconfigured as error:
        raise SettingsError(str(error)) from None
    if not is_postgres(settings.nekro_database_url):
        came = settings.nekro_database_url.partition(":")[0] or "nothing"
        raise SettingsError(
            f"NEKRO_DATABASE_URL names no PostgreSQL database (came: {came}): the processes of a "
            f"cluster share one, and `{command}` needs its address, for example "
            "asyncpg://user:password@127.0.0.1:5432/nekro"
        )
    node = settings.nekro_node or settings.nekro_store.node or _default_name(settings, role)
    store = settings.nekro_store.model_copy(update={"node": settings.nekro_store.node or node})
    return settings.model_copy(
        update={"nekro_store": store, "nekro_node": node, "nekro_documents": "database"}
    )


def _default_name(settings: Settings, role: ClusterRole) -> str:
    """Return a name that stays the same as long as the data folder stays where it is."""
    folder = str(settings.nekro_data_dir.absolute())
    sign = hashlib.blake2b(folder.encode(), digest_size=4).hexdigest()
    host = re.sub(r"[^A-Za-z0-9-]+", "-", platform.node())[:40].strip("-") or "machine"
    return f"{role}-{host}-{sign}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterLink:
    """The connection of one process to the cluster.

    Attributes:
        node: The name of the process.
        partitions: The number of partitions of the cluster.
        calls: Carries the calls of workers to the gateway of an account.
        process_calls: Carries the calls of gateways to the processes of each role, by their names.
        leases: Makes sure that one process at a time uses an account.
        objects: Stores files that several processes need.
        object_place: Where these files are: ``nats``, or ``s3://BUCKET/FOLDER``.
    """

    node: str
    role: ClusterRole
    partitions: int
    connection: NatsConnection
    calls: CallCarrier
    process_calls: Mapping[ClusterRole, CallCarrier]
    leases: NatsLeases
    objects: ObjectStore
    object_place: str = NATS_OBJECTS

    @classmethod
    @asynccontextmanager
    async def open(cls, settings: Settings, role: ClusterRole) -> AsyncIterator[Self]:
        """Connect to NATS until the block ends. ``settings`` come from `cluster_settings`. Raises
        `ClusterError`."""
        url = read_cluster_url(settings.nekro_cluster_url.get_secret_value())
        opened = NatsConnection.open(url, name=settings.nekro_node, role=role, wait_s=_START_S)
        async with opened as connection, AsyncExitStack() as stack:
            leases = NatsLeases(connection, secret=url.password)
            makes = role is ClusterRole.GATEWAY
            if makes:
                await leases.prepare()
            yield cls(
                node=settings.nekro_node,
                role=role,
                partitions=settings.nekro_cluster_partitions,
                connection=connection,
                calls=NatsCalls(connection),
                process_calls={
                    ClusterRole.GATEWAY: NatsCalls(connection, TO_GATEWAYS),
                    ClusterRole.WORKER: NatsCalls(connection, TO_WORKERS),
                },
                leases=leases,
                objects=await _when_there(
                    lambda: choose_objects(settings, connection, stack, makes=makes)
                ),
                object_place=bucket.place if (bucket := s3_address(settings)) else NATS_OBJECTS,
            )

    async def open_log(self, store: Store) -> NatsPartitionLog:
        """Open the log of the partitions. ``store`` has their owners. Raises `StoreError` if the
        database was begun with another number of partitions, `DocumentError`, and `ClusterError`,
        for example if the other processes keep the objects in another place."""
        await agree_on_place(self.object_place, store.documents)
        await store.partitions.prepare(self.partitions)
        makes = self.role is ClusterRole.GATEWAY
        return await _when_there(
            lambda: NatsPartitionLog.open(
                self.connection, store.partitions, partitions=self.partitions, make=makes
            )
        )

    def keeper(self, log: NatsPartitionLog) -> StreamKeeper:
        """Return what makes streams again that are deleted while this gateway runs."""
        objects = self.objects if isinstance(self.objects, NatsObjects) else None
        return StreamKeeper(self.connection, log, self.leases, objects, self.node)


@asynccontextmanager
async def open_objects(settings: Settings) -> AsyncIterator[ObjectStore]:
    """Connect to the object store as a gateway does, for a backup or a restore. Raises
    `ClusterError`."""
    url = read_cluster_url(settings.nekro_cluster_url.get_secret_value())
    name = f"backup-{settings.nekro_node}".rstrip("-")
    opened = NatsConnection.open(url, name=name, role=ClusterRole.GATEWAY)
    async with opened as connection, AsyncExitStack() as stack:
        yield await choose_objects(settings, connection, stack, makes=True)


async def _when_there(open_it: Callable[[], Awaitable[_Opened]]) -> _Opened:
    """Open something that a gateway makes, and wait for the gateway if it is missing. Raises
    `ClusterError`."""
    until, told = anyio.current_time() + _START_S, False
    while True:
        try:
            return await open_it()
        except ClusterUnavailable as error:
            if anyio.current_time() >= until:
                raise
            if not told:
                logger.info("waiting for the cluster: {}", error)
            told = True
        await anyio.sleep(_AGAIN_S)
