"""Draws the embedded model on the page of models: its state, its files and their downloads."""

from collections.abc import Callable
from typing import Any

from nicegui import ui

from nekro_core.console.view import View
from nekro_core.console.widgets import badge, confirm, job_text, needs_role
from nekro_core.llm.embedded.model import EmbeddedPhase, EmbeddedState
from nekro_core.operator.actions import BoundAction
from nekro_core.operator.embedded import EmbeddedView, WeightsView
from nekro_core.operator.errors import OperatorError
from nekro_core.operator.jobs import JobState, JobView
from nekro_core.operator.roles import AccessRole

_LOOK_S = 1.0
"""Seconds between two reads of the state of the downloads."""
_LOOKS_PER_READ = 3
"""The list of files is read only at each third read of the downloads, because it reads the header
of each file."""
_PHASES = {
    EmbeddedPhase.IDLE: "",
    EmbeddedPhase.DOWNLOADING: "warn",
    EmbeddedPhase.LOADING: "warn",
    EmbeddedPhase.READING: "warn",
    EmbeddedPhase.READY: "good",
    EmbeddedPhase.FAILED: "bad",
}


async def draw_embedded(view: View) -> None:
    """Draw the section into the current element of the page. It shows changes while the page is
    open."""
    await _Section(view).begin()


class _Section:
    """The section. The bot, not the page, runs the downloads: they continue when the page is
    closed, and every open page shows them."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._area = view.operator.embedded
        self._shown: EmbeddedView | None = None
        self._running: dict[int, _JobRow] = {}
        self._looks = 0
        self._state = ui.element("div").classes("nc-wide")
        self._jobs = ui.element("div").classes("nc-list").props('role="status"')
        self._files = ui.element("div").classes("nc-list nc-models-files")

    async def begin(self) -> None:
        """Draw everything."""
        await self._read()
        await self._look_at_jobs()
        if self._view.may(AccessRole.OPERATOR):
            self._draw_forms()
        ui.timer(_LOOK_S, self._look, immediate=False)

    async def _look(self) -> None:
        await self._look_at_jobs()
        self._looks += 1
        if self._looks % _LOOKS_PER_READ == 0:
            await self._read()

    async def _read(self) -> None:
        present = await self._area.show(self._view.actor)
        old, self._shown = self._shown, present
        if old is None or _state_of(old) != _state_of(present):
            self._state.clear()
            with self._state:
                self._draw_state(present)
        if old is None or _files_of(old) != _files_of(present):
            self._files.clear()
            with self._files:
                for each in present.weights:
                    self._draw_file(each)
                if not present.weights:
                    ui.label(self._view.say("models.no_files")).classes("nc-soft")

    def _draw_state(self, shown: EmbeddedView) -> None:
        view, state = self._view, shown.state
        with ui.element("div").classes("nc-card"):
            with ui.element("div").classes("nc-row"):
                if state is None:
                    badge(view.say("models.phase_unused"))
                else:
                    badge(view.say(f"models.phase_{state.phase}"), _PHASES[state.phase])
                ui.label(_name_of(state) or shown.chosen or view.say("models.own_model")).classes(
                    "nc-grow"
                )
            if state is not None and state.reason:
                failed = state.phase is EmbeddedPhase.FAILED
                ui.label(state.reason).classes("nc-bad nc-lines" if failed else "nc-soft nc-lines")
            if state is not None and state.phase is EmbeddedPhase.READING:
                _bar(view, state.done, state.total, f"{state.share:.0%}")
            elif state is not None and state.total:
                _bar(view, state.done, state.total)
            memory = view.say(
                "models.machine",
                available=_size(shown.memory.available),
                total=_size(shown.memory.total),
            )
            context = view.say("models.context", tokens=f"{shown.context_tokens:,}")
            ui.label(f"{memory} · {context}").classes("nc-soft nc-small")
            if shown.chosen and view.may(AccessRole.OPERATOR):
                ui.button(view.say("models.use_own"), on_click=lambda: self._use("")).props(
                    "flat dense no-caps"
                )

    def _draw_file(self, weights: WeightsView) -> None:
        view, file = self._view, weights.file
        with ui.element("article").classes("nc-card"):
            with ui.element("div").classes("nc-row"):
                ui.label(file.name).classes("nc-grow")
                if file.known:
                    badge(view.say("models.known_file"))
                if weights.chosen:
                    badge(view.say("models.chosen"), "good")
                if weights.fits is not None:
                    key = "models.fits" if weights.fits else "models.fits_not"
                    badge(view.say(key), "good" if weights.fits else "bad")
            told = [_size(file.bytes)]
            if weights.memory:
                told.append(view.say("models.needs", memory=_size(weights.memory)))
            if file.info is not None:
                told += [each for each in (file.info.name, file.info.architecture) if each]
            ui.label(" · ".join(told)).classes("nc-soft nc-small")
            if file.problem:
                ui.label(file.problem).classes("nc-bad nc-small nc-lines")
            if not view.may(AccessRole.OPERATOR):
                return
            with ui.element("div").classes("nc-row"):
                if not weights.chosen and not file.problem:
                    ui.button(
                        view.say("models.use_file"), on_click=lambda: self._use(file.name)
                    ).props("flat dense no-caps")
                ui.button(view.say("frame.delete"), on_click=lambda: self._remove(weights)).props(
                    "flat dense no-caps"
                )

    async def _use(self, file: str) -> None:
        await self._view.perform(
            self._area.use(self._view.actor, file=file),
            self._view.say("models.file_used"),
            refresh=self._read,
        )

    async def _remove(self, weights: WeightsView) -> None:
        view, file = self._view, weights.file
        size = view.say("models.file_size", size=_size(file.bytes))
        with self._jobs:  # the dialog stays if the list is drawn anew
            agreed = await confirm(
                view, view.say("models.delete_ask", name=file.name), details=size
            )
        if agreed:
            await view.perform(
                self._area.remove(view.actor, file=file.name),
                view.say("models.file_deleted"),
                refresh=self._read,
            )

    def _draw_forms(self) -> None:
        view = self._view
        with ui.expansion(view.say("models.download"), icon="download").classes(
            "nc-card nc-expansion nc-models-files"
        ):
            ui.label(view.say("models.download_hint")).classes("nc-soft nc-small")
            url, name = _line(view, "url"), _line(view, "file")
            digest = _line(view, "sha256")
            ui.button(
                view.say("models.download_begin"),
                on_click=lambda: self._start(
                    self._area.download,
                    {"url": _of(url), "file": _of(name), "sha256": _of(digest)},
                ),
            ).props("unelevated no-caps")
        with ui.expansion(view.say("models.copy"), icon="file_copy").classes(
            "nc-card nc-expansion"
        ):
            if not view.may(AccessRole.OWNER):
                ui.label(needs_role(view, AccessRole.OWNER)).classes("nc-soft")
                return
            path, expected = _line(view, "path"), _line(view, "sha256")
            ui.button(
                view.say("models.copy_begin"),
                on_click=lambda: self._start(
                    self._area.copy, {"path": _of(path), "sha256": _of(expected)}
                ),
            ).props("unelevated no-caps")

    async def _start(self, operation: BoundAction[..., Any], given: dict[str, Any]) -> None:
        try:
            self._view.operator.jobs.start(operation, self._view.actor, given)
        except OperatorError as error:
            self._view.show_error(error)
            return
        await self._look_at_jobs()

    async def _look_at_jobs(self) -> None:
        view = self._view
        names = {self._area.download.full_name, self._area.copy.full_name}
        for job in await view.operator.jobs.newest(view.actor):
            if job.action not in names:
                continue
            row = self._running.get(job.job_id)
            if job.state is JobState.RUNNING:
                if row is None:
                    with self._jobs:
                        row = self._running[job.job_id] = _JobRow(view, job, self._cancel)
                row.show(job)
            elif row is not None:
                del self._running[job.job_id]
                row.card.delete()
                self._tell(job)
                await self._read()

    async def _cancel(self, job: JobView) -> None:
        view = self._view
        await view.perform(
            view.operator.jobs.cancel(view.actor, job_id=job.job_id),
            view.say("models.download_kept"),
            refresh=self._look_at_jobs,
        )

    def _tell(self, job: JobView) -> None:
        if job.state is JobState.DONE:
            self._view.tell(self._view.say("models.downloaded", name=job.result))
        elif job.state is JobState.FAILED:
            self._view.tell(job.text, bad=True)


class _JobRow:
    """A download that runs."""

    def __init__(self, view: View, job: JobView, cancel: Callable[[JobView], Any]) -> None:
        self._view = view
        with ui.element("div").classes("nc-card nc-row nc-job") as self.card:
            ui.spinner(size="22px")
            self._text = ui.label().classes("nc-grow")
            self._bar = ui.linear_progress(value=0, show_value=False).props(
                "instant-feedback rounded"
            )
            self._bar.props(f'aria-label="{view.say("jobs.progress")}"')
            if view.may(AccessRole.OPERATOR):
                ui.button(view.say("frame.cancel"), on_click=lambda: cancel(job)).props(
                    "flat dense no-caps"
                )

    def show(self, job: JobView) -> None:
        """Show the progress of the download."""
        told = job_text(self._view, job)
        if job.total:
            told = f"{told} · {_size(job.done)} / {_size(job.total)}"
        self._text.text = told
        self._bar.set_visibility(bool(job.total))
        self._bar.value = min(1.0, job.done / job.total) if job.total else 0.0


def _state_of(shown: EmbeddedView) -> object:
    """Return the values that the card of the state shows; the card is drawn again if they have
    changed. The free memory is rounded to 100 MB, because it changes all the time."""
    memory = (shown.memory.total, shown.memory.available // 100_000_000)
    return shown.state, shown.chosen, shown.context_tokens, memory


def _files_of(shown: EmbeddedView) -> object:
    return shown.weights


def _name_of(state: EmbeddedState | None) -> str:
    return state.file if state is not None else ""


def _bar(view: View, done: float, total: float, told: str = "") -> None:
    bar = ui.linear_progress(value=min(1.0, done / total), show_value=False).props("rounded")
    bar.props(f'aria-label="{view.say("jobs.progress")}"')
    ui.label(told or f"{_size(done)} / {_size(total)}").classes("nc-soft nc-small")


def _line(view: View, name: str) -> ui.input:
    field = ui.input(view.say(f"models.field_{name}")).props("outlined dense spellcheck=false")
    return field.classes("nc-wide")


def _of(field: ui.input) -> str:
    return str(field.value or "").strip()


def _size(count: float) -> str:
    """Return a number of bytes for people."""
    return f"{count / 1e9:.1f} GB" if count >= 1e8 else f"{count / 1e6:.1f} MB"
