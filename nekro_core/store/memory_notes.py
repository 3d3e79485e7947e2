"""Stores the notes. A note is something that was said in a chat and that the bot should remember.

A note belongs to the chat in which it was said. The caller of each read names the chats whose notes
may be read. So no note reaches another chat by accident.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum

from nekro_core.chat import ChatKey
from nekro_core.store.database import Database, Row, SqlStatement, Value
from nekro_core.store.person import chat_key_in, is_one_of

_SLICE = 200
"""Number of notes that one write deletes."""
MAX_READ = 2_000
"""Maximum number of notes that one query returns. A chat has at most 500 notes, and at most 50
chats can share their notes. Of more notes, the oldest are left out."""


class NoteKind(StrEnum):
    """The kind of a note: a fact, a wish of somebody, or a decision."""

    FACT = "fact"
    WISH = "wish"
    DECISION = "decision"


class NoteOrigin(StrEnum):
    """Who made a note: the bot in a turn, the model that reads conversations to make notes, a
    member or an operator by hand, an import, or a plugin."""

    BOT = "bot"
    DRAWN = "drawn"
    MEMBER = "member"
    OPERATOR = "operator"
    IMPORTED = "imported"
    PLUGIN = "plugin"


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteRow:
    """A note.

    Attributes:
        note_id: The number of the note; 0 before it is stored.
        chat_key: The chat in which it was said.
        about_id: The platform's id of the person that the note is about; empty if it is about the
            chat.
        about_name: The name of that person at that time.
        said_by: The platform's id of the person who said it; empty if no person of the chat said
            it.
        kind: Whether it is a fact, a wish or a decision.
        origin: Who made it.
        text: The note.
        source_seq: The sequence number of the record that it comes from; 0 if there is none.
        since: Since when the note is true, in seconds since 1970.
        until: Until when the note was true, in seconds since 1970; 0 while it is true.
        replaced_by: The number of the note that corrected it; 0 if there is none.
        changed: When it was stored or last changed, in seconds since 1970.
    """

    chat_key: ChatKey
    text: str
    note_id: int = 0
    about_id: str = ""
    about_name: str = ""
    said_by: str = ""
    kind: NoteKind = NoteKind.FACT
    origin: NoteOrigin = NoteOrigin.BOT
    source_seq: int = 0
    since: float = 0.0
    until: float = 0.0
    replaced_by: int = 0
    changed: float = 0.0

    @property
    def holds(self) -> bool:
        """True if the note is still true."""
        return not self.until

    @property
    def author(self) -> str:
        """The person who said it, or if nobody did, who made it."""
        return self.said_by or self.origin.value


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordRange:
    """Records of a chat that a model has read. The note or summary that the model made from them is
    stored only if none of the records was deleted or recalled meanwhile. So an erasure that happens
    meanwhile is not undone."""

    chat_key: ChatKey
    seqs: tuple[int, ...]

    def condition(self) -> tuple[str, tuple[Value, ...]]:
        """Return the condition that none of the records was deleted or recalled."""
        theirs, values = _in_numbers("seq", self.seqs)
        return (
            f"(SELECT COUNT(*) FROM messages WHERE chat_key = ? AND {theirs} AND recalled = ?) = ?",
            (str(self.chat_key), *values, False, len(self.seqs)),
        )


class NoteRepository:
    """The notes of all chats. Times are seconds since 1970."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def changes(self) -> int:
        """See `Database.changes_of`: the number for the notes of all chats."""
        return self._database.changes_of("memory_notes")

    async def add(
        self,
        note: NoteRow,
        *,
        replaces: Collection[int] = (),
        read: RecordRange | None = None,
    ) -> int:
        """Store a note, and end the notes that it replaces, in one transaction. Returns the number
        of the note; 0 if one of the records in ``read`` is gone: then no note is ended. Raises
        `StoreError`."""
        columns = {
            "chat_key": (str(note.chat_key), "TEXT"),
            "about_id": (note.about_id, "TEXT"),
            "about_name": (note.about_name, "TEXT"),
            "said_by": (note.said_by, "TEXT"),
            "kind": (note.kind.value, "TEXT"),
            "origin": (note.origin.value, "TEXT"),
            "text": (note.text, "TEXT"),
            "source_seq": (note.source_seq, "BIGINT"),
            "since": (note.since, "DOUBLE PRECISION"),
            "until": (note.until, "DOUBLE PRECISION"),
            "replaced_by": (note.replaced_by, "BIGINT"),
            "changed": (note.changed, "DOUBLE PRECISION"),
        }
        still, values = read.condition() if read is not None else ("1 = 1", ())
        # PostgreSQL reads a parameter in a SELECT list as text. So each parameter is cast to its
        # type.
        cast = ", ".join(f"CAST(? AS {kind})" for _, kind in columns.values())
        insert = SqlStatement(
            f"INSERT INTO memory_notes ({', '.join(columns)}) SELECT {cast} WHERE {still} "
            "RETURNING id",
            (*(value for value, _ in columns.values()), *values),
        )
        statements = [insert]
        if replaces:
            theirs, numbers = _in_numbers("id", replaces)
            # The note that was just inserted is the newest with this text.
            statements.append(
                SqlStatement(
                    "UPDATE memory_notes SET until = ?, changed = ?, replaced_by = "
                    "(SELECT MAX(n.id) FROM memory_notes n WHERE n.chat_key = ? AND n.text = ?) "
                    f"WHERE {theirs} AND until = 0 AND chat_key = ? AND {still}",
                    (
                        *(note.since, note.changed, str(note.chat_key), note.text),
                        *numbers,
                        str(note.chat_key),
                        *values,
                    ),
                )
            )
        rows, *_ = await self._database.write(*statements)
        return int(rows[0]["id"]) if rows else 0

    async def end(
        self, notes: Collection[int], *, chat_key: ChatKey, until: float, changed: float
    ) -> None:
        """Store that notes of a chat were true only until ``until``. Notes that had ended before
        are not changed."""
        theirs, values = _in_numbers("id", notes)
        await self._database.write(
            SqlStatement(
                f"UPDATE memory_notes SET until = ?, changed = ? WHERE {theirs} "
                "AND until = 0 AND chat_key = ?",
                (until, changed, *values, str(chat_key)),
            )
        )

    async def rewrite(
        self, note_id: int, *, text: str, said_by: str, until: float, changed: float
    ) -> None:
        """Replace the text of a note, its author, the time until which it was true (0 if it is
        true), and the time of its last change."""
        sql = "UPDATE memory_notes SET text = ?, said_by = ?, until = ?, changed = ? WHERE id = ?"
        await self._database.write(SqlStatement(sql, (text, said_by, until, changed, note_id)))

    async def delete(self, notes: Collection[int]) -> None:
        """Delete notes."""
        if notes:
            theirs, values = _in_numbers("id", notes)
            await self._database.write(
                SqlStatement(f"DELETE FROM memory_notes WHERE {theirs}", values)
            )

    async def get(self, note_id: int, chats: Collection[ChatKey]) -> NoteRow | None:
        """Get a note if it belongs to one of these chats; otherwise None."""
        there, values = _in_chats(chats)
        rows = await self._database.read(
            f"SELECT * FROM memory_notes WHERE id = ? AND {there}", note_id, *values
        )
        return _note_of(rows[0]) if rows else None

    async def of_chats(
        self,
        chats: Collection[ChatKey],
        *,
        about: Collection[str] | None = None,
        ended: bool = False,
        limit: int = MAX_READ,
    ) -> list[NoteRow]:
        """Get the notes of these chats, newest first.

        Args:
            chats: The chats to which the notes belong.
            about: Only notes about these people; the empty id means notes about the chat.
            ended: Whether notes that are no longer true are included.
            limit: The largest number of notes.
        """
        if not chats or (about is not None and not about):
            return []
        if not await self._database.may_have_rows("memory_notes"):
            return []
        there, values = _in_chats(chats)
        where = [there]
        if about is not None:
            theirs, people = is_one_of("about_id", sorted(about))
            where.append(theirs)
            values = (*values, *people)
        if not ended:
            where.append("until = 0")
        rows = await self._database.read(
            f"SELECT * FROM memory_notes WHERE {' AND '.join(where)} ORDER BY id DESC LIMIT ?",
            *values,
            limit,
        )
        return [_note_of(row) for row in rows]

    async def count(self, chat_key: ChatKey) -> int:
        """Count the notes of a chat, including those that are no longer true."""
        (row,) = await self._database.read(
            "SELECT COUNT(*) AS number FROM memory_notes WHERE chat_key = ?", str(chat_key)
        )
        return int(row["number"])

    async def chats(self) -> list[tuple[ChatKey, int]]:
        """Get all chats that have notes, each with the number of its notes."""
        rows = await self._database.read(
            "SELECT chat_key, COUNT(*) AS number FROM memory_notes GROUP BY chat_key "
            "ORDER BY chat_key"
        )
        return [(ChatKey.parse(row["chat_key"]), int(row["number"])) for row in rows]

    async def oldest(self, chat_key: ChatKey, limit: int) -> list[int]:
        """Get the numbers of the notes to delete first when a chat has too many: notes of the
        author who has the most (`NoteRow.author`), first those that are no longer true, then the
        oldest."""
        rows = await self._database.read(
            "SELECT id FROM (SELECT id, until, COUNT(*) OVER (PARTITION BY "
            "CASE WHEN said_by = '' THEN origin ELSE said_by END) AS number "
            "FROM memory_notes WHERE chat_key = ?) AS counted "
            "ORDER BY number DESC, CASE WHEN until = 0 THEN 1 ELSE 0 END, id LIMIT ?",
            str(chat_key),
            limit,
        )
        return [int(row["id"]) for row in rows]

    async def delete_older(self, before: float) -> int:
        """Delete notes that were not changed since ``before``, at most `_SLICE` of them. Returns
        how many were deleted."""
        rows = await self._database.read(
            "SELECT id FROM memory_notes WHERE changed < ? LIMIT ?", before, _SLICE
        )
        await self.delete([int(row["id"]) for row in rows])
        return len(rows)

    async def delete_of_person(self, instances: Collection[str], user_id: str) -> int:
        """Delete the notes about a person, and the notes about what the person said, in all chats
        of these instances. Returns their number."""
        there, beginnings = chat_key_in(instances)
        ((*rows,),) = await self._database.write(
            SqlStatement(
                f"DELETE FROM memory_notes WHERE (about_id = ? OR said_by = ?) AND {there} "
                "RETURNING id",
                (user_id, user_id, *beginnings),
            )
        )
        return len(rows)

    async def delete_recalled(self, chat_key: ChatKey) -> int:
        """Delete the notes of a chat that come from a recalled message. Returns their number."""
        ((*rows,),) = await self._database.write(
            SqlStatement(
                "DELETE FROM memory_notes WHERE chat_key = ? AND source_seq > 0 AND EXISTS "
                "(SELECT 1 FROM messages WHERE messages.seq = memory_notes.source_seq "
                "AND messages.recalled = ?) RETURNING id",
                (str(chat_key), True),
            )
        )
        return len(rows)


def _in_chats(chats: Collection[ChatKey]) -> tuple[str, tuple[Value, ...]]:
    return is_one_of("chat_key", sorted(map(str, chats)))


def _in_numbers(column: str, numbers: Collection[int]) -> tuple[str, tuple[Value, ...]]:
    values: Sequence[int] = sorted(set(numbers))
    return f"{column} IN ({', '.join('?' * len(values))})", tuple(values)


def _note_of(row: Row) -> NoteRow:
    return NoteRow(
        note_id=int(row["id"]),
        chat_key=ChatKey.parse(row["chat_key"]),
        about_id=row["about_id"],
        about_name=row["about_name"],
        said_by=row["said_by"],
        kind=NoteKind(row["kind"]),
        origin=NoteOrigin(row["origin"]),
        text=row["text"],
        source_seq=int(row["source_seq"]),
        since=row["since"],
        until=row["until"],
        replaced_by=int(row["replaced_by"]),
        changed=row["changed"],
    )
