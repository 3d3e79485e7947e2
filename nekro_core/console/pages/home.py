"""Draws the first page: what is wrong, and how to repair it."""

from nicegui import ui

from nekro_core.console.view import View
from nekro_core.console.widgets import badge, heading, local_time, start_job
from nekro_core.operator.health import Finding
from nekro_core.operator.roles import AccessRole


async def home_page(view: View) -> None:
    """Draw the page."""
    await _draw_health(view)


async def _draw_health(view: View) -> None:
    area, actor = view.operator.health, view.actor
    heading(view.say("home.health"))

    @ui.refreshable
    async def findings() -> None:
        report = await area.report(actor)
        if not report.at:
            ui.label(view.say("home.unchecked")).classes("nc-soft")
            return
        bad = [each for each in report.findings if each.ok is False]
        if not bad:
            ui.label(view.say("home.all_well")).classes("nc-good")
        with ui.element("div").classes("nc-list"):
            for each in bad:
                _draw_finding(view, each)
            with ui.expansion(view.say("home.checked", time=local_time(report.at))):
                for each in report.findings:
                    if each.ok is not False:
                        _draw_finding(view, each)

    def check() -> None:
        with progress:
            start_job(
                view, area.check, {}, done=view.say("home.check_done"), on_end=findings.refresh
            )

    await findings()
    progress = ui.element("div").classes("nc-list")
    if view.may(AccessRole.OPERATOR):
        ui.button(view.say("home.check"), on_click=check, icon="troubleshoot").props(
            "outline no-caps"
        ).classes("nc-check")


def _draw_finding(view: View, finding: Finding) -> None:
    kind = {True: "good", False: "bad", None: ""}[finding.ok]
    with ui.element("article").classes("nc-card"), ui.element("div").classes("nc-row"):
        badge(finding.area, kind)
        with ui.element("div").classes("nc-grow"):
            ui.label(finding.seen)
            if finding.ok is False and finding.remedy:
                ui.label(f"{view.say('home.remedy')}: {finding.remedy}").classes("nc-soft nc-lines")
