"""Draws the page of timers and of plugins' running tasks."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from nicegui import ui

from nekro_core.console.view import View
from nekro_core.console.widgets import badge, empty, heading, local_time
from nekro_core.operator.errors import OperatorError
from nekro_core.operator.roles import AccessRole
from nekro_core.store import TimerRow

_READ_AGAIN_S = 5.0
_AT_ONCE = 50
"""How many timers are drawn at first; a button draws as many more. Drawing 200 timers takes half a
second."""


async def timers_page(view: View) -> None:
    """Draw the page."""
    area, actor = view.operator.timers, view.actor
    ui.label(view.say("timers.lead")).classes("nc-lead")

    shown: list[Any] = []
    most = _AT_ONCE

    def draw_more() -> None:
        nonlocal most
        most += _AT_ONCE
        show.refresh()

    @ui.refreshable
    async def show() -> None:
        rows, tasks = await area.all(actor), await area.tasks(actor)
        shown[:] = [rows, tasks]
        if not rows:
            empty(view, "timers.nothing")
        with ui.element("div").classes("nc-list"):
            for row in rows[:most]:
                draw_timer(view, row, show.refresh)
        if len(rows) > most:
            more = ui.button(view.say("timers.more", count=len(rows) - most), on_click=draw_more)
            more.props("flat no-caps").classes("nc-more")
        heading(view.say("timers.tasks"))
        if not tasks:
            ui.label(view.say("timers.no_tasks")).classes("nc-soft")
        for task in tasks:
            with ui.element("article").classes("nc-card nc-row"):
                ui.label(f"{task.plugin}: {task.task_type} {task.task_id}").classes("nc-grow")
                ui.label(" · ".join(filter(None, (task.chat_key, task.state)))).classes("nc-soft")
                if view.may(AccessRole.OPERATOR):
                    ui.button(
                        view.say("timers.cancel"),
                        on_click=lambda task=task: view.perform(
                            area.cancel_task(actor, task_type=task.task_type, task_id=task.task_id),
                            view.say("timers.cancelled"),
                            refresh=show.refresh,
                        ),
                    ).props("flat dense no-caps")

    async def look() -> None:
        # Draw only changes: drawing the same again would move the keyboard's focus.
        if [await area.all(actor), await area.tasks(actor)] != shown:
            show.refresh()

    if view.may(AccessRole.OPERATOR):
        _new_timer(view, show.refresh)
    await show()
    ui.timer(_READ_AGAIN_S, look, immediate=False)


def draw_timer(view: View, row: TimerRow, refresh: Callable[[], Any]) -> None:
    """Draw a timer, for an operator with buttons that change it. ``refresh`` is called after a
    change."""
    area, actor, key = view.operator.timers, view.actor, row.timer_id
    with ui.element("article").classes("nc-card"):
        with ui.element("div").classes("nc-row"):
            paused = row.state == "paused"
            badge(view.say(f"timers.state_{row.state}"), "warn" if paused else "good")
            ui.label(row.title or str(row.chat_key)).classes("nc-grow")
            if row.due:
                next_time = view.say("timers.next", time=local_time(row.due))
                ui.label(next_time).classes("nc-soft nc-small")
        ui.label(row.text).classes("nc-text")
        about = (str(row.chat_key), row.cron, row.timezone)
        ui.label(" · ".join(filter(None, about))).classes("nc-soft nc-small")
        if not view.may(AccessRole.OPERATOR):
            return

        async def delete() -> None:
            await view.perform(
                area.delete(actor, timer_id=key), view.say("timers.deleted"), refresh=refresh
            )

        with ui.element("div").classes("nc-row"):
            if row.cron:
                change, say, done = (
                    (area.resume, "timers.resume", "timers.resumed")
                    if paused
                    else (area.pause, "timers.pause", "timers.paused")
                )
                ui.button(
                    view.say(say),
                    on_click=lambda: view.perform(
                        change(actor, timer_id=key), view.say(done), refresh=refresh
                    ),
                ).props("flat dense no-caps")
                ui.button(
                    view.say("timers.run"),
                    on_click=lambda: view.perform(
                        area.run_now(actor, timer_id=key), view.say("timers.ran")
                    ),
                ).props("flat dense no-caps")
            ui.button(view.say("timers.delete"), on_click=delete).props("flat dense no-caps")


def _new_timer(view: View, refresh: Callable[[], Any]) -> None:
    area, actor = view.operator.timers, view.actor
    with ui.expansion(view.say("timers.new"), icon="add").classes("nc-card nc-expansion"):
        chat = ui.input(view.say("timers.chat")).props("outlined dense").classes("nc-wide")
        when = ui.input(view.say("timers.when")).props("outlined dense").classes("nc-wide")
        text = ui.textarea(view.say("timers.text")).props("outlined dense").classes("nc-wide")
        title = ui.input(view.say("timers.title")).props("outlined dense")
        zone = ui.input(view.say("timers.timezone")).props("outlined dense")

        async def put() -> None:
            given = {"chat_key": chat.value, "text": text.value}
            written = (when.value or "").strip()
            if len(written.split()) == 5 or written.startswith("@"):
                given |= {"cron": written, "title": title.value, "timezone": zone.value}
                setting = area.set_recurring.invoke(actor, given)
            else:
                try:
                    due = datetime.fromisoformat(written).astimezone().timestamp()
                except ValueError:
                    view.show_error(OperatorError(view.say("timers.bad_time", text=written)))
                    return
                setting = area.set_once.invoke(actor, {**given, "due": due})
            await view.perform(setting, view.say("timers.done_set"), refresh=refresh)

        ui.button(view.say("timers.set"), on_click=put).props("unelevated no-caps")
