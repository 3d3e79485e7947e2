"""Draws the list of long actions in the frame of each page. So a person can still see the progress
of an action after leaving or reloading the page where it began."""

from collections.abc import Hashable

import anyio
from nicegui import ui

from nekro_core.console.view import View
from nekro_core.console.widgets import badge, job_text, local_time
from nekro_core.operator.jobs import JobState, JobView
from nekro_core.operator.roles import AccessRole

_LOOK_S = 1.0
_SHOWN = 8
"""Maximum number of jobs in the list: those that run, and those that ended last."""
_KINDS = {
    JobState.RUNNING: "warn",
    JobState.DONE: "good",
    JobState.FAILED: "bad",
    JobState.CANCELLED: "",
}


class JobsMenu:
    """A button that shows the number of long actions that run. A click opens the list of these
    actions.

    Args:
        view: The opened page.
    """

    def __init__(self, view: View) -> None:
        self._view = view
        self._drawn: Hashable = None
        self._rows: dict[int, tuple[ui.label, ui.linear_progress]] = {}
        with ui.button(icon="pending_actions").props("flat round dense") as self._button:
            self._count = ui.badge().props("floating color=primary")
            with ui.menu().props('role=dialog max-width="min(92vw, 460px)"') as panel:
                panel.props["aria-label"] = view.say("jobs.title")
                self._list = ui.element("div").classes("nc-jobs nc-list").props('role="status"')
        self._button.classes("nc-jobs-button").set_visibility(False)
        # NiceGUI's timer is not used: it would send the page before its content is drawn.
        view.while_open(self._keep)

    async def _keep(self) -> None:
        while True:
            await self.look()
            await anyio.sleep(_LOOK_S)

    async def look(self) -> None:
        """Show the progress of the actions. Only changes are sent to the browser."""
        jobs = (await self._view.operator.jobs.newest(self._view.actor))[:_SHOWN]
        shape = tuple((each.job_id, each.state) for each in jobs)
        if shape != self._drawn:
            self._drawn = shape
            self._draw(jobs)
        for job in jobs:
            if job.job_id in self._rows:
                text, bar = self._rows[job.job_id]
                text.text = job_text(self._view, job)
                bar.set_visibility(bool(job.total))
                bar.value = min(1.0, job.done / job.total) if job.total else 0.0

    def _draw(self, jobs: list[JobView]) -> None:
        running = sum(each.state is JobState.RUNNING for each in jobs)
        self._button.set_visibility(bool(jobs))
        self._button.props["aria-label"] = self._view.say("jobs.running", count=running)
        self._button.update()
        self._count.text = str(running)
        self._count.set_visibility(running > 0)
        self._rows.clear()
        self._list.clear()
        with self._list:
            for each in jobs:
                self._draw_job(each)

    def _draw_job(self, job: JobView) -> None:
        view = self._view
        name = view.known(f"jobs.action_{job.action.replace('.', '_')}") or job.action
        with ui.element("article").classes("nc-job-row") as row:
            row.props["aria-label"] = name
            with ui.element("div").classes("nc-row"):
                badge(view.say(f"jobs.state_{job.state.value}"), _KINDS[job.state])
                ui.label(name).classes("nc-grow")
                ui.label(local_time(job.started, date=False)).classes("nc-soft nc-small")
            if job.state is JobState.RUNNING:
                text = ui.label().classes("nc-small nc-lines")
                bar = ui.linear_progress(value=0, show_value=False)
                bar.props("instant-feedback rounded")
                bar.props["aria-label"] = view.say("jobs.progress")
                self._rows[job.job_id] = text, bar
                if view.may(AccessRole.OPERATOR):
                    self._draw_cancel(job, name)
            elif job.state is JobState.FAILED:
                ui.label(job.text).classes("nc-bad nc-small nc-lines")

    def _draw_cancel(self, job: JobView, name: str) -> None:
        view = self._view
        cancel = ui.button(
            view.say("frame.cancel"),
            on_click=lambda: view.perform(
                view.operator.jobs.cancel(view.actor, job_id=job.job_id),
                view.say("jobs.cancelled"),
                refresh=self.look,
            ),
        ).props("flat dense no-caps")
        cancel.props["aria-label"] = f"{view.say('frame.cancel')}: {name}"
