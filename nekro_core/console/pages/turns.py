"""Draws the page of turns: every time the bot answered, in the chats of all platforms."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

import anyio
import anyio.lowlevel
from nicegui import ui

from nekro_core.console.turn_parts import amount, duration, ending, stop_text
from nekro_core.console.view import ROOT, View, link_to
from nekro_core.console.widgets import empty, local_time
from nekro_core.operator.turns import TurnView
from nekro_core.system.errors import NekroError

_PAGE = 50
_LOOK_S = 3.0
"""Seconds between two reads of the newest turns."""
_NEW = 8
"""Such a read asks for this many of the newest turns, and also for the turns that still run. If all
of these turns are new, a whole page is read."""


async def turns_page(view: View) -> None:
    """Draw the page. The address may set filters: ``?chat=``, ``user``, ``model``, ``stop`` and
    ``failed=1``."""
    ui.label(view.say("turns.lead")).classes("nc-lead")
    rows = _LiveTurns(view)
    with ui.element("div") as filters:
        rows.wanted = await _draw_filters(view, rows.refresh)
    filters.move(target_index=1)
    await rows.refresh()
    ui.timer(_LOOK_S, rows.look, immediate=False)


async def _draw_filters(view: View, changed: Callable[[], Any]) -> Callable[[], dict[str, Any]]:
    """Draw the filters. Returns a function that reads the filters as parameters of
    `nekro_core.operator.turns.Turns.list`."""
    asked = ui.context.client.request.query_params
    choices = await view.operator.turns.choices(view.actor)
    with ui.element("div").classes("nc-filters"):
        chat = ui.input(view.say("turns.chat"), value=asked.get("chat", ""))
        user = ui.input(view.say("turns.person"), value=asked.get("user", ""))
        models = {each: each for each in choices.models}
        model = _choice(view, "turns.model", models, asked.get("model", ""))
        ends = {each: stop_text(view, each) for each in choices.stops}
        stop = _choice(view, "turns.stop", ends, asked.get("stop", ""))
        failed = ui.select(
            {
                "": view.say("turns.all"),
                "yes": view.say("turns.failed"),
                "no": view.say("turns.not_failed"),
            },
            value="yes" if asked.get("failed") else "",
            label=view.say("turns.result"),
        )
        since = ui.input(view.say("turns.since")).props("type=datetime-local stack-label")
        until = ui.input(view.say("turns.until")).props("type=datetime-local stack-label")
    for text in (chat, user, since, until):
        text.props("outlined dense clearable").on("change", changed)
        text.on("clear", changed)
    for each in (model, stop, failed):
        each.props("outlined dense").on_value_change(changed)

    def read() -> dict[str, Any]:
        return {
            "chat_key": (chat.value or "").strip() or None,
            "user_id": (user.value or "").strip(),
            "model": model.value or "",
            "stop": stop.value or "",
            "failed": {"yes": True, "no": False}.get(failed.value or ""),
            "since": _seconds(since.value),
            "until": _seconds(until.value),
        }

    return read


def _choice(view: View, key: str, found: dict[str, str], value: str) -> ui.select:
    options = {"": view.say("turns.all")} | {name: text for name, text in found.items() if name}
    if value:
        options.setdefault(value, value)
    return ui.select(options, value=value, label=view.say(key))


def _seconds(written: str | None) -> float:
    try:
        return datetime.fromisoformat(written or "").astimezone().timestamp()
    except ValueError:  # The text is empty, or an incomplete date.
        return 0.0


class _LiveTurns:
    """The list. New turns are added at the top, and the cards of running turns are updated. Older
    turns that the person has loaded stay in the list."""

    def __init__(self, view: View) -> None:
        self.wanted: Callable[[], dict[str, Any]] = dict
        """Returns the filters as parameters of `nekro_core.operator.turns.Turns.list`."""
        self._view = view
        self._cards: dict[int, ui.element] = {}
        self._shown: dict[int, TurnView] = {}
        self._drawing = anyio.Lock()
        self._rows = ui.element("div").classes("nc-list")
        self._more = ui.button(view.say("frame.older"), on_click=self._older)
        self._more.props("flat no-caps").classes("nc-more")

    async def refresh(self) -> None:
        """Read the first page again."""
        async with self._drawing:
            try:
                found = await self._read(0)
            except NekroError as error:
                self._view.show_error(error)
                return
            await self._draw_page(found)

    async def look(self) -> None:
        """Show what has changed since the last call."""
        async with self._drawing:
            try:
                found = await self._read(0, self._looked_at())
                if found and not any(each.turn_id in self._shown for each in found):
                    found = await self._read(0)
            except NekroError:
                # The next call may succeed. If a filter is wrong, `refresh` has shown the error.
                return
            if not found:
                return
            if any(each.turn_id in self._shown for each in found):
                self._update(found)
            else:
                await self._draw_page(found)

    def _update(self, found: list[TurnView]) -> None:
        for each in reversed(found):
            if each.turn_id not in self._shown:
                if each.turn_id < max(self._shown):
                    # An older turn that matches the filter only now, for example because it failed:
                    # it does not belong at the top.
                    continue
                with self._rows:
                    self._draw(each)
                self._cards[each.turn_id].move(self._rows, target_index=0)
            elif each != self._shown[each.turn_id]:
                self._cards[each.turn_id].clear()
                self._fill(each)

    def _looked_at(self) -> int:
        """Return how many of the newest turns to read: enough for new turns and for the turns that
        ran at the last look. Only these can have changed. Reading the whole page every three
        seconds would slow the running turns down."""
        newest = [self._shown[each] for each in sorted(self._shown, reverse=True)[:_PAGE]]
        running = [place for place, each in enumerate(newest, 1) if not each.ended]
        return min(max([_NEW, *(place + _NEW for place in running)]), _PAGE)

    async def _older(self) -> None:
        async with self._drawing:
            await self._append(await self._read(min(self._shown, default=0)))

    async def _read(self, before: int, limit: int = _PAGE) -> list[TurnView]:
        given = {**self.wanted(), "before": before, "limit": limit}
        found: list[TurnView] = await self._view.operator.turns.list.invoke(self._view.actor, given)
        return found

    async def _draw_page(self, found: list[TurnView]) -> None:
        self._rows.clear()
        self._cards.clear()
        self._shown.clear()
        if not found:
            with self._rows:
                empty(self._view, "turns.nothing")
        await self._append(found)

    async def _append(self, found: list[TurnView]) -> None:
        for each in found:
            with self._rows:
                self._draw(each)
            # A card takes a millisecond or two: let the turns that run go on between two cards.
            await anyio.lowlevel.checkpoint()
        self._more.set_visibility(len(found) >= _PAGE)

    def _draw(self, turn: TurnView) -> None:
        self._cards[turn.turn_id] = ui.element("article").classes("nc-card")
        self._fill(turn)

    def _fill(self, turn: TurnView) -> None:
        self._shown[turn.turn_id] = turn
        view = self._view
        with self._cards[turn.turn_id]:
            with ui.element("div").classes("nc-row"):
                ending(view, turn)
                asked = turn.asked or view.say("turns.forgotten")
                link = ui.link(asked, link_to(f"{ROOT}/turns/{turn.turn_id}"))
                link.classes("nc-grow nc-turn-asked")
                ui.label(local_time(turn.started)).classes("nc-soft nc-small")
            about = [str(turn.chat_key), turn.user_id, turn.model, *amount(view, turn)]
            if turn.ended:
                about.append(duration(turn.ended - turn.started))
            ui.label(" · ".join(each for each in about if each)).classes("nc-soft nc-small nc-text")
