"""Draws the page of the people of the console."""

from collections.abc import Callable
from typing import Any

from nicegui import ui

from nekro_core.console.shown_once import show_once
from nekro_core.console.view import View
from nekro_core.console.widgets import badge, confirm, local_time
from nekro_core.operator.people_views import InvitationView, PersonView
from nekro_core.operator.roles import AccessRole
from nekro_core.store import PersonState

_READ_AGAIN_S = 5.0
_KINDS = {PersonState.ACTIVE: "good", PersonState.INVITED: "warn", PersonState.DISABLED: "bad"}


async def people_page(view: View) -> None:
    """Draw the page."""
    area, actor = view.operator.people, view.actor
    ui.label(view.say("people.lead")).classes("nc-lead")
    shown: list[PersonView] = []

    @ui.refreshable
    async def show() -> None:
        shown[:] = await area.everybody(actor)
        with ui.element("div").classes("nc-list"):
            for person in shown:
                _draw_person(view, person, show.refresh)

    async def look() -> None:
        if await area.everybody(actor) != shown:
            show.refresh()

    _draw_invite(view, show.refresh)
    await show()
    ui.timer(_READ_AGAIN_S, look, immediate=False)


def _roles(view: View) -> dict[str, str]:
    return {each.value: view.say(f"people.role_{each.value}") for each in AccessRole}


def _draw_invite(view: View, refresh: Callable[[], Any]) -> None:
    area, actor = view.operator.people, view.actor
    with ui.expansion(view.say("people.invite"), icon="person_add").classes("nc-card nc-expansion"):
        name = ui.input(view.say("people.name")).props("outlined dense maxlength=40")
        role = ui.select(_roles(view), value="viewer", label=view.say("people.role"))
        role.props("outlined dense").classes("nc-people-role")

        def clear() -> None:
            name.value = ""
            refresh()

        async def invite() -> None:
            inviting = area.invite.invoke(actor, {"name": name.value or "", "role": role.value})
            said = view.say("people.invited")
            link: InvitationView | None = await view.perform(inviting, said, refresh=clear)
            if link is not None:
                await _show_link(view, link)

        name.on("keydown.enter", invite)
        ui.button(view.say("people.make_link"), on_click=invite).props("unelevated no-caps")


async def _show_link(view: View, link: InvitationView) -> None:
    origin = await ui.run_javascript("location.origin")
    title = view.say("people.link_title", name=link.name)
    show_once(view, title, f"{origin}{link.path}", hint=view.say("people.link_hint"), qr=True)


def _draw_person(view: View, person: PersonView, refresh: Callable[[], Any]) -> None:
    with ui.element("article").classes("nc-card"):
        with ui.element("div").classes("nc-row"):
            badge(view.say(f"people.state_{person.state.value}"), _KINDS[person.state])
            ui.label(person.name).classes("nc-grow nc-people-name")
            if person.name == view.actor.name:
                ui.link(view.say("people.yourself"), "account").classes("nc-small")
            if person.last_seen:
                seen = view.say("people.last_seen", time=local_time(person.last_seen))
            else:
                seen = view.say("people.never_seen")
            ui.label(seen).classes("nc-soft nc-small")
        about = [view.say("people.password_yes" if person.has_password else "people.password_no")]
        about.append(
            view.say("people.factor_yes" if person.has_second_factor else "people.factor_no")
        )
        ui.label(" · ".join(about)).classes("nc-soft nc-small")
        with ui.element("div").classes("nc-row"):
            _draw_role(view, person, refresh)
            _draw_buttons(view, person, refresh)


def _draw_role(view: View, person: PersonView, refresh: Callable[[], Any]) -> None:
    area, actor = view.operator.people, view.actor

    async def change() -> None:
        changing = area.change_role.invoke(actor, {"name": person.name, "role": role.value})
        changed = await view.perform(changing, view.say("people.role_changed"), refresh=refresh)
        if changed is None:
            refresh()

    role = ui.select(
        _roles(view), value=person.role.value, label=view.say("people.role"), on_change=change
    )
    role.props("outlined dense").classes("nc-people-role")


def _draw_buttons(view: View, person: PersonView, refresh: Callable[[], Any]) -> None:
    area, actor, name = view.operator.people, view.actor, person.name

    async def reset() -> None:
        if person.has_password and not await confirm(
            view,
            view.say("people.reset_ask", name=name),
            details=view.say("people.reset_what"),
            button=view.say("people.make_link"),
        ):
            return
        made = await view.perform(
            area.reset_password(actor, name=name), view.say("people.link_made"), refresh=refresh
        )
        if made is not None:
            await _show_link(view, made)

    async def disable() -> None:
        if await confirm(
            view,
            view.say("people.disable_ask", name=name),
            details=view.say("people.disable_what"),
            button=view.say("people.disable"),
        ):
            await view.perform(
                area.disable(actor, name=name), view.say("people.disabled"), refresh=refresh
            )

    async def enable() -> None:
        await view.perform(
            area.enable(actor, name=name), view.say("people.enabled"), refresh=refresh
        )

    async def log_out() -> None:
        if await confirm(
            view,
            view.say("people.log_out_ask", name=name),
            button=view.say("people.log_out"),
        ):
            await view.perform(
                area.end_sessions(actor, name=name), view.say("people.logged_out"), refresh=refresh
            )

    def button(key: str, act: Callable[[], Any]) -> None:
        ui.button(view.say(f"people.{key}"), on_click=act).props("flat dense no-caps")

    if person.state is PersonState.DISABLED:
        button("enable", enable)
        return
    button("reset" if person.has_password else "new_link", reset)
    if person.state is PersonState.ACTIVE:
        button("log_out", log_out)
    if person.has_second_factor and name != actor.name:
        button("remove_factor", lambda: _remove_factor(view, name, refresh))
    button("disable", disable)


async def _remove_factor(view: View, name: str, refresh: Callable[[], Any]) -> None:
    area, actor = view.operator.people, view.actor
    with ui.dialog() as dialog, ui.card().classes("nc-dialog"):
        ui.label(view.say("people.remove_factor_ask", name=name)).classes("nc-dialog-title")
        present = ui.input(view.say("account.present"), password=True).props("outlined dense")
        with ui.row().classes("nc-dialog-buttons"):
            ui.button(view.say("frame.cancel"), on_click=lambda: dialog.submit(False)).props(
                "flat no-caps"
            )
            ui.button(view.say("people.remove_factor"), on_click=lambda: dialog.submit(True)).props(
                "unelevated no-caps color=negative"
            )
    if await dialog:
        removing = area.remove_second_factor.invoke(
            actor, {"name": name, "present": present.value or ""}
        )
        await view.perform(removing, view.say("account.factor_removed"), refresh=refresh)
    dialog.delete()
