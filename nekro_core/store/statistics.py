"""Answers questions about the statistics: sums and latencies by hour, day and month, of the whole
bot or of one chat, person, model, plugin or tool.

The answers come from the rows that `nekro_core.store.statistics_counter` fills, so a question about
a year is answered as fast as one about a day. The sums of a span are added up from the largest
periods that fit into it. Without a time zone, days and months are counted in UTC.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from itertools import pairwise
from typing import Any

from nekro_core.store.database import Database, Row, Value
from nekro_core.store.histogram import LatencySummary, seconds_of, summary_of
from nekro_core.store.statistic_rows import (
    DAY_S,
    HOUR_S,
    MONEY,
    SUMMED,
    Dimension,
    LatencyMeasure,
    Period,
    is_kept,
    period_start,
)
from nekro_core.store.turn_latency import (
    by_period,
    is_of_turns,
    read_latencies,
    summary_of_latencies,
)

_MOST = 1_000
"""Maximum number of rows of a ranking."""
_LONG_S = 62 * DAY_S
"""If a span is longer than this, in seconds, `StatisticsRepository._long_ranking` makes its
ranking."""
_DRAWN_HOURS_S = 31 * DAY_S
"""A span of at most this many seconds may be drawn by hours. A longer span may be drawn by
months."""
_DRAWN_DAYS_S = 3 * 366 * DAY_S
"""A span of more than this many seconds is not drawn by days."""
_CANDIDATES = 80
_FEW_BATCHES = 4
"""Maximum number of batches of `_CANDIDATES` names that are read at first. These batches are almost
always enough."""
_MOST_BATCHES = 50
"""Maximum number of batches of `_CANDIDATES` names that are read at all. If many others used more
over all time, a subject that used much in the span may be missed. Then the end of the ranking is
inexact."""
_TOKENS = "prompt_tokens + completion_tokens"
_SUMMED = {each: each for each in SUMMED}
_SUMS = ", ".join(f"SUM({each}) AS {each}" for each in SUMMED)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatisticsRow:
    """The sums of one period, or of one chat, person, model, plugin or tool.

    Attributes:
        start: When the period began, in seconds since 1970; 0 in a ranking.
        name: What the row is about (`Dimension`); empty for the whole bot and for erased people.
        messages: The number of messages of people.
        sent: The number of messages of the bot.
        turns: The number of turns that have ended.
        errors: How many of the turns ended with an error or at a limit.
        requests: The number of replies of models.
        prompt_tokens: Tokens of the requests.
        cached_tokens: How many of ``prompt_tokens`` came from the provider's cache.
        completion_tokens: Tokens of the replies.
        cost: The cost, in the operator's currency.
        calls: The number of calls of tools in turns.
        call_errors: How many of the calls failed.
        published_cost: The part of ``cost`` that is estimated from published prices, in US dollars.
        unpriced: The number of requests whose price is not known. They count as 0 in ``cost``.
    """

    start: float = 0.0
    name: str = ""
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

    @property
    def tokens(self) -> int:
        """The sum of prompt and completion tokens."""
        return self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyRow:
    """The latencies of one period, which began at ``start`` (seconds since 1970)."""

    start: float
    latency: LatencySummary


class StatisticsRepository:
    """Reads the statistics. All times are seconds since 1970, those of ``clock`` too."""

    def __init__(self, database: Database, clock: Callable[[], float]) -> None:
        self._database = database
        self._clock = clock

    async def series(
        self,
        period: Period,
        *,
        since: float,
        until: float,
        dimension: Dimension = Dimension.ALL,
        name: str = "",
        timezone: tzinfo = UTC,
    ) -> list[StatisticsRow]:
        """Get the sums of each hour, day or month, oldest first, from the period that contains
        ``since`` up to but not including ``until``. Periods without rows are left out.

        Args:
            period: The length of the periods; not `Period.EVER`.
            since: Seconds since 1970.
            until: Seconds since 1970.
            dimension: What the rows are about.
            name: Which chat, person, model, plugin or tool; see `Dimension`.
            timezone: The time zone of the days. Months are counted in UTC, and so are days for
                which there are no rows of single hours (`KEPT_S`).
        """
        finer = period
        hours = self._finest(since, dimension) is Period.HOUR
        if period is Period.DAY and timezone is not UTC and hours:
            finer = Period.HOUR
            since = _day_start(since, timezone)
        rows = await self._database.read(
            f"SELECT start, {', '.join(SUMMED)} FROM statistics WHERE period = ? "
            "AND dimension = ? AND name = ? AND member = '' AND start >= ? AND start < ? "
            "ORDER BY start",
            finer.value,
            dimension.value,
            name,
            period_start(finer, since),
            int(until),
        )
        if finer is period:
            return [_row(row, start=row["start"], name=name) for row in rows]
        days: dict[float, list[Row]] = {}
        for row in rows:
            days.setdefault(_day_start(row["start"], timezone), []).append(row)
        return [_total(start, name, of_day) for start, of_day in days.items()]

    async def totals(
        self,
        *,
        since: float,
        until: float,
        dimension: Dimension = Dimension.ALL,
        name: str = "",
    ) -> StatisticsRow:
        """Get the sums of a span. The span is widened to whole hours. Where the rows of single
        hours were deleted, it is widened to whole days or months of UTC."""
        sql, values = self._cover(since, until, dimension, "AND name = ?", (name,), (), _SUMMED)
        rows = await self._database.read(f"SELECT {_SUMS} FROM ({sql}) AS parts", *values)
        return _row(rows[0], start=0, name=name)

    def periods(
        self, *, since: float, until: float, dimension: Dimension = Dimension.ALL
    ) -> tuple[Period, ...]:
        """Say which periods suit a chart of a span. The span must have at least two such periods
        and not too many, and their rows must be stored for the whole span.

        Args:
            since: Seconds since 1970.
            until: Seconds since 1970.
            dimension: What the rows are about.

        Returns:
            Some of `Period.HOUR`, `Period.DAY` and `Period.MONTH`, the shortest first; at least
            one.
        """
        length, age = until - since, self._clock() - since
        suits = {
            Period.HOUR: length <= _DRAWN_HOURS_S,
            Period.DAY: DAY_S < length <= _DRAWN_DAYS_S,
            Period.MONTH: length > _DRAWN_HOURS_S,
        }
        found = tuple(
            period for period, suit in suits.items() if suit and is_kept(period, dimension, age)
        )
        return found or (Period.MONTH,)

    async def ranking(
        self,
        dimension: Dimension,
        *,
        since: float,
        until: float,
        order: str = "cost",
        limit: int = 50,
    ) -> list[StatisticsRow]:
        """Get the sums of a span for each chat, person, model, plugin or tool, the largest first.

        Args:
            dimension: What to rank; not `Dimension.ALL` or `Dimension.MEMBER`.
            since: Seconds since 1970; see `totals`.
            until: Seconds since 1970.
            order: The sum that decides: the name of a field of `StatisticsRow`, or ``tokens``.
            limit: Maximum number of rows, at most 1,000.

        Raises:
            ValueError: There is no such sum.
        """
        if order not in (*SUMMED, "tokens"):
            raise ValueError(f"order {order!r}: expected one of {', '.join((*SUMMED, 'tokens'))}")
        limit = max(1, min(limit, _MOST))
        if until - since > _LONG_S:
            return await self._long_ranking(dimension, since, until, order, limit)
        measure = _TOKENS if order == "tokens" else order
        sql, values = self._cover(since, until, dimension, "", (), ("name",), {"ranked": measure})
        rows = await self._database.read(
            f"SELECT name, SUM(ranked) AS ranked FROM ({sql}) AS parts GROUP BY name "
            "ORDER BY 2 DESC, name LIMIT ?",
            *values,
            limit,
        )
        found = await self._sums(dimension, since, until, [row["name"] for row in rows])
        return sorted(found, key=lambda row: (-getattr(row, order), row.name))

    async def _long_ranking(
        self, dimension: Dimension, since: float, until: float, order: str, limit: int
    ) -> list[StatisticsRow]:
        """Rank a long span without reading all its rows. A chat, person or other subject cannot
        have used more in the span than over all time. So the subjects are read in the order of
        their use over all time, until no further subject can be in the ranking."""
        found, exact = await self._most_used(dimension, since, until, order, limit, _FEW_BATCHES)
        if not exact:
            found, _ = await self._most_used(dimension, since, until, order, limit, _MOST_BATCHES)
        return found

    async def _most_used(
        self,
        dimension: Dimension,
        since: float,
        until: float,
        order: str,
        limit: int,
        batches: int,
    ) -> tuple[list[StatisticsRow], bool]:
        """Rank the subjects that used most over all time, ``batches`` times `_CANDIDATES` of them.
        Returns the ranking, and whether it is exact."""
        measure = _TOKENS if order == "tokens" else order
        most = _CANDIDATES * batches
        rows = await self._database.read(
            f"SELECT name, {measure} AS ranked FROM statistics WHERE period = ? AND dimension = ? "
            f"AND {measure} > 0 ORDER BY 2 DESC LIMIT ?",
            Period.EVER.value,
            dimension.value,
            most,
        )
        found: list[StatisticsRow] = []
        for at in range(0, len(rows), _CANDIDATES):
            names = [row["name"] for row in rows[at : at + _CANDIDATES]]
            found += await self._sums(dimension, since, until, names)
            found.sort(key=lambda row: (-getattr(row, order), row.name))
            del found[limit:]
            further = rows[at + _CANDIDATES]["ranked"] if at + _CANDIDATES < len(rows) else None
            if further is None:
                break
            if len(found) == limit and getattr(found[-1], order) >= further:
                return found, True
        return found, len(rows) < most

    async def _sums(
        self, dimension: Dimension, since: float, until: float, names: list[str]
    ) -> list[StatisticsRow]:
        """Get the sums of a span for these names. Names without rows are left out."""
        if not names:
            return []
        condition = f"AND member = '' AND name IN ({', '.join('?' * len(names))})"
        sql, values = self._cover(
            since, until, dimension, condition, tuple(names), ("name",), _SUMMED
        )
        rows = await self._database.read(
            f"SELECT name, {_SUMS} FROM ({sql}) AS parts GROUP BY name", *values
        )
        # A subject may have done something only before the span. Its row has only zeros and is left
        # out.
        return [
            _row(row, start=0, name=row["name"])
            for row in rows
            if any(row[each] for each in SUMMED if each not in MONEY)
        ]

    async def latency(
        self,
        measure: LatencyMeasure,
        *,
        since: float,
        until: float,
        dimension: Dimension = Dimension.ALL,
        name: str = "",
    ) -> LatencySummary:
        """Get the median and the 95th percentile of a span; see `totals`."""
        if is_of_turns(dimension, measure):
            found = await read_latencies(
                self._database,
                measure,
                since=since,
                until=until,
                dimension=dimension,
                name=name,
            )
            return summary_of_latencies(seconds for _, seconds in found)
        sql, values = self._cover(
            since,
            until,
            dimension,
            "AND name = ? AND measure = ?",
            (name, measure.value),
            ("bucket",),
            {"number": "number"},
            table="latencies",
        )
        rows = await self._database.read(
            f"SELECT bucket, SUM(number) AS number FROM ({sql}) AS parts GROUP BY bucket", *values
        )
        return summary_of({row["bucket"]: int(row["number"]) for row in rows if row["number"]})

    async def latency_series(
        self,
        measure: LatencyMeasure,
        period: Period,
        *,
        since: float,
        until: float,
        dimension: Dimension = Dimension.ALL,
        name: str = "",
    ) -> list[LatencyRow]:
        """Get the latencies of each hour, day or month of UTC, oldest first."""
        if is_of_turns(dimension, measure):
            found = await read_latencies(
                self._database,
                measure,
                since=period_start(period, since),
                until=until,
                dimension=dimension,
                name=name,
            )
            return [
                LatencyRow(start=start, latency=latency)
                for start, latency in by_period(found, period)
            ]
        passed = "MIN(CASE WHEN passed * 100 >= total * {} THEN bucket END)"
        rows = await self._database.read(
            f"SELECT start, MAX(total) AS total, {passed.format(50)} AS p50, "
            f"{passed.format(95)} AS p95 FROM (SELECT start, bucket, "
            "SUM(number) OVER (PARTITION BY start ORDER BY bucket) AS passed, "
            "SUM(number) OVER (PARTITION BY start) AS total "
            "FROM latencies WHERE period = ? AND dimension = ? AND name = ? AND measure = ? "
            "AND start >= ? AND start < ?) AS cumulated GROUP BY start ORDER BY start",
            period.value,
            dimension.value,
            name,
            measure.value,
            period_start(period, since),
            int(until),
        )
        return [
            LatencyRow(
                start=row["start"],
                latency=LatencySummary(
                    number=int(row["total"]),
                    p50=seconds_of(row["p50"]),
                    p95=seconds_of(row["p95"]),
                ),
            )
            for row in rows
        ]

    def _finest(self, since: float, dimension: Dimension) -> Period:
        """Return the shortest period for which there are rows since this time."""
        age = self._clock() - since
        kept = (each for each in Period if is_kept(each, dimension, age))
        return next(kept, Period.MONTH)

    def _cover(
        self,
        since: float,
        until: float,
        dimension: Dimension,
        condition: str,
        values: tuple[Value, ...],
        columns: Sequence[str],
        sums: Mapping[str, str],
        *,
        table: str = "statistics",
    ) -> tuple[str, list[Value]]:
        """Return a SELECT of a few rows that together make up a span, and its values. ``sums`` has
        the columns to be added up, by their new names. If a row must be subtracted, the SELECT
        negates its columns."""
        parts = self._parts(since, until, dimension)
        bound: list[Value] = []
        selects = []
        for sign, period, begin, end in parts:
            summed = (f"{sign}({column}) AS {name}" for name, column in sums.items())
            selects.append(
                f"SELECT {', '.join((*columns, *summed))} FROM {table} "
                f"WHERE period = ? AND dimension = ? {condition} AND start >= ? AND start < ?"
            )
            bound += [period.value, dimension.value, *values, begin, end]
        return " UNION ALL ".join(selects), bound

    def _parts(
        self, since: float, until: float, dimension: Dimension
    ) -> list[tuple[str, Period, int, int]]:
        """Cut a span as `spans` does, but into fewer rows. If the span ends now, the present month
        is one row. If the span begins late in a month, the first part is that whole month, and the
        days before the span are subtracted. Each part has a sign: it is added or subtracted."""
        now, finest = self._clock(), self._finest(since, dimension)
        if _round_up(finest, until) >= now:
            until = _round_up(Period.MONTH, until)
        begin = period_start(finest, since)
        month, first = period_start(Period.MONTH, begin), _round_up(Period.DAY, begin)
        further = _round_up(Period.MONTH, begin)
        late = first - month < further - first and is_kept(Period.DAY, dimension, now - month)
        if finest is Period.MONTH or not late or further > period_start(Period.MONTH, until):
            return [("", *part) for part in spans(since, until, finest=finest)]
        parts = [
            ("", Period.HOUR, begin, first),
            ("", Period.MONTH, month, further),
            ("-", Period.DAY, month, first),
        ]
        parts += (("", *part) for part in spans(further, until, finest=finest))
        return [part for part in parts if part[2] < part[3]]


def spans(since: float, until: float, *, finest: Period) -> Iterator[tuple[Period, int, int]]:
    """Cut a span into months, days and hours. Each part is a period with the start of its first row
    and the end of its last row. The first and last row may reach beyond the span."""
    begin, end = period_start(finest, since), _round_up(finest, until)
    inner = [begin, _round_up(Period.DAY, begin), _round_up(Period.MONTH, begin)]
    outer = [period_start(Period.MONTH, end), period_start(Period.DAY, end), end]
    if inner[2] <= outer[0]:
        cuts = [*inner, *outer]
        kinds = [Period.HOUR, Period.DAY, Period.MONTH, Period.DAY, Period.HOUR]
    elif inner[1] <= outer[1]:
        cuts = [inner[0], inner[1], outer[1], outer[2]]
        kinds = [Period.HOUR, Period.DAY, Period.HOUR]
    else:
        cuts, kinds = [begin, end], [Period.HOUR]
    found = False
    for period, (first, last) in zip(kinds, pairwise(cuts), strict=True):
        if first < last:
            found = True
            yield period, first, last
    if not found:
        yield finest, begin, begin


def _round_up(period: Period, at: float) -> int:
    start = period_start(period, at)
    if start == at:
        return start
    match period:
        case Period.HOUR:
            return start + HOUR_S
        case Period.DAY:
            return start + DAY_S
        case _:
            return period_start(Period.MONTH, start + 32 * DAY_S)


def _day_start(at: float, timezone: tzinfo) -> float:
    """Return when the day that contains this time began in the time zone."""
    day = datetime.fromtimestamp(at, timezone)
    return day.replace(hour=0, minute=0, second=0, microsecond=0).timestamp()


def _row(row: Row, *, start: float, name: str) -> StatisticsRow:
    sums: dict[str, Any] = {
        # Sums of money are rounded, because adding and subtracting the same amount can leave a tiny
        # fraction.
        each: max(0.0, round(float(row[each] or 0.0), 9)) if each in MONEY else int(row[each] or 0)
        for each in SUMMED
    }
    return StatisticsRow(start=float(start), name=name, **sums)


def _total(start: float, name: str, rows: list[Row]) -> StatisticsRow:
    sums = {each: sum(row[each] for row in rows) for each in SUMMED}
    return StatisticsRow(start=start, name=name, **sums)
