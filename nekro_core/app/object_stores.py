"""Opens the object store of a cluster: the one of NATS, or a bucket of an S3 server."""

import os
from contextlib import AsyncExitStack
from importlib.util import find_spec
from urllib.parse import urlsplit

from loguru import logger

from nekro_core.app.settings import Settings
from nekro_core.cluster.cluster_url import read_cluster_url
from nekro_core.cluster.credentials import ClusterRole
from nekro_core.cluster.earlier_objects import ObjectsOfTwoStores
from nekro_core.cluster.errors import ClusterError, ClusterMisconfigured
from nekro_core.cluster.nats_connection import NatsConnection
from nekro_core.cluster.nats_objects import NatsObjects
from nekro_core.cluster.objects import ObjectStore
from nekro_core.cluster.s3_address import S3Address
from nekro_core.operator.health import Finding

_AREA = "objects"


def s3_address(settings: Settings) -> S3Address | None:
    """Return the bucket in which the objects of the cluster are; None if they are in NATS. Raises
    `ClusterMisconfigured`."""
    address = S3Address.read(settings.nekro_cluster_objects, settings.nekro_s3, os.environ)
    if address is not None and find_spec("botocore") is None:
        raise ClusterMisconfigured(
            f"NEKRO_CLUSTER_OBJECTS names {address}, and the package botocore is not installed: "
            "pip install 'nekro-core[cluster,s3]'"
        )
    return address


async def choose_objects(
    settings: Settings, connection: NatsConnection, stack: AsyncExitStack, *, makes: bool
) -> ObjectStore:
    """Open the object store that the settings name.

    Objects that a cluster has stored in NATS before it went to S3 are still read from NATS.

    Args:
        settings: The settings.
        connection: The connection to NATS.
        stack: When it ends, the object store is closed.
        makes: Whether this process makes the object store of NATS if it is missing.

    Raises:
        ClusterError: The object store does not answer, or refuses what is needed.
    """
    address = s3_address(settings)
    if address is None:
        return await NatsObjects.open(connection, make=makes)
    earlier = await NatsObjects.find(connection)
    # It imports botocore, which is an extra.
    from nekro_core.cluster.s3_objects import S3Objects  # noqa: PLC0415

    objects = await stack.enter_async_context(S3Objects.open(address, settings.nekro_s3))
    if objects.keeps_versions:
        logger.info("{} keeps versions: all versions of a deleted object are deleted", address)
    if earlier is None:
        return objects
    logger.info("objects that are still in NATS are read from there; new ones are in {}", address)
    return ObjectsOfTwoStores(objects, earlier)


async def check_objects(settings: Settings) -> Finding | None:
    """Try the object store of the cluster for ``nekro doctor``. Return None if the bot is not part
    of a cluster."""
    url = settings.nekro_cluster_url.get_secret_value()
    if not url:
        return None
    try:
        address = s3_address(settings)
        if address is None:
            return await _check_nats(url)
        from nekro_core.cluster.s3_objects import S3Objects  # noqa: PLC0415 - see above

        async with S3Objects.open(address, settings.nekro_s3) as objects:
            versions = ", and keeps versions" if objects.keeps_versions else ""
    except ClusterError as error:
        return Finding(area=_AREA, ok=False, seen=settings.nekro_cluster_objects, remedy=str(error))
    return Finding(
        area=_AREA, ok=True, seen=f"{address} stores, reads, lists and deletes{versions}"
    )


async def _check_nats(url: str) -> Finding:
    servers = read_cluster_url(url)
    # NATS lets a user receive answers only on the subjects of the user's own role.
    user = urlsplit(servers.servers[0]).username
    role = ClusterRole.GATEWAY if user == ClusterRole.GATEWAY else ClusterRole.WORKER
    async with NatsConnection.open(servers, name="doctor", role=role) as connection:
        found = await NatsObjects.find(connection, empty=True)
        if found is None:
            return Finding(
                area=_AREA, ok=None, seen=f"NATS at {servers}: the first gateway makes the store"
            )
        count = len(await found.names())
    return Finding(area=_AREA, ok=True, seen=f"NATS at {servers} lists {count} objects")
