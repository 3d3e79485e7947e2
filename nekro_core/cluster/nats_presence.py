"""Counts the workers that live, on NATS.

Each worker stores a message under its name, and replaces it about every second. JetStream deletes a
message that is older than `OwnershipTimes.worker_s` (3 s). So the number of messages is the number
of workers that live. (A key-value bucket of NATS is such a stream too.)
"""

import json

import anyio
import nats.errors
from loguru import logger

from nekro_core.cluster.errors import ClusterError, ClusterUnavailable
from nekro_core.cluster.nats_connection import JetStreamRefused, NatsConnection
from nekro_core.cluster.nats_partition import nanoseconds
from nekro_core.cluster.subjects import PRESENCE_STREAM, PRESENCE_SUBJECT

_LEAVE_S = 1.0


class WorkerPresence:
    """Reports that a worker lives, and counts all workers that live."""

    def __init__(self, connection: NatsConnection, worker: str, lasts_s: float) -> None:
        self._connection = connection
        self._subject = f"{PRESENCE_SUBJECT}.{worker}"
        self._lasts_s = lasts_s
        self._said = float("-inf")

    async def enter(self) -> None:
        """Make the stream if it is missing. Raises `ClusterError`."""
        config = {
            "name": PRESENCE_STREAM,
            "subjects": [f"{PRESENCE_SUBJECT}.*"],
            "retention": "limits",
            "storage": "file",
            "discard": "old",
            "max_msgs_per_subject": 1,
            "max_age": nanoseconds(self._lasts_s),
            "duplicate_window": nanoseconds(self._lasts_s),
            "num_replicas": 1,
        }
        try:
            await self._connection.api(f"STREAM.CREATE.{PRESENCE_STREAM}", config)
        except JetStreamRefused as refused:
            # A worker of another version made the stream, with another time until messages are
            # deleted.
            logger.debug("the stream of workers stays as it is: {}", refused)

    async def count(self) -> int:
        """Report that this worker lives, and return the number of workers, this one included.
        Raises `ClusterError`."""
        now = anyio.current_time()
        if now - self._said >= self._lasts_s / 3:
            try:
                answer = await self._connection.request(self._subject, b"")
            except nats.errors.NoRespondersError:
                raise ClusterUnavailable(f"{self._subject}: JetStream does not answer") from None
            if error := json.loads(answer.data).get("error"):
                raise JetStreamRefused(self._subject, error)
            self._said = now
        info = await self._connection.api(
            f"STREAM.INFO.{PRESENCE_STREAM}", {"subjects_filter": f"{PRESENCE_SUBJECT}.>"}
        )
        return max(len(info["state"].get("subjects") or {}), 1)

    async def leave(self) -> None:
        """Delete this worker's message, so that the other workers no longer count it."""
        with anyio.move_on_after(_LEAVE_S, shield=True):
            try:
                await self._connection.api(
                    f"STREAM.PURGE.{PRESENCE_STREAM}", {"filter": self._subject}
                )
            except ClusterError as error:
                logger.debug("{} does not leave: {}", self._subject, error)
