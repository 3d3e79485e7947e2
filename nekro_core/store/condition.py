"""Reads the condition of the database for monitoring: whether the database can be written, how many
writes wait for their commit, and how many messages are in the outbox."""

from collections.abc import Mapping

from nekro_core.chat import DeliveryState
from nekro_core.store.database import Database, Value, upsert
from nekro_core.store.decisions import DecisionReason

MOST_COUNTED = 10_000
"""Maximum number of messages of each state that are counted. An operator has to act long before
there are so many. Counting this many takes a few milliseconds."""
UNSENT = (
    DeliveryState.PENDING,
    DeliveryState.SENDING,
    DeliveryState.UNKNOWN,
    DeliveryState.REJECTED,
    DeliveryState.DROPPED,
)
"""The states of deliveries that are counted. The state ``sent`` is not counted, because too many
messages have it."""
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
        """Write a row with the time ``now`` (in seconds since 1970), and wait for its commit. Each
        call overwrites the same row. Raises `StoreError` if nothing can be written, for example
        because the disk is full."""
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
        """Count the deliveries whose outcome is unknown and that were requested at ``since`` (in
        seconds since 1970) or later. Returns at most `MOST_COUNTED`."""
        (row,) = await self._database.read(
            "SELECT COUNT(*) AS number FROM (SELECT 1 AS one FROM deliveries "
            "WHERE state = ? AND created >= ? LIMIT ?) AS found",
            DeliveryState.UNKNOWN.value,
            since,
            MOST_COUNTED,
        )
        return int(row["number"])

    async def failed_since(self, detail: str, since: float) -> int:
        """Count the messages that were written at ``since`` (in seconds since 1970) or later and
        whose handling failed for the reason ``detail``. Returns at most `MOST_COUNTED`."""
        (row,) = await self._database.read(
            "SELECT COUNT(*) AS number FROM (SELECT 1 AS one FROM messages "
            "WHERE time >= ? AND decision = ? AND decision_detail = ? LIMIT ?) AS found",
            since,
            DecisionReason.FAILED.value,
            detail,
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
