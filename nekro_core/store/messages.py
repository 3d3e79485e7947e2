"""Reads and writes the chats' history."""

import hashlib
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from operator import itemgetter

import msgspec

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
from nekro_core.store.database import (
    Database,
    InsertStatement,
    Row,
    Rows,
    SqlStatement,
    Value,
    WriteGuard,
)
from nekro_core.store.decisions import DecisionReason, MessageDecision, decided_statement
from nekro_core.store.limits import MAX_ID
from nekro_core.store.media_paths import MediaPaths
from nekro_core.store.pending_seq import PendingSeq, final_seq
from nekro_core.store.recent_records import NOTHING_CHANGED, RecentRecords

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
"""The PostgreSQL sequence that remembers the highest number that may be used."""
_CLAIM = 1000
"""The PostgreSQL sequence is set this many numbers ahead, so that it is written rarely. After a
restart, the bot continues above the sequence's number and skips the numbers that were not used."""

_ADDED = 32
"""For each chat, the numbers of this many newest records are remembered."""
_ADDED_CHATS = 1_000
"""Maximum number of chats for which these numbers are remembered."""
ABOVE_ALL = 2**62
"""A number that is higher than the number of any record. It is needed if several processes share
the database: then there may be records with higher numbers than this process knows."""
_NUMBERED = 500
"""Maximum number of records that one query reads by their numbers."""

SELECT = f"SELECT {', '.join(INSERT.columns)} FROM messages"


_FOR_SEARCH = "SELECT seq, segments, author, user_id, user_name, time, recalled FROM messages"


class MessageRepository:
    """The records of all chats, in the order in which they arrived."""

    def __init__(self, database: Database, *, last_seq: int) -> None:
        self.media_paths = MediaPaths()
        """Translates the paths of media in the records that are read."""
        self._database = database
        self._last_seq = last_seq
        self._claimed = last_seq
        self._placeholders = 0
        self._changes: Counter[ChatKey] = Counter()
        self._newest: dict[ChatKey, int] = {}
        self._newest_read = False
        self._looked_to: int | None = None
        self._shrunk: set[ChatKey] = set()
        self._arrived: Counter[ChatKey] = Counter()
        self._removed = 0
        self._added: OrderedDict[ChatKey, tuple[int, ...]] = OrderedDict()
        self._recent = RecentRecords(
            lambda chat_key, limit, since: self.newest(chat_key, limit, since=since)
        )

    @property
    def last_seq(self) -> int:
        """The highest number that a record has, or will have when its write is committed. If other
        processes share the database, it is the highest number that this process knows."""
        return self._last_seq

    @property
    def above_all(self) -> int:
        """A number that is higher than the number of any record."""
        return ABOVE_ALL if self._database.shared else self._last_seq + 1

    async def newest_seq(self) -> int:
        """Get the highest number of a record. If other processes share the database, this reads the
        database."""
        if not self._database.shared:
            return self._last_seq
        (row,) = await self._database.read("SELECT COALESCE(MAX(seq), 0) AS seq FROM messages")
        self._last_seq = max(self._last_seq, row["seq"])
        return self._last_seq

    def record_of(self, row: Row) -> Record:
        """Return the record that a row holds, with the paths that its media have in this
        process."""
        return record_of(row, self.media_paths)

    def changes(self, chat_key: ChatKey) -> int:
        """Return how many writes to a chat's history were committed since the process started. Call
        this before a read. While the number stays the same, the result of the read is current."""
        return self._changes[chat_key]

    @property
    def removals(self) -> int:
        """The number of changes after which a record of any age may be missing or different, in any
        chat. If other processes share the database, their changes are not counted."""
        return self._removed

    @property
    def shared(self) -> bool:
        """Whether other processes share the database."""
        return self._database.shared

    def changed(
        self, chat_key: ChatKey, *, added: int = 0, first: int = 0, shrunk: bool = False
    ) -> None:
        """Count a change of the history. All code that writes to the history must call this after
        its commit. If several processes share the database, a process must also call this when
        another process tells it of a change.

        Args:
            chat_key: The chat.
            added: The number of a record that was added; 0 if none was added.
            first: The lowest number of the records that were added, changed or deleted; 0 if any
                record may be among them; `NOTHING_CHANGED` if there is none.
            shrunk: Whether the newest record may have been deleted.
        """
        self._changes[chat_key] += 1
        self._removed += first == 0
        self._recent.note_change(chat_key, first)
        self._last_seq = max(self._last_seq, added)
        if added:
            self._arrived[chat_key] += 1
            self._note_added(chat_key, added)
        if added > self._newest.get(chat_key, 0):
            self._newest.pop(chat_key, None)
            # The chat is put at the end, so that the chats are in the order of the numbers of their
            # newest records.
            self._newest[chat_key] = added
        if shrunk:
            self._shrunk.add(chat_key)

    def _note_added(self, chat_key: ChatKey, seq: int) -> None:
        known = self._added.pop(chat_key, ())
        if known and known[-1] >= seq:
            # The record was committed after one with a higher number, so it lies between known
            # ones.
            self._added[chat_key] = known[-1:]
        else:
            self._added[chat_key] = (*known[1 - _ADDED :], seq)
        if len(self._added) > _ADDED_CHATS:
            self._added.popitem(last=False)

    def comes_next(self, chat_key: ChatKey, earlier: int, later: int) -> bool:
        """Return True if it is certain, without a read of the database, that the chat has no record
        between these two records. ``earlier`` and ``later`` are the numbers of the records."""
        known, wanted = self._added.get(chat_key, ()), (earlier, later)
        # Nearly always the two newest records are asked for.
        return not self._database.shared and (known[-2:] == wanted or wanted in pairwise(known))

    def take_arrived(self) -> Counter[ChatKey]:
        """Return how many records each chat got since the last call. Only the indexer of the search
        calls this."""
        arrived, self._arrived = self._arrived, Counter()
        return arrived

    async def newest_seqs(self) -> Mapping[ChatKey, int]:
        """Get the number of the newest record of each chat, 0 for chats without records. The chats
        are nearly in the order of these numbers. Only the first call reads the database. After it,
        the numbers are in memory, and a list of all chats needs no query."""
        newest = "SELECT MAX(seq) FROM messages m WHERE m.chat_key = c.chat_key"
        if not self._newest_read:
            rows = await self._database.read(f"SELECT chat_key, ({newest}) AS newest FROM chats c")
            for row in rows:
                key = chat_key_of(row["chat_key"])
                # A record may have been added while the rows were read.
                self._newest[key] = max(row["newest"] or 0, self._newest.get(key, 0))
            self._newest = dict(sorted(self._newest.items(), key=itemgetter(1)))
            self._newest_read = True
        while self._shrunk:
            key = self._shrunk.pop()
            rows = await self._database.read(
                f"SELECT ({newest}) AS newest FROM chats c WHERE chat_key = ?", str(key)
            )
            self._newest[key] = (rows[0]["newest"] or 0) if rows else 0
        return self._newest

    async def read_newer(self) -> None:
        """Read which chats have records that other processes have stored since the last call, so
        that `newest_seqs` has their numbers. A process that shows the chats of all processes calls
        it again and again."""
        if self._looked_to is None:
            self._looked_to = await self.newest_seq()
        await self.newest_seqs()
        rows = await self._database.read(
            "SELECT chat_key, MAX(seq) AS newest FROM messages WHERE seq > ? GROUP BY chat_key",
            self._looked_to,
        )
        for row in sorted(rows, key=itemgetter("newest")):
            key = chat_key_of(row["chat_key"])
            if row["newest"] > self._newest.get(key, 0):
                self.changed(key)
                self._newest.pop(key, None)
                self._newest[key] = row["newest"]
            self._looked_to = max(self._looked_to, row["newest"])

    async def forget_newest(self, _: str = "") -> None:
        """Let `newest_seqs` read the database again, because another process has deleted
        records."""
        self._newest_read = False
        self._newest.clear()

    def skip_to(self, seq: int) -> None:
        """From now on, use only numbers above ``seq``."""
        self._last_seq = max(self._last_seq, seq)

    def reserve(self) -> int:
        """Return a new sequence number. No number is returned twice, even if it is never used.

        If other processes share the database, this returns a placeholder, and the record gets its
        number when it is committed; see `nekro_core.store.pending_seq`.
        """
        if self._database.shared:
            self._placeholders -= 1
            return PendingSeq(self._placeholders)
        self._last_seq += 1
        if self._database.dialect == "postgres" and self._last_seq > self._claimed:
            # SQLite remembers the highest number by itself. PostgreSQL does not advance its
            # sequence for rows that are inserted with a number, so the sequence is set here. This
            # write is queued before the row that uses the number.
            self._claimed = self._last_seq + _CLAIM
            self._database.write(SqlStatement(f"SELECT setval('{_SEQUENCE}', ?)", (self._claimed,)))
        return self._last_seq

    def add(
        self,
        record: Record,
        *,
        unique_id: str | None,
        before: Sequence[SqlStatement] = (),
        guards: Sequence[WriteGuard] = (),
        stored: Callable[[Record], None] | None = None,
        failed: Callable[[], None] | None = None,
    ) -> Awaitable[list[Rows]]:
        """Queue a record to be stored. The write is queued when this method returns.

        Await the result to get the rows of each statement. If ``unique_id`` already exists in this
        instance, the record is not stored, and the last item of the result is empty. ``stored`` is
        called if the record was stored, in the order of the calls of this method, even if the
        caller was cancelled. ``failed`` is called if nothing could be written. ``before`` holds
        statements that run first, in the same transaction. ``guards`` are conditions; see
        `Database.write`.
        """

        def committed(results: list[Rows]) -> None:
            final = with_final_seq(record)
            if results[-1]:
                self.changed(record.chat_key, added=final.seq, first=final.seq)
            else:
                self.changed(record.chat_key, first=NOTHING_CHANGED)
            if stored is not None and results[-1]:
                stored(final)

        statements = (*before, self.insert_statement(record, unique_id))
        return self._database.write(*statements, guards=guards, committed=committed, failed=failed)

    @staticmethod
    def insert_statement(record: Record, unique_id: str | None) -> SqlStatement:
        """Return the statement that stores a record."""
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
        """Get at most ``limit`` records with a greater number than ``seq``, oldest first. If
        ``chat_key`` is None, records of all chats are returned."""
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
        return [self.record_of(row) for row in rows]

    async def rows_after(self, chat_key: ChatKey, seq: int, limit: int) -> Rows:
        """Get the oldest records after a number, oldest first. The rows have the columns that the
        search index needs."""
        return await self._database.read(
            f"{_FOR_SEARCH} WHERE chat_key = ? AND seq > ? ORDER BY seq LIMIT ?",
            str(chat_key),
            seq,
            limit,
        )

    async def newest_rows(self, chat_key: ChatKey, after: int, limit: int) -> Rows:
        """Get the newest records after a number, oldest first. The rows have the columns that the
        search index needs."""
        rows = await self._database.read(
            f"{_FOR_SEARCH} WHERE chat_key = ? AND seq > ? ORDER BY seq DESC LIMIT ?",
            str(chat_key),
            after,
            limit,
        )
        return rows[::-1]

    async def rows_numbered(self, seqs: Collection[int]) -> list[Row]:
        """Get these records, oldest first. The rows have the columns that the search index
        needs."""
        found: list[Row] = []
        wanted = sorted(set(seqs))
        for at in range(0, len(wanted), _NUMBERED):
            some = wanted[at : at + _NUMBERED]
            found += await self._database.read(
                f"{_FOR_SEARCH} WHERE seq IN ({', '.join('?' * len(some))}) ORDER BY seq", *some
            )
        return found

    async def newest(
        self, chat_key: ChatKey, limit: int, *, before: int = 0, since: int = 0
    ) -> list[Record]:
        """Get the newest records of a chat, oldest first. With ``before``, only records whose
        ``seq`` is smaller than ``before``. With ``since``, only records whose ``seq`` is at least
        ``since``."""
        rows = await self._database.read(
            f"{SELECT} WHERE chat_key = ? AND seq < ? AND seq >= ? ORDER BY seq DESC LIMIT ?",
            str(chat_key),
            before or self.above_all,
            since,
            limit,
        )
        return [self.record_of(row) for row in reversed(rows)]

    async def window(self, chat_key: ChatKey, limit: int, *, since: int = 0) -> list[Record]:
        """Get the same records as `newest`. Records that have not changed since the previous call
        for this chat are not read again, and are the same objects."""
        if self._database.shared:
            # Other processes change records too, and do not tell of each change.
            return await self.newest(chat_key, limit, since=since)
        return await self._recent.newest(chat_key, limit, since)

    def begins_at(self, chat_key: ChatKey, seq: int) -> bool:
        """Return True if it is certain, without a read of the database, that the chat has no record
        with a lower number than ``seq``. This is so after `window` has returned all records of the
        chat."""
        return not self._database.shared and self._recent.begins_at(chat_key, seq)

    def changed_anywhere(self) -> None:
        """Note that records of unknown chats were changed or deleted. Then `window` reads them
        again. Unlike `changed`, this counts no change."""
        self._removed += 1
        self._recent.clear()

    async def between(
        self, chat_key: ChatKey | None, since: float, until: float, limit: int
    ) -> list[Record]:
        """Get records of one chat or of all, from ``since`` up to but not including ``until``
        (seconds since 1970). Returns the newest ``limit`` of them, oldest first."""
        values: list[Value] = [since, until]
        where = "time >= ? AND time < ?"
        if chat_key is not None:
            where += " AND chat_key = ?"
            values.append(str(chat_key))
        rows = await self._database.read(
            f"{SELECT} WHERE {where} ORDER BY seq DESC LIMIT ?", *values, limit
        )
        return [self.record_of(row) for row in reversed(rows)]

    async def get(self, seq: int) -> Record | None:
        """Get one record; None if there is no such record."""
        rows = await self._database.read(f"{SELECT} WHERE seq = ?", seq)
        return self.record_of(rows[0]) if rows else None

    async def numbered(self, seqs: Collection[int]) -> list[Record]:
        """Get the records with these numbers, oldest first. Numbers without a stored record are
        left out."""
        found: list[Record] = []
        wanted = sorted(set(seqs))
        for at in range(0, len(wanted), _NUMBERED):
            some = wanted[at : at + _NUMBERED]
            rows = await self._database.read(
                f"{SELECT} WHERE seq IN ({', '.join('?' * len(some))}) ORDER BY seq", *some
            )
            found += map(self.record_of, rows)
        return found

    async def versions(self, seqs: Collection[int]) -> dict[int, list[Segments]]:
        """Get the earlier segments of edited messages, by the messages' numbers."""
        found: dict[int, list[Segments]] = {}
        wanted = sorted(set(seqs))
        for at in range(0, len(wanted), _NUMBERED):
            some = wanted[at : at + _NUMBERED]
            rows = await self._database.read(
                "SELECT seq, segments FROM message_versions "
                f"WHERE seq IN ({', '.join('?' * len(some))})",
                *some,
            )
            for row in rows:
                found.setdefault(row["seq"], []).append(
                    self.media_paths.here(decode_segments(row["segments"]))
                )
        return found

    async def by_message_id(self, chat_key: ChatKey, message_id: str) -> Record | None:
        """Get the record with this message id of the platform; None if there is none."""
        rows = await self._database.read(
            f"{SELECT} WHERE instance = ? AND unique_id IN (?, ?) AND chat_key = ?",
            chat_key.instance,
            unique_id_of(message_id),
            unique_id_in(chat_key, message_id),
            str(chat_key),
        )
        return self.record_of(rows[0]) if rows else None

    async def mark_answered_elsewhere(self, record: Record, decision: MessageDecision) -> None:
        """Store that the bot does not handle a record again after a restart: because a plugin of
        NoneBot or a hook has handled it, or because it was given up."""
        await self._database.write(
            SqlStatement(
                "UPDATE messages SET answered_elsewhere = ? WHERE seq = ?", (True, record.seq)
            ),
            decided_statement(decision, (record.seq,)),
            committed=lambda _: self.changed(record.chat_key, first=record.seq),
        )

    async def recall(self, chat_key: ChatKey, message_id: str) -> Record | None:
        """Mark a message as recalled. Returns the changed record; None if the message is not stored
        or was already recalled."""
        if not message_id:
            return None
        ((*rows,),) = await self._database.write(
            SqlStatement(
                "UPDATE messages SET recalled = ?, "
                "decision = CASE WHEN decision = '' THEN ? ELSE decision END "
                "WHERE instance = ? AND unique_id IN (?, ?) "
                f"AND chat_key = ? AND recalled = ? RETURNING {', '.join(INSERT.columns)}",
                (
                    True,
                    DecisionReason.RECALLED.value,
                    chat_key.instance,
                    unique_id_of(message_id),
                    unique_id_in(chat_key, message_id),
                    str(chat_key),
                    False,
                ),
            ),
            committed=lambda _: self.changed(chat_key),
        )
        return self.record_of(rows[0]) if rows else None

    async def revise(self, chat_key: ChatKey, message_id: str, segments: Segments) -> Record | None:
        """Replace the segments of a message of the bot. The earlier segments are kept for the
        prompts that have shown them. Returns the changed record; None if the message is not known,
        is not the bot's, or was recalled."""
        known = (
            "instance = ? AND unique_id IN (?, ?) AND chat_key = ? AND author = 'bot' "
            "AND recalled = ?"
        )
        values = (
            chat_key.instance,
            unique_id_of(message_id),
            unique_id_in(chat_key, message_id),
            str(chat_key),
            False,
        )
        _, (*rows,) = await self._database.write(
            SqlStatement(
                "INSERT INTO message_versions (seq, segments) "
                f"SELECT seq, segments FROM messages WHERE {known}",
                values,
            ),
            SqlStatement(
                f"UPDATE messages SET segments = ? WHERE {known} "
                f"RETURNING {', '.join(INSERT.columns)}",
                (encode_segments(segments), *values),
            ),
            committed=lambda _: self.changed(chat_key),
        )
        return self.record_of(rows[0]) if rows else None

    async def reword(
        self, record: Record, segments: Segments, *, keep: bool = False
    ) -> Record | None:
        """Replace the segments of a record, but only if the stored segments are still those of
        ``record``. With ``keep``, the earlier segments are kept for the prompts that have shown
        them. Returns the changed record; None if it was changed, recalled or erased meanwhile."""
        known = "seq = ? AND segments = ? AND recalled = ?"
        values = (record.seq, await self._stored_segments(record), False)
        earlier = SqlStatement(
            "INSERT INTO message_versions (seq, segments) "
            f"SELECT seq, segments FROM messages WHERE {known}",
            values,
        )
        *_, (*rows,) = await self._database.write(
            *([earlier] if keep else []),
            SqlStatement(
                f"UPDATE messages SET segments = ? WHERE {known} "
                f"RETURNING {', '.join(INSERT.columns)}",
                (encode_segments(segments), *values),
            ),
            committed=lambda _: self.changed(record.chat_key, first=record.seq),
        )
        return self.record_of(rows[0]) if rows else None

    async def _stored_segments(self, record: Record) -> str:
        """Return the text of a record's segments in the database. If another process stored the
        record, the text has other paths than the record. If the stored segments differ in another
        way, the text of the record's segments is returned, which no row has."""
        if self.media_paths.folder is not None:
            rows = await self._database.read(
                "SELECT segments FROM messages WHERE seq = ?", record.seq
            )
            for row in rows:
                if self.media_paths.here(decode_segments(row["segments"])) == record.segments:
                    return str(row["segments"])
        return encode_segments(record.segments)

    async def hide(self, record: Record) -> None:
        """Mark a record so that prompts and searches do not show it, as if it had been recalled.
        Its content stays in the store. The caller must store the decision that a plugin hid the
        record (`mark_answered_elsewhere`); otherwise it would seem that its author recalled it."""
        await self._database.write(
            SqlStatement("UPDATE messages SET recalled = ? WHERE seq = ?", (True, record.seq)),
            committed=lambda _: self.changed(record.chat_key, first=record.seq),
        )


def unique_id_of(message_id: str) -> str | None:
    """Return the unique id for a platform's message id: the id itself, or its digest if the id is
    too long; None if the id is empty."""
    if len(message_id) > MAX_ID:
        return f"sha256:{hashlib.sha256(message_id.encode(errors='replace')).hexdigest()}"
    return message_id or None


def unique_id_in(chat_key: ChatKey, message_id: str) -> str:
    """Return the unique id for a message whose platform id already exists in another chat of the
    account. The programs of some platforms use ids of 31 bits. If such ids are random, two of
    50,000 messages have the same id with a probability of 44 %."""
    text = f"{chat_key} {message_id}"
    return f"chat:{hashlib.sha256(text.encode(errors='replace')).hexdigest()}"


def with_final_seq(record: Record) -> Record:
    """Return a committed record with its final number. If other processes share the database, the
    record has had a placeholder instead of the number until its commit."""
    seq = final_seq(record.seq)
    return record if seq is record.seq else msgspec.structs.replace(record, seq=seq)


chat_key_of = lru_cache(4096)(ChatKey.parse)
"""Parses a key, with a cache: parsing takes 20 µs, and all rows of a chat have the same key."""


def record_of(row: Row, paths: MediaPaths | None = None) -> Record:
    """Return the record that a row holds. ``paths`` translates the paths of its media."""
    segments = decode_segments(row["segments"])
    return Record(
        seq=row["seq"],
        chat_key=chat_key_of(row["chat_key"]),
        author=Author(row["author"]),
        segments=segments if paths is None else paths.here(segments),
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
