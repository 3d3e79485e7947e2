"""Draws the page of messages that did not arrive."""

from nicegui import ui

from nekro_core.chat import DeliveryState
from nekro_core.console.pages.chats import chat_address
from nekro_core.console.view import View, link_to
from nekro_core.console.widgets import PagedList, badge, local_time
from nekro_core.delivery.outbound.admin import OPEN_STATES
from nekro_core.operator.roles import AccessRole
from nekro_core.operator.undelivered import DeliveryView

_PAGE = 50
_READ_AGAIN_S = 5.0
_KINDS = {
    DeliveryState.SENT: "good",
    DeliveryState.PENDING: "warn",
    DeliveryState.SENDING: "warn",
    DeliveryState.UNKNOWN: "warn",
    DeliveryState.REJECTED: "bad",
}


async def undelivered_page(view: View) -> None:
    """Draw the page."""
    area, actor = view.operator.undelivered, view.actor
    ui.label(view.say("undelivered.lead")).classes("nc-lead")
    with ui.element("div").classes("nc-filters"):
        which = ui.toggle(
            {"open": view.say("undelivered.open"), "all": view.say("undelivered.all")},
            value="open",
        ).props("no-caps unelevated")

    async def read(last: DeliveryView | None) -> list[DeliveryView]:
        states = OPEN_STATES if which.value == "open" else tuple(DeliveryState)
        before = last.delivery_id if last else ""
        return await area.newest(actor, states=states, before=before, limit=_PAGE)

    def draw(row: DeliveryView) -> None:
        with ui.element("article").classes("nc-card"):
            with ui.element("div").classes("nc-row"):
                badge(view.say(f"undelivered.state_{row.state.value}"), _KINDS.get(row.state, ""))
                chat = ui.link(str(row.chat_key), link_to(chat_address(row.chat_key)))
                chat.classes("nc-small nc-grow")
                ui.label(local_time(row.created)).classes("nc-soft nc-small")
            ui.label(row.text).classes("nc-text")
            if row.reason:
                ui.label(row.reason).classes("nc-soft nc-small")
            if view.may(AccessRole.OPERATOR):
                with ui.element("div").classes("nc-row"):
                    _buttons(row)

    def _buttons(row: DeliveryView) -> None:
        key = row.delivery_id
        if row.state.can_be_resent:
            ui.button(
                view.say("undelivered.resend"),
                on_click=lambda: view.perform(
                    area.resend(actor, delivery_id=key),
                    view.say("undelivered.resent"),
                    refresh=rows.refresh,
                ),
            ).props("flat dense no-caps")
        if row.state in OPEN_STATES and row.state is not DeliveryState.SENDING:
            ui.button(
                view.say("undelivered.drop"),
                on_click=lambda: view.perform(
                    area.drop(actor, delivery_id=key),
                    view.say("undelivered.dropped"),
                    refresh=rows.refresh,
                ),
            ).props("flat dense no-caps")

    rows = PagedList(view, read, draw, page=_PAGE, nothing="undelivered.nothing")
    which.on_value_change(rows.refresh)
    await rows.refresh()
    ui.timer(_READ_AGAIN_S, rows.look, immediate=False)
