"""Counts the workers that live, on NATS.

Each worker stores a message under its name. JetStream deletes a message after a time that is a
setting of the stream: `OwnershipTimes.worker_s` (6 s), or 3 s if a process of an older version made
the stream. A worker that lives replaces its message three times in this time. So the number of
messages is the number of workers that live. (A key-value bucket of NATS is such a stream too.)
"""

import json
from contextlib import suppress

import anyio
import nats.errors
from loguru import logger

from nekro_core.cluster.errors import ClusterError
from nekro_core.cluster.nats_connection import JetStreamRefused, NatsConnection
from nekro_core.cluster.nats_stream import make_expiring_stream
from nekro_core.cluster.subjects import PRESENCE_STREAM, PRESENCE_SUBJECT

_LEAVE_S = 1.0
"""Time limit in seconds for deleting the worker's message. A message that was not deleted runs out
after `OwnershipTimes.worker_s`."""


async def make_presence_stream(connection: NatsConnection, lasts_s: float) -> None:
    """Make the stream if it is missing. Gateways do this, so that a worker's password does not
    allow making streams. Raises `ClusterError`."""
    await make_expiring_stream(connection, PRESENCE_STREAM, PRESENCE_SUBJECT, lasts_s)


class WorkerPresence:
    """Reports that a worker lives, and counts all workers that live."""

    def __init__(self, connection: NatsConnection, worker: str, lasts_s: float) -> None:
        self._connection = connection
        self._subject = f"{PRESENCE_SUBJECT}.{worker}"
        self._lasts_s = lasts_s
        """For how many seconds the stream keeps a message. `count` reads this from NATS."""
        self._said = float("-inf")

    async def count(self) -> int:
        """Report that this worker lives, and return the number of workers, this one included.
        Raises `ClusterError`."""
        now = anyio.current_time()
        if now - self._said >= self._lasts_s / 3:
            # If the stream is missing, the request below says so.
            with suppress(nats.errors.NoRespondersError):
                answer = await self._connection.request(self._subject, b"")
                if error := json.loads(answer.data).get("error"):
                    raise JetStreamRefused(self._subject, error)
                self._said = now
        try:
            info = await self._connection.api(
                f"STREAM.INFO.{PRESENCE_STREAM}", {"subjects_filter": f"{PRESENCE_SUBJECT}.>"}
            )
        except JetStreamRefused:
            self._said = float("-inf")  # The stream was deleted. Report at once when it is back.
            raise
        if lasts := info["config"].get("max_age"):
            self._lasts_s = lasts / 1e9
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
