"""Shows what the bot did and what it cost: by hour, day and month, and by chat, person, model,
plugin and tool."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import Field

from nekro_core.chat import ChatKey, ChatKeyError
from nekro_core.operator.actions import Area, query
from nekro_core.operator.audit import AuditLog
from nekro_core.operator.errors import InvalidParameters
from nekro_core.operator.roles import AccessRole, Actor
from nekro_core.store import (
    Dimension,
    LatencyMeasure,
    LatencyRow,
    LatencySummary,
    Period,
    StatisticsRow,
    Store,
)
from nekro_core.system.csv_text import csv_of
from nekro_core.timers.schedule import zone_of

Time = Annotated[float, Field(ge=0, le=1e11, allow_inf_nan=False)]
_SUMS = (
    "messages",
    "sent",
    "turns",
    "errors",
    "requests",
    "prompt_tokens",
    "cached_tokens",
    "completion_tokens",
    "cost",
    "calls",
    "call_errors",
    "published_cost",
    "unpriced",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedView:
    """One line of a ranking.

    Attributes:
        label: The text that the page shows: the name of the chat or person, if known, otherwise
            ``sums.name``.
        sums: What this chat, person, model, plugin or tool used.
    """

    label: str
    sums: StatisticsRow


@dataclass(frozen=True, slots=True, kw_only=True)
class TodayView:
    """What the bot did today.

    Attributes:
        since: When the day began in the time zone of the bot's machine, in seconds since 1970.
        sums: The sums of the day.
        first_words: The latencies until the first words of the day's answers.
        ever: The sums of all time.
    """

    since: float
    sums: StatisticsRow
    first_words: LatencySummary
    ever: StatisticsRow


class Statistics(Area):
    """What the bot did and what it cost.

    Args:
        audit: The audit log.
        store: The store.
        wall: Returns the current time, in seconds since 1970.
    """

    name = "statistics"

    def __init__(self, audit: AuditLog, store: Store, wall: Callable[[], float]) -> None:
        super().__init__(audit)
        self._store = store
        self._wall = wall

    @query(role=AccessRole.VIEWER)
    async def today(self, actor: Actor) -> TodayView:  # noqa: ARG002
        """Sum up the present day of the bot's machine."""
        now = self._wall()
        begin = datetime.fromtimestamp(now, _zone("local")).replace(
            hour=0, minute=0, second=0, microsecond=0
        )
        since, statistics = begin.timestamp(), self._store.statistics
        return TodayView(
            since=since,
            sums=await statistics.totals(since=since, until=now),
            first_words=await statistics.latency(
                LatencyMeasure.FIRST_WORDS, since=since, until=now
            ),
            ever=await statistics.totals(since=0.0, until=now),
        )

    @query(role=AccessRole.VIEWER)
    async def totals(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        since: Time,
        until: Time,
        dimension: Dimension = Dimension.ALL,
        name: str = "",
    ) -> StatisticsRow:
        """Sum up a span of time.

        Args:
            since: Seconds since 1970.
            until: Seconds since 1970.
            dimension: What is summed up: one chat, person, model, plugin or tool, or ``all`` for
                the whole bot.
            name: The name of this chat, person, model, plugin or tool; empty for ``all``.
        """
        return await self._store.statistics.totals(
            since=since, until=until, dimension=dimension, name=name
        )

    @query(role=AccessRole.VIEWER)
    async def series(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        period: Period,
        since: Time,
        until: Time,
        dimension: Dimension = Dimension.ALL,
        name: str = "",
        timezone: str = "UTC",
    ) -> list[StatisticsRow]:
        """Sum up each hour, day or month of a span, oldest first.

        Args:
            period: ``hour``, ``day`` or ``month``.
            since: Seconds since 1970.
            until: Seconds since 1970.
            dimension: What is summed up: one chat, person, model, plugin or tool, or ``all`` for
                the whole bot.
            name: The name of this chat, person, model, plugin or tool; empty for ``all``.
            timezone: The time zone whose days are meant, for example Asia/Shanghai; ``local`` for
                that of the bot's machine.
        """
        return await self._series(period, since, until, dimension, name, timezone)

    @query(role=AccessRole.VIEWER)
    async def ranking(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        dimension: Dimension,
        since: Time,
        until: Time,
        order: str = "cost",
        limit: Annotated[int, Field(ge=1, le=1000)] = 50,
    ) -> list[RankedView]:
        """List the chats, people, models, plugins or tools that used most in a span.

        Args:
            dimension: What to list.
            since: Seconds since 1970.
            until: Seconds since 1970.
            order: The sum that decides, for example ``cost``, ``tokens`` or ``messages``.
            limit: The largest number of lines.
        """
        return await self._ranking(dimension, since, until, order, limit)

    @query(role=AccessRole.VIEWER)
    async def latency(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        measure: LatencyMeasure,
        since: Time,
        until: Time,
        dimension: Dimension = Dimension.ALL,
        name: str = "",
    ) -> LatencySummary:
        """Get the median and the 95th percentile of a latency in a span.

        Args:
            measure: ``first_words``, ``turn``, ``request`` or ``call``.
            since: Seconds since 1970.
            until: Seconds since 1970.
            dimension: Whose latency it is. ``chat`` and ``person`` have turns and first words,
                ``model`` and ``plugin`` have requests, ``tool`` has calls.
            name: The name of this chat, person, model, plugin or tool; empty for ``all``.
        """
        return await self._store.statistics.latency(
            measure, since=since, until=until, dimension=dimension, name=name
        )

    @query(role=AccessRole.VIEWER)
    async def latency_series(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        measure: LatencyMeasure,
        period: Period,
        since: Time,
        until: Time,
        dimension: Dimension = Dimension.ALL,
        name: str = "",
    ) -> list[LatencyRow]:
        """Get the median and the 95th percentile of each hour, day or month of a span.

        Args:
            measure: ``first_words``, ``turn``, ``request`` or ``call``.
            period: ``hour``, ``day`` or ``month``.
            since: Seconds since 1970.
            until: Seconds since 1970.
            dimension: Whose latency it is. ``chat`` and ``person`` have turns and first words,
                ``model`` and ``plugin`` have requests, ``tool`` has calls.
            name: The name of this chat, person, model, plugin or tool; empty for ``all``.
        """
        return await self._store.statistics.latency_series(
            measure, period, since=since, until=until, dimension=dimension, name=name
        )

    @query(role=AccessRole.VIEWER)
    async def periods(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        since: Time,
        until: Time,
        dimension: Dimension = Dimension.ALL,
    ) -> list[Period]:
        """List the periods by which a chart can show a span: those of ``hour``, ``day`` and
        ``month`` that suit the length of the span and are stored for the whole span. The shortest
        is first.

        Args:
            since: Seconds since 1970.
            until: Seconds since 1970.
            dimension: What is summed up: one chat, person, model, plugin or tool, or ``all`` for
                the whole bot.
        """
        return [*self._store.statistics.periods(since=since, until=until, dimension=dimension)]

    @query(role=AccessRole.VIEWER)
    async def uncounted(self, actor: Actor) -> int:  # noqa: ARG002
        """Estimate how many messages and turns are not in the statistics yet. After the first start
        of a version with statistics, older messages and turns are added within minutes."""
        return await self._store.statistics_counter.backlog()

    @query(role=AccessRole.VIEWER)
    async def series_csv(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        period: Period,
        since: Time,
        until: Time,
        dimension: Dimension = Dimension.ALL,
        name: str = "",
        timezone: str = "UTC",
    ) -> str:
        """Write the answer of `series` as CSV, with the start of each period in its time zone.

        Args:
            period: ``hour``, ``day`` or ``month``.
            since: Seconds since 1970.
            until: Seconds since 1970.
            dimension: What is summed up: one chat, person, model, plugin or tool, or ``all`` for
                the whole bot.
            name: The name of this chat, person, model, plugin or tool; empty for ``all``.
            timezone: The time zone whose days are meant, for example Asia/Shanghai; ``local`` for
                that of the bot's machine.
        """
        rows = await self._series(period, since, until, dimension, name, timezone)
        # Months are counted in UTC in every time zone.
        zone = UTC if period is Period.MONTH else _zone(timezone)
        return csv_of(
            ("start", *_SUMS),
            ((_when(row.start, zone), *(getattr(row, each) for each in _SUMS)) for row in rows),
        )

    @query(role=AccessRole.VIEWER)
    async def ranking_csv(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        dimension: Dimension,
        since: Time,
        until: Time,
        order: str = "cost",
        limit: Annotated[int, Field(ge=1, le=1000)] = 1000,
    ) -> str:
        """Write the answer of `ranking` as CSV.

        Args:
            dimension: What to list.
            since: Seconds since 1970.
            until: Seconds since 1970.
            order: The sum that decides, for example ``cost``, ``tokens`` or ``messages``.
            limit: The largest number of lines.
        """
        rows = await self._ranking(dimension, since, until, order, limit)
        return csv_of(
            ("name", "label", *_SUMS),
            (
                (row.sums.name, row.label, *(getattr(row.sums, each) for each in _SUMS))
                for row in rows
            ),
        )

    @query(role=AccessRole.VIEWER)
    async def latency_csv(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        measure: LatencyMeasure,
        period: Period,
        since: Time,
        until: Time,
        dimension: Dimension = Dimension.ALL,
        name: str = "",
    ) -> str:
        """Write the answer of `latency_series` as CSV.

        Args:
            measure: ``first_words``, ``turn``, ``request`` or ``call``.
            period: ``hour``, ``day`` or ``month``.
            since: Seconds since 1970.
            until: Seconds since 1970.
            dimension: Whose latency it is. ``chat`` and ``person`` have turns and first words,
                ``model`` and ``plugin`` have requests, ``tool`` has calls.
            name: The name of this chat, person, model, plugin or tool; empty for ``all``.
        """
        rows = await self._store.statistics.latency_series(
            measure, period, since=since, until=until, dimension=dimension, name=name
        )
        return csv_of(
            ("start", "number", "p50_seconds", "p95_seconds"),
            (
                (_when(row.start, UTC), row.latency.number, row.latency.p50, row.latency.p95)
                for row in rows
            ),
        )

    async def _series(
        self,
        period: Period,
        since: float,
        until: float,
        dimension: Dimension,
        name: str,
        timezone: str,
    ) -> list[StatisticsRow]:
        if period is Period.EVER:
            raise InvalidParameters({"period": "expected hour, day or month"})
        return await self._store.statistics.series(
            period,
            since=since,
            until=until,
            dimension=dimension,
            name=name,
            timezone=_zone(timezone),
        )

    async def _ranking(
        self, dimension: Dimension, since: float, until: float, order: str, limit: int
    ) -> list[RankedView]:
        if dimension in (Dimension.ALL, Dimension.MEMBER):
            raise InvalidParameters({"dimension": "expected chat, person, model, plugin or tool"})
        try:
            rows = await self._store.statistics.ranking(
                dimension, since=since, until=until, order=order, limit=limit
            )
        except ValueError as error:
            raise InvalidParameters({"order": str(error)}) from None
        labels = await self._labels(dimension, [row.name for row in rows])
        return [RankedView(label=labels.get(row.name, row.name), sums=row) for row in rows]

    async def _labels(self, dimension: Dimension, names: Sequence[str]) -> dict[str, str]:
        """Get the names of those chats and people whose names are known."""
        if dimension is Dimension.PERSON:
            people = [(name, *name.split(":", 1)) for name in names if ":" in name]
            known = await self._store.chat_list.names([(who[1], who[2]) for who in people])
            found = {who[0]: known.get((who[1], who[2]), "") for who in people}
        elif dimension is Dimension.CHAT:
            found = {name: self._chat_name(name) for name in names}
        else:
            found = {}
        return {name: label for name, label in found.items() if label}

    def _chat_name(self, chat_key: str) -> str:
        try:
            return self._store.chats.name(ChatKey.parse(chat_key))
        except ChatKeyError:
            return ""


def _zone(timezone: str) -> tzinfo:
    if timezone in ("", "UTC"):
        return UTC
    if timezone == "local":
        return zone_of("")
    try:
        return ZoneInfo(timezone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidParameters(
            {"timezone": f"{timezone[:60]!r} is no time zone; for example Asia/Shanghai"}
        ) from None


def _when(start: float, zone: tzinfo) -> str:
    return datetime.fromtimestamp(start, zone).isoformat(timespec="minutes")
