"""Draws one message to several chats, and its progress."""

from collections.abc import Awaitable, Callable

from nicegui import ui

from nekro_core.chat import DeliveryState
from nekro_core.console.view import View
from nekro_core.console.widgets import badge, local_time, role_button
from nekro_core.delivery.outbound.announcements import (
    AnnouncedChat,
    AnnouncementState,
    AnnouncementSummary,
)
from nekro_core.operator.errors import NoSuchItem
from nekro_core.operator.roles import AccessRole

_PAGE = 100
_KINDS = {
    AnnouncementState.RUNNING: "warn",
    AnnouncementState.DONE: "good",
    AnnouncementState.CANCELLED: "plain",
    AnnouncementState.INTERRUPTED: "bad",
}
_CHAT_KINDS = {
    DeliveryState.SENT: "good",
    DeliveryState.PENDING: "warn",
    DeliveryState.SENDING: "warn",
    DeliveryState.UNKNOWN: "warn",
    DeliveryState.REJECTED: "bad",
    DeliveryState.DROPPED: "bad",
}
_WRITABLE = (AnnouncementState.RUNNING, AnnouncementState.INTERRUPTED)


class BroadcastCard:
    """The card of a message to several chats.

    Args:
        view: The opened page.
        summary: The message.
        refresh: Reads the list of messages again.
    """

    def __init__(
        self, view: View, summary: AnnouncementSummary, refresh: Callable[[], Awaitable[None]]
    ) -> None:
        self._view, self._area, self._refresh = view, view.operator.broadcast, refresh
        self._key = summary.announcement_id
        self._shown: AnnouncementSummary | None = None
        self._after = 0
        with ui.element("article").classes("nc-card nc-broadcast"):
            with ui.element("div").classes("nc-row"):
                self._badge = ui.label()
                self._counts = ui.label().classes("nc-grow")
                ui.label(local_time(summary.created)).classes("nc-soft nc-small")
            ui.label(summary.text).classes("nc-text nc-broadcast-text")
            self._bar = ui.linear_progress(value=0, show_value=False).props("rounded")
            self._bar.props["aria-label"] = view.say("jobs.progress")
            with ui.element("div").classes("nc-row"):
                about = view.say("broadcast.speed", rate=f"{summary.per_minute:g}")
                ui.label(about).classes("nc-soft nc-small nc-grow")
                role, say = AccessRole.OPERATOR, view.say
                self._cancel = role_button(view, role, say("broadcast.cancel"), self._do_cancel)
                self._resume = role_button(view, role, say("broadcast.resume"), self._do_resume)
                for button in (self._cancel, self._resume):
                    button.props("flat dense no-caps")
            self._chats = ui.expansion(view.say("broadcast.chats"), on_value_change=self._opened)
            with self._chats:
                self._rows = ui.element("div").classes("nc-list")
                with ui.element("div").classes("nc-row"):
                    self._previous = ui.button(
                        view.say("broadcast.previous"), on_click=lambda: self._turn(-_PAGE)
                    ).props("flat dense no-caps")
                    self._next = ui.button(
                        view.say("broadcast.next"), on_click=lambda: self._turn(_PAGE)
                    ).props("flat dense no-caps")

    async def show(self, summary: AnnouncementSummary) -> None:
        """Show the progress of the message."""
        if summary == self._shown:
            return
        self._shown = summary
        say = self._view.say
        self._badge.text = say(f"broadcast.state_{summary.state}")
        self._badge.classes(replace=f"nc-badge nc-badge-{_KINDS[summary.state]}")
        parts = [
            say("broadcast.tried", done=summary.chats - summary.waiting, total=summary.chats),
            *(
                f"{say(f'undelivered.state_{state.value}')}: {count}"
                for state, count in summary.counts.items()
            ),
        ]
        self._counts.text = " · ".join(parts)
        self._bar.value = (summary.chats - summary.waiting) / max(1, summary.chats)
        may = self._view.may(AccessRole.OPERATOR)
        self._cancel.set_visibility(may and summary.state in _WRITABLE)
        resumes = summary.state is not AnnouncementState.RUNNING and summary.waiting > 0
        self._resume.set_visibility(may and resumes)
        if self._chats.value:
            await self._draw_chats()

    async def _opened(self) -> None:
        if self._chats.value:
            await self._draw_chats()

    async def _turn(self, by: int) -> None:
        self._after = max(0, self._after + by)
        await self._draw_chats()

    async def _draw_chats(self) -> None:
        try:
            found = await self._area.one(
                self._view.actor, announcement_id=self._key, after=self._after, limit=_PAGE
            )
        except NoSuchItem as error:
            self._view.show_error(error)
            return
        self._rows.clear()
        with self._rows:
            for each in found.chats:
                self._draw_chat(each)
        self._previous.set_visibility(self._after > 0)
        self._next.set_visibility(self._after + _PAGE < found.summary.chats)

    def _draw_chat(self, chat: AnnouncedChat) -> None:
        say = self._view.say
        with ui.element("div").classes("nc-row"):
            if chat.state is None:
                badge(say("broadcast.waits"))
            else:
                kind = _CHAT_KINDS.get(chat.state, "")
                badge(say(f"undelivered.state_{chat.state.value}"), kind)
            with ui.element("div").classes("nc-grow"):
                ui.label(str(chat.chat_key))
                if chat.reason:
                    ui.label(chat.reason).classes("nc-soft nc-small nc-lines")
            ui.label(local_time(chat.time or 0)).classes("nc-soft nc-small")

    async def _do_cancel(self) -> None:
        view = self._view
        await view.perform(
            self._area.cancel(view.actor, announcement_id=self._key),
            view.say("broadcast.cancelled"),
            refresh=self._refresh,
        )

    async def _do_resume(self) -> None:
        view = self._view
        await view.perform(
            self._area.resume(view.actor, announcement_id=self._key),
            view.say("broadcast.resumed"),
            refresh=self._refresh,
        )
