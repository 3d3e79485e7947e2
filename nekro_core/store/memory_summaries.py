"""Stores the summaries of messages that are too old to be shown in prompts."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum

from nekro_core.chat import ChatKey
from nekro_core.chat.record import CONVERSATION_COMPACTED, CONVERSATION_RESET
from nekro_core.store.database import Database, Row, SqlStatement, Value
from nekro_core.store.memory_notes import RecordRange

RECORDS_LEVEL = 1
"""The level of a summary that was made from records."""
SUMMARIES_LEVEL = 2
"""The level of a summary that was made from summaries."""


class SummaryState(StrEnum):
    """Whether a summary was made, must be made again, or could not be made."""

    MADE = "made"
    STALE = "stale"
    GIVEN_UP = "given_up"


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryRow:
    """A summary.

    Attributes:
        summary_id: The number of the summary; 0 before it is stored.
        chat_key: The chat.
        level: 1 for a summary of records, 2 for a summary of summaries.
        from_seq: The sequence number of the first record that it summarizes.
        through_seq: The sequence number of the last record that it summarizes.
        records: How many records it summarizes.
        recalled: How many records of its range had been recalled when it was made.
        text: The summary; empty unless its state is ``made``.
        state: Whether it was made.
        begun: The time of the first record, in seconds since 1970.
        ended: The time of the last record, in seconds since 1970.
        made: When the summary was made, in seconds since 1970.
    """

    chat_key: ChatKey
    level: int
    from_seq: int
    through_seq: int
    records: int
    text: str
    begun: float
    ended: float
    made: float
    recalled: int = 0
    state: SummaryState = SummaryState.MADE
    summary_id: int = 0


class SummaryRepository:
    """The summaries of all chats. Times are seconds since 1970."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def changes(self) -> int:
        """See `Database.changes_of`: the number for the summaries of all chats."""
        return self._database.changes_of("memory_summaries")

    async def may_exist(self) -> bool:
        """Return False if it is certain that no chat has a summary. Raises `StoreUnavailable`."""
        return await self._database.may_have_rows("memory_summaries")

    async def put(
        self,
        summary: SummaryRow,
        *,
        read: RecordRange | None = None,
        folded: Sequence[int] = (),
    ) -> bool:
        """Store a summary. If the chat has a summary of the same level that begins at the same
        record, that summary is replaced.

        ``read`` is for a summary of records, ``folded`` for a summary of summaries. If a record in
        ``read`` was deleted or recalled, or a summary in ``folded`` was deleted or emptied, nothing
        is stored, and the method returns False. Raises `StoreError`.
        """
        still, values = read.condition() if read is not None else ("1 = 1", ())
        if folded:
            marks = ", ".join("?" * len(folded))
            still = (
                f"(SELECT COUNT(*) FROM memory_summaries s WHERE s.id IN ({marks}) "
                "AND s.state = 'made') = ?"
            )
            values = (*folded, len(folded))
        columns: dict[str, tuple[Value, str]] = {
            "chat_key": (str(summary.chat_key), "TEXT"),
            "level": (summary.level, "INTEGER"),
            "from_seq": (summary.from_seq, "BIGINT"),
            "through_seq": (summary.through_seq, "BIGINT"),
            "records": (summary.records, "INTEGER"),
            "recalled": (summary.recalled, "INTEGER"),
            "text": (summary.text, "TEXT"),
            "state": (summary.state.value, "TEXT"),
            "begun": (summary.begun, "DOUBLE PRECISION"),
            "ended": (summary.ended, "DOUBLE PRECISION"),
            "made": (summary.made, "DOUBLE PRECISION"),
        }
        cast = ", ".join(f"CAST(? AS {kind})" for _, kind in columns.values())
        changed = [name for name in columns if name not in ("chat_key", "level", "from_seq")]
        setting = ", ".join(f"{each} = excluded.{each}" for each in changed)
        (rows,) = await self._database.write(
            SqlStatement(
                f"INSERT INTO memory_summaries ({', '.join(columns)}) SELECT {cast} WHERE {still} "
                f"ON CONFLICT (chat_key, level, from_seq) DO UPDATE SET {setting} RETURNING id",
                (*(value for value, _ in columns.values()), *values),
            )
        )
        return bool(rows)

    async def has_older(self, chat_key: ChatKey, before_seq: int) -> bool:
        """Return whether a chat has records before record ``before_seq``, or any summary. The
        summaries may be older than all records that are still stored."""
        (row,) = await self._database.read(
            "SELECT EXISTS (SELECT 1 FROM messages WHERE chat_key = ? AND seq < ?) "
            "OR EXISTS (SELECT 1 FROM memory_summaries WHERE chat_key = ?) AS found",
            str(chat_key),
            before_seq,
            str(chat_key),
        )
        return bool(row["found"])

    async def of_chat(
        self, chat_key: ChatKey, *, level: int, after: int = 0, limit: int = 1000
    ) -> list[SummaryRow]:
        """Get the summaries of one level whose last record comes after record ``after``. If there
        are more than ``limit``, only the newest are returned. They are sorted, the oldest first."""
        rows = await self._database.read(
            "SELECT * FROM memory_summaries WHERE chat_key = ? AND level = ? AND through_seq > ? "
            "ORDER BY from_seq DESC LIMIT ?",
            str(chat_key),
            level,
            after,
            limit,
        )
        return [_summary_of(row) for row in reversed(rows)]

    async def delete(self, summaries: Collection[int]) -> None:
        """Delete summaries by their numbers."""
        if summaries:
            marks = ", ".join("?" * len(summaries))
            sql = f"DELETE FROM memory_summaries WHERE id IN ({marks})"
            await self._database.write(SqlStatement(sql, tuple(summaries)))

    async def delete_of_chat(self, chat_key: ChatKey) -> None:
        """Delete all summaries of a chat."""
        sql = "DELETE FROM memory_summaries WHERE chat_key = ?"
        await self._database.write(SqlStatement(sql, (str(chat_key),)))

    async def mark_stale(self, chat_key: ChatKey, seqs: Collection[int]) -> None:
        """Empty each summary of level 1 that includes one of the records with the numbers ``seqs``,
        so that the bot makes it again. Delete each summary of level 2 that includes one of them."""
        for at in sorted(set(seqs)):
            await self._database.write(*stale_statements(str(chat_key), at))

    async def mark_recalled_stale(self, chat_key: ChatKey) -> None:
        """Empty each summary of level 1 that includes a record which was recalled after the summary
        was made. Delete each summary of level 2 that includes such a summary."""
        now_recalled = (
            "(SELECT COUNT(*) FROM messages m WHERE m.chat_key = memory_summaries.chat_key "
            "AND m.seq BETWEEN memory_summaries.from_seq AND memory_summaries.through_seq "
            "AND m.recalled = ?)"
        )
        rows = await self._database.read(
            "SELECT from_seq FROM memory_summaries WHERE chat_key = ? AND level = ? "
            f"AND state = ? AND recalled < {now_recalled}",
            str(chat_key),
            RECORDS_LEVEL,
            SummaryState.MADE.value,
            True,
        )
        await self.mark_stale(chat_key, [int(row["from_seq"]) for row in rows])

    async def mark_person_stale(self, instance: str, user_id: str) -> None:
        """Empty each summary of level 1 that includes a record of this person, in all chats of the
        instance. Delete each summary of level 2 that includes such a summary."""
        rows = await self._database.read(
            "SELECT chat_key, from_seq FROM memory_summaries s WHERE level = ? AND state = ? "
            "AND EXISTS (SELECT 1 FROM messages m WHERE m.chat_key = s.chat_key AND m.seq BETWEEN "
            "s.from_seq AND s.through_seq AND m.instance = ? AND m.user_id = ? "
            "AND m.author = 'person')",
            RECORDS_LEVEL,
            SummaryState.MADE.value,
            instance,
            user_id,
        )
        for row in rows:
            await self._database.write(*stale_statements(row["chat_key"], int(row["from_seq"])))

    async def count(self, chat_key: ChatKey) -> int:
        """Count a chat's summaries of level 1."""
        (row,) = await self._database.read(
            "SELECT COUNT(*) AS number FROM memory_summaries WHERE chat_key = ? AND level = ?",
            str(chat_key),
            RECORDS_LEVEL,
        )
        return int(row["number"])

    async def newest_through(self, chat_key: ChatKey) -> int:
        """Get the number of the newest record that a summary of level 1 includes; 0 if there is
        none."""
        (row,) = await self._database.read(
            "SELECT COALESCE(MAX(through_seq), 0) AS newest FROM memory_summaries "
            "WHERE chat_key = ? AND level = ?",
            str(chat_key),
            RECORDS_LEVEL,
        )
        return int(row["newest"])

    async def recalled_between(self, chat_key: ChatKey, first: int, last: int) -> int:
        """Count the recalled records of a range."""
        (row,) = await self._database.read(
            "SELECT COUNT(*) AS number FROM messages WHERE chat_key = ? AND seq BETWEEN ? AND ? "
            "AND recalled = ?",
            str(chat_key),
            first,
            last,
            True,
        )
        return int(row["number"])

    async def newest_reset(self, chat_key: ChatKey, *, after: int, before: int) -> int:
        """Get the number of the newest record after ``after`` and before ``before`` at which the
        conversation was reset; 0 if there is none. The method reads all records of this range."""
        (row,) = await self._database.read(
            "SELECT COALESCE(MAX(seq), 0) AS newest FROM messages WHERE chat_key = ? AND seq > ? "
            "AND seq < ? AND author = 'system' AND segments LIKE ? AND segments NOT LIKE ?",
            str(chat_key),
            after,
            before,
            f'%"kind":"{CONVERSATION_RESET}"%',
            f'%"detail":"{CONVERSATION_COMPACTED}"%',
        )
        return int(row["newest"])

    async def count_records(self, chat_key: ChatKey, *, after: int, before: int, limit: int) -> int:
        """Count the records after ``after`` and before ``before``. Counting stops at ``limit``."""
        (row,) = await self._database.read(
            "SELECT COUNT(*) AS number FROM (SELECT 1 FROM messages WHERE chat_key = ? "
            "AND seq > ? AND seq < ? LIMIT ?) AS counted",
            str(chat_key),
            after,
            before,
            limit,
        )
        return int(row["number"])

    async def delete_older(self, before: float) -> None:
        """Delete the summaries whose records were all written before this time."""
        sql = "DELETE FROM memory_summaries WHERE ended < ?"
        await self._database.write(SqlStatement(sql, (before,)))

    async def counts(self) -> dict[ChatKey, int]:
        """Count the summaries of level 1 in each chat."""
        rows = await self._database.read(
            "SELECT chat_key, COUNT(*) AS number FROM memory_summaries WHERE level = ? "
            "GROUP BY chat_key",
            RECORDS_LEVEL,
        )
        return {ChatKey.parse(row["chat_key"]): int(row["number"]) for row in rows}


def stale_statements(chat_key: str, seq: int) -> tuple[SqlStatement, SqlStatement]:
    """Return the statements of `SummaryRepository.mark_stale` for one record."""
    where = "chat_key = ? AND from_seq <= ? AND through_seq >= ?"
    return (
        SqlStatement(
            f"UPDATE memory_summaries SET text = '', state = ? WHERE {where} AND level = ?",
            (SummaryState.STALE.value, chat_key, seq, seq, RECORDS_LEVEL),
        ),
        SqlStatement(
            f"DELETE FROM memory_summaries WHERE {where} AND level = ?",
            (chat_key, seq, seq, SUMMARIES_LEVEL),
        ),
    )


def _summary_of(row: Row) -> SummaryRow:
    return SummaryRow(
        summary_id=int(row["id"]),
        chat_key=ChatKey.parse(row["chat_key"]),
        level=int(row["level"]),
        from_seq=int(row["from_seq"]),
        through_seq=int(row["through_seq"]),
        records=int(row["records"]),
        recalled=int(row["recalled"]),
        text=row["text"],
        state=SummaryState(row["state"]),
        begun=row["begun"],
        ended=row["ended"],
        made=row["made"],
    )
