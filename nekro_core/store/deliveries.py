"""Stores the rows of outgoing platform calls, with their outcomes."""

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import replace

from nekro_core.chat import ChatKey, DeliveryState, Record, decode_segments, encode_segments
from nekro_core.store.database import (
    Database,
    InsertStatement,
    Row,
    Rows,
    SqlStatement,
    Value,
    WriteGuard,
)
from nekro_core.store.messages import MessageRepository, unique_id_in, unique_id_of
from nekro_core.store.ownership import ChatScope, every_chat
from nekro_core.store.pending_seq import final_seq
from nekro_core.store.recent_records import NOTHING_CHANGED
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
_HAS = "EXISTS (SELECT 1 FROM messages o WHERE o.instance = ? AND o.unique_id = ?"
"""The beginning of the condition that an account has a message with this unique id."""
_SELECT = f"SELECT {', '.join(f'd.{c}' for c in _INSERT.columns)} FROM deliveries d"


class DeliveryRepository:
    """Stores a row for each platform call. The row's state is committed before and after the call.
    Times are seconds since 1970."""

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
        replaces: DeliveryRow | None = None,
    ) -> Awaitable[list[Rows]]:
        """Store the calls of one message, and their records in the chat's history, in one
        transaction. Then ``stored`` or ``failed`` is called. If this method is called several
        times, the callbacks run in the order of the calls.

        If ``replaces`` is given, this row and its record are deleted in the same transaction. If
        the row is not ``pending`` any more, nothing is stored, and awaiting the result raises
        `GuardFailed`."""
        guards: list[WriteGuard] = []
        if replaces is not None:
            values = (replaces.delivery_id, DeliveryState.PENDING.value)
            gone = (
                "DELETE FROM deliveries WHERE delivery_id = ? AND state = ? RETURNING delivery_id"
            )
            guards.append(WriteGuard(SqlStatement(gone, values)))
            before = [
                *before,
                SqlStatement("DELETE FROM messages WHERE seq = ?", (replaces.record_seq,)),
            ]
        statements: list[SqlStatement] = [*before]
        statements += [SqlStatement(_INSERT, _values(row)) for row in rows]
        statements += [self._messages.insert_statement(record, None) for record in records]

        def committed(_: list[Rows]) -> None:
            if replaces is not None:
                self._messages.changed(replaces.chat_key, shrunk=True)
            for record in records:
                seq = final_seq(record.seq)
                self._messages.changed(record.chat_key, added=seq, first=seq)
            stored()

        return self._database.write(*statements, guards=guards, committed=committed, failed=failed)

    def mark(
        self,
        row: DeliveryRow,
        state: DeliveryState,
        *,
        message_id: str = "",
        reason: str = "",
        only_from: Collection[DeliveryState] = (),
    ) -> Awaitable[list[Rows]]:
        """Write a new state into the row and into the record in the chat's history.

        The record also gets the platform's message id. A platform may send the bot's own message
        back as an echo. If the echo arrives later, it has the same id and is recognized as a
        duplicate. If it arrived before the platform's answer, the echo is marked as recalled. So
        the message is shown once.

        A row that is ``sent`` stays ``sent``: in a cluster, a gateway stores that a message was
        sent, and the worker that did not get the gateway's answer must not change that. If
        ``only_from`` is given, a row whose state is none of these stays as it is: another process
        or an operator may have changed it since it was read. Use `is_marked` to learn from the
        result whether the state was written.
        """
        if only_from:
            names = ", ".join(f"'{each.value}'" for each in only_from)
            condition = f" AND state IN ({names})"
        elif state is not DeliveryState.SENT:
            condition = f" AND state <> '{DeliveryState.SENT.value}'"
        else:
            # The condition is not needed to write `sent`. Without it, the usual case costs no more.
            condition = ""
        statements: list[SqlStatement] = [
            SqlStatement(
                "UPDATE deliveries SET state = ?, message_id = ?, reason = ?, changed = ? "
                f"WHERE delivery_id = ?{condition} RETURNING delivery_id",
                (state.value, message_id, reason, self._clock(), row.delivery_id),
            )
        ]
        if row.record_seq and message_id:
            unique, instance = unique_id_of(message_id), row.chat_key.instance
            in_chat = unique_id_in(row.chat_key, message_id)
            statements += [
                SqlStatement(
                    "UPDATE messages SET unique_id = NULL, recalled = ? WHERE instance = ? "
                    "AND unique_id IN (?, ?) AND author = 'bot' AND run_id = '' AND seq > ?",
                    (True, instance, unique, in_chat, row.record_seq),
                ),
                SqlStatement(
                    # If a message of another chat has the new id, use the id for this chat, as the
                    # inbox does. If a message of this chat has it, keep the old unique id. The
                    # write must succeed even if a platform gives the same id to two messages.
                    "UPDATE messages SET state = ?, message_id = ?, unique_id = CASE "
                    f"WHEN {_HAS} AND o.chat_key <> ?) AND NOT {_HAS}) THEN ? "
                    f"WHEN {_HAS}) THEN unique_id ELSE ? END WHERE seq = ?{condition}",
                    (
                        state.value,
                        message_id,
                        *(instance, unique, str(row.chat_key)),
                        *(instance, in_chat, in_chat),
                        *(instance, unique, unique),
                        row.record_seq,
                    ),
                ),
            ]
        elif row.record_seq:
            statements.append(
                SqlStatement(
                    f"UPDATE messages SET state = ? WHERE seq = ?{condition}",
                    (state.value, row.record_seq),
                )
            )
        first = row.record_seq or NOTHING_CHANGED
        return self._database.write(
            *statements, committed=lambda _: self._messages.changed(row.chat_key, first=first)
        )

    async def begin_call(
        self, delivery_id: str, chat_key: ChatKey, states: Collection[DeliveryState]
    ) -> DeliveryRow | None:
        """Write the state ``sending`` if the row is one of this chat and has one of ``states``, and
        return the row. Returns None, and writes nothing, otherwise. This is one transaction, so
        that no other process can change the row between the check and the write."""
        columns = ", ".join(_INSERT.columns)
        marks = ", ".join("?" * len(states))

        def committed(results: list[Rows]) -> None:
            for row in results[0]:
                self._messages.changed(chat_key, first=row["record_seq"] or NOTHING_CHANGED)

        sending, sent = DeliveryState.SENDING.value, DeliveryState.SENT.value
        found, _ = await self._database.write(
            SqlStatement(
                "UPDATE deliveries SET state = ?, message_id = '', reason = '', changed = ? "
                f"WHERE delivery_id = ? AND chat_key = ? AND state IN ({marks}) "
                f"RETURNING {columns}",
                (
                    *(sending, self._clock(), delivery_id, str(chat_key)),
                    *(state.value for state in states),
                ),
            ),
            SqlStatement(
                # Usually the record has this state already: the worker of the chat wrote it.
                "UPDATE messages SET state = ? WHERE seq = (SELECT record_seq FROM deliveries "
                "WHERE delivery_id = ? AND chat_key = ? AND state = ?) AND state NOT IN (?, ?)",
                (sending, delivery_id, str(chat_key), sending, sending, sent),
            ),
            committed=committed,
        )
        return self._row(found[0]) if found else None

    async def get(self, delivery_id: str) -> DeliveryRow | None:
        """Get one row; None if there is no such row."""
        rows = await self._database.read(f"{_SELECT} WHERE d.delivery_id = ?", delivery_id)
        return self._row(rows[0]) if rows else None

    async def in_state(
        self, *states: DeliveryState, chats: ChatScope = every_chat
    ) -> list[DeliveryRow]:
        """Get the rows of some chats in any of these states, in the order in which the calls were
        requested."""
        marks = ", ".join("?" * len(states))
        rows = await self._database.read(
            f"{_SELECT} WHERE d.state IN ({marks}) ORDER BY d.id", *(s.value for s in states)
        )
        return [found for found in map(self._row, rows) if chats(found.chat_key)]

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
        return [found for found in map(self._row, rows) if chats(found.chat_key)]

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
        return [self._row(row) for row in rows]

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
        """Make a row ``pending`` again, as if the call were requested now. Returns the new row.

        Raises `GuardFailed`, and writes nothing, if the row does not have the state of ``row`` any
        more. Otherwise a message whose late outcome is ``sent`` would be sent again."""
        now = self._clock()
        renewed = SqlStatement(
            "UPDATE deliveries SET state = ?, message_id = '', reason = ?, created = ?, "
            "changed = ? WHERE delivery_id = ? AND state = ? RETURNING delivery_id",
            (DeliveryState.PENDING.value, reason, now, now, row.delivery_id, row.state.value),
        )
        await self._database.write(
            SqlStatement(
                "UPDATE messages SET state = ? WHERE seq = ?",
                (DeliveryState.PENDING.value, row.record_seq),
            ),
            guards=[WriteGuard(renewed)],
            committed=lambda _: self._messages.changed(
                row.chat_key, first=row.record_seq or NOTHING_CHANGED
            ),
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
        return [self._row(row) for row in rows]

    async def of_turn(self, turn_id: int) -> list[DeliveryRow]:
        """Get the rows of all runs of a turn, in order."""
        rows = await self._database.read(
            f"{_SELECT} JOIN runs r ON r.run_id = d.run_id WHERE r.turn_id = ? ORDER BY d.id",
            turn_id,
        )
        return [self._row(row) for row in rows]

    def _row(self, row: Row) -> DeliveryRow:
        return DeliveryRow(
            delivery_id=row["delivery_id"],
            chat_key=ChatKey.parse(row["chat_key"]),
            run_id=row["run_id"],
            position=row["position"],
            segments=self._messages.media_paths.here(decode_segments(row["segments"])),
            state=DeliveryState(row["state"]),
            message_id=row["message_id"],
            reason=row["reason"],
            record_seq=row["record_seq"],
            created=row["created"],
            changed=row["changed"],
        )


def is_marked(written: Sequence[Rows]) -> bool:
    """Return from the result of `DeliveryRepository.mark` whether the state was written. It was not
    if the row is ``sent`` already, has none of the states of ``only_from``, or is not there."""
    return bool(written[0])


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
