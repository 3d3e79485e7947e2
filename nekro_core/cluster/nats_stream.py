"""Defines the stream of the partitions' log, the consumers of the partitions, and the streams whose
messages expire."""

from collections.abc import Iterable, Sequence
from typing import Any

from loguru import logger

from nekro_core.cluster.errors import ClusterMisconfigured, ClusterUnavailable
from nekro_core.cluster.nats_connection import JetStreamRefused, NatsConnection
from nekro_core.cluster.nats_partition import GROUP, OwnershipTimes, consumer_of, nanoseconds
from nekro_core.cluster.partition_log import ITEM_BYTES
from nekro_core.cluster.share import PartitionView
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
"""Maximum size of the headers of an item in bytes. Our headers are the id of the item, which has at
most `ITEM_ID_LENGTH` characters, and the short `CLAIM` (`nats_partition.py`). NATS adds some of its
own."""
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


async def make_expiring_stream(
    connection: NatsConnection, name: str, subject: str, lasts_s: float
) -> None:
    """Make a stream if it is missing. It keeps the newest message of each subject that begins with
    ``subject``, for ``lasts_s`` seconds. (A key-value bucket of NATS is such a stream too.) If a
    process of another version made it, with another number of seconds, it stays as it is. Raises
    `ClusterUnavailable`."""
    config = {
        "name": name,
        "subjects": [f"{subject}.*"],
        "retention": "limits",
        "storage": "file",
        "discard": "old",
        "max_msgs_per_subject": 1,
        "max_age": nanoseconds(lasts_s),
        "duplicate_window": nanoseconds(lasts_s),
        "num_replicas": 1,
    }
    try:
        await connection.api(f"STREAM.CREATE.{name}", config)
    except JetStreamRefused as refused:
        logger.debug("the stream {} stays as it is: {}", name, refused)


def missing_consumers(views: Iterable[PartitionView]) -> Sequence[str]:
    """Return the names of the consumers that are missing, for a sentence in the log."""
    missing = [consumer_of(view.partition) for view in views if not view.made]
    return [f"{len(missing)} consumers of {PARTITION_STREAM}"] if len(missing) > 1 else missing


class GoneNotice:
    """Says in the log what NATS has lost, once until all of it is there again.

    Args:
        who: The process, with which the sentence begins.
        remedy: What happens now and what to do, as a sentence.
    """

    def __init__(self, who: str, remedy: str) -> None:
        self._who = who
        self._remedy = remedy
        self._told = False

    def note(self, gone: Sequence[str]) -> None:
        """Note what is missing now; nothing if all is there."""
        if gone and not self._told:
            logger.error("{}: NATS has lost {}. {}", self._who, ", ".join(gone), self._remedy)
        elif self._told and not gone:
            logger.info("{}: what NATS had lost is there again", self._who)
        self._told = bool(gone)
