"""Draws charts, each with a folded table and a CSV file of its numbers."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from nicegui import ui

from nekro_core.console.view import View

Kind = Literal["bar", "line"]
Point = tuple[str, float]
"""A local time such as ``2026-11-23T10:00``, and a value."""
_FORMS = {"hour": "{MM}-{dd} {HH}:{mm}", "day": "{MM}-{dd}", "month": "{yyyy}-{MM}"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One series of a chart. ``colour`` is a variable of console.css, such as ``--nc-accent``.
    Series with the same ``stack`` are stacked."""

    name: str
    colour: str
    points: Sequence[Point]
    stack: str = ""


class ChartCard:
    """A chart over time, with its table and its CSV file. `update` shows other values. An opened
    table stays open, and hidden series stay hidden.

    Args:
        view: The opened page.
        title: The chart's heading.
        lines: Its series.
        period: ``hour``, ``day`` or ``month``; decides how times are written.
        kind: How the series are drawn.
        csv: Makes the text of the CSV file.
        file_name: The name of the CSV file.
    """

    def __init__(
        self,
        view: View,
        title: str,
        lines: Sequence[Line],
        *,
        period: str,
        kind: Kind = "bar",
        csv: Callable[[], Awaitable[str]],
        file_name: str,
    ) -> None:
        self._kind, self._lines = kind, lines
        with ui.element("section").classes("nc-card nc-chart-card"):
            heading = ui.label(title).classes("nc-section nc-chart-title")
            heading.props('role="heading" aria-level="3"')
            # As SVG, the chart takes its colours from the style sheet, so that they change with the
            # theme.
            self._chart = ui.echart(_options(lines, period, kind), renderer="svg")
            self._chart.classes("nc-chart").props["role"] = "img"
            self._chart.props["aria-label"] = f"{title}: {', '.join(each.name for each in lines)}"
            self._table = FoldedTable(
                view, title, _columns(view, lines), _rows(lines), csv=csv, file_name=file_name
            )

    def update(self, lines: Sequence[Line]) -> None:
        """Show the same series with other values."""
        if [each.points for each in lines] == [each.points for each in self._lines]:
            return
        self._lines = lines
        self._chart.options["series"] = [_series(each, self._kind) for each in lines]
        self._chart.update()
        self._table.update(_rows(lines))


class FoldedTable:
    """A folded table and the button for its CSV file. The table is made when it is opened.

    Args:
        view: The opened page.
        title: What the table shows.
        columns: The headings of the columns by the keys of the rows. The first column is the name.
        rows: The rows.
        csv: Makes the text of the CSV file.
        file_name: The name of the CSV file.
    """

    def __init__(
        self,
        view: View,
        title: str,
        columns: Mapping[str, str],
        rows: Sequence[Mapping[str, Any]],
        *,
        csv: Callable[[], Awaitable[str]],
        file_name: str,
    ) -> None:
        self._columns, self._rows = columns, rows
        self._table: ui.table | None = None

        async def save() -> None:
            ui.download.content(await csv(), file_name, "text/csv; charset=utf-8")

        with ui.element("div").classes("nc-row nc-chart-more"):
            self._opened = ui.expansion(
                view.say("statistics.table"), on_value_change=self._fill, icon="table_rows"
            ).classes("nc-grow")
            self._opened.props["aria-label"] = f"{view.say('statistics.table')}: {title}"
            with self._opened:
                self._holder = ui.element("div")
            button = ui.button("CSV", icon="download", on_click=save).props("flat dense no-caps")
            button.props["aria-label"] = f"CSV: {title}"

    def update(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Show other rows."""
        self._rows = rows
        if self._table is not None:
            self._table.rows = [dict(row) for row in rows]

    def _fill(self) -> None:
        if not self._opened.value or self._table is not None:
            return
        with self._holder:
            self._table = ui.table(
                columns=[
                    {"name": key, "label": label, "field": key, "sortable": True}
                    | {"align": "right" if number else "left"}
                    for number, (key, label) in enumerate(self._columns.items())
                ],
                rows=[dict(row) for row in self._rows],
                pagination=12,
            ).classes("nc-table")


def _options(lines: Sequence[Line], period: str, kind: Kind) -> dict[str, Any]:
    form = _FORMS[period]
    return {
        "animation": False,
        "grid": {"left": 8, "right": 16, "top": 36, "bottom": 4, "containLabel": True},
        "legend": {
            "type": "scroll",  # the legend has one line; a second line would cover the chart
            "top": 0,
            "left": 0,
            "icon": "roundRect",
            "itemWidth": 12,
            "itemHeight": 12,
            "textStyle": {"color": "var(--nc-ink)"},
            "inactiveColor": "var(--nc-soft)",
        },
        "tooltip": {
            "trigger": "axis",
            "axisPointer": {"type": "line", "lineStyle": {"color": "var(--nc-soft)"}},
            "backgroundColor": "var(--nc-card)",
            "borderColor": "var(--nc-line)",
            "textStyle": {"color": "var(--nc-ink)"},
            "confine": True,
            "renderMode": "html",
        },
        "xAxis": {
            "type": "time",
            "axisLabel": {"color": "var(--nc-soft)", "formatter": form, "hideOverlap": True},
            "axisLine": {"lineStyle": {"color": "var(--nc-line)"}},
            "axisPointer": {"label": {"show": False}},
            "minInterval": 3_600_000 if period == "hour" else 86_400_000,
        },
        "yAxis": {
            "type": "value",
            "axisLabel": {"color": "var(--nc-soft)"},
            "splitLine": {"lineStyle": {"color": "var(--nc-line)"}},
        },
        "series": [_series(each, kind) for each in lines],
    }


def _series(line: Line, kind: Kind) -> dict[str, Any]:
    colour = f"var({line.colour})"
    return {
        "name": line.name,
        "type": kind,
        "data": [list(point) for point in line.points],
        "color": colour,
        "itemStyle": {"color": colour},
        "lineStyle": {"color": colour, "width": 2},
        "barMaxWidth": 26,
        "showSymbol": len(line.points) < 40,
        # The series are not highlighted. A highlight would need a lighter colour, which cannot be
        # computed from a variable of the style sheet.
        "emphasis": {"disabled": True},
        **({"stack": line.stack} if line.stack else {}),
    }


def _columns(view: View, lines: Sequence[Line]) -> dict[str, str]:
    names = {str(number): each.name for number, each in enumerate(lines)}
    return {"start": view.say("statistics.start"), **names}


def _rows(lines: Sequence[Line]) -> list[dict[str, Any]]:
    rows: dict[str, dict[str, Any]] = {}
    for number, line in enumerate(lines):
        for start, value in line.points:
            row = rows.setdefault(start, {"start": start.replace("T", " ")})
            row[str(number)] = round(value, 4)
    return [rows[start] for start in sorted(rows, reverse=True)]
