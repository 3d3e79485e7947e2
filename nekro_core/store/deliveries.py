"""Stores the rows of outgoing platform calls, with their outcomes."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from nekro_core.chat import ChatKey, DeliveryState, Record, decode_segments, encode_segments
from nekro_core.store.database import Database, InsertStatement, Row, Rows, SqlStatement, Value
from nekro_core.store.messages import MessageRepository, unique_id_of
from nekro_core.store.ownership import ChatScope, every_chat
from nekro_core.store.pending_seq import final_seq
from nekro_core.store.values import DeliveryRow

_INSERT = InsertStatement(
    "deliveries",
    (
        "delivery_id",
        "chat_key",
        "run_id",
        "position",
        "segments",
        "state",
        "message_id",
        "reason",
        "record_seq",
        "created",
        "changed",
    ),
)
_SELECT = f"SELECT {', '.join(f'd.{c}' for c in _INSERT.columns)} FROM deliveries d"


class DeliveryRepository:
    """Stores a row for each platform call. The row's state is committed before and after the
    call."""

    def __init__(
        self, database: Database, messages: MessageRepository, *, clock: Callable[[], float]
    ) -> None:
        self._database = database
        self._messages = messages
        self._clock = clock

    def add(
        self,
        rows: Sequence[DeliveryRow],
        records: Sequence[Record],
        *,
        before: Sequence[SqlStatement] = (),
        stored: Callable[[], None] = lambda: None,
        failed: Callable[[], None] = lambda: None,
    ) -> Awaitable[list[Rows]]:
        """Store the calls of one message, and their records in the chat's history, in one
        transaction. Then ``stored`` or ``failed`` is called. If this method is called several
        times, the callbacks run in the order of the calls."""
        statements: list[SqlStatement] = [*before]
        statements += [SqlStatement(_INSERT, _values(row)) for row in rows]
        statements += [self._messages.insert_statement(record, None) for record in records]

        def committed(_: list[Rows]) -> None:
            for record in records:
                self._messages.changed(record.chat_key, added=final_seq(record.seq))
            stored()

        return self._database.write(*statements, committed=committed, failed=failed)

    def mark(
        self, row: DeliveryRow, state: DeliveryState, *, message_id: str = "", reason: str = ""
    ) -> Awaitable[list[Rows]]:
        """Write a new state into the row and into the record in the chat's history.

        The record also gets the platform's message id. A platform may send the bot's own message
        back as an echo. If the echo arrives later, it has the same id and is recognized as a
        duplicate. If it arrived before the platform's answer, the echo is marked as recalled. So
        the message is shown once.
        """
        statements: list[SqlStatement] = [
            SqlStatement(
                "UPDATE deliveries SET state = ?, message_id = ?, reason = ?, changed = ? "
                "WHERE delivery_id = ?",
                (state.value, message_id, reason, self._clock(), row.delivery_id),
            )
        ]
        if row.record_seq and message_id:
            unique, instance = unique_id_of(message_id), row.chat_key.instance
            statements += [
                SqlStatement(
                    "UPDATE messages SET unique_id = NULL, recalled = ? WHERE instance = ? "
                    "AND unique_id = ? AND author = 'bot' AND run_id = '' AND seq > ?",
                    (True, instance, unique, row.record_seq),
                ),
                SqlStatement(
                    # If another message has the new id, keep the old unique id. The write must
                    # succeed even if a platform gives the same id to two messages.
                    "UPDATE messages SET state = ?, message_id = ?, unique_id = CASE WHEN EXISTS "
                    "(SELECT 1 FROM messages o WHERE o.instance = ? AND o.unique_id = ?) "
                    "THEN unique_id ELSE ? END WHERE seq = ?",
                    (state.value, message_id, instance, unique, unique, row.record_seq),
                ),
            ]
        elif row.record_seq:
            statements.append(
                SqlStatement(
                    "UPDATE messages SET state = ? WHERE seq = ?", (state.value, row.record_seq)
                )
            )
        return self._database.write(
            *statements, committed=lambda _: self._messages.changed(row.chat_key)
        )

    async def get(self, delivery_id: str) -> DeliveryRow | None:
        """Get one row."""
        rows = await self._database.read(f"{_SELECT} WHERE d.delivery_id = ?", delivery_id)
        return _row(rows[0]) if rows else None

    async def in_state(
        self, *states: DeliveryState, chats: ChatScope = every_chat
    ) -> list[DeliveryRow]:
        """Get the rows of some chats in any of these states, in the order in which the calls were
        requested."""
        marks = ", ".join("?" * len(states))
        rows = await self._database.read(
            f"{_SELECT} WHERE d.state IN ({marks}) ORDER BY d.id", *(s.value for s in states)
        )
        return [found for found in map(_row, rows) if chats(found.chat_key)]

    async def undecided(self, *, since: float, chats: ChatScope = every_chat) -> list[DeliveryRow]:
        """Get, of some chats, the ``pending`` rows, and the ``unknown`` rows that were created at
        ``since`` or later, in the order of the calls. Two kinds of rows are left out: ``pending``
        rows of a stopped turn, and ``unknown`` rows after which a message of the chat was sent."""
        rows = await self._database.read(
            f"{_SELECT} WHERE d.state IN (?, ?) AND (d.state = ? OR d.created >= ?) "
            # The message of a stopped turn must not be sent later.
            "AND NOT (d.state = ? AND EXISTS (SELECT 1 FROM runs r "
            "JOIN turns t ON t.id = r.turn_id "
            "WHERE r.run_id = d.run_id AND t.stop = 'stopped')) "
            # A later message of the chat was sent. Sending this message now would change the order.
            "AND NOT (d.state = ? AND EXISTS (SELECT 1 FROM deliveries n "
            "WHERE n.chat_key = d.chat_key AND n.id > d.id AND n.state = ?)) ORDER BY d.id",
            DeliveryState.PENDING.value,
            DeliveryState.UNKNOWN.value,
            DeliveryState.PENDING.value,
            since,
            DeliveryState.UNKNOWN.value,
            DeliveryState.UNKNOWN.value,
            DeliveryState.SENT.value,
        )
        return [found for found in map(_row, rows) if chats(found.chat_key)]

    async def newest(
        self,
        *states: DeliveryState,
        chat_key: ChatKey | None = None,
        before: str = "",
        limit: int = 50,
    ) -> list[DeliveryRow]:
        """Get the newest rows in any of these states, newest first, of one chat or of all. With
        ``before``, the id of a delivery, only rows older than that delivery are returned."""
        if not states:
            return []
        where, more = "state = ?", list[Value]()
        if chat_key is not None:
            where += " AND chat_key = ?"
            more.append(str(chat_key))
        if before:
            where += " AND id < (SELECT id FROM deliveries WHERE delivery_id = ?)"
            more.append(before)
        # Select the rows of each state separately, so that the index of the states gives the order.
        # With all states in one condition, SQLite would read the newest rows of all states until it
        # has found enough.
        newest = f"SELECT id FROM deliveries WHERE {where} ORDER BY id DESC LIMIT ?"
        of_each = " UNION ALL ".join(
            f"SELECT id FROM ({newest}) AS s{number}" for number in range(len(states))
        )
        rows = await self._database.read(
            f"{_SELECT} WHERE d.id IN ({of_each}) ORDER BY d.id DESC LIMIT ?",
            *(value for state in states for value in (state.value, *more, limit)),
            limit,
        )
        return [_row(row) for row in rows]

    async def count(self, *states: DeliveryState, most: int = 1000) -> int:
        """Count the rows in any of these states. At most ``most`` rows are counted, so that the
        answer comes fast."""
        (row,) = await self._database.read(
            "SELECT COUNT(*) AS number FROM (SELECT 1 AS one FROM deliveries WHERE state IN "
            f"({', '.join('?' * len(states))}) LIMIT ?) AS found",
            *(state.value for state in states),
            most,
        )
        return int(row["number"])

    async def platform_ids(self, chat_key: ChatKey, limit: int) -> list[tuple[int, str]]:
        """Get the chat's newest messages that have an id of the platform. Returns the ``seq`` and
        this id of each."""
        rows = await self._database.read(
            "SELECT seq, message_id FROM messages WHERE chat_key = ? AND message_id <> '' "
            "ORDER BY seq DESC LIMIT ?",
            str(chat_key),
            limit,
        )
        return [(row["seq"], row["message_id"]) for row in rows]

    async def renew(self, row: DeliveryRow, reason: str) -> DeliveryRow:
        """Make a row ``pending`` again, as if the call were requested now. Returns the new row."""
        now = self._clock()
        await self._database.write(
            SqlStatement(
                "UPDATE deliveries SET state = ?, message_id = '', reason = ?, created = ?, "
                "changed = ? WHERE delivery_id = ?",
                (DeliveryState.PENDING.value, reason, now, now, row.delivery_id),
            ),
            SqlStatement(
                "UPDATE messages SET state = ? WHERE seq = ?",
                (DeliveryState.PENDING.value, row.record_seq),
            ),
            committed=lambda _: self._messages.changed(row.chat_key),
        )
        return replace(
            row,
            state=DeliveryState.PENDING,
            message_id="",
            reason=reason,
            created=now,
            changed=now,
        )

    async def of_run(self, run_id: str) -> list[DeliveryRow]:
        """Get the rows of a run, in order."""
        rows = await self._database.read(f"{_SELECT} WHERE d.run_id = ? ORDER BY d.id", run_id)
        return [_row(row) for row in rows]

    async def of_turn(self, turn_id: int) -> list[DeliveryRow]:
        """Get the rows of all runs of a turn, in order."""
        rows = await self._database.read(
            f"{_SELECT} JOIN runs r ON r.run_id = d.run_id WHERE r.turn_id = ? ORDER BY d.id",
            turn_id,
        )
        return [_row(row) for row in rows]


def _values(row: DeliveryRow) -> tuple[str | int | float, ...]:
    return (
        row.delivery_id,
        str(row.chat_key),
        row.run_id,
        row.position,
        encode_segments(row.segments),
        row.state.value,
        row.message_id,
        row.reason,
        row.record_seq,
        row.created,
        row.changed,
    )


def _row(row: Row) -> DeliveryRow:
    return DeliveryRow(
        delivery_id=row["delivery_id"],
        chat_key=ChatKey.parse(row["chat_key"]),
        run_id=row["run_id"],
        position=row["position"],
        segments=decode_segments(row["segments"]),
        state=DeliveryState(row["state"]),
        message_id=row["message_id"],
        reason=row["reason"],
        record_seq=row["record_seq"],
        created=row["created"],
        changed=row["changed"],
    )
