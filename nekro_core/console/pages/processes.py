"""Draws the page of the processes of a cluster."""

from nicegui import ui

from nekro_core.console.view import View
from nekro_core.console.widgets import badge, empty, local_time, size_text
from nekro_core.operator.elsewhere import ProcessView

_READ_AGAIN_S = 5.0


async def processes_page(view: View) -> None:
    """Draw the page."""
    area, actor = view.operator.cluster, view.actor
    ui.label(view.say("processes.lead")).classes("nc-lead")
    shown: list[ProcessView] = []

    @ui.refreshable
    def show() -> None:
        if not shown:
            empty(view, "processes.nothing")
        with ui.element("div").classes("nc-list"):
            for each in shown:
                _draw_process(view, each)

    async def look() -> None:
        found = await area.processes(actor)
        if found != shown:
            shown[:] = found
            show.refresh()

    shown[:] = await area.processes(actor)
    show()
    ui.timer(_READ_AGAIN_S, look, immediate=False)


def _draw_process(view: View, process: ProcessView) -> None:
    say = view.say
    with ui.element("article").classes("nc-card"):
        with ui.element("div").classes("nc-row"):
            kind, state = _state(process)
            badge(say(f"processes.{state}"), kind)
            ui.label(process.node).classes("nc-grow")
            if process.here:
                badge(say("processes.here"))
            ui.label(say(f"processes.role_{process.role}")).classes("nc-soft")
        if process.problem:
            ui.label(process.problem).classes("nc-bad nc-small nc-lines")
        facts = [
            say("processes.version", version=process.version),
            say("processes.since", time=local_time(process.started)),
        ]
        if process.role == "worker":
            facts.append(say("processes.partitions", count=process.partitions))
        if process.reachable:
            facts += _work(view, process)
        ui.label(" · ".join(facts)).classes("nc-soft nc-small nc-lines")
        if process.accounts:
            accounts = say("processes.accounts", accounts=", ".join(process.accounts))
            ui.label(accounts).classes("nc-soft nc-small nc-lines")


def _state(process: ProcessView) -> tuple[str, str]:
    """Return the kind of the badge, and the name of its text."""
    if not process.reachable:
        return "bad", "away"
    return ("warn", "not_ready") if process.problem else ("good", "ready")


def _work(view: View, process: ProcessView) -> list[str]:
    facts = []
    if process.role == "worker":
        facts.append(view.say("processes.turns", count=process.turns_running))
        if process.turns_waiting:
            facts.append(view.say("processes.waiting", count=process.turns_waiting))
        facts.append(view.say("processes.chats", count=process.chats))
        facts.append(view.say("processes.boxes", count=process.boxes))
    if process.memory:
        facts.append(view.say("processes.memory", size=size_text(process.memory)))
    return facts
