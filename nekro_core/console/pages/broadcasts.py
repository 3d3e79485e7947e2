"""Draws messages to several chats with their progress, and the form of a new message."""

import math
from typing import Any

from nicegui import ui

from nekro_core.console.chat_chooser import ChatChooser
from nekro_core.console.pages.broadcast_card import BroadcastCard
from nekro_core.console.view import View
from nekro_core.console.widgets import confirm, empty, heading
from nekro_core.delivery.outbound.announcements import (
    FASTEST_PER_MINUTE,
    MOST_KEPT,
    PER_MINUTE,
    TEXT_LENGTH,
    AnnouncementState,
    AnnouncementSummary,
)
from nekro_core.operator.roles import AccessRole

_PAGE = 20
_LOOK_S = 1.0
"""Seconds between two reads of the list while a message is being sent."""
_QUIET_LOOKS = 5
"""While no message is being sent, the time between two reads of the list is this many times
`_LOOK_S`."""


class Broadcasts:
    """The messages to several chats.

    Args:
        view: The opened page.
    """

    def __init__(self, view: View) -> None:
        self._view, self._area = view, view.operator.broadcast
        self._cards: dict[str, BroadcastCard] = {}
        self._number = _PAGE
        self._looks, self._busy = 0, True

    async def draw(self) -> None:
        """Draw the form and the list into the current element of the page."""
        view = self._view
        ui.label(view.say("broadcast.lead")).classes("nc-lead")
        if view.may(AccessRole.OPERATOR):
            await self._draw_form()
        heading(view.say("broadcast.sent_before"))
        self._list = ui.element("div").classes("nc-list")
        self._older = ui.button(view.say("frame.older"), on_click=self._show_older)
        self._older.props("flat no-caps").classes("nc-more")
        await self.refresh()
        ui.timer(_LOOK_S, self._look, immediate=False)

    async def refresh(self) -> None:
        """Read the list and show it."""
        found = await self._area.listed(self._view.actor, limit=self._number)
        if not found or [each.announcement_id for each in found] != [*self._cards]:
            self._draw_cards(found)
        for each in found:
            card = self._cards.get(each.announcement_id)
            if card is not None:  # The card is missing if the list was drawn anew meanwhile.
                await card.show(each)
        self._busy = any(each.state is AnnouncementState.RUNNING for each in found)
        self._older.set_visibility(self._number <= len(found) < MOST_KEPT)

    def _draw_cards(self, found: list[AnnouncementSummary]) -> None:
        self._list.clear()
        self._cards.clear()
        with self._list:
            if not found:
                empty(self._view, "broadcast.nothing")
            for each in found:
                card = BroadcastCard(self._view, each, self.refresh)
                self._cards[each.announcement_id] = card

    async def _look(self) -> None:
        self._looks += 1
        if self._busy or self._looks % _QUIET_LOOKS == 0:
            await self.refresh()

    async def _show_older(self) -> None:
        self._number = min(MOST_KEPT, self._number + _PAGE)
        await self.refresh()

    async def _draw_form(self) -> None:
        view = self._view
        with ui.element("section").classes("nc-card nc-broadcast-form") as form:
            form.props["aria-label"] = view.say("broadcast.new")
            text = ui.textarea(view.say("broadcast.text")).classes("nc-wide")
            text.props(f"outlined autogrow counter maxlength={TEXT_LENGTH}")
            chooser = ChatChooser(view)
            await chooser.draw()
            rate = ui.number(
                view.say("broadcast.rate"), value=PER_MINUTE, min=0.1, max=FASTEST_PER_MINUTE
            ).props("outlined dense")
            ui.label(view.say("broadcast.rate_hint")).classes("nc-soft nc-small")

            async def send() -> None:
                count, speed = len(chooser.chosen), rate.value or 0
                wanted: dict[str, Any] = {
                    "text": text.value or "",
                    "chats": [*map(str, chooser.chosen)],
                    "per_minute": speed,
                }
                if count and speed and wanted["text"].strip():
                    minutes = max(1, math.ceil((count - 1) / speed))
                    ask = view.say("broadcast.ask", count=count, minutes=minutes)
                    button = view.say("broadcast.send")
                    with dialogs:
                        if not await confirm(view, ask, details=wanted["text"], button=button):
                            return
                begun = await view.perform(
                    self._area.start.invoke(view.actor, wanted),
                    view.say("broadcast.begun"),
                    refresh=self.refresh,
                )
                if begun is not None:
                    text.value = ""
                    await chooser.clear()

            ui.button(view.say("broadcast.send"), icon="campaign", on_click=send).props(
                "unelevated no-caps"
            )
        dialogs = ui.element("div")
