"""Draws the page of statistics: what the bot did and what it cost."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

import anyio
from nicegui import ui

from nekro_core.console.charts import ChartCard, Line
from nekro_core.console.statistics_ranking import Ranking
from nekro_core.console.statistics_span import SpanChoice
from nekro_core.console.view import View
from nekro_core.console.widgets import empty
from nekro_core.store import Dimension, LatencyMeasure, LatencyRow, Period, StatisticsRow

_LOOK_S = 5.0
"""Seconds between two reads of a span that ends now."""
_MANY = 500
"""If more than this many messages and turns are not in the statistics yet, the page says so. This
happens after an upgrade."""
_ZONE = "local"
_Value = Callable[[StatisticsRow], float]
_CHARTS: MappingProxyType[str, Sequence[tuple[str, str, str, _Value]]] = MappingProxyType(
    {
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
)
"""For each chart, its series: name, colour, stack, and the function that returns the value."""

_OF_TURNS = (LatencyMeasure.FIRST_WORDS, LatencyMeasure.TURN)
_MEASURED: MappingProxyType[Dimension, Sequence[LatencyMeasure]] = MappingProxyType(
    {
        Dimension.ALL: tuple(LatencyMeasure),
        Dimension.CHAT: _OF_TURNS,
        Dimension.PERSON: _OF_TURNS,
        Dimension.MODEL: (LatencyMeasure.REQUEST,),
        Dimension.PLUGIN: (LatencyMeasure.REQUEST,),
        Dimension.TOOL: (LatencyMeasure.CALL,),
    }
)
"""For each dimension, the latencies that the statistics have."""


async def statistics_page(view: View) -> None:
    """Draw the page."""
    page = _StatisticsPage(view)
    ui.label(view.say("statistics.lead")).classes("nc-lead")
    page.draw_filters()
    await page.redraw()
    ui.timer(_LOOK_S, page.look, immediate=False)


class _StatisticsPage:
    """The opened page, and what the person has chosen. If the span ends now, its numbers are read
    every `_LOOK_S` and written into the elements that are already drawn. So opened tables, the
    choices and the keyboard's focus do not change."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._area, self._actor = view.operator.statistics, view.actor
        self._dimension, self._name, self._label = Dimension.ALL, "", ""
        self._measure = LatencyMeasure.FIRST_WORDS
        self._choice = SpanChoice(view, self.redraw)
        self._drawing = anyio.Lock()
        self._wishes = 0
        self._ranking = Ranking(view, self._show_one)
        self._span: dict[str, Any] | None = None
        self._tiles: dict[str, ui.label] = {}
        self._drawn_notes: list[str] = []
        self._charts: dict[str, ChartCard] = {}
        self._latency: ChartCard | None = None
        self._rows: list[StatisticsRow] = []

    def _say(self, key: str, **values: object) -> str:
        return self._view.say(f"statistics.{key}", **values)

    def draw_filters(self) -> None:
        """Draw the choice of the span and of the periods."""
        with ui.element("div").classes("nc-filters"):
            self._choice.draw()
            ui.button(self._say("refresh"), icon="refresh", on_click=self.redraw).props(
                "flat no-caps"
            )
        self._place = ui.element("div").classes("nc-wide")

    async def redraw(self) -> None:
        """Draw everything anew. If this is called several times while the page is being drawn, only
        the last call draws again."""
        self._wishes += 1
        wish = self._wishes
        async with self._drawing:
            if wish == self._wishes:
                self._place.clear()
                with self._place:
                    await self._draw()

    async def look(self) -> None:
        """Write the present numbers into the elements that are drawn."""
        if self._drawing.locked():
            return
        async with self._drawing:
            again = await self._look()
        if again:
            await self.redraw()

    async def _look(self) -> bool:
        """Write the present numbers. Returns True if the page must be drawn anew, because there was
        no use before and there is now, or the other way round."""
        span = self._choice.span()
        if self._span is None or span is None or not self._choice.reaches_now:
            return False
        drawn = bool(self._charts)
        self._span |= span
        totals = await self._area.totals(self._actor, **self._span, **self._of())
        if _is_used(totals) != drawn:
            return True
        self._write_notes(totals)
        for key, value in (await self._figures(totals)).items():
            if key in self._tiles:
                self._tiles[key].text = value
        if drawn:
            self._rows = await self._area.series(self._actor, **self._asked())
            for key, chart in self._charts.items():
                chart.update(self._lines(key))
            if self._latency is not None:
                self._latency.update(await self._latency_lines())
        await self._ranking.update(self._span)
        return False

    def _of(self) -> dict[str, Any]:
        return {"dimension": self._dimension, "name": self._name}

    def _asked(self) -> dict[str, Any]:
        """Return the parameters of the series that is shown, and of its CSV file."""
        period = self._choice.period
        return {"period": period, "timezone": _ZONE, **(self._span or {}), **self._of()}

    async def _draw(self) -> None:
        self._span = self._choice.span()
        self._charts, self._latency = {}, None
        if self._span is None:
            ui.label(self._say("no_span")).classes("nc-bad").props('role="alert"')
            return
        span = self._span
        periods = await self._area.periods(self._actor, **span, dimension=self._dimension)
        self._choice.offer(periods, span)
        waiting = await self._area.uncounted(self._actor)
        if waiting > _MANY:
            ui.label(self._say("waiting", count=waiting)).classes("nc-card nc-statistics-note")
        if self._name:
            with ui.element("div").classes("nc-row"):
                ui.label(self._say(f"of_{self._dimension.value}", name=self._label))
                ui.button(self._say("whole"), icon="close", on_click=self._show_all).props(
                    "flat dense no-caps"
                )
        totals = await self._area.totals(self._actor, **span, **self._of())
        with ui.element("div").classes("nc-tiles"):
            figures = await self._figures(totals)
            self._tiles = {key: draw_tile(self._say(key), value) for key, value in figures.items()}
        self._drawn_notes, self._notes_place = [], ui.element("div")
        self._write_notes(totals)
        if _is_used(totals):
            await self._draw_charts()
        else:
            empty(self._view, "statistics.nothing")
        await self._ranking.draw(span)

    async def _show_all(self) -> None:
        await self._show_one(Dimension.ALL, "", "")

    async def _show_one(self, dimension: Dimension, name: str, label: str) -> None:
        self._dimension, self._name, self._label = dimension, name, label
        await self.redraw()

    async def _figures(self, row: StatisticsRow) -> dict[str, str]:
        cached = f"{100 * row.cached_tokens / row.prompt_tokens:.0f} %" if row.prompt_tokens else ""
        figures = {
            "messages": f"{row.messages:,}",
            "sent": f"{row.sent:,}",
            "turns": f"{row.turns:,}",
            "errors": f"{row.errors:,}",
            "tokens": f"{row.tokens:,}",
            "cached_share": cached or "–",
            "cost": f"{row.cost:,.2f}",
        }
        measure = LatencyMeasure.FIRST_WORDS
        if measure in _MEASURED[self._dimension] and self._span is not None:
            first = await self._area.latency(
                self._actor, measure=measure, **self._span, **self._of()
            )
            figures["first_words"] = f"{first.p50:.1f} / {first.p95:.1f} s" if first.number else "–"
        return figures

    def _write_notes(self, row: StatisticsRow) -> None:
        notes = self._notes(row)
        if notes != self._drawn_notes:
            self._drawn_notes = notes
            self._notes_place.clear()
            with self._notes_place:
                for note in notes:
                    ui.label(note).classes("nc-soft nc-small")

    def _notes(self, row: StatisticsRow) -> list[str]:
        """Return sentences that explain the cost."""
        notes = []
        if row.published_cost:
            notes.append(self._say("note_published", cost=f"{row.published_cost:,.2f}"))
        if row.unpriced:
            notes.append(self._say("note_unpriced", count=f"{row.unpriced:,}"))
        return notes

    async def _draw_charts(self) -> None:
        self._rows = await self._area.series(self._actor, **self._asked())
        period = self._choice.period.value
        with ui.element("div").classes("nc-charts"):
            for key in _CHARTS:
                self._charts[key] = ChartCard(
                    self._view,
                    self._say(key),
                    self._lines(key),
                    period=period,
                    csv=lambda: self._area.series_csv(self._actor, **self._asked()),
                    file_name=f"nekro-{period}.csv",
                )
            await self._draw_latency()

    def _lines(self, chart: str) -> list[Line]:
        return [
            Line(
                name=self._say(name),
                colour=colour,
                stack=stack,
                points=[(self._wall(row.start), value(row)) for row in self._rows],
            )
            for name, colour, stack, value in _CHARTS[chart]
        ]

    def _wall(self, start: float) -> str:
        at = datetime.fromtimestamp(start, UTC)
        # Months are counted in UTC.
        local = at if self._choice.period is Period.MONTH else at.astimezone()
        return local.strftime(
            "%Y-%m-%dT%H:%M" if self._choice.period is Period.HOUR else "%Y-%m-%d"
        )

    async def _draw_latency(self) -> None:
        measures = _MEASURED[self._dimension]
        if self._measure not in measures:
            self._measure = measures[0]

        def choose(event: Any) -> None:
            self._measure = LatencyMeasure(event.value)
            latencies.refresh()

        @ui.refreshable
        async def latencies() -> None:
            self._latency = ChartCard(
                self._view,
                f"{self._say('latency')}: {self._say(self._measure.value)}",
                await self._latency_lines(),
                period=self._choice.period.value,
                kind="line",
                csv=lambda: self._area.latency_csv(self._actor, **self._latency_asked()),
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

    def _latency_asked(self) -> dict[str, Any]:
        period = self._choice.period
        return {"measure": self._measure, "period": period, **(self._span or {}), **self._of()}

    async def _latency_lines(self) -> list[Line]:
        rows = await self._area.latency_series(self._actor, **self._latency_asked())
        return [
            self._latency_line(rows, "p50", "--nc-accent"),
            self._latency_line(rows, "p95", "--nc-warn"),
        ]

    def _latency_line(self, rows: list[LatencyRow], which: str, colour: str) -> Line:
        points = [(self._wall(row.start), round(getattr(row.latency, which), 3)) for row in rows]
        return Line(name=self._say(which), colour=colour, points=points)


def draw_tile(label: str, value: str) -> ui.label:
    """Draw a number with what it counts. Returns the label of the number."""
    with ui.element("div").classes("nc-card"):
        ui.label(label).classes("nc-soft nc-small")
        return ui.label(value).classes("nc-tile-value")


def _is_used(totals: StatisticsRow) -> bool:
    return any(getattr(totals, each) for each in ("messages", "sent", "requests", "calls"))
