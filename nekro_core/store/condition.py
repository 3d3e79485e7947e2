"""Says how the database does, for monitoring: whether it can be written, how many writes wait, and
how many messages are in the outbox."""

from collections.abc import Mapping

from nekro_core.chat import DeliveryState
from nekro_core.store.database import Database, Value, upsert

MOST_COUNTED = 10_000
"""Maximum number of messages of each state that are counted. An operator has to act long before
there are so many, and counting them takes a few milliseconds."""
UNSENT = (
    DeliveryState.PENDING,
    DeliveryState.SENDING,
    DeliveryState.UNKNOWN,
    DeliveryState.REJECTED,
    DeliveryState.DROPPED,
)
"""The states that are counted. The messages that were sent are too many."""
_PROBE = "probe"


class StoreCondition:
    """The condition of one database. Raises `StoreError`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @property
    def queued_writes(self) -> int:
        """The number of writes that wait for their commit."""
        return self._database.queued_writes

    async def check_writable(self, now: float) -> None:
        """Write a row and wait for its commit. It is always the same row; ``now`` is in seconds
        since 1970. Raises `StoreError` if nothing can be written, for example because the disk is
        full."""
        await self._database.write(
            upsert(
                "waiting",
                {
                    "kind": _PROBE,
                    "name": _PROBE,
                    "plugin": "",
                    "chat_key": "",
                    "user_id": "",
                    "data": "",
                    "created": now,
                    "until": now,
                },
                key=("kind", "name"),
            )
        )

    async def unknown_since(self, since: float) -> int:
        """Count the messages with an unknown outcome that were asked for at ``since`` or later, in
        seconds since 1970; at most `MOST_COUNTED`."""
        (row,) = await self._database.read(
            "SELECT COUNT(*) AS number FROM (SELECT 1 AS one FROM deliveries "
            "WHERE state = ? AND created >= ? LIMIT ?) AS found",
            DeliveryState.UNKNOWN.value,
            since,
            MOST_COUNTED,
        )
        return int(row["number"])

    async def outbox(self) -> Mapping[DeliveryState, int]:
        """Count the messages of each state in `UNSENT`, at most `MOST_COUNTED` of each."""
        values: list[Value] = []
        for state in UNSENT:
            values += (state.value, MOST_COUNTED)
        rows = await self._database.read(
            " UNION ALL ".join(
                f"SELECT '{state.value}' AS state, COUNT(*) AS number FROM "
                "(SELECT 1 AS one FROM deliveries WHERE state = ? LIMIT ?) "
                f"AS {state.value}_ones"
                for state in UNSENT
            ),
            *values,
        )
        return {DeliveryState(row["state"]): int(row["number"]) for row in rows}
