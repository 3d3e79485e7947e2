"""Defines the stream of the partitions' log, and the consumers of the partitions."""

from typing import Any

from nekro_core.cluster.errors import ClusterMisconfigured, ClusterUnavailable
from nekro_core.cluster.nats_connection import JetStreamRefused, NatsConnection
from nekro_core.cluster.nats_partition import GROUP, OwnershipTimes, consumer_of, nanoseconds
from nekro_core.cluster.partition_log import ITEM_BYTES
from nekro_core.cluster.subjects import PARTITION_STREAM, PARTITION_SUBJECT

_METADATA = "nekro.partitions"
_KNOWN_S = 120.0
"""Seconds for which the stream remembers an item's id. An item with an id that the stream remembers
is not stored again."""
_MOST_ITEMS = 1_000_000
"""Maximum number of items that wait in all partitions together. JetStream refuses further items.
Nothing is lost: the records that the items name are in the database, and the gateway publishes the
items again until they are accepted."""
_HEADER_BYTES = 4096
_WAITING_PULLS = 512
"""Maximum number of requests for an item that wait at one consumer, of all workers together."""
NO_GATEWAY = (
    f"the NATS server has no complete stream {PARTITION_STREAM}: start a gateway first, which "
    "makes it"
)


async def check_stream(connection: NatsConnection, partitions: int, replicas: int) -> None:
    """Check that the stream was made by this program with this number of partitions. If it is
    missing, make it on ``replicas`` servers, unless ``replicas`` is 0. Raises
    `ClusterMisconfigured` and `ClusterUnavailable`."""
    try:
        info = await connection.api(f"STREAM.INFO.{PARTITION_STREAM}")
    except JetStreamRefused as refused:
        if not refused.missing:
            raise
        if not replicas:
            raise ClusterUnavailable(NO_GATEWAY) from None
        try:
            info = await connection.api(
                f"STREAM.CREATE.{PARTITION_STREAM}", _stream(partitions, replicas)
            )
        except JetStreamRefused:
            # Another process has made it just now.
            info = await connection.api(f"STREAM.INFO.{PARTITION_STREAM}")
    fixed = (info["config"].get("metadata") or {}).get(_METADATA)
    if fixed is None:
        raise ClusterMisconfigured(
            f"the NATS stream {PARTITION_STREAM} was not made by nekro-core: delete it, or use "
            "another server"
        )
    if int(fixed) != partitions:
        raise ClusterMisconfigured(
            f"this cluster was made with {fixed} partitions, and {partitions} are set: the number "
            "cannot change, because chats would get other partitions"
        )


def _stream(partitions: int, replicas: int) -> dict[str, Any]:
    return {
        "name": PARTITION_STREAM,
        "subjects": [f"{PARTITION_SUBJECT}.*"],
        "retention": "workqueue",
        "storage": "file",
        "discard": "new",
        "max_consumers": -1,
        "max_msgs": _MOST_ITEMS,
        "max_bytes": -1,
        "max_msg_size": ITEM_BYTES + _HEADER_BYTES,
        "num_replicas": replicas,
        "duplicate_window": nanoseconds(_KNOWN_S),
        "metadata": {_METADATA: str(partitions)},
    }


def consumer_config(partition: int, times: OwnershipTimes) -> dict[str, Any]:
    """Return the configuration of a partition's consumer."""
    return {
        "name": consumer_of(partition),
        "durable_name": consumer_of(partition),
        "filter_subject": f"{PARTITION_SUBJECT}.{partition}",
        "deliver_policy": "all",
        "ack_policy": "explicit",
        "ack_wait": nanoseconds(times.ack_s),
        "max_deliver": -1,
        "max_ack_pending": 1,
        "max_waiting": _WAITING_PULLS,
        "priority_policy": "pinned_client",
        "priority_groups": [GROUP],
        "priority_timeout": nanoseconds(times.pin_s),
    }
