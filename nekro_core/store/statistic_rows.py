"""Adds counts to the rows of the statistics."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from enum import StrEnum
from types import MappingProxyType

from nekro_core.store.database import SqlStatement, Value
from nekro_core.store.histogram import bucket_of

HOUR_S = 3600
DAY_S = 86_400
_ROWS = 100
"""Maximum number of rows in one statement."""


class Period(StrEnum):
    """The length of the time that one row of the statistics sums up. Days and months are counted in
    UTC."""

    HOUR = "hour"
    DAY = "day"
    MONTH = "month"
    EVER = "ever"


class Dimension(StrEnum):
    """What a row of the statistics is about. The comment of each member says what the column
    ``name`` contains."""

    ALL = "all"
    """The whole bot. The name is empty."""
    CHAT = "chat"
    """A chat. The name is its key. For private chats of erased people, the name is empty."""
    PERSON = "person"
    """A person. The name is ``instance:user_id``. For erased people, it is empty."""
    MODEL = "model"
    """A model. The name is the model's name."""
    PLUGIN = "plugin"
    """A plugin that asked a model. The name is the plugin's key."""
    TOOL = "tool"
    """A tool. The name is the tool's name."""
    MEMBER = "member"
    """A person in one chat. The name is the chat key, and the column ``member`` has the person.
    There are only rows of the period `Period.EVER`."""


class LatencyMeasure(StrEnum):
    """What a latency measures."""

    FIRST_WORDS = "first_words"
    """The time from the beginning of a turn to its first message for the platform. It is known for
    the whole bot, for each chat and for each person."""
    TURN = "turn"
    """The time of a whole turn. It is known for the whole bot, for each chat and for each
    person."""
    REQUEST = "request"
    """The time of one reply of a model. It is known for the whole bot, for each model and for each
    plugin that asked one."""
    CALL = "call"
    """The time of one call of a tool. It is known for the whole bot and for each tool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """The columns of a row that are added up."""

    messages: int = 0
    sent: int = 0
    turns: int = 0
    errors: int = 0
    requests: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    calls: int = 0
    call_errors: int = 0
    published_cost: float = 0.0
    unpriced: int = 0

    def parts(self) -> list[tuple[int, float]]:
        """Return the columns that are not 0, by their number in `SUMMED`."""
        values = (getattr(self, name) for name in SUMMED)
        return [(number, value) for number, value in enumerate(values) if value]


KEPT_S: Mapping[tuple[Period, Dimension], float] = MappingProxyType(
    {
        (Period.HOUR, Dimension.CHAT): 31 * DAY_S,
        (Period.HOUR, Dimension.PERSON): 0.0,
        (Period.HOUR, Dimension.MODEL): 92 * DAY_S,
        (Period.HOUR, Dimension.PLUGIN): 92 * DAY_S,
        (Period.HOUR, Dimension.TOOL): 92 * DAY_S,
        (Period.DAY, Dimension.CHAT): 400 * DAY_S,
        (Period.DAY, Dimension.PERSON): 92 * DAY_S,
    }
)
"""How many seconds rows are kept, by period and dimension. Rows that are not named here stay for
ever. Without these limits the statistics of a million messages would take more space than the
messages."""


def is_kept(period: Period, dimension: Dimension, age_s: float) -> bool:
    """Return True if a period of this age, in seconds, still has a row."""
    kept = KEPT_S.get((period, dimension))
    return kept is None or age_s < kept


SUMMED = tuple(each.name for each in fields(Sums))
MONEY = ("cost", "published_cost")
"""The columns of `SUMMED` that are not whole numbers."""
KEY = ("period", "dimension", "name", "member", "start")
LATENCY_KEY = ("period", "dimension", "name", "measure", "start", "bucket")
Subject = tuple[Dimension, str]
"""What a row of the statistics is about (`Dimension`), and its name."""


def period_start(period: Period, at: float) -> int:
    """Return the beginning of the period that contains this time, in seconds since 1970."""
    match period:
        case Period.HOUR:
            return int(at // HOUR_S) * HOUR_S
        case Period.DAY:
            return int(at // DAY_S) * DAY_S
        case Period.MONTH:
            day = datetime.fromtimestamp(at, UTC)
            return int(datetime(day.year, day.month, 1, tzinfo=UTC).timestamp())
        case Period.EVER:
            return 0


@dataclass(slots=True)
class Increments:
    """Collects counts that will be added to the rows. ``now`` is the present time, in seconds since
    1970. Periods that are too old at this time (see `KEPT_S`) get no row."""

    now: float
    _sums: dict[tuple[Value, ...], list[float]] = field(default_factory=dict)
    _latencies: Counter[tuple[Value, ...]] = field(default_factory=Counter)

    def count(self, at: float, subjects: Sequence[Subject], sums: Sums) -> None:
        """Add ``sums`` to the rows of these subjects, and to the rows of the whole bot, in all
        periods that contain the time ``at`` (seconds since 1970)."""
        parts = sums.parts()
        for period in Period:
            start = period_start(period, at)
            self._add((period, Dimension.ALL, "", "", start), parts)
            for dimension, name in subjects:
                if is_kept(period, dimension, self.now - at):
                    self._add((period, dimension, name, "", start), parts)

    def count_member(self, chat_key: str, user_id: str, sums: Sums) -> None:
        """Add ``sums`` to the row of a person in a chat."""
        self._add((Period.EVER, Dimension.MEMBER, chat_key, user_id, 0), sums.parts())

    def _add(self, key: tuple[Value, ...], parts: list[tuple[int, float]]) -> None:
        row = self._sums.get(key)
        if row is None:
            row = self._sums[key] = [0.0 if name in MONEY else 0 for name in SUMMED]
        for number, value in parts:
            row[number] += value

    def count_latency(
        self, at: float, subjects: Sequence[Subject], measure: LatencyMeasure, seconds: float
    ) -> None:
        """Add a latency to the rows of these subjects, and to the rows of the whole bot."""
        bucket = bucket_of(seconds)
        for period in (Period.HOUR, Period.DAY, Period.MONTH):
            start = period_start(period, at)
            self._latencies[period, Dimension.ALL, "", measure, start, bucket] += 1
            for dimension, name in subjects:
                if is_kept(period, dimension, self.now - at):
                    self._latencies[period, dimension, name, measure, start, bucket] += 1

    def statements(self) -> Iterator[SqlStatement]:
        """Return the statements that add everything to the rows."""
        rows = [(*_texts(key), *sums) for key, sums in self._sums.items()]
        yield from adding("statistics", KEY, SUMMED, rows)
        latencies = [(*_texts(key), number) for key, number in self._latencies.items()]
        yield from adding("latencies", LATENCY_KEY, ("number",), latencies)


def _texts(key: tuple[Value, ...]) -> tuple[Value, ...]:
    """Return a key with plain texts instead of members of an enumeration, which asyncpg refuses."""
    return tuple(str(each) if isinstance(each, str) else each for each in key)


def adding(
    table: str, key: Sequence[str], summed: Sequence[str], rows: Sequence[tuple[Value, ...]]
) -> Iterator[SqlStatement]:
    """Return the statements that add rows to a table. Rows with the same key are added up."""
    one = f"({', '.join('?' * (len(key) + len(summed)))})"
    for at in range(0, len(rows), _ROWS):
        part = rows[at : at + _ROWS]
        yield SqlStatement(
            f"INSERT INTO {table} ({', '.join((*key, *summed))}) "
            f"VALUES {', '.join([one] * len(part))} {on_conflict_add(table, key, summed)}",
            tuple(value for row in part for value in row),
        )


def on_conflict_add(table: str, key: Sequence[str], summed: Sequence[str]) -> str:
    """Return the end of an ``INSERT`` statement. If a row with the same key exists, the new numbers
    are added to that row."""
    added = ", ".join(f"{each} = {table}.{each} + excluded.{each}" for each in summed)
    return f"ON CONFLICT ({', '.join(key)}) DO UPDATE SET {added}"


def anonymized(where: str, values: Sequence[Value]) -> Iterator[SqlStatement]:
    """Return the statements that remove the name from all rows that fulfil a condition. Their sums
    are added to the rows without a name. The condition may use ``dimension`` and ``name``."""
    for table, key, summed in (
        ("statistics", KEY, SUMMED),
        ("latencies", LATENCY_KEY, ("number",)),
    ):
        nameless = ["''" if each in ("name", "member") else each for each in key]
        grouped = [each for each in key if each not in ("name", "member")]
        sums = [f"SUM({each})" for each in summed]
        yield SqlStatement(
            f"INSERT INTO {table} ({', '.join((*key, *summed))}) "
            f"SELECT {', '.join((*nameless, *sums))} FROM {table} WHERE name <> '' AND {where} "
            f"GROUP BY {', '.join(grouped)} {on_conflict_add(table, key, summed)}",
            tuple(values),
        )
        yield SqlStatement(f"DELETE FROM {table} WHERE name <> '' AND {where}", tuple(values))
