"""Draws the parts that several pages use, such as lists that are read page by page, times and
questions."""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

from nicegui import ui

from nekro_core.console.view import View
from nekro_core.operator.actions import BoundAction
from nekro_core.operator.errors import OperatorError
from nekro_core.operator.jobs import JobState, JobView, RunningJob
from nekro_core.operator.roles import AccessRole
from nekro_core.system.errors import NekroError

Item = TypeVar("Item")
_CODE = re.compile(r"`{1,2}([^`\n]+)`{1,2}")


def local_time(seconds: float, *, date: bool = True) -> str:
    """Return a time in the time zone of the bot; empty for 0."""
    if not seconds:
        return ""
    form = "%Y-%m-%d %H:%M:%S" if date else "%H:%M:%S"
    return datetime.fromtimestamp(seconds, UTC).astimezone().strftime(form)


def size_text(size: int) -> str:
    """Return a size in bytes as a text for people."""
    amount = float(size)
    for unit in ("B", "kB", "MB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} GB"


def empty(view: View, key: str) -> None:
    """Draw the hint of an empty list: what the list would show (the text ``<key>``) and how to get
    an entry (the text ``<key>_hint``)."""
    with ui.column().classes("nc-empty"):
        ui.label(view.say(key)).classes("nc-empty-title")
        ui.label(view.say(f"{key}_hint")).classes("nc-soft")


def heading(text: str) -> ui.label:
    """Draw the heading of a section."""
    return ui.label(text).classes("nc-section").props('role="heading" aria-level="2"')


def badge(text: str, kind: str = "") -> ui.label:
    """Draw a short word for a state, as a badge. ``kind`` is empty, ``good``, ``warn`` or
    ``bad``."""
    return ui.label(text).classes(f"nc-badge nc-badge-{kind or 'plain'}")


def role_button(
    view: View, role: AccessRole, text: str, on_click: Callable[[], Any], *, icon: str | None = None
) -> ui.button:
    """Draw a button of an action that needs a role. For people without the role, the button is
    disabled and says who may press it.

    Args:
        view: The opened page.
        role: The role.
        text: The text of the button.
        on_click: Called when somebody presses it.
        icon: The name of a Material icon.

    Returns:
        The button.
    """
    button = ui.button(text, icon=icon)
    if view.may(role):
        button.on_click(on_click)
    else:
        why = needs_role(view, role)
        button.disable()
        button.props["title"] = why
        button.props["aria-description"] = why
    return button


def needs_role(view: View, role: AccessRole) -> str:
    """Return the sentence that says which role something needs."""
    return view.say("frame.needs_role", role=view.say(f"people.role_{role.value}"))


def draw_with_code(text: str) -> ui.element:
    """Draw a text in which backticks mark code, such as the description of a setting."""
    with ui.element("div").classes("nc-text") as drawn:
        for number, part in enumerate(_CODE.split(text)):
            if part:
                ui.label(part).classes("nc-inline-code" if number % 2 else "nc-inline")
    return drawn


async def confirm(view: View, question: str, *, details: str = "", button: str = "") -> bool:
    """Ask before something is deleted.

    Args:
        view: The opened page.
        question: What the person is asked.
        details: What exactly is deleted.
        button: The text of the button that deletes.

    Returns:
        Whether the person agreed.
    """
    # Do not draw the question inside the list in which the person clicked: the list may be drawn
    # again meanwhile.
    place = view.toasts if view.toasts is not None else nullcontext()
    with place, ui.dialog() as dialog, ui.card().classes("nc-dialog"):
        ui.label(question).classes("nc-dialog-title")
        if details:
            ui.label(details).classes("nc-soft nc-lines")
        with ui.row().classes("nc-dialog-buttons"):
            stay = ui.button(view.say("frame.cancel"), on_click=lambda: dialog.submit(False))
            stay.props("flat no-caps autofocus")
            ui.button(
                button or view.say("frame.delete"),
                on_click=lambda: dialog.submit(True),
            ).props("unelevated no-caps color=negative")
    agreed = await dialog
    dialog.delete()
    return bool(agreed)


class PagedList(Generic[Item]):
    """A list of cards that is read page by page. A button reads older rows.

    Args:
        view: The opened page.
        read: Reads a page. It is called with the last row that is shown; with None for the first
            page.
        draw: Draws one row.
        page: The number of rows of a full page.
        nothing: The key of the text for an empty list; see `empty`.
    """

    def __init__(
        self,
        view: View,
        read: Callable[[Item | None], Awaitable[Sequence[Item]]],
        draw: Callable[[Item], None],
        *,
        page: int,
        nothing: str,
    ) -> None:
        self._view, self._read, self._draw = view, read, draw
        self._page, self._nothing = page, nothing
        self._last: Item | None = None
        self._first: Sequence[Item] = ()
        self._whole = True
        self.rows = ui.column().classes("nc-list")
        self._more = ui.button(view.say("frame.older"), on_click=self._read_on)
        self._more.props("flat no-caps").classes("nc-more")
        self._more.set_visibility(False)

    async def refresh(self) -> None:
        """Read the first page again."""
        self._show(await self._read(None))

    async def look(self) -> None:
        """Read the first page again, and show it if it has changed. If the person has loaded older
        rows, the list does not change."""
        rows = await self._read(None)
        if self._whole and rows != self._first:
            self._show(rows)

    def _show(self, rows: Sequence[Item]) -> None:
        self._first, self._whole, self._last = rows, True, None
        self.rows.clear()
        with self.rows:
            if not rows:
                empty(self._view, self._nothing)
        self._add(rows)

    async def _read_on(self) -> None:
        self._whole = False
        self._add(await self._read(self._last))

    def _add(self, rows: Sequence[Item]) -> None:
        with self.rows:
            for row in rows:
                self._draw(row)
        if rows:
            self._last = rows[-1]
        self._more.set_visibility(len(rows) >= self._page)


def job_text(view: View, job: RunningJob | JobView) -> str:
    """Return what a long action is doing, in the language of the page."""
    key = job.code if "." in job.code else f"jobs.step_{job.code}"
    return view.known(key, **job.values) or job.text or view.say("jobs.begins")


_LOOK_S = 0.4
"""Seconds between two reads of the state of a long action."""


def start_job(
    view: View,
    operation: BoundAction[..., Any],
    parameters: Mapping[str, Any],
    *,
    done: str,
    on_end: Callable[[], Any] | None = None,
) -> RunningJob | None:
    """Start a long action, and show its progress with a button that cancels it.

    Args:
        view: The opened page. The progress is drawn into the current element of the page.
        operation: The action.
        parameters: Its parameters by name.
        done: The text for success; nothing is shown if it is empty.
        on_end: Called when the action has ended, with any outcome.

    Returns:
        The job, for ``on_end``; None if it was refused.
    """
    try:
        job = view.operator.jobs.start(operation, view.actor, parameters)
    except OperatorError as error:
        view.show_error(error)
        return None
    show_job(view, job, done=done, on_end=on_end)
    return job


def show_job(
    view: View, job: RunningJob, *, done: str, on_end: Callable[[], Any] | None = None
) -> None:
    """Show the progress of a long action in the current element of the page, with a button that
    cancels the action. The other arguments are those of `start_job`."""

    async def cancel() -> None:
        try:
            await view.operator.jobs.cancel(view.actor, job_id=job.job_id)
        except NekroError as error:
            view.show_error(error)

    with ui.element("div").classes("nc-card nc-row nc-job") as card:
        card.props('role="status"')
        ui.spinner(size="22px")
        text = ui.label(view.say("jobs.begins")).classes("nc-grow")
        bar = ui.linear_progress(value=0, show_value=False).props("instant-feedback rounded")
        bar.props(f'aria-label="{view.say("jobs.progress")}"')
        if view.may(AccessRole.OPERATOR):
            ui.button(view.say("frame.cancel"), on_click=cancel).props("flat dense no-caps")

    async def look() -> None:
        text.text = job_text(view, job)
        bar.set_visibility(bool(job.total))
        bar.value = min(1.0, job.done / job.total) if job.total else 0.0
        if job.state is JobState.RUNNING:
            return
        timer.deactivate()
        card.delete()
        if job.state is JobState.DONE and job.outcome is not None:
            if done:
                view.tell(done, undo=job.outcome.entry_id if job.outcome.undoable else 0)
        elif job.state is JobState.CANCELLED:
            view.tell(view.say("jobs.cancelled"))
        else:
            view.tell(job.text, bad=True)
        if on_end is not None and hasattr(result := on_end(), "__await__"):
            await result

    timer = ui.timer(_LOOK_S, look)
