"""Draws the page on which a person manages their own name, password, second factor and logins."""

from collections.abc import Callable
from typing import Any

from nicegui import ui

from nekro_core.console.access.health_access import METRICS_SCOPE
from nekro_core.console.browser_name import browser_name
from nekro_core.console.copy_button import copy_button
from nekro_core.console.shown_once import qr_of_svg, show_once
from nekro_core.console.view import View
from nekro_core.console.widgets import badge, confirm, heading, local_time
from nekro_core.operator.identity import Enrolment
from nekro_core.operator.people_views import SessionView, TokenView

_READ_AGAIN_S = 5.0
_DAYS = (7, 30, 90, 365, 0)


async def account_page(view: View) -> None:
    """Draw the page."""
    area, actor = view.operator.people, view.actor
    myself = await area.myself(actor)
    ui.label(view.say("account.lead", role=view.say(f"people.role_{myself.role.value}"))).classes(
        "nc-lead"
    )
    _draw_name(view)
    _draw_password(view, has_password=myself.has_password)

    @ui.refreshable
    async def factor() -> None:
        await _draw_factor(view, factor.refresh)

    heading(view.say("account.factor"))
    await factor()
    heading(view.say("account.sessions"))
    await _draw_sessions(view)
    heading(view.say("account.tokens"))
    await _draw_tokens(view)


def _secret(view: View, key: str, completion: str) -> ui.input:
    field = ui.input(view.say(key), password=True, password_toggle_button=False)
    return field.props(f"outlined dense autocomplete={completion}")


def _draw_name(view: View) -> None:
    area, actor = view.operator.people, view.actor
    heading(view.say("account.name"))
    with ui.element("section").classes("nc-card nc-row"):
        name = ui.input(view.say("account.name"), value=actor.name)
        name.props("outlined dense maxlength=40")

        async def rename() -> None:
            renaming = area.rename_myself.invoke(actor, {"name": name.value or ""})
            await view.perform(renaming, view.say("account.renamed"))

        ui.button(view.say("account.rename"), on_click=rename).props("outline no-caps")


def _draw_password(view: View, *, has_password: bool) -> None:
    area, actor = view.operator.people, view.actor
    heading(view.say("account.password"))
    with ui.element("section").classes("nc-card"):
        ui.label(view.say("account.password_hint")).classes("nc-soft")
        with ui.element("div").classes("nc-row"):
            present = _secret(view, "account.present", "current-password")
            present.set_visibility(has_password)
            new = _secret(view, "account.new_password", "new-password")

            def clear() -> None:
                present.value = new.value = ""

            async def change() -> None:
                changing = area.set_password.invoke(
                    actor,
                    {
                        "password": new.value or "",
                        "present": present.value or "",
                        "session_id": view.session_id,
                    },
                )
                await view.perform(
                    changing, view.say("account.password_set", name=actor.name), refresh=clear
                )

            key = "account.change_password" if has_password else "account.set_password"
            ui.button(view.say(key), on_click=change).props("outline no-caps")


async def _draw_factor(view: View, refresh: Callable[[], Any]) -> None:
    area, actor = view.operator.people, view.actor
    myself = await area.myself(actor)
    with ui.element("section").classes("nc-card"), ui.element("div").classes("nc-row"):
        on = myself.has_second_factor
        badge(view.say("people.factor_yes" if on else "people.factor_no"), "good" if on else "warn")
        hint = (
            view.say("account.codes_left", count=myself.recovery_codes)
            if on
            else view.say("account.factor_hint")
        )
        ui.label(hint).classes("nc-soft nc-grow")
        present = _secret(view, "account.present", "current-password")
        present.set_visibility(myself.has_password)

        async def begin() -> None:
            beginning = area.begin_second_factor.invoke(actor, {"present": present.value or ""})
            enrolment = await view.perform(beginning, view.say("account.factor_begun"))
            if enrolment is not None:
                _draw_enrolment(view, enrolment, refresh)

        async def remove() -> None:
            if await confirm(
                view, view.say("account.remove_ask"), button=view.say("account.remove_factor")
            ):
                removing = area.remove_second_factor.invoke(actor, {"present": present.value or ""})
                await view.perform(removing, view.say("account.factor_removed"), refresh=refresh)

        again = "account.factor_again" if on else "account.factor_set_up"
        ui.button(view.say(again), on_click=begin).props("outline no-caps")
        if on:
            ui.button(view.say("account.remove_factor"), on_click=remove).props("flat no-caps")


def _draw_enrolment(view: View, enrolment: Enrolment, refresh: Callable[[], Any]) -> None:
    area, actor = view.operator.people, view.actor
    with ui.dialog().props("persistent") as dialog, ui.card().classes("nc-dialog nc-once"):
        ui.label(view.say("account.scan")).classes("nc-dialog-title")
        qr_of_svg(enrolment.svg, view.say("account.scan"))
        ui.label(view.say("account.type_secret")).classes("nc-soft")
        ui.label(enrolment.secret).classes("nc-code nc-secret")
        copy_button(view, enrolment.secret, view.say("account.type_secret"), labelled=True)
        code = ui.input(view.say("account.code")).props(
            "outlined dense autofocus inputmode=numeric autocomplete=one-time-code"
        )

        async def confirm_code() -> None:
            confirming = area.confirm_second_factor.invoke(actor, {"code": code.value or ""})
            codes = await view.perform(confirming, view.say("account.factor_on"))
            if codes is None:
                return
            dialog.close()
            show_once(
                view,
                view.say("account.codes"),
                "\n".join(codes),
                hint=view.say("account.codes_hint"),
            )
            refresh()

        code.on("keydown.enter", confirm_code)
        with ui.row().classes("nc-dialog-buttons"):
            ui.button(view.say("frame.cancel"), on_click=dialog.close).props("flat no-caps")
            ui.button(view.say("account.confirm"), on_click=confirm_code).props(
                "unelevated no-caps"
            )
    dialog.open()


async def _draw_sessions(view: View) -> None:
    area, actor = view.operator.people, view.actor
    shown: list[SessionView] = []

    @ui.refreshable
    async def show() -> None:
        shown[:] = await area.sessions(actor)
        if not shown:
            ui.label(view.say("account.no_sessions")).classes("nc-soft")
        for each in shown:
            _draw_session(view, each, show.refresh)

    async def look() -> None:
        if await area.sessions(actor) != shown:
            show.refresh()

    async def end_all() -> None:
        if await confirm(view, view.say("account.end_all_ask"), button=view.say("account.end_all")):
            await view.perform(
                area.end_sessions(actor), view.say("account.ended_all"), refresh=show.refresh
            )

    with ui.element("div").classes("nc-list"):
        await show()
    ui.button(view.say("account.end_all"), on_click=end_all).props("flat no-caps")
    ui.timer(_READ_AGAIN_S, look, immediate=False)


def _draw_session(view: View, session: SessionView, refresh: Callable[[], Any]) -> None:
    area, actor = view.operator.people, view.actor
    with ui.element("article").classes("nc-card nc-row"):
        if session.session_id == view.session_id:
            badge(view.say("account.this_browser"), "good")
        name = browser_name(session.user_agent) or view.say("account.unknown_browser")
        ui.label(name).classes("nc-grow").props["title"] = session.user_agent
        used = view.say("people.last_seen", time=local_time(session.last_used))
        ui.label(f"{session.address} · {used}").classes("nc-soft nc-small")
        ui.button(
            view.say("account.end"),
            on_click=lambda: view.perform(
                area.end_session(actor, session_id=session.session_id),
                view.say("account.ended"),
                refresh=refresh,
            ),
        ).props("flat dense no-caps")


async def _draw_tokens(view: View) -> None:
    area, actor = view.operator.people, view.actor

    @ui.refreshable
    async def show() -> None:
        found = await area.tokens(actor)
        if not found:
            ui.label(view.say("account.no_tokens")).classes("nc-soft")
        for each in found:
            _draw_token(view, each, show.refresh)

    names = [each.name for each in view.operator.areas()]
    scopes = ["*", "*:read", *(f"{name}:{verb}" for name in names for verb in ("read", "act"))]
    scopes.append(f"{METRICS_SCOPE}:read")
    with ui.expansion(view.say("account.new_token"), icon="add").classes("nc-card nc-expansion"):
        label = ui.input(view.say("account.token_label")).props("outlined dense maxlength=60")
        wanted = ui.select(
            scopes,
            value=[],
            multiple=True,
            label=view.say("account.token_scopes"),
            with_input=True,
            new_value_mode="add-unique",
        )
        wanted.props("outlined dense use-chips").classes("nc-wide")
        days = ui.select(
            {
                each: view.say("account.days" if each else "account.ever", days=each)
                for each in _DAYS
            },
            value=90,
            label=view.say("account.token_days"),
        ).props("outlined dense")
        days.classes("nc-people-role")

        def clear() -> None:
            label.value, wanted.value = "", []
            show.refresh()

        async def make() -> None:
            making = area.make_token.invoke(
                actor, {"label": label.value or "", "scopes": wanted.value, "days": days.value}
            )
            made = await view.perform(making, view.say("account.token_made"), refresh=clear)
            if made is not None:
                show_once(view, view.say("account.token_secret"), made.secret)

        ui.button(view.say("account.make_token"), on_click=make).props("unelevated no-caps")
    with ui.element("div").classes("nc-list"):
        await show()


def _draw_token(view: View, token: TokenView, refresh: Callable[[], Any]) -> None:
    area, actor = view.operator.people, view.actor

    async def revoke() -> None:
        if await confirm(
            view,
            view.say("account.revoke_ask", label=token.label),
            button=view.say("account.revoke"),
        ):
            await view.perform(
                area.revoke_token(actor, token_id=token.token_id),
                view.say("account.revoked"),
                refresh=refresh,
            )

    with ui.element("article").classes("nc-card"):
        with ui.element("div").classes("nc-row"):
            ui.label(token.label).classes("nc-grow")
            ui.label(f"{token.prefix}…").classes("nc-soft nc-small")
            ui.button(view.say("account.revoke"), on_click=revoke).props("flat dense no-caps")
        ends = local_time(token.expires) or view.say("account.ever")
        used = local_time(token.last_used) or view.say("account.unused")
        ui.label(
            " · ".join(
                (
                    " ".join(token.scopes),
                    view.say("account.expires", time=ends),
                    view.say("account.used", time=used),
                )
            )
        ).classes("nc-soft nc-small")
