"""Stores turns and their steps, and finds turns and messages that a dead process did not finish."""

from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Collection, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from nekro_core.chat import Author, ChatKey, Record
from nekro_core.store.database import Database, Row, Rows, SqlStatement, Value
from nekro_core.store.decisions import MessageDecision, decided_statement
from nekro_core.store.errors import StoreError, TurnRunning
from nekro_core.store.messages import INSERT, MessageRepository
from nekro_core.store.ownership import ChatScope, every_chat
from nekro_core.store.values import PRICED, Step, TurnFilter, TurnRow, UnansweredMessages, Usage

_COLUMNS = (
    "id, chat_key, running_chat, trigger_seq, through_seq, user_id, stop, attempts, started, "
    "ended, model, failed"
)
_SELECT = f"SELECT {_COLUMNS} FROM turns"
_MOST_UNANSWERED = 100_000
"""Maximum number of records that are read after a restart. At 160 messages a second, about so many
records arrive in ten minutes."""
_ROWS = 200
"""Number of unanswered messages that are read at a time. Decoding them takes some milliseconds, in
which no other task runs."""
_LATEST_TURNS = 50_000
"""Number of newest turns that are read after a restart. At 80 turns a second, about so many turns
run in ten minutes. Without this limit the query would scan the whole table."""
_LISTED_STOPS = 10_000
"""`TurnRepository.different` reads only this many of the newest turns to find the different reasons
for which turns end."""
_ENDS = "SELECT (SELECT MIN(id) FROM turns) AS low, (SELECT MAX(id) FROM turns) AS high"
"""The lowest and the highest id of a turn. If one SELECT had both MIN and MAX, SQLite would read
all turns."""
_NOTHING_WAITS = 2**62
NORMAL_STOPS = ("finished", "stopped", "recalled")
"""Reasons for the end of a turn that are not faults."""
_MOST_DIFFERENT = 200
"""Maximum number of different models that `TurnRepository.different` returns."""
_THROUGH = "CASE WHEN trigger_seq > through_seq THEN trigger_seq ELSE through_seq END"
_ANSWERED = (
    f"SELECT chat_key, user_id, MAX({_THROUGH}) AS through FROM ("
    "SELECT chat_key, user_id, trigger_seq, through_seq FROM turns "
    f"WHERE id > (SELECT COALESCE(MAX(id), 0) - {_LATEST_TURNS} FROM turns) "
    "UNION ALL SELECT chat_key, user_id, trigger_seq, through_seq FROM turns "
    "WHERE running_chat IS NOT NULL) latest GROUP BY chat_key, user_id"
)
"""A SELECT that returns, for each person in each chat, the newest record that the person's turns
have seen. A turn answers one person."""


@dataclass(frozen=True, slots=True)
class UnansweredSeqs:
    """The numbers of the unanswered messages of a chat, oldest first.

    Attributes:
        chat_key: The chat.
        handled_seq: The number of the newest message that is marked as handled.
        seqs: The numbers.
    """

    chat_key: ChatKey
    handled_seq: int
    seqs: tuple[int, ...]


class _Begun:
    """An awaitable that waits until the row of a new turn is committed, and then returns the
    turn."""

    def __init__(self, chat_key: ChatKey, written: Awaitable[list[Rows]]) -> None:
        self._chat_key = chat_key
        self._written = written

    def __await__(self) -> Generator[Any, Any, TurnRow]:
        ((*rows,), *_) = yield from self._written.__await__()
        if not rows:
            raise TurnRunning(
                f"{self._chat_key} has a running turn already: end or resume that one"
            )
        return _turn(rows[0])


class TurnRepository:
    """All turns. A chat has at most one running turn. Times are seconds since 1970."""

    def __init__(
        self, database: Database, messages: MessageRepository, *, clock: Callable[[], float]
    ) -> None:
        self._database = database
        self._messages = messages
        self._clock = clock

    def begin(
        self,
        chat_key: ChatKey,
        *,
        trigger_seq: int,
        through_seq: int,
        user_id: str = "",
        decision: MessageDecision | None = None,
        times: str = "",
        model: str = "",
    ) -> Awaitable[TurnRow]:
        """Store that a turn starts, and why the bot answers the message that woke it. The write is
        queued when this method returns. ``trigger_seq`` is the number of the record that woke the
        turn, ``through_seq`` the number of the newest record that it has seen. ``times`` is JSON,
        see `nekro_core.store.turn_trace`. ``model`` is the name of the model that is asked.

        The result may be awaited more than once. Raises `TurnRunning` if the chat has a running
        turn already.
        """
        decided = (
            (decided_statement(decision, (trigger_seq,), running=str(chat_key)),)
            if decision is not None
            else ()
        )
        written = self._database.write(
            SqlStatement(
                "INSERT INTO turns (chat_key, running_chat, trigger_seq, through_seq, user_id, "
                "stop, attempts, started, ended, times, model) "
                "VALUES (?, ?, ?, ?, ?, '', 1, ?, 0, ?, ?) "
                f"ON CONFLICT DO NOTHING RETURNING {_COLUMNS}",
                (
                    str(chat_key),
                    str(chat_key),
                    trigger_seq,
                    through_seq,
                    user_id,
                    self._clock(),
                    times,
                    model,
                ),
            ),
            *decided,
        )
        return _Begun(chat_key, written)

    async def seen(self, turn_id: int, through_seq: int) -> None:
        """Store that the turn has seen the records up to ``through_seq``."""
        await self._database.write(
            SqlStatement(
                "UPDATE turns SET through_seq = ? WHERE id = ? AND through_seq < ?",
                (through_seq, turn_id, through_seq),
            )
        )

    async def resume(self, turn_id: int) -> TurnRow:
        """Resume an interrupted turn, and add one to its ``attempts``. The caller gives a turn up
        after too many attempts, because the turn may be what kills the process. Raises `StoreError`
        if the turn does not run."""
        ((*rows,),) = await self._database.write(
            SqlStatement(
                "UPDATE turns SET attempts = attempts + 1 WHERE id = ? "
                f"AND running_chat IS NOT NULL RETURNING {_COLUMNS}",
                (turn_id,),
            )
        )
        if not rows:
            raise StoreError(f"turn {turn_id} does not run: there is nothing to resume")
        return _turn(rows[0])

    async def end(
        self,
        turn_id: int,
        *,
        stop: str,
        waiting_seq: int | None = None,
        only_asked: bool = False,
        failed: bool = False,
    ) -> None:
        """End the turn and mark the records that it has seen as handled. ``stop`` says why it
        ended. Of the records from ``waiting_seq`` on, only the records of the turn's person count
        as handled, since other persons wait for an answer. With ``only_asked``, only records up to
        the one that woke the turn count as handled. ``failed`` says whether anything in the turn
        failed."""
        most = _NOTHING_WAITS if waiting_seq is None else waiting_seq - 1
        through = (
            "(SELECT CASE WHEN through_seq < ? THEN through_seq ELSE ? END FROM turns WHERE id = ?)"
        )
        values = (most, most, turn_id)
        handled = SqlStatement(
            f"UPDATE chats SET handled_seq = {through} "
            "WHERE chat_key = (SELECT chat_key FROM turns WHERE id = ?) "
            f"AND handled_seq < {through}",
            (*values, turn_id, *values),
        )
        await self._database.write(
            SqlStatement(
                "UPDATE turns SET running_chat = NULL, stop = ?, ended = ?, "
                # ``failed`` is set only if it changes. An UPDATE that sets a column also writes the
                # column's index, even if the value stays the same.
                f"{'failed = TRUE, ' if failed else ''}"
                f"through_seq = {'trigger_seq' if only_asked else 'through_seq'} "
                "WHERE id = ? AND running_chat IS NOT NULL",
                (stop, self._clock(), turn_id),
            ),
            handled,
        )

    async def interrupted(self, chats: ChatScope = every_chat) -> list[TurnRow]:
        """Get the turns that a dead process did not end, oldest first, of the chats for which
        ``chats`` returns True. Call this method before the first turn of these chats begins."""
        rows = await self._database.read(f"{_SELECT} WHERE running_chat IS NOT NULL ORDER BY id")
        return [turn for turn in map(_turn, rows) if chats(turn.chat_key)]

    async def unanswered(
        self,
        *,
        since: float,
        limit_per_person: int = 100,
        chats: ChatScope = every_chat,
    ) -> list[UnansweredMessages]:
        """Get the messages that are not marked as handled and that no turn of their sender has
        seen, of the chats for which ``chats`` returns True. Only messages whose platform time is
        ``since`` or later are returned. Lines that the system wrote to the agent are included.
        Lines of timers are included even if they are older.

        Records that an interrupted turn has seen, or that woke it, count as seen, because that turn
        is resumed or closed. Of each person in each chat only the newest ``limit_per_person``
        messages are returned, so that a person who writes much does not displace others' questions.
        """
        listed = await self.list_unanswered(since=since, limit_per_person=limit_per_person)
        return await self.read_unanswered(listed, chats)

    async def list_unanswered(
        self, *, since: float, limit_per_person: int = 100
    ) -> list[UnansweredSeqs]:
        """Get the numbers of the messages that `unanswered` returns, of all chats, without the
        messages. If several owners of chats need them at about the same time, one such list serves
        all of them, and each reads only its own messages (`read_unanswered`)."""
        rows = await self._database.read(
            "SELECT m.seq, m.chat_key, m.user_id, c.handled_seq FROM messages m "
            "JOIN chats c ON c.chat_key = m.chat_key "
            f"LEFT JOIN ({_ANSWERED}) a ON a.chat_key = m.chat_key AND a.user_id = m.user_id "
            # With this subquery, SQLite reads only the few new rows of the table, not all rows.
            "WHERE m.seq IN (SELECT seq FROM messages WHERE time >= ? "
            "UNION SELECT record_seq FROM timers WHERE record_seq > 0) "
            "AND (m.author = ? OR (m.author = ? AND m.to_bot = ?)) "
            "AND m.seq > c.handled_seq AND m.recalled = ? AND m.answered_elsewhere = ? "
            "AND (a.through IS NULL OR m.seq > a.through) "
            "AND m.seq NOT IN (SELECT trigger_seq FROM turns WHERE running_chat IS NOT NULL) "
            "ORDER BY m.seq DESC LIMIT ?",
            since,
            Author.PERSON.value,
            Author.SYSTEM.value,
            True,
            False,
            False,
            _MOST_UNANSWERED,
        )
        handled: dict[str, int] = {}
        seqs: defaultdict[str, list[int]] = defaultdict(list)
        taken: Counter[tuple[str, str]] = Counter()
        for row in rows:
            chat, person = row["chat_key"], (row["chat_key"], row["user_id"])
            taken[person] += 1
            if taken[person] <= limit_per_person:
                handled[chat] = row["handled_seq"]
                seqs[chat].append(row["seq"])
        return [
            UnansweredSeqs(ChatKey.parse(chat), handled[chat], tuple(reversed(found)))
            for chat, found in reversed(seqs.items())
        ]

    async def read_unanswered(
        self, listed: Sequence[UnansweredSeqs], chats: ChatScope
    ) -> list[UnansweredMessages]:
        """Read the messages of some chats from a list of `list_unanswered`. A message that was
        recalled or answered since then is left out."""
        wanted = [each for each in listed if chats(each.chat_key)]
        seqs = [seq for each in wanted for seq in each.seqs]
        records: dict[int, Record] = {}
        columns = ", ".join(INSERT.columns)
        for at in range(0, len(seqs), _ROWS):
            some = seqs[at : at + _ROWS]
            # Each read lets other tasks run. A process that takes many chats over must go on
            # renewing its ownership of its other chats.
            rows = await self._database.read(
                f"SELECT {columns} FROM messages WHERE seq IN ({', '.join('?' * len(some))}) "
                "AND recalled = ? AND answered_elsewhere = ?",
                *some,
                False,
                False,
            )
            records.update((row["seq"], self._messages.record_of(row)) for row in rows)
        found = (
            UnansweredMessages(
                chat_key=each.chat_key,
                handled_seq=each.handled_seq,
                records=tuple(records[seq] for seq in each.seqs if seq in records),
            )
            for each in wanted
        )
        return [each for each in found if each.records]

    async def get(self, turn_id: int) -> TurnRow | None:
        """Get one turn; None if there is no such turn."""
        rows = await self._database.read(f"{_SELECT} WHERE id = ?", turn_id)
        return _turn(rows[0]) if rows else None

    async def of_run(self, run_id: str) -> TurnRow | None:
        """Get the turn of a run; None if there is no such run."""
        rows = await self._database.read(
            f"{_SELECT} WHERE id = (SELECT turn_id FROM runs WHERE run_id = ?)", run_id
        )
        return _turn(rows[0]) if rows else None

    async def latest(self, chat_key: ChatKey, limit: int = 20) -> list[TurnRow]:
        """Get a chat's newest turns, oldest first."""
        rows = await self._database.read(
            f"{_SELECT} WHERE chat_key = ? ORDER BY id DESC LIMIT ?", str(chat_key), limit
        )
        return [_turn(row) for row in reversed(rows)]

    async def newest(
        self,
        *,
        chat_key: ChatKey | None = None,
        before: int = 0,
        limit: int = 50,
        wanted_turns: TurnFilter | None = None,
    ) -> list[TurnRow]:
        """Get the newest turns of one chat or of all chats, newest first. With ``before``, only
        turns that are older than the turn with this id. With ``wanted_turns``, only turns that fit
        this filter, which then also says the chat: ``chat_key`` is not used."""
        wanted = await self._conditions(wanted_turns or TurnFilter(chat_key=chat_key))
        if before:
            wanted.append(("id < ?", before))
        where = f" WHERE {' AND '.join(text for text, _ in wanted)}" if wanted else ""
        rows = await self._database.read(
            f"{_SELECT}{where} ORDER BY id DESC LIMIT ?", *(value for _, value in wanted), limit
        )
        return [_turn(row) for row in rows]

    async def different(self, column: Literal["stop", "model"]) -> list[str]:
        """Get the different values of a column, sorted, except the empty text. Each model is found
        by one search in an index. The reasons of ends (``stop``) have no index, so they are looked
        for only in the newest turns."""
        if column == "stop":
            rows = await self._database.read(
                "SELECT DISTINCT stop FROM "
                "(SELECT stop FROM turns ORDER BY id DESC LIMIT ?) newest "
                "WHERE stop <> '' ORDER BY stop",
                _LISTED_STOPS,
            )
            return [row["stop"] for row in rows]
        found: list[str] = []
        after = ""
        while len(found) < _MOST_DIFFERENT:
            rows = await self._database.read(
                f"SELECT {column} AS value FROM turns WHERE {column} > ? ORDER BY {column} LIMIT 1",
                after,
            )
            if not rows:
                break
            after = rows[0]["value"]
            found.append(after)
        return found

    async def _conditions(self, wanted: TurnFilter) -> list[tuple[str, Value]]:
        """Return the conditions of a filter. The times of the filter are replaced by ids, since
        turns are numbered in the order of their beginning. So the database can read the rows in the
        order of their ids, or of an index that begins with another column of the filter."""
        found: list[tuple[str, Value]] = []
        if wanted.chat_key is not None:
            found.append(("chat_key = ?", str(wanted.chat_key)))
        for column, text in (
            ("user_id", wanted.user_id),
            ("model", wanted.model),
            ("stop", wanted.stop),
        ):
            if text:
                found.append((f"{column} = ?", text))
        failed = wanted.failed
        if wanted.stop and wanted.stop not in NORMAL_STOPS and failed is None:
            # A turn with this reason has failed. So the search can use the index of failed turns;
            # there is no index of the reasons.
            failed = True
        if failed is not None:
            found.append(("failed = ?", failed))
        if wanted.since:
            found.append(("id >= ?", await self._first_since(wanted.since)))
        if wanted.until:
            found.append(("id < ?", await self._first_since(wanted.until)))
        return found

    async def _first_since(self, time: float) -> int:
        """Return the id of the first turn that began at this time or later. If there is no such
        turn, return an id above all others. The id is found by a binary search: an index of the
        times would need a write for each turn."""
        (ends,) = await self._database.read(_ENDS)
        low, high = int(ends["low"] or 0), int(ends["high"] or 0) + 1
        while low < high:
            middle = (low + high) // 2
            rows = await self._database.read(
                "SELECT id, started FROM turns WHERE id >= ? ORDER BY id LIMIT 1", middle
            )
            if rows and rows[0]["started"] < time:
                low = int(rows[0]["id"]) + 1
            else:
                high = middle
        return low

    async def add_step(self, turn_id: int, step: Step) -> None:
        """Store one step. Raises `UniqueConflict` if the turn already has a step at that
        position."""
        await self._database.write(self.step_statement(turn_id, step))

    @staticmethod
    def step_statement(turn_id: int, step: Step) -> SqlStatement:
        """Return the statement that stores a step."""
        of_turn = "(SELECT {} FROM turns WHERE id = ?)"
        return SqlStatement(
            "INSERT INTO steps (turn_id, chat_key, user_id, position, reply, tail, model, "
            "prompt_tokens, cached_tokens, completion_tokens, estimated, cost, price_source, "
            f"started, seconds) VALUES (?, {of_turn.format('chat_key')}, "
            f"{of_turn.format('user_id')}, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                turn_id,
                turn_id,
                turn_id,
                step.position,
                step.reply,
                step.tail,
                step.model,
                step.prompt_tokens,
                step.cached_tokens,
                step.completion_tokens,
                step.estimated,
                step.cost,
                step.price_source,
                step.started,
                step.seconds,
            ),
        )

    async def steps(self, turn_id: int) -> list[Step]:
        """Get the turn's steps, in order."""
        rows = await self._database.read(
            "SELECT * FROM steps WHERE turn_id = ? ORDER BY position", turn_id
        )
        return [_step(row) for row in rows]

    async def usage(
        self,
        *,
        since: float,
        chat_key: ChatKey | None = None,
        user_id: str | None = None,
        instances: Collection[str] = (),
    ) -> Usage:
        """Return the total usage of the steps that began at ``since`` or later. It is the usage of
        all chats, of a chat with its threads (or of one thread), or of a person. Plugins' requests
        to models for that chat or person are included. A person's id is valid on only one platform,
        so ``instances`` restricts which chats count; if it is empty, all chats count."""
        where = "started >= ?"
        values: list[Value] = [since]
        if chat_key is not None:
            values.append(str(chat_key))
            if chat_key.thread is None:
                threads = f"{chat_key}#"
                where += f" AND (chat_key = ? OR substr(chat_key, 1, {len(threads)}) = ?)"
                values.append(threads)
            else:
                where += " AND chat_key = ?"
        if user_id is not None:
            where += " AND user_id = ?"
            values.append(user_id)
        if instances:
            beginnings = [f"{instance}-" for instance in instances]
            where += (
                f" AND ({' OR '.join(f'substr(chat_key, 1, {len(b)}) = ?' for b in beginnings)})"
            )
            values += beginnings
        (row,) = await self._database.read(
            "SELECT COALESCE(SUM(step), 0) AS steps, COUNT(DISTINCT turn_id) AS turns, "
            "COALESCE(SUM(prompt_tokens), 0) AS prompt, "
            "COALESCE(SUM(completion_tokens), 0) AS completion, COALESCE(SUM(cost), 0.0) AS cost, "
            f"{PRICED} FROM (SELECT 1 AS step, turn_id, prompt_tokens, completion_tokens, cost, "
            f"price_source FROM steps WHERE {where} UNION ALL "
            "SELECT 0, NULL, prompt_tokens, completion_tokens, cost, price_source "
            f"FROM model_uses WHERE {where}) AS used",
            *values,
            *values,
        )
        return Usage(
            turns=int(row["turns"]),
            steps=int(row["steps"]),
            prompt_tokens=int(row["prompt"]),
            completion_tokens=int(row["completion"]),
            cost=row["cost"],
            published_cost=float(row["published_cost"]),
            unpriced=int(row["unpriced"]),
        )


def _turn(row: Row) -> TurnRow:
    return TurnRow(
        turn_id=row["id"],
        chat_key=ChatKey.parse(row["chat_key"]),
        trigger_seq=row["trigger_seq"],
        through_seq=row["through_seq"],
        user_id=row["user_id"],
        running=row["running_chat"] is not None,
        stop=row["stop"],
        attempts=row["attempts"],
        started=row["started"],
        ended=row["ended"],
        model=row["model"],
        failed=bool(row["failed"]),
    )


def _step(row: Row) -> Step:
    return Step(
        position=row["position"],
        reply=row["reply"],
        tail=row["tail"],
        model=row["model"],
        prompt_tokens=row["prompt_tokens"],
        cached_tokens=row["cached_tokens"],
        completion_tokens=row["completion_tokens"],
        estimated=bool(row["estimated"]),
        cost=row["cost"],
        price_source=row["price_source"],
        started=row["started"],
        seconds=row["seconds"],
    )
