"""Counts messages, turns and requests to models for the statistics: a limited number of rows (a
slice) at a time.

The new counts are stored in the same transaction as the information which rows were counted. So a
row is never counted twice, even if the process is killed. If several processes share the database,
all of them count. Two processes may count the same slice, but only the first can store its counts.
Rows from before the statistics existed are counted in the same way as new rows. Storing a message
or ending a turn does not wait for the counting: new rows are in the statistics within a few
seconds.
"""

from collections import defaultdict
from collections.abc import Callable

import anyio
from loguru import logger

from nekro_core.store.database import Database, Row, Rows, SqlStatement, WriteGuard
from nekro_core.store.errors import GuardFailed, StoreError
from nekro_core.store.messages import ABOVE_ALL, MessageRepository
from nekro_core.store.statistic_rows import Dimension, Increments, LatencyMeasure, Subject, Sums

_MESSAGES = 200
"""Number of messages in a slice. Counting a slice takes about 10 ms."""
_TURNS = 40
_USES = 300
_SETTLED_S = 2.0
"""A message gets its number a moment before it is stored. So a message is counted only after this
many seconds. By then, all messages with smaller numbers are stored too."""
_SHARED_SETTLED_S = 10.0
"""In a shared database, a request is counted only after this many seconds. By then, all
transactions that had begun before are over, also those of a process that stopped in a transaction:
the server ends its connection after 2 s."""
_ROUND_S = 5.0
_PAUSE_S = 0.02
_AFTER_FAULT_S = 60.0
ERASURES = "erasures"
"""The name of the row of the table ``counted`` that has the number of erasures of persons. Only a
shared database has this row."""
_GOOD_STOPS = frozenset({"finished", "stopped", "recalled", "too_old", "switched_off"})
"""Reasons for the end of a turn that are not errors."""


class StatisticsCounter:
    """Counts new rows. ``clock`` returns seconds since 1970."""

    def __init__(
        self, database: Database, messages: MessageRepository, clock: Callable[[], float]
    ) -> None:
        self._database = database
        self._messages = messages
        self._clock = clock
        self._counted: dict[str, int] = {}
        self._nobody_erased: tuple[WriteGuard, ...] = ()
        self.pause = anyio.Lock()
        """Hold this lock while you remove a person from the rows. While the lock is held, nothing
        is counted. So the person is not written into the statistics again."""
        self._settled = self._given = messages.last_seq
        self._given_at = clock()
        self._settled_uses = self._newest_use = 0
        self._newest_use_at = clock()

    async def follow(self) -> None:
        """Count until cancelled."""
        while True:
            pause = _PAUSE_S
            try:
                if not await self.count_slice():
                    pause = _ROUND_S
            except StoreError as error:
                logger.warning("the statistics pause: {}", error)
                pause = _AFTER_FAULT_S
            await anyio.sleep(pause)

    async def count_slice(self, *, times: int = 1) -> bool:
        """Count the next slice. With ``times``, the slice is this many times as large. Returns True
        if there may be more rows to count. Raises `StoreError`. A later call counts the rows that
        were not counted because of the error."""
        async with self.pause:
            try:
                await self._look_at_erasures()
                messages = await self._count_messages(_MESSAGES * times)
                turns = await self._count_turns(_TURNS * times)
                return await self._count_uses(_USES * times) or messages or turns
            except GuardFailed:
                # Another process has counted these rows, or has erased a person from them. Read
                # again what was counted.
                self._counted.clear()
                return True

    async def _look_at_erasures(self) -> None:
        """In a shared database, note the number of erasures before the rows are read. If the number
        has grown when the counts are stored, the counts may contain the person who was erased
        meanwhile. So the transaction that stores them is refused. An erasure that begins during
        this transaction waits until the transaction is over."""
        if not self._database.shared:
            return
        sql = "SELECT through FROM counted WHERE name = ?"
        rows = await self._database.read(sql, ERASURES)
        if not rows:
            await self._database.write(
                SqlStatement(
                    "INSERT INTO counted (name, through) VALUES (?, 0) ON CONFLICT DO NOTHING",
                    (ERASURES,),
                )
            )
            rows = await self._database.read(sql, ERASURES)
        unchanged = SqlStatement(
            f"{sql} AND through = ? FOR SHARE", (ERASURES, int(rows[0]["through"]))
        )
        self._nobody_erased = (WriteGuard(unchanged),)

    async def backlog(self) -> int:
        """Return the approximate number of messages and turns that are not counted yet. The number
        is large if a database from before the statistics existed is opened for the first time."""
        through = await self._through("messages")
        (row,) = await self._database.read(
            "SELECT COUNT(*) AS number FROM turns WHERE counted = ? AND running_chat IS NULL", False
        )
        return max(self._messages.last_seq - through, 0) + int(row["number"])

    async def _through(self, table: str) -> int:
        if table not in self._counted:
            rows = await self._database.read("SELECT through FROM counted WHERE name = ?", table)
            self._counted[table] = rows[0]["through"] if rows else 0
        return self._counted[table]

    async def _note(self, table: str, through: int, increments: Increments) -> None:
        noted = SqlStatement(
            "INSERT INTO counted (name, through) VALUES (?, ?) ON CONFLICT (name) DO UPDATE "
            "SET through = excluded.through WHERE counted.through = ? RETURNING name",
            (table, through, await self._through(table)),
        )
        await self._database.write(
            *increments.statements(), guards=(WriteGuard(noted), *self._nobody_erased)
        )
        self._counted[table] = through

    async def _settle(self) -> int:
        """Return the highest message number that was given out at least `_SETTLED_S` ago. In a
        shared database, messages get their numbers when they are stored, so there is no wait."""
        if self._database.shared:
            return await self._messages.newest_seq()
        now = self._clock()
        if abs(now - self._given_at) >= _SETTLED_S:
            self._settled, self._given = self._given, self._messages.last_seq
            self._given_at = now
        return self._settled

    async def _settle_uses(self) -> int:
        """Return the highest id of a request that may be counted now. If the database is not
        shared, all stored requests may be counted. In a shared database, a transaction of another
        process may store a request with a lower id later. So only ids are returned below which no
        request can appear any more."""
        if not self._database.shared:
            return ABOVE_ALL
        now = self._clock()
        if abs(now - self._newest_use_at) >= _SHARED_SETTLED_S:
            self._settled_uses, self._newest_use_at = self._newest_use, now
            (row,) = await self._database.read(
                "SELECT COALESCE(MAX(id), 0) AS newest FROM model_uses"
            )
            self._newest_use = int(row["newest"])
        return self._settled_uses

    async def _count_messages(self, limit: int) -> bool:
        settled, through = await self._settle(), await self._through("messages")
        if settled <= through:
            return False
        rows = await self._database.read(
            "SELECT seq, chat_key, instance, author, user_id, time FROM messages "
            "WHERE seq > ? AND seq <= ? ORDER BY seq LIMIT ?",
            through,
            settled,
            limit,
        )
        increments = Increments(self._clock())
        for row in rows:
            _count_message(increments, row)
        whole = len(rows) == limit
        await self._note("messages", rows[-1]["seq"] if whole else settled, increments)
        return whole

    async def _count_turns(self, limit: int) -> bool:
        turns = await self._database.read(
            "SELECT id, chat_key, user_id, stop, started, ended FROM turns "
            "WHERE counted = ? AND running_chat IS NULL ORDER BY id LIMIT ?",
            False,
            limit,
        )
        if not turns:
            return False
        ids = [turn["id"] for turn in turns]
        marks = ", ".join("?" * len(ids))
        steps = await self._database.read(f"SELECT * FROM steps WHERE turn_id IN ({marks})", *ids)
        calls = await self._database.read(
            "SELECT r.turn_id, c.name, c.outcome, c.started, c.seconds FROM runs r "
            f"JOIN tool_calls c ON c.run_id = r.run_id WHERE r.turn_id IN ({marks})",
            *ids,
        )
        sent = await self._database.read(
            "SELECT r.turn_id, MIN(d.created) AS first FROM runs r "
            f"JOIN deliveries d ON d.run_id = r.run_id WHERE r.turn_id IN ({marks}) "
            "GROUP BY r.turn_id",
            *ids,
        )
        increments, of_turn = Increments(self._clock()), _by_turn(steps, calls)
        first = {row["turn_id"]: row["first"] for row in sent}
        for turn in turns:
            _count_turn(increments, turn, of_turn[turn["id"]], first.get(turn["id"]))
        counted = SqlStatement(
            f"UPDATE turns SET counted = ? WHERE id IN ({marks}) AND counted = ? RETURNING id",
            (True, *ids, False),
        )
        await self._database.write(
            *increments.statements(),
            *(
                SqlStatement(
                    "UPDATE turns SET first_words = ? WHERE id = ?",
                    (first[turn["id"]] - turn["started"], turn["id"]),
                )
                for turn in turns
                if turn["id"] in first
            ),
            guards=(WriteGuard(counted, rows=len(ids)), *self._nobody_erased),
        )
        return len(turns) == limit

    async def _count_uses(self, limit: int) -> bool:
        through = await self._through("model_uses")
        rows = await self._database.read(
            "SELECT * FROM model_uses WHERE id > ? AND id <= ? ORDER BY id LIMIT ?",
            through,
            await self._settle_uses(),
            limit,
        )
        if not rows:
            return False
        increments = Increments(self._clock())
        for row in rows:
            plugin: Subject = (Dimension.PLUGIN, row["plugin"])
            _count_request(increments, row, (*_subjects(row), plugin), slow=(plugin,))
        await self._note("model_uses", rows[-1]["id"], increments)
        return len(rows) == limit


_StepsAndCalls = tuple[list[Row], list[Row]]


def _by_turn(steps: Rows, calls: Rows) -> defaultdict[int, _StepsAndCalls]:
    found: defaultdict[int, _StepsAndCalls] = defaultdict(lambda: ([], []))
    for step in steps:
        found[step["turn_id"]][0].append(step)
    for call in calls:
        found[call["turn_id"]][1].append(call)
    return found


def _subjects(row: Row) -> tuple[Subject, ...]:
    """Return the chat and the person of a row. The person is empty in rows of erased people, and
    the chat is empty if it was their private chat."""
    chat, user = row["chat_key"], row["user_id"]
    subjects: tuple[Subject, ...] = ((Dimension.CHAT, chat),) if chat else ()
    if chat and user:
        instance = chat.partition("-")[0]
        subjects += ((Dimension.PERSON, f"{instance}:{user}"),)
    return subjects


def _count_message(increments: Increments, row: Row) -> None:
    if row["author"] == "person":
        sums = Sums(messages=1)
        increments.count(row["time"], _subjects(row), sums)
        if row["user_id"]:
            increments.count_member(row["chat_key"], row["user_id"], sums)
    elif row["author"] == "bot":
        increments.count(row["time"], ((Dimension.CHAT, row["chat_key"]),), Sums(sent=1))


def _count_turn(
    increments: Increments, turn: Row, of_turn: _StepsAndCalls, first: float | None
) -> None:
    started, subjects = turn["started"], _subjects(turn)
    sums = Sums(turns=1, errors=int(turn["stop"] not in _GOOD_STOPS))
    increments.count(started, subjects, sums)
    _count_of_member(increments, turn, sums)
    increments.count_latency(started, (), LatencyMeasure.TURN, turn["ended"] - started)
    if first is not None:
        increments.count_latency(started, (), LatencyMeasure.FIRST_WORDS, first - started)
    steps, calls = of_turn
    for step in steps:
        _count_request(increments, step, subjects)
    for call in calls:
        tool: Subject = (Dimension.TOOL, call["name"][:_MOST_NAME])
        made = Sums(calls=1, call_errors=int(call["outcome"] != "ok"))
        increments.count(call["started"], (*subjects, tool), made)
        increments.count_latency(call["started"], (tool,), LatencyMeasure.CALL, call["seconds"])


def _count_request(
    increments: Increments,
    row: Row,
    subjects: tuple[Subject, ...],
    *,
    slow: tuple[Subject, ...] = (),
) -> None:
    """Count a step of a turn, or a plugin's request. The latency of the reply is counted for the
    whole bot, for the model, and for each subject in ``slow``."""
    sums = Sums(
        requests=1,
        prompt_tokens=row["prompt_tokens"],
        cached_tokens=row["cached_tokens"],
        completion_tokens=row["completion_tokens"],
        cost=row["cost"],
        published_cost=row["cost"] if row["price_source"] == "published" else 0.0,
        unpriced=int(row["price_source"] == "unknown"),
    )
    model: Subject = (Dimension.MODEL, row["model"][:_MOST_NAME])
    increments.count(row["started"], (*subjects, model), sums)
    increments.count_latency(row["started"], (model, *slow), LatencyMeasure.REQUEST, row["seconds"])
    _count_of_member(increments, row, sums)


def _count_of_member(increments: Increments, row: Row, sums: Sums) -> None:
    if row["chat_key"] and row["user_id"]:
        increments.count_member(row["chat_key"], row["user_id"], sums)


_MOST_NAME = 255
"""Maximum number of characters of the name of a model or a tool in the statistics."""
