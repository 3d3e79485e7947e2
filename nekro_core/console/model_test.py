"""Tests an endpoint of a language model, and shows each result as soon as its step has ended."""

from collections.abc import Callable, Mapping
from typing import Any

import anyio
from nicegui import ui

from nekro_core.console.view import View
from nekro_core.console.widgets import badge
from nekro_core.llm.probe import EndpointReport, ProbeResult, ProbeStep, ProbeVerdict
from nekro_core.system.errors import NekroError

_KINDS = {
    ProbeVerdict.OK: "good",
    ProbeVerdict.FAILED: "bad",
    ProbeVerdict.ABSENT: "",
    ProbeVerdict.DIFFERS: "warn",
    ProbeVerdict.UNKNOWN: "",
}


def draw_model_test(
    view: View,
    refused: Callable[[NekroError], None] | None = None,
    ended: Callable[[EndpointReport], None] | None = None,
) -> "ModelTest":
    """Draw the area for a test into the current element of the page. It is empty until the test
    runs.

    Args:
        view: The opened page.
        refused: Shows why the test was refused.
        ended: Called with the report.

    Returns:
        The test. It begins with `ModelTest.run`.
    """
    return ModelTest(view, refused, ended)


class ModelTest:
    """The area of a page that shows a test of a model. The action `Models.test` reports its
    progress to this object."""

    def __init__(
        self,
        view: View,
        refused: Callable[[NekroError], None] | None,
        ended: Callable[[EndpointReport], None] | None,
    ) -> None:
        self._view, self._refused, self._ended = view, refused, ended
        self._place = ui.element("div").classes("nc-models-test").props('role="status"')
        self._place.set_visibility(False)
        self._steps: dict[ProbeStep, ui.element] = {}
        self._scope: anyio.CancelScope | None = None

    async def run(self, parameters: Callable[[], Mapping[str, Any] | None]) -> None:
        """Run the test.

        Args:
            parameters: Returns the parameters of `Models.test`; None if they cannot be read.
        """
        given = parameters()
        if given is None:
            return
        self.cancel()
        view, area = self._view, self._view.operator.models
        self._begin()
        with anyio.CancelScope() as self._scope:
            report = await view.perform(
                area.test.invoke(view.actor, given, self),
                view.say("models.tested"),
                refused=self._refuse,
            )
            if report is not None:
                self._end(report)
        if self._scope.cancelled_caught:
            self._clear()

    def cancel(self) -> None:
        """End the test if it runs."""
        if self._scope is not None:
            self._scope.cancel()

    def report(
        self,
        text: str,
        *,
        done: float = 0.0,
        total: float = 0.0,
        code: str = "",
        **values: str | float,
    ) -> None:
        """See `Progress.report`."""
        del text, code, values
        self._bar.value = done / total if total else 0.0

    def found(self, result: ProbeResult) -> None:
        """See `ProbeProgress.found`."""
        row = self._steps[result.step]
        row.clear()
        view = self._view
        with row:
            badge(view.say(f"models.verdict_{result.verdict}"), _KINDS[result.verdict])
            ui.label(view.say(f"models.step_{result.step}")).classes("nc-models-step")
            with ui.element("div").classes("nc-grow"):
                text = view.known(f"probe.{result.code}", **result.values)
                ui.label(text or result.text).classes("nc-lines")
                if result.advice:
                    advice = view.known(f"probe.advice_{result.advice_code}", **result.values)
                    ui.label(advice or result.advice).classes("nc-soft nc-small nc-lines")
            if result.seconds:
                ui.label(f"{result.seconds:.2f} s").classes("nc-soft nc-small")

    def _begin(self) -> None:
        view = self._view
        self._place.clear()
        self._place.set_visibility(True)
        with self._place:
            with ui.element("div").classes("nc-row") as self._running:
                ui.spinner(size="20px")
                self._bar = ui.linear_progress(value=0, show_value=False).props("rounded")
                self._bar.classes("nc-grow").props(f'aria-label="{view.say("jobs.progress")}"')
                ui.button(view.say("frame.cancel"), on_click=self.cancel).props(
                    "flat dense no-caps"
                )
            for step in ProbeStep:
                with ui.element("div").classes("nc-row nc-models-line") as row:
                    ui.label("…").classes("nc-badge")
                    ui.label(view.say(f"models.step_{step}")).classes("nc-soft nc-models-step")
                self._steps[step] = row

    def _end(self, report: EndpointReport) -> None:
        view = self._view
        self._running.delete()
        with self._place:
            key = "models.usable" if report.usable else "models.unusable"
            ui.label(view.say(key)).classes("nc-good" if report.usable else "nc-bad")
            ui.label(view.say("models.spent", tokens=report.spent_tokens)).classes(
                "nc-soft nc-small"
            )
        if self._ended is not None:
            self._ended(report)

    def _refuse(self, error: NekroError) -> None:
        self._clear()
        (self._refused or self._view.show_error)(error)

    def _clear(self) -> None:
        self._place.clear()
        self._place.set_visibility(False)
