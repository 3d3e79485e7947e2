"""A chat's history."""

import hashlib
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache

from nekro_core.chat import (
    Author,
    ChatKey,
    DeliveryState,
    Record,
    Role,
    Segments,
    Sender,
    decode_segments,
    encode_segments,
)
from nekro_core.store.database import Database, InsertStatement, Row, Rows, SqlStatement, Value
from nekro_core.store.models import MAX_ID

INSERT = InsertStatement(
    "messages",
    (
        "seq",
        "chat_key",
        "instance",
        "unique_id",
        "message_id",
        "author",
        "user_id",
        "user_name",
        "role",
        "segments",
        "time",
        "to_bot",
        "from_history",
        "answered_elsewhere",
        "recalled",
        "run_id",
        "state",
    ),
)
_SEQUENCE = "messages_seq_seq"
"""PostgreSQL's memory of the numbers that were given."""
_CLAIM = 1000
"""How many are marked as given at once; a restart passes over those that were not used."""

SELECT = f"SELECT {', '.join(INSERT.columns)} FROM messages"


class MessageRepository:
    """What was said, by whom, in the order in which it was heard."""

    def __init__(self, database: Database, *, last_seq: int) -> None:
        self._database = database
        self._last_seq = last_seq
        self._claimed = last_seq
        self._changes: Counter[ChatKey] = Counter()

    def changes(self, chat_key: ChatKey) -> int:
        """How often a chat's history was written since the start. Ask before reading: while it
        stays the same, so does what was read."""
        return self._changes[chat_key]

    def changed(self, chat_key: ChatKey) -> None:
        """Whoever writes to the history says so once that is committed."""
        self._changes[chat_key] += 1

    def reserve(self) -> int:
        """The next sequence number. Never given twice, also where it is not used."""
        self._last_seq += 1
        if self._database.dialect == "postgres" and self._last_seq > self._claimed:
            # SQLite remembers by itself what it once gave; here rows that bring their own numbers
            # leave the sequence where it was. In line before the row that uses the number.
            self._claimed = self._last_seq + _CLAIM
            self._database.write(SqlStatement(f"SELECT setval('{_SEQUENCE}', ?)", (self._claimed,)))
        return self._last_seq

    def add(
        self,
        record: Record,
        *,
        unique_id: str | None,
        before: Sequence[SqlStatement] = (),
        stored: Callable[[Record], None] | None = None,
        failed: Callable[[], None] | None = None,
    ) -> Awaitable[list[Rows]]:
        """Put a record in line to be stored; its place is taken before this returns.

        The last of the awaited rows is empty where ``unique_id`` is known in this instance.
        ``stored`` is called for a record that was new, in the order of the calls and also if
        nobody waits any more; ``failed`` where nothing could be written. ``before``
        is written in the same transaction.
        """

        def committed(results: list[Rows]) -> None:
            self.changed(record.chat_key)
            if stored is not None and results[-1]:
                stored(record)

        statements = (*before, self.insert_statement(record, unique_id))
        return self._database.write(*statements, committed=committed, failed=failed)

    @staticmethod
    def insert_statement(record: Record, unique_id: str | None) -> SqlStatement:
        """The statement that stores a record."""
        key = record.chat_key
        values: tuple[Value, ...] = (
            record.seq,
            str(key),
            key.instance,
            unique_id,
            record.message_id,
            record.author.value,
            record.sender.user_id,
            record.sender.name,
            record.sender.role.value,
            encode_segments(record.segments),
            record.time,
            record.to_bot,
            record.from_history,
            record.answered_elsewhere,
            record.recalled,
            record.run_id,
            record.state.value,
        )
        return SqlStatement(INSERT, values)

    async def after(self, chat_key: ChatKey | None, seq: int, limit: int) -> list[Record]:
        """Records with a greater ``seq``, of one chat or of all, oldest first."""
        if chat_key is None:
            rows = await self._database.read(
                f"{SELECT} WHERE seq > ? ORDER BY seq LIMIT ?", seq, limit
            )
        else:
            rows = await self._database.read(
                f"{SELECT} WHERE chat_key = ? AND seq > ? ORDER BY seq LIMIT ?",
                str(chat_key),
                seq,
                limit,
            )
        return [record_of(row) for row in rows]

    async def newest(self, chat_key: ChatKey, limit: int, *, before: int = 0) -> list[Record]:
        """The newest records of a chat (with ``before``: that are older than it), oldest first."""
        rows = await self._database.read(
            f"{SELECT} WHERE chat_key = ? AND seq < ? ORDER BY seq DESC LIMIT ?",
            str(chat_key),
            before or self._last_seq + 1,
            limit,
        )
        return [record_of(row) for row in reversed(rows)]

    async def between(
        self, chat_key: ChatKey | None, since: float, until: float, limit: int
    ) -> list[Record]:
        """Records of a time (seconds since 1970, the end not in it), of one chat or of all: the
        newest ``limit``, oldest first."""
        values: list[Value] = [since, until]
        where = "time >= ? AND time < ?"
        if chat_key is not None:
            where += " AND chat_key = ?"
            values.append(str(chat_key))
        rows = await self._database.read(
            f"{SELECT} WHERE {where} ORDER BY seq DESC LIMIT ?", *values, limit
        )
        return [record_of(row) for row in reversed(rows)]

    async def get(self, seq: int) -> Record | None:
        """One record."""
        rows = await self._database.read(f"{SELECT} WHERE seq = ?", seq)
        return record_of(rows[0]) if rows else None

    async def by_message_id(self, chat_key: ChatKey, message_id: str) -> Record | None:
        """The record that the platform knows by this id."""
        rows = await self._database.read(
            f"{SELECT} WHERE instance = ? AND unique_id IN (?, ?) AND chat_key = ?",
            chat_key.instance,
            unique_id_of(message_id),
            unique_id_in(chat_key, message_id),
            str(chat_key),
        )
        return record_of(rows[0]) if rows else None

    async def recall(self, chat_key: ChatKey, message_id: str) -> Record | None:
        """Mark a message as taken back; the record as it is now, or nothing where none is known
        or it was marked before."""
        if not message_id:
            return None
        ((*rows,),) = await self._database.write(
            SqlStatement(
                "UPDATE messages SET recalled = ? WHERE instance = ? AND unique_id IN (?, ?) "
                f"AND chat_key = ? AND recalled = ? RETURNING {', '.join(INSERT.columns)}",
                (
                    True,
                    chat_key.instance,
                    unique_id_of(message_id),
                    unique_id_in(chat_key, message_id),
                    str(chat_key),
                    False,
                ),
            ),
            committed=lambda _: self.changed(chat_key),
        )
        return record_of(rows[0]) if rows else None

    async def revise(self, chat_key: ChatKey, message_id: str, segments: Segments) -> Record | None:
        """Put other segments into a message of the bot's own; the record as it is now, or nothing
        where none is known or it was taken back."""
        ((*rows,),) = await self._database.write(
            SqlStatement(
                "UPDATE messages SET segments = ? WHERE instance = ? AND unique_id = ? AND "
                "chat_key = ? AND author = 'bot' AND recalled = ? "
                f"RETURNING {', '.join(INSERT.columns)}",
                (
                    encode_segments(segments),
                    chat_key.instance,
                    unique_id_of(message_id),
                    str(chat_key),
                    False,
                ),
            ),
            committed=lambda _: self.changed(chat_key),
        )
        return record_of(rows[0]) if rows else None

    async def reword(self, record: Record, segments: Segments) -> Record | None:
        """Put other segments into the place of exactly these; the record as it is now, or nothing
        where it was changed, taken back or erased meanwhile."""
        ((*rows,),) = await self._database.write(
            SqlStatement(
                "UPDATE messages SET segments = ? WHERE seq = ? AND segments = ? AND recalled = ? "
                f"RETURNING {', '.join(INSERT.columns)}",
                (encode_segments(segments), record.seq, encode_segments(record.segments), False),
            ),
            committed=lambda _: self.changed(record.chat_key),
        )
        return record_of(rows[0]) if rows else None


def unique_id_of(message_id: str) -> str | None:
    """What a platform's message id is known by: itself, or its digest where it is too long."""
    if len(message_id) > MAX_ID:
        return f"sha256:{hashlib.sha256(message_id.encode(errors='replace')).hexdigest()}"
    return message_id or None


def unique_id_in(chat_key: ChatKey, message_id: str) -> str:
    """What a message is known by whose id another chat of the account has already: some platforms'
    programs make ids of 31 bits, of which two are alike among 50,000 messages."""
    text = f"{chat_key} {message_id}"
    return f"chat:{hashlib.sha256(text.encode(errors='replace')).hexdigest()}"


_key_of = lru_cache(4096)(ChatKey.parse)
"""Reading a key takes 20 µs, and the rows of a chat have the same one."""


def record_of(row: Row) -> Record:
    """The record in a row."""
    return Record(
        seq=row["seq"],
        chat_key=_key_of(row["chat_key"]),
        author=Author(row["author"]),
        segments=decode_segments(row["segments"]),
        time=row["time"],
        message_id=row["message_id"],
        sender=Sender(row["user_id"], row["user_name"], Role(row["role"])),
        to_bot=bool(row["to_bot"]),
        from_history=bool(row["from_history"]),
        answered_elsewhere=bool(row["answered_elsewhere"]),
        recalled=bool(row["recalled"]),
        run_id=row["run_id"],
        state=DeliveryState(row["state"]),
    )
