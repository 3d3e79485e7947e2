"""Draws the page of what the bot did and what it cost."""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

from nicegui import ui

from nekro_core.console.charts import Line, draw_chart, draw_table
from nekro_core.console.view import View
from nekro_core.console.widgets import empty, heading
from nekro_core.store import Dimension, LatencyMeasure, LatencyRow, Period, StatisticsRow

_DAY_S = 86_400.0
_SPANS = MappingProxyType({"1": 1, "7": 7, "30": 30, "365": 365})
_PERIODS = MappingProxyType(
    {"1": Period.HOUR, "7": Period.DAY, "30": Period.DAY, "365": Period.MONTH}
)
"""How finely a span is drawn unless the person chooses."""
_MOST_HOURS = 31 * _DAY_S
_RANKED = (Dimension.CHAT, Dimension.PERSON, Dimension.MODEL, Dimension.PLUGIN, Dimension.TOOL)
_ORDERS = MappingProxyType(
    {
        Dimension.CHAT: "messages",
        Dimension.PERSON: "messages",
        Dimension.MODEL: "cost",
        Dimension.PLUGIN: "cost",
        Dimension.TOOL: "calls",
    }
)
_COLUMNS = MappingProxyType(
    {
        Dimension.CHAT: ("messages", "sent", "turns", "errors", "tokens", "cost"),
        Dimension.PERSON: ("messages", "turns", "errors", "tokens", "cost"),
        Dimension.MODEL: ("requests", "prompt", "cached", "completion", "cost"),
        Dimension.PLUGIN: ("requests", "tokens", "cost"),
        Dimension.TOOL: ("calls", "call_errors"),
    }
)
_FIELDS = MappingProxyType(
    {"prompt": "prompt_tokens", "cached": "cached_tokens", "completion": "completion_tokens"}
)
_MANY = 500
"""If more rows than this are not counted yet, the page says so. That happens after an upgrade."""
_ZONE = "local"


async def statistics_page(view: View) -> None:
    """Draw the page."""
    page = _StatisticsPage(view)
    ui.label(view.say("statistics.lead")).classes("nc-lead")
    page.draw_filters()
    await page.show()


class _StatisticsPage:
    """The opened page, and what the person has chosen."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._area, self._actor = view.operator.statistics, view.actor
        self._days = "7"
        self._period = _PERIODS[self._days]
        self._dimension, self._name, self._label = Dimension.ALL, "", ""
        self._ranked = Dimension.CHAT
        self._order = _ORDERS[self._ranked]
        self._measure = LatencyMeasure.FIRST_WORDS
        self.show = ui.refreshable(self._show)

    def _say(self, key: str, **values: object) -> str:
        return self._view.say(f"statistics.{key}", **values)

    def draw_filters(self) -> None:
        """Draw the choice of the span and of the periods."""

        def choose(event: Any) -> None:
            self._days = event.value
            self._period = _PERIODS[self._days]
            periods.value = self._period.value
            self.show.refresh()

        def choose_period(event: Any) -> None:
            if event.value == self._period.value:
                return
            self._period = Period(event.value)
            self.show.refresh()

        with ui.element("div").classes("nc-filters"):
            ui.select(
                {days: self._say(f"days_{days}") for days in _SPANS},
                value=self._days,
                label=self._say("span"),
                on_change=choose,
            ).props("outlined dense")
            periods = ui.select(
                {each.value: self._say(f"by_{each.value}") for each in Period if each != "ever"},
                value=self._period.value,
                label=self._say("period"),
                on_change=choose_period,
            ).props("outlined dense")
            ui.button(self._say("refresh"), icon="refresh", on_click=self.show.refresh).props(
                "flat no-caps"
            )

    def _span(self) -> dict[str, Any]:
        until = time.time()
        return {"since": until - _SPANS[self._days] * _DAY_S, "until": until}

    async def _show(self) -> None:
        span = self._span()
        of: dict[str, Any] = {"dimension": self._dimension, "name": self._name}
        if self._period is Period.HOUR and _SPANS[self._days] * _DAY_S > _MOST_HOURS:
            ui.label(self._say("too_fine")).classes("nc-soft")
            self._period = Period.DAY
        waiting = await self._area.uncounted(self._actor)
        if waiting > _MANY:
            ui.label(self._say("waiting", count=waiting)).classes("nc-card nc-statistics-note")
        if self._name:
            with ui.element("div").classes("nc-row"):
                ui.label(self._say(f"of_{self._dimension.value}", name=self._label))
                ui.button(self._say("whole"), icon="close", on_click=self._show_all).props(
                    "flat dense no-caps"
                )
        totals = await self._area.totals(self._actor, **span, **of)
        await self._draw_totals(totals, span)
        if not any(getattr(totals, each) for each in ("messages", "sent", "requests", "calls")):
            empty(self._view, "statistics.nothing")
        else:
            await self._draw_charts(span, of)
        await self._draw_ranking(span)

    def _show_all(self) -> None:
        self._dimension, self._name, self._label = Dimension.ALL, "", ""
        self.show.refresh()

    def _show_one(self, name: str, label: str) -> None:
        self._dimension, self._name, self._label = self._ranked, name, label
        self.show.refresh()

    async def _draw_totals(self, row: StatisticsRow, span: dict[str, Any]) -> None:
        cached = f"{100 * row.cached_tokens / row.prompt_tokens:.0f} %" if row.prompt_tokens else ""
        tiles = {
            "messages": f"{row.messages:,}",
            "sent": f"{row.sent:,}",
            "turns": f"{row.turns:,}",
            "errors": f"{row.errors:,}",
            "tokens": f"{row.tokens:,}",
            "cached_share": cached or "–",
            "cost": f"{row.cost:,.2f}",
        }
        if self._dimension is Dimension.ALL:
            first = await self._area.latency(
                self._actor, measure=LatencyMeasure.FIRST_WORDS, **span
            )
            tiles["first_words"] = f"{first.p50:.1f} / {first.p95:.1f} s" if first.number else "–"
        with ui.element("div").classes("nc-tiles"):
            for key, value in tiles.items():
                draw_tile(self._say(key), value)
        if row.published_cost:
            told = self._say("note_published", cost=f"{row.published_cost:,.2f}")
            ui.label(told).classes("nc-soft nc-small")
        if row.unpriced:
            told = self._say("note_unpriced", count=f"{row.unpriced:,}")
            ui.label(told).classes("nc-soft nc-small")

    async def _draw_charts(self, span: dict[str, Any], of: dict[str, Any]) -> None:
        asked = {"period": self._period, "timezone": _ZONE, **span, **of}
        rows = await self._area.series(self._actor, **asked)
        charts = {
            "messages_turns": (
                ("messages", "--nc-accent", "", lambda row: row.messages),
                ("sent", "--nc-good", "", lambda row: row.sent),
                ("turns", "--nc-warn", "", lambda row: row.turns),
            ),
            "tokens": (
                ("cached", "--nc-good", "t", lambda row: row.cached_tokens),
                ("fresh", "--nc-accent", "t", lambda row: row.prompt_tokens - row.cached_tokens),
                ("completion", "--nc-warn", "t", lambda row: row.completion_tokens),
            ),
            "cost": (("cost", "--nc-accent", "", lambda row: row.cost),),
            "errors_all": (
                ("errors", "--nc-bad", "", lambda row: row.errors),
                ("call_errors", "--nc-warn", "", lambda row: row.call_errors),
            ),
        }
        with ui.element("div").classes("nc-charts"):
            for title, series in charts.items():
                draw_chart(
                    self._view,
                    self._say(title),
                    [
                        Line(
                            name=self._say(name),
                            colour=colour,
                            stack=stack,
                            points=self._points(rows, value),
                        )
                        for name, colour, stack, value in series
                    ],
                    period=self._period.value,
                    csv=lambda: self._area.series_csv(self._actor, **asked),
                    file_name=f"nekro-{self._period.value}.csv",
                )
            await self._draw_latency(span)

    def _points(
        self, rows: list[StatisticsRow], value: Callable[[StatisticsRow], float]
    ) -> list[tuple[str, float]]:
        return [(self._wall(row.start), value(row)) for row in rows]

    def _wall(self, start: float) -> str:
        at = datetime.fromtimestamp(start, UTC)
        # Months are counted in UTC.
        local = at if self._period is Period.MONTH else at.astimezone()
        return local.strftime("%Y-%m-%dT%H:%M" if self._period is Period.HOUR else "%Y-%m-%d")

    async def _draw_latency(self, span: dict[str, Any]) -> None:
        measures = [*LatencyMeasure]
        of: dict[str, Any] = {}
        match self._dimension:
            case Dimension.ALL:
                pass
            case Dimension.MODEL | Dimension.TOOL:
                model = self._dimension is Dimension.MODEL
                measures = [LatencyMeasure.REQUEST if model else LatencyMeasure.CALL]
                of = {"dimension": self._dimension, "name": self._name}
            case _:
                return
        if self._measure not in measures:
            self._measure = measures[0]

        def choose(event: Any) -> None:
            self._measure = LatencyMeasure(event.value)
            latencies.refresh()

        @ui.refreshable
        async def latencies() -> None:
            asked = {"measure": self._measure, "period": self._period, **span, **of}
            rows = await self._area.latency_series(self._actor, **asked)
            draw_chart(
                self._view,
                f"{self._say('latency')}: {self._say(self._measure.value)}",
                [
                    self._latency_line(rows, "p50", "--nc-accent"),
                    self._latency_line(rows, "p95", "--nc-warn"),
                ],
                period=self._period.value,
                kind="line",
                csv=lambda: self._area.latency_csv(self._actor, **asked),
                file_name=f"nekro-{self._measure.value}.csv",
            )

        with ui.element("div").classes("nc-chart-latency"):
            if len(measures) > 1:
                ui.select(
                    {each.value: self._say(each.value) for each in measures},
                    value=self._measure.value,
                    label=self._say("measure"),
                    on_change=choose,
                ).props("outlined dense").classes("nc-statistics-choice")
            await latencies()

    def _latency_line(self, rows: list[LatencyRow], which: str, colour: str) -> Line:
        points = [(self._wall(row.start), round(getattr(row.latency, which), 3)) for row in rows]
        return Line(name=self._say(which), colour=colour, points=points)

    async def _draw_ranking(self, span: dict[str, Any]) -> None:
        heading(self._say("ranking"))

        def choose(event: Any) -> None:
            self._ranked = Dimension(event.value)
            self._order = _ORDERS[self._ranked]
            ranking.refresh()

        def choose_order(event: Any) -> None:
            self._order = event.value
            ranking.refresh()

        @ui.refreshable
        async def ranking() -> None:
            columns = _COLUMNS[self._ranked]
            orders = {_FIELDS.get(each, each): self._say(each) for each in columns}
            ui.select(
                orders, value=self._order, label=self._say("order"), on_change=choose_order
            ).props("outlined dense").classes("nc-statistics-choice")
            asked: dict[str, Any] = {"dimension": self._ranked, "order": self._order, **span}
            rows = await self._area.ranking(self._actor, **asked, limit=50)
            rows = [each for each in rows if getattr(each.sums, self._order)]
            if not rows:
                empty(self._view, "statistics.nothing_ranked")
                return
            most = max(getattr(each.sums, self._order) for each in rows)
            with ui.element("div").classes("nc-card"):
                for each in rows[:10]:
                    amount = getattr(each.sums, self._order)
                    with ui.element("div").classes("nc-row nc-statistics-rank"):
                        name = ui.button(
                            each.label or self._say("erased"),
                            on_click=lambda each=each: self._show_one(each.sums.name, each.label),
                        ).props("flat dense no-caps align=left")
                        name.classes("nc-statistics-name")
                        with ui.element("div").classes("nc-grow nc-statistics-track"):
                            ui.element("div").classes("nc-statistics-bar").style(
                                f"width: {100 * amount / most:.1f}%"
                            )
                        ui.label(_number(amount)).classes("nc-statistics-amount")
                draw_table(
                    self._view,
                    f"{self._say('ranking')}: {self._say(self._ranked.value)}",
                    {"name": self._say(self._ranked.value)}
                    | {each: self._say(each) for each in columns},
                    [
                        {"name": each.label or self._say("erased")}
                        | {key: _rounded(each.sums, key) for key in columns}
                        for each in rows
                    ],
                    csv=lambda: self._area.ranking_csv(self._actor, **asked),
                    file_name=f"nekro-{self._ranked.value}.csv",
                )

        ui.toggle(
            {each.value: self._say(each.value) for each in _RANKED},
            value=self._ranked.value,
            on_change=choose,
        ).props("no-caps unelevated").classes("nc-statistics-dimensions")
        await ranking()


def draw_tile(label: str, value: str) -> ui.label:
    """Draw a number with what it counts. Returns the label of the number."""
    with ui.element("div").classes("nc-card"):
        ui.label(label).classes("nc-soft nc-small")
        return ui.label(value).classes("nc-tile-value")


def _number(amount: float) -> str:
    return f"{amount:,.2f}".removesuffix(".00")


def _rounded(sums: StatisticsRow, key: str) -> float:
    value: float = getattr(sums, _FIELDS.get(key, key))
    return round(value, 4)
