"""Draws the ranking of the chats, people, models, plugins or tools that used most."""

from collections.abc import Callable
from types import MappingProxyType
from typing import Any

from nicegui import ui

from nekro_core.console.charts import FoldedTable
from nekro_core.console.view import View
from nekro_core.console.widgets import empty, heading
from nekro_core.operator.statistics import RankedView
from nekro_core.store import Dimension, StatisticsRow

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
_BARS, _ROWS = 10, 50


class Ranking:
    """The ranking of chats, people, models, plugins or tools.

    Args:
        view: The opened page.
        show_one: Shows the statistics of one chat, person, model, plugin or tool. It is called with
            the dimension, the name and the label.
    """

    def __init__(self, view: View, show_one: Callable[[Dimension, str, str], Any]) -> None:
        self._view, self._show_one = view, show_one
        self._area = view.operator.statistics
        self._of = Dimension.CHAT
        self._order = _ORDERS[self._of]
        self._span: dict[str, float] = {}
        self._shown: list[RankedView] = []
        self._table: FoldedTable | None = None

    def _say(self, key: str) -> str:
        return self._view.say(f"statistics.{key}")

    async def draw(self, span: dict[str, float]) -> None:
        """Draw the ranking of a span into the current element of the page."""
        self._span = span
        heading(self._say("ranking"))
        ui.toggle(
            {each.value: self._say(each.value) for each in _RANKED},
            value=self._of.value,
            on_change=self._choose,
        ).props("no-caps unelevated").classes("nc-statistics-dimensions")
        self._place = ui.element("div").classes("nc-wide")
        await self._draw_rows()

    async def update(self, span: dict[str, float]) -> None:
        """Show the ranking of a later span. What the person has opened stays open."""
        self._span = span
        rows = await self._rows()
        if rows == self._shown:
            return
        if self._table is None or not rows:
            await self._draw_rows()
            return
        self._shown = rows
        self._draw_bars()
        self._table.update(self._cells())

    async def _choose(self, event: Any) -> None:
        self._of = Dimension(event.value)
        self._order = _ORDERS[self._of]
        await self._draw_rows()

    async def _choose_order(self, event: Any) -> None:
        self._order = event.value
        await self._draw_rows()

    async def _rows(self) -> list[RankedView]:
        rows = await self._area.ranking(self._view.actor, **self._asked(), limit=_ROWS)
        return [each for each in rows if getattr(each.sums, self._order)]

    def _asked(self) -> dict[str, Any]:
        return {"dimension": self._of, "order": self._order, **self._span}

    async def _draw_rows(self) -> None:
        self._shown, self._table = await self._rows(), None
        columns = _COLUMNS[self._of]
        self._place.clear()
        with self._place:
            orders = {_FIELDS.get(each, each): self._say(each) for each in columns}
            ui.select(
                orders, value=self._order, label=self._say("order"), on_change=self._choose_order
            ).props("outlined dense").classes("nc-statistics-choice")
            if not self._shown:
                empty(self._view, "statistics.nothing_ranked")
                return
            with ui.element("div").classes("nc-card"):
                self._bars = ui.element("div").classes("nc-wide")
                self._draw_bars()
                self._table = FoldedTable(
                    self._view,
                    f"{self._say('ranking')}: {self._say(self._of.value)}",
                    {"name": self._say(self._of.value)}
                    | {each: self._say(each) for each in columns},
                    self._cells(),
                    csv=lambda: self._area.ranking_csv(self._view.actor, **self._asked()),
                    file_name=f"nekro-{self._of.value}.csv",
                )

    def _draw_bars(self) -> None:
        most = max(getattr(each.sums, self._order) for each in self._shown)
        self._bars.clear()
        with self._bars:
            for each in self._shown[:_BARS]:
                amount = getattr(each.sums, self._order)
                with ui.element("div").classes("nc-row nc-statistics-rank"):
                    name = ui.button(
                        each.label or self._say("erased"),
                        on_click=lambda each=each: self._show_one(
                            self._of, each.sums.name, each.label
                        ),
                    ).props("flat dense no-caps align=left")
                    name.classes("nc-statistics-name")
                    with ui.element("div").classes("nc-grow nc-statistics-track"):
                        ui.element("div").classes("nc-statistics-bar").style(
                            f"width: {100 * amount / most:.1f}%"
                        )
                    ui.label(_number(amount)).classes("nc-statistics-amount")

    def _cells(self) -> list[dict[str, Any]]:
        return [
            {"name": each.label or self._say("erased")}
            | {key: _rounded(each.sums, key) for key in _COLUMNS[self._of]}
            for each in self._shown
        ]


def _number(amount: float) -> str:
    return f"{amount:,.2f}".removesuffix(".00")


def _rounded(sums: StatisticsRow, key: str) -> float:
    value: float = getattr(sums, _FIELDS.get(key, key))
    return round(value, 4)
