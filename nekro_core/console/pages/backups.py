"""Draws the page of the backups, and of the restore that the next start carries out."""

from collections.abc import Callable
from typing import Any

from nicegui import ui
from nicegui.events import GenericEventArguments

from nekro_core.console.restart import ask_restart
from nekro_core.console.upload_button import upload_button
from nekro_core.console.view import View
from nekro_core.console.widgets import (
    badge,
    confirm,
    empty,
    heading,
    local_time,
    size_text,
    start_job,
)
from nekro_core.operator.backups import BackupView, RestoreView
from nekro_core.operator.roles import AccessRole

FILES = "../../api/v1/backups"
"""The address to which backups are uploaded, relative to the page. It does not begin with a slash,
because NiceGUI would put ``/ui`` in front of it."""
_READ_AGAIN_S = 5.0


async def backups_page(view: View) -> None:
    """Draw the page."""
    area, actor = view.operator.backups, view.actor
    ui.label(view.say("backups.lead")).classes("nc-lead")
    shown: list[Any] = []

    @ui.refreshable
    async def show() -> None:
        found, prepared = await area.newest(actor), await area.prepared(actor)
        shown[:] = [found, prepared]
        if prepared is not None:
            _draw_prepared(view, prepared, show.refresh)
        heading(view.say("backups.list"))
        if not found:
            empty(view, "backups.nothing")
        with ui.element("div").classes("nc-list"):
            for each in found:
                _draw_backup(view, each, progress, show.refresh)

    async def look() -> None:
        if [await area.newest(actor), await area.prepared(actor)] != shown:
            show.refresh()

    if view.may(AccessRole.OWNER):
        with ui.element("div").classes("nc-list"):
            _draw_new(view, lambda: progress, show.refresh)
            _draw_upload(view, show.refresh)
    else:
        ui.label(view.say("backups.owners")).classes("nc-soft")
    progress = ui.element("div").classes("nc-list nc-backups-progress")
    await show()
    ui.timer(_READ_AGAIN_S, look, immediate=False)


def _draw_new(view: View, progress: Callable[[], ui.element], refresh: Callable[[], Any]) -> None:
    with ui.element("section").classes("nc-card"):
        ui.label(view.say("backups.secrets_hint")).classes("nc-soft")
        with ui.element("div").classes("nc-row"):
            passphrase = ui.input(view.say("backups.passphrase"), password=True)
            passphrase.props("outlined dense autocomplete=new-password").classes("nc-grow")

            def make() -> None:
                given = {"passphrase": passphrase.value} if passphrase.value else {}
                passphrase.value = ""
                with progress():
                    start_job(
                        view,
                        view.operator.backups.make,
                        given,
                        done=view.say("backups.made"),
                        on_end=refresh,
                    )

            ui.button(view.say("backups.make"), icon="archive", on_click=make).props(
                "unelevated no-caps"
            )


def _draw_upload(view: View, refresh: Callable[[], Any]) -> None:
    def uploaded() -> None:
        view.tell(view.say("backups.uploaded"))
        refresh()

    def failed(event: GenericEventArguments) -> None:
        view.tell(str(event.args or view.say("backups.upload_failed"))[:1000], bad=True)

    with ui.expansion(view.say("backups.upload"), icon="upload").classes("nc-card nc-expansion"):
        ui.label(view.say("backups.upload_hint")).classes("nc-soft")
        upload = upload_button(view, view.say("backups.upload_file"), accept=".zip")
        upload.props(f'url="{FILES}" method=POST send-raw')
        upload.on("uploaded", uploaded, js_handler="() => emit()")
        upload.on(
            "failed",
            failed,
            js_handler="(info) => { let text = ''; try { text = "
            "JSON.parse(info.xhr.responseText).error.message } catch (_) {} emit(text) }",
        )


def _draw_prepared(view: View, prepared: RestoreView, refresh: Callable[[], Any]) -> None:
    area, actor = view.operator.backups, view.actor
    with ui.element("section").classes("nc-card nc-backups-next").props('role="status"'):
        with ui.element("div").classes("nc-row"):
            badge(view.say("backups.prepared"), "warn")
            ui.label(prepared.backup).classes("nc-grow")
        ui.label(
            view.say("backups.next_start", name=prepared.backup, time=local_time(prepared.made))
        )
        kind = "backups.with_secrets" if prepared.secrets else "backups.without_secrets"
        ui.label(view.say(kind)).classes("nc-soft")
        if view.may(AccessRole.OWNER):
            with ui.element("div").classes("nc-row"):
                ui.button(
                    view.say("backups.restore_now"),
                    icon="restart_alt",
                    on_click=lambda: ask_restart(
                        view, details=view.say("backups.restore_now_what", name=prepared.backup)
                    ),
                ).props("unelevated no-caps")
                ui.button(
                    view.say("backups.cancel_restore"),
                    on_click=lambda: view.perform(
                        area.cancel_restore(actor), view.say("backups.cancelled"), refresh=refresh
                    ),
                ).props("outline no-caps")


def _draw_backup(
    view: View, backup: BackupView, progress: ui.element, refresh: Callable[[], Any]
) -> None:
    area, actor, name = view.operator.backups, view.actor, backup.name

    def check() -> None:
        with progress:
            start_job(view, area.check, {"name": name}, done=view.say("backups.checked", name=name))

    async def delete() -> None:
        if await confirm(
            view, view.say("backups.delete_ask", name=name), details=view.say("backups.delete_what")
        ):
            await view.perform(
                area.delete(actor, name=name), view.say("backups.deleted"), refresh=refresh
            )

    with ui.element("article").classes("nc-card nc-row"):
        with ui.element("div").classes("nc-grow"):
            ui.label(name)
            about = view.say(
                "backups.about", time=local_time(backup.made), size=size_text(backup.size)
            )
            ui.label(about).classes("nc-soft nc-small")
        if view.may(AccessRole.OPERATOR):
            ui.button(view.say("backups.check"), on_click=check).props("flat dense no-caps")
        if view.may(AccessRole.OWNER):
            link = ui.link(view.say("backups.download"), f"{FILES}/{name}")
            link.classes("nc-download").props("download")
            ui.button(
                view.say("backups.restore"),
                on_click=lambda: _ask_restore(view, backup, progress, refresh),
            ).props("flat dense no-caps")
            ui.button(view.say("backups.delete"), on_click=delete).props("flat dense no-caps")


async def _ask_restore(
    view: View, backup: BackupView, progress: ui.element, refresh: Callable[[], Any]
) -> None:
    """Say exactly what the restore of a backup does, and ask whether to prepare it."""
    with ui.dialog() as dialog, ui.card().classes("nc-dialog"):
        ui.label(view.say("backups.restore_ask", name=backup.name)).classes("nc-dialog-title")
        ui.label(view.say("backups.restore_what", time=local_time(backup.made))).classes("nc-lines")
        passphrase = ui.input(view.say("backups.restore_passphrase"), password=True)
        passphrase.props("outlined dense autocomplete=off").classes("nc-wide")
        with ui.row().classes("nc-dialog-buttons"):
            ui.button(view.say("frame.cancel"), on_click=lambda: dialog.submit(False)).props(
                "flat no-caps"
            )
            ui.button(view.say("backups.prepare"), on_click=lambda: dialog.submit(True)).props(
                "unelevated no-caps color=negative"
            )
    if await dialog:
        given = {"name": backup.name}
        if passphrase.value:
            given["passphrase"] = passphrase.value
        with progress:
            start_job(
                view,
                view.operator.backups.prepare_restore,
                given,
                done=view.say("backups.restore_ready"),
                on_end=refresh,
            )
    dialog.delete()
