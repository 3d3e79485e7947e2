"""Draws the page of the audit log, which shows what operators did."""

import json

from nicegui import ui

from nekro_core.console.view import View
from nekro_core.console.widgets import PagedList, badge, local_time
from nekro_core.store import AuditRow

_PAGE = 50
_READ_AGAIN_S = 5.0
_KINDS = {"done": "good", "failed": "bad", "denied": "bad", "cancelled": "warn"}


async def audit_page(view: View) -> None:
    """Draw the page."""
    area, actor = view.operator.audit, view.actor
    ui.label(view.say("audit.lead")).classes("nc-lead")
    with ui.element("div").classes("nc-filters"):
        person = ui.input(view.say("audit.person")).props("outlined dense clearable")
        names = {"": view.say("undelivered.all")}
        names |= {each.name: each.name for each in view.operator.areas()}
        where = ui.select(names, value="", label=view.say("audit.area")).props("outlined dense")

    async def read(last: AuditRow | None) -> list[AuditRow]:
        return await area.newest(
            actor,
            before=last.entry_id if last else 0,
            person=person.value or "",
            area=where.value or "",
            limit=_PAGE,
        )

    def draw(row: AuditRow) -> None:
        with ui.element("article").classes("nc-card"):
            with ui.element("div").classes("nc-row"):
                outcome = row.outcome or "unknown"
                badge(view.say(f"audit.outcome_{outcome}"), _KINDS.get(outcome, "warn"))
                ui.label(row.action).classes("nc-grow")
                ui.label(local_time(row.at)).classes("nc-soft nc-small")
            about = (row.actor, row.role, row.origin, row.address, row.subject)
            ui.label(" · ".join(each for each in about if each)).classes("nc-soft nc-small")
            if row.error:
                ui.label(row.error).classes("nc-bad nc-small nc-lines")
            _draw_values(view, row)
            if row.undone_by:
                ui.label(view.say("audit.taken_back", entry=row.undone_by)).classes("nc-soft")
            elif row.undo_action and row.outcome == "done":
                ui.button(
                    view.say("audit.undo"),
                    on_click=lambda: view.perform(
                        area.undo(actor, entry_id=row.entry_id),
                        view.say("audit.undone"),
                        refresh=rows.refresh,
                    ),
                ).props("flat dense no-caps")

    rows = PagedList(view, read, draw, page=_PAGE, nothing="audit.nothing")
    person.on("change", rows.refresh)
    where.on_value_change(rows.refresh)
    await rows.refresh()
    ui.timer(_READ_AGAIN_S, rows.look, immediate=False)


def _draw_values(view: View, row: AuditRow) -> None:
    for key, value in (("audit.before", row.old), ("audit.after", row.new)):
        if value:
            with ui.element("div").classes("nc-row nc-small"):
                ui.label(view.say(key)).classes("nc-soft")
                ui.label(_readable(value)).classes("nc-text nc-grow")


def _readable(value: str) -> str:
    """Return a value of the log for people: a text without quotes, any other value as JSON."""
    try:
        read = json.loads(value)
    except ValueError:  # The value was cut off, so it is not JSON.
        return value
    return read if isinstance(read, str) else value
