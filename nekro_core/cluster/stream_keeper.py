"""Makes streams and consumers of NATS again that were deleted while the processes run.

An operator can delete a stream by mistake, a server can begin with an empty folder, and whoever has
the password of a gateway can delete any stream. Without this, nothing would be answered until a
gateway is started again.

Items that a deleted stream had are lost. The records that they named are in the database: a worker
that sees that its partition's consumer is a new one takes the partition again, and so looks for all
records that nobody has answered (`NatsPartitionLog.own`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import anyio
from loguru import logger

from nekro_core.cluster.errors import ClusterError, ClusterUnavailable
from nekro_core.cluster.nats_connection import JetStreamRefused, NatsConnection
from nekro_core.cluster.nats_leases import NatsLeases
from nekro_core.cluster.nats_log import NatsPartitionLog
from nekro_core.cluster.nats_objects import NatsObjects
from nekro_core.cluster.nats_stream import GoneNotice, missing_consumers
from nekro_core.cluster.subjects import (
    LEASE_STREAM,
    OBJECT_STREAM,
    PARTITION_STREAM,
    PRESENCE_STREAM,
)

_LOOK_S = 1.0
"""Seconds between two looks at the streams. A look is two requests to NATS."""
_REMEDY = (
    "It was deleted, or the server began with an empty folder. This gateway makes it again, and "
    "messages that nobody has answered are answered; files that were in the object store of NATS "
    "are lost. If you did not do this, somebody has a password of the NATS server: see "
    "docs/cluster.md, and make new passwords with `nekro cluster credentials`"
)


@dataclass(slots=True)
class StreamKeeper:
    """Looks every second whether all streams and consumers exist, and makes what is missing.

    Gateways do this. If several gateways make the same stream, NATS makes it once.

    Attributes:
        connection: The connection of a gateway.
        log: The log of the partitions.
        leases: The leases of accounts.
        objects: The object store; None if the objects are not in NATS.
        gateway: The name of this process, for the log.
    """

    connection: NatsConnection
    log: NatsPartitionLog
    leases: NatsLeases
    objects: NatsObjects | None
    gateway: str
    _gone: GoneNotice = field(init=False)
    _failure: str = ""
    """The last reason for which something could not be made. It is logged once."""

    def __post_init__(self) -> None:
        self._gone = GoneNotice(f"gateway {self.gateway}", _REMEDY)

    async def live(self) -> None:
        """Look again and again. Never returns."""
        while True:
            await anyio.sleep(_LOOK_S)
            try:
                await self.look()
                self._failure = ""
            except ClusterUnavailable as error:
                # NATS is away, or is just starting. What is missing is made when it is back.
                logger.debug("the streams cannot be looked at now: {}", error)
            except ClusterError as error:
                if str(error) != self._failure:
                    logger.error("what NATS has lost cannot be made again: {}", error)
                self._failure = str(error)

    async def look(self) -> None:
        """Make what is missing now. Raises `ClusterError`."""
        gone = await self._missing()
        self._gone.note(gone)
        if not gone:
            return
        # The leases first: until an account has its lease, its gateway makes no platform calls.
        await self.leases.prepare()
        await self.log.make_missing()
        if self.objects is not None:
            await self.objects.make_missing()

    async def _missing(self) -> Sequence[str]:
        """Return what is missing, for a sentence in the log."""
        there = await self._streams()
        needed = [PARTITION_STREAM, PRESENCE_STREAM, LEASE_STREAM]
        if self.objects is not None:
            needed.append(OBJECT_STREAM)
        gone = [f"the stream {each}" for each in needed if each not in there]
        if PARTITION_STREAM not in there:
            return gone
        try:
            info = await self.connection.api(f"STREAM.INFO.{PARTITION_STREAM}")
            if info["state"]["consumer_count"] != self.log.partitions:
                gone += missing_consumers(await self.log.look())
        except JetStreamRefused as refused:
            if not refused.missing:
                raise
            gone.append(f"the stream {PARTITION_STREAM}")  # It was deleted just now.
        return gone

    async def _streams(self) -> set[str]:
        """Return the names of all streams."""
        names, total = list[str](), 1
        while len(names) < total:
            answer = await self.connection.api("STREAM.NAMES", {"offset": len(names)})
            total, found = int(answer.get("total", 0)), answer.get("streams") or []
            names += found
            if not found:
                break
        return {*names}
