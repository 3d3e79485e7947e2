"""Draws the page of friend and group requests, banned people, and messages to several chats."""

from nicegui import ui

from nekro_core.console.pages.ban_list import BanListView
from nekro_core.console.pages.broadcasts import Broadcasts
from nekro_core.console.view import View
from nekro_core.console.widgets import PagedList, badge, local_time
from nekro_core.delivery.contact_request import ContactRequest, ContactRequestState
from nekro_core.operator.roles import AccessRole

_PAGE = 50
_LOOK_S = 3.0
_KINDS = {
    ContactRequestState.OPEN: "warn",
    ContactRequestState.APPROVED: "good",
    ContactRequestState.REFUSED: "",
    ContactRequestState.DISMISSED: "",
}


async def requests_page(view: View) -> None:
    """Draw the page."""
    with ui.tabs().props('no-caps align="left" inline-label').classes("nc-tabs") as tabs:
        for name in ("asked", "banned", "broadcast"):
            ui.tab(name, label=view.say(f"requests.tab_{name}"))
    with ui.tab_panels(tabs, value="asked").props("keep-alive").classes("nc-tab-panels"):
        with ui.tab_panel("asked"):
            requests = _Requests(view)
            await requests.rows.refresh()
            await requests.draw_platforms()
        with ui.tab_panel("banned"):
            bans = BanListView(view)
            await bans.draw()
        with ui.tab_panel("broadcast"):
            broadcasts = Broadcasts(view)
            await broadcasts.draw()
    requests.banned = bans.refresh
    ui.timer(_LOOK_S, requests.look, immediate=False)


class _Requests:
    """The friend and group requests."""

    def __init__(self, view: View) -> None:
        self._view, self._area = view, view.operator.requests
        self._shown: list[tuple[str, str, str]] = []
        ui.label(view.say("requests.lead")).classes("nc-lead")
        with ui.element("div").classes("nc-filters"):
            self._which = ui.toggle(
                {"open": view.say("requests.open"), "all": view.say("requests.all")}, value="open"
            ).props("no-caps unelevated")
        self._dialogs = ui.element("div")
        self.banned = self._nothing
        self.rows = PagedList(view, self._read, self._draw, page=_PAGE, nothing="requests.nothing")
        self._which.on_value_change(self.rows.refresh)

    async def draw_platforms(self) -> None:
        """Say which platforms report friend and group requests, and which do not."""
        platforms = await self._area.platforms(self._view.actor)
        for having, key in ((True, "requests.platforms_with"), (False, "requests.platforms_none")):
            names = ", ".join(name for name, has in platforms.items() if has is having)
            if names:
                ui.label(self._view.say(key, platforms=names)).classes("nc-soft nc-small")

    async def look(self) -> None:
        """Read the first page, and draw it again if it has changed."""
        if _shape(await self._page("")) != self._shown:
            await self.rows.refresh()

    async def _read(self, last: ContactRequest | None) -> list[ContactRequest]:
        page = await self._page(last.request_id if last else "")
        if last is None:
            self._shown = _shape(page)
        return page

    async def _page(self, before: str) -> list[ContactRequest]:
        wanted = self._which.value == "open"
        states = (ContactRequestState.OPEN,) if wanted else tuple(ContactRequestState)
        return await self._area.listed(self._view.actor, states=states, before=before, limit=_PAGE)

    def _draw(self, row: ContactRequest) -> None:
        say = self._view.say
        with ui.element("article").classes("nc-card nc-request"):
            with ui.element("div").classes("nc-row"):
                badge(say(f"requests.state_{row.state}"), _KINDS[row.state])
                who = f"{row.user_name} ({row.user_id})" if row.user_name else row.user_id
                asks = say(f"requests.kind_{row.kind}", person=who, group=row.group_id)
                ui.label(asks).classes("nc-grow nc-request-who")
                ui.label(local_time(row.time)).classes("nc-soft nc-small")
            if row.text:
                ui.label(row.text).classes("nc-text")
            place = say("requests.place", platform=row.adapter, account=row.account)
            ui.label(place).classes("nc-soft nc-small")
            if row.reason:
                ui.label(say("requests.with_reason", reason=row.reason)).classes("nc-soft nc-small")
            if row.problem:
                ui.label(row.problem).classes("nc-bad nc-small nc-lines")
            if self._view.may(AccessRole.OPERATOR):
                with ui.element("div").classes("nc-row"):
                    self._buttons(row)

    def _buttons(self, row: ContactRequest) -> None:
        view = self._view
        if row.state is ContactRequestState.OPEN:
            approve = ui.button(
                view.say("requests.approve"),
                on_click=lambda: view.perform(
                    self._area.answer(view.actor, request_id=row.request_id, approve=True),
                    view.say("requests.approved"),
                    refresh=self.rows.refresh,
                ),
            ).props("unelevated no-caps")
            approve.props["aria-label"] = f"{view.say('requests.approve')}: {row.user_id}"
            refuse = ui.button(view.say("requests.refuse"), on_click=lambda: self._refuse(row))
            refuse.props("flat dense no-caps")
            refuse.props["aria-label"] = f"{view.say('requests.refuse')}: {row.user_id}"
            dismiss = ui.button(
                view.say("requests.dismiss"),
                on_click=lambda: view.perform(
                    self._area.dismiss(view.actor, request_id=row.request_id),
                    view.say("requests.dismissed"),
                    refresh=self.rows.refresh,
                ),
            ).props("flat dense no-caps")
            dismiss.props["aria-label"] = f"{view.say('requests.dismiss')}: {row.user_id}"
            with dismiss:
                ui.tooltip(view.say("requests.dismiss_hint"))
        ban = ui.button(
            view.say("requests.ban"),
            on_click=lambda: view.perform(
                self._area.ban(view.actor, place=row.adapter, user_id=row.user_id),
                view.say("requests.banned_now", person=row.user_id),
                refresh=self.banned,
            ),
        ).props("flat dense no-caps")
        ban.props["aria-label"] = f"{view.say('requests.ban')}: {row.user_id}"

    async def _refuse(self, row: ContactRequest) -> None:
        view = self._view
        with self._dialogs, ui.dialog() as dialog, ui.card().classes("nc-dialog"):
            dialog.props["aria-label"] = view.say("requests.refuse")
            ui.label(view.say("requests.refuse_ask", person=row.user_id)).classes("nc-dialog-title")
            reason = ui.input(view.say("requests.reason")).props("outlined dense maxlength=200")
            reason.classes("nc-wide").on("keydown.enter", lambda: dialog.submit(True))
            ui.label(view.say("requests.reason_hint")).classes("nc-soft nc-small")
            with ui.row().classes("nc-dialog-buttons"):
                stay = ui.button(view.say("frame.cancel"), on_click=lambda: dialog.submit(False))
                stay.props("flat no-caps")
                do = ui.button(view.say("requests.refuse"), on_click=lambda: dialog.submit(True))
                do.props("unelevated no-caps")
        agreed, given = await dialog, reason.value or ""
        dialog.delete()
        if agreed:
            await view.perform(
                self._area.answer(
                    view.actor, request_id=row.request_id, approve=False, reason=given
                ),
                view.say("requests.refused"),
                refresh=self.rows.refresh,
            )

    async def _nothing(self) -> None:
        """Do nothing. The attribute ``banned`` holds this function until the list of banned people
        is drawn. Then it holds the function that draws that list again."""


def _shape(page: list[ContactRequest]) -> list[tuple[str, str, str]]:
    return [(each.request_id, each.state.value, each.problem) for each in page]
