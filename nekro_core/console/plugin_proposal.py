"""Shows what a plugin or its update contains and may do, and asks whether to install it."""

from collections.abc import Iterable

from nicegui import ui

from nekro_core.console.view import View
from nekro_core.console.widgets import badge
from nekro_core.operator.plugin_views import AbilityView, ProposalView
from nekro_core.tools.problem import ProblemSeverity


async def agreed_to(view: View, found: ProposalView, *, update: bool) -> bool | None:
    """Ask whether to install or update a plugin.

    Args:
        view: The opened page.
        found: What the plugin or the update contains and may do.
        update: Whether the plugin is already installed.

    Returns:
        None if the person declines. False if the person agrees. True if the person agrees even
        though the plugin cannot be loaded or changed files will be overwritten.
    """
    broken = found.loads is False or any(
        each.severity is ProblemSeverity.ERROR for each in found.problems
    )
    risky = broken or bool(found.lost)
    with ui.dialog() as dialog, ui.card().classes("nc-dialog nc-plugin-proposal"):
        name = found.name or found.key or found.item
        ui.label(
            view.say("plugins.update_question" if update else "plugins.install_question", name=name)
        ).classes("nc-dialog-title")
        _draw_proposal(view, found)
        force = ui.checkbox(view.say("plugins.force_broken" if broken else "plugins.force_lost"))
        force.set_visibility(risky)
        with ui.row().classes("nc-dialog-buttons"):
            stay = ui.button(view.say("plugins.not_now"), on_click=dialog.close)
            stay.props("flat no-caps autofocus")
            go = ui.button(
                view.say("plugins.update" if update else "plugins.install"),
                on_click=lambda: dialog.submit(True),
            )
            go.props("unelevated no-caps")
            if update and not found.changes and found.installed:
                go.set_enabled(False)
            elif risky:
                go.bind_enabled_from(force, "value")
    agreed, forced = await dialog, bool(force.value)
    dialog.delete()
    return forced and risky if agreed else None


def _draw_proposal(view: View, found: ProposalView) -> None:
    about = (found.version, found.author, found.key, found.source, found.commit[:12])
    ui.label(" · ".join(filter(None, about))).classes("nc-soft nc-small nc-text")
    if found.description:
        ui.label(found.description).classes("nc-text")
    if found.installed:
        nothing = "" if found.changes else view.say("plugins.nothing_new")
        with ui.element("div").classes("nc-row"):
            badge(view.say("plugins.installed_now", version=found.installed or "?"))
            ui.label(nothing)
    for each in found.problems:
        kind = "nc-bad" if each.severity is ProblemSeverity.ERROR else "nc-plugin-warn"
        ui.label(str(each)).classes(f"{kind} nc-text")
    _abilities(view, "plugins.may_do", found.abilities, "plugins.may_do_nothing")
    if found.loads is not None:
        with ui.element("div").classes("nc-row"):
            badge(
                view.say("plugins.loads" if found.loads else "plugins.loads_not"),
                "good" if found.loads else "bad",
            )
    if found.tried:
        _abilities(view, "plugins.tried", found.tried, "")
    _lines(view, "plugins.lost", found.lost)
    _lines(view, "plugins.changes", found.changes)
    _lines(view, "plugins.tools", found.tools)
    _lines(view, "plugins.commands", found.commands)
    _lines(
        view,
        "plugins.packages",
        (
            " · ".join(
                filter(
                    None,
                    (
                        each.requirement,
                        each.reason,
                        view.say("plugins.package_there" if each.there else "plugins.package_new"),
                    ),
                )
            )
            for each in found.packages
        ),
    )
    _lines(view, "plugins.notes", found.notes)
    _lines(view, "plugins.unreadable", found.unreadable)
    if found.report:
        with ui.expansion(view.say("plugins.report"), value=found.loads is False) as report:
            report.classes("nc-wide")
            ui.label(found.report).classes("nc-code nc-wide").props("tabindex=0")


def _abilities(view: View, key: str, found: Iterable[AbilityView], nothing: str) -> None:
    _head(view, key)
    every = [*found]
    if not every and nothing:
        ui.label(view.say(nothing)).classes("nc-soft")
    with ui.element("ul").classes("nc-plugin-list"):
        for each in every:
            with ui.element("li"):
                with ui.element("div").classes("nc-row"):
                    ui.label(_ability(view, each)).classes("nc-grow")
                    if each.new:
                        badge(view.say("plugins.new_ability"), "warn")
                if each.where:
                    ui.label(each.where).classes("nc-soft nc-small nc-plugin-where")


def _ability(view: View, found: AbilityView) -> str:
    """Return what the code may do, in the language of the page."""
    said = []
    for code, detail in found.parts:
        text = view.known(f"abilities.{code}", detail=detail)
        if detail and text and detail not in text:
            text = view.say("abilities.with_detail", ability=text, detail=detail)
        said.append(text)
    return " · ".join(said) if said and all(said) else found.text


def _lines(view: View, key: str, lines: Iterable[str]) -> None:
    every = [*lines]
    if not every:
        return
    _head(view, key)
    with ui.element("ul").classes("nc-plugin-list"):
        for each in every:
            with ui.element("li"):
                ui.label(each).classes("nc-text")


def _head(view: View, key: str) -> None:
    ui.label(view.say(key)).classes("nc-plugin-head").props('role="heading" aria-level="3"')
