"""Reads how long the turns of one chat or one person took, from the rows of the turns.

The statistics count latencies of the whole bot, of models and of tools. If the statistics counted
latencies for each chat and each person too, these rows would take half as much space as the
messages. Instead the latencies of one chat or person are read from the stored turns, which are few
enough. How long turns are stored is a setting (`nekro_core.store.settings`).
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from nekro_core.store.database import Database, Value
from nekro_core.store.histogram import LatencySummary
from nekro_core.store.statistic_rows import Dimension, LatencyMeasure, Period, period_start

MOST_TURNS = 20_000
"""Maximum number of turns that are read. If a span has more turns, only the newest are read. The
busiest of 5,000 chats has 12,000 in a year, which takes 30 ms."""

_COLUMNS = {LatencyMeasure.TURN: "ended - started", LatencyMeasure.FIRST_WORDS: "first_words"}


def is_of_turns(dimension: Dimension, measure: LatencyMeasure) -> bool:
    """Return True if this module reads these latencies, and not the statistics."""
    return dimension in (Dimension.CHAT, Dimension.PERSON) and measure in _COLUMNS


async def read_latencies(
    database: Database,
    measure: LatencyMeasure,
    *,
    since: float,
    until: float,
    dimension: Dimension,
    name: str,
) -> list[tuple[float, float]]:
    """Get when each turn began, in seconds since 1970, and its latency in seconds, newest turn
    first. These are the turns that began from ``since`` up to but not including ``until``, at most
    `MOST_TURNS` of them. Turns without this latency are left out. See `is_of_turns`."""
    column = _COLUMNS[measure]
    where, values = _of(dimension, name)
    rows = await database.read(
        f"SELECT started, {column} AS seconds FROM turns WHERE {where} "
        f"AND running_chat IS NULL AND {column} IS NOT NULL AND started >= ? AND started < ? "
        "ORDER BY id DESC LIMIT ?",
        *values,
        since,
        until,
        MOST_TURNS,
    )
    return [(row["started"], row["seconds"]) for row in rows]


def summary_of_latencies(latencies: Iterable[float]) -> LatencySummary:
    """Summarize latencies. These percentiles are exact."""
    ordered = sorted(latencies)
    if not ordered:
        return LatencySummary()
    return LatencySummary(
        number=len(ordered), p50=_percentile(ordered, 50), p95=_percentile(ordered, 95)
    )


def by_period(
    latencies: Iterable[tuple[float, float]], period: Period
) -> list[tuple[int, LatencySummary]]:
    """Summarize the latencies of each period of UTC, oldest first."""
    found: defaultdict[int, list[float]] = defaultdict(list)
    for started, seconds in latencies:
        found[period_start(period, started)].append(seconds)
    return [(start, summary_of_latencies(found[start])) for start in sorted(found)]


def _of(dimension: Dimension, name: str) -> tuple[str, Sequence[Value]]:
    if dimension is Dimension.CHAT:
        return "chat_key = ?", (name,)
    instance, _, user_id = name.partition(":")
    # The keys of an instance's chats begin with the instance and "-". "." is the character after
    # "-". So all keys with this beginning are in the range from "-" to ".".
    return "user_id = ? AND chat_key >= ? AND chat_key < ?", (
        user_id,
        f"{instance}-",
        f"{instance}.",
    )


def _percentile(ordered: Sequence[float], percent: int) -> float:
    return ordered[(len(ordered) * percent + 99) // 100 - 1]
