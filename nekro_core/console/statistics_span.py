"""Draws the inputs for the span of time of the statistics, and for the periods (hours, days or
months) of its charts."""

import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any

from nicegui import ui

from nekro_core.console.view import View
from nekro_core.store import Period

DAY_S = 86_400.0
OWN = "own"
"""The value of the input if the person enters the first and the last day of the span."""
_DAYS = MappingProxyType({"1": 1, "7": 7, "30": 30, "365": 365})
_FIRST_DAYS = 14
"""Length in days of the span that is filled in when the person chooses `OWN`."""
_BY_HOURS_S, _BY_DAYS_S = 3 * DAY_S, 120 * DAY_S
"""If the person has not chosen periods, spans of up to the first length are drawn by hours, and
spans of up to the second length by days."""


class SpanChoice:
    """The choice of the span and of the periods.

    Args:
        view: The opened page.
        changed: Called when the person has changed the choice.
    """

    def __init__(self, view: View, changed: Callable[[], Awaitable[None]]) -> None:
        self._view, self._changed = view, changed
        self._chosen = "7"
        self._wanted: Period | None = None
        """The kind of period that the person has chosen; None if none was chosen."""
        self.period = Period.DAY

    def draw(self) -> None:
        """Draw the inputs into the current element of the page."""
        say = self._view.say
        names = {name: say(f"statistics.days_{name}") for name in (*_DAYS, OWN)}
        self._spans = ui.select(
            names, value=self._chosen, label=say("statistics.span"), on_change=self._choose
        ).props("outlined dense")
        today = datetime.now().astimezone().date()
        first = today - timedelta(days=_FIRST_DAYS - 1)
        self._begin = self._date("from", first.isoformat(), today.isoformat())
        self._end = self._date("to", today.isoformat(), today.isoformat())
        self._periods = ui.select(
            {}, label=say("statistics.period"), on_change=self._choose_period
        ).props("outlined dense")

    @property
    def reaches_now(self) -> bool:
        """Return True if the span ends at the present moment. The numbers of such a span still
        grow."""
        if self._chosen != OWN:
            return True
        today = datetime.now().astimezone().date().isoformat()
        return str(self._end.value or "") >= today

    def span(self) -> dict[str, Any] | None:
        """Return ``since`` and ``until`` in seconds since 1970; None if the entered days are not a
        span. Days begin at midnight in the time zone of the bot."""
        now = time.time()
        if self._chosen != OWN:
            return {"since": now - _DAYS[self._chosen] * DAY_S, "until": now}
        try:
            since = datetime.fromisoformat(str(self._begin.value)).astimezone().timestamp()
            last = datetime.fromisoformat(str(self._end.value))
            # No later day: there is no day after 9999-12-31.
            today = datetime.now().astimezone().replace(tzinfo=None)
            last = min(last, today) + timedelta(days=1)
            until = min(now, last.astimezone().timestamp())
        except (ValueError, OverflowError, TypeError):
            return None
        return {"since": since, "until": until} if 0 <= since < until else None

    def offer(self, periods: list[Period], span: Mapping[str, float]) -> None:
        """Offer the periods that suit the span. If the chosen period does not suit, the shortest
        suitable one is used."""
        wanted = self._wanted or _preferred(span["until"] - span["since"])
        self.period = wanted if wanted in periods else periods[0]
        names = {each.value: self._view.say(f"statistics.by_{each.value}") for each in periods}
        self._periods.set_options(names, value=self.period.value)

    def _date(self, name: str, value: str, last: str) -> ui.input:
        entered = ui.input(
            self._view.say(f"statistics.{name}"), value=value, on_change=self._changed
        )
        entered.props(f'type=date outlined dense stack-label debounce=500 max="{last}"')
        entered.bind_visibility_from(self._spans, "value", value=OWN)
        return entered

    async def _choose(self, event: Any) -> None:
        self._chosen, self._wanted = event.value, None
        await self._changed()

    async def _choose_period(self, event: Any) -> None:
        if event.value is not None and event.value != self.period.value:
            self._wanted = Period(event.value)
            await self._changed()


def _preferred(length_s: float) -> Period:
    if length_s <= _BY_HOURS_S:
        return Period.HOUR
    return Period.DAY if length_s <= _BY_DAYS_S else Period.MONTH
