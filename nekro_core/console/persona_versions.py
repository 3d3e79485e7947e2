"""Draws the versions of a persona: what changed in each, and a button that restores it."""

import difflib
from collections.abc import Callable
from typing import Any

from nicegui import ui

from nekro_core.console.view import View
from nekro_core.console.widgets import badge, heading, local_time
from nekro_core.operator.roles import AccessRole
from nekro_core.policy.personas import Persona, PersonaVersion

_MOST_SHOWN = 50
_MARKS = {"+ ": "nc-diff-added", "- ": "nc-diff-gone", "  ": ""}


def draw_versions(view: View, persona: Persona, restored: Callable[[], Any]) -> None:
    """Draw the versions into the current element of the page, newest first.

    Args:
        view: The opened page.
        persona: The persona.
        restored: Called when a version was restored.
    """
    heading(view.say("personas.versions"))
    if len(persona.versions) > 1:
        _draw_comparison(view, persona)
    for version in [*reversed(persona.versions)][:_MOST_SHOWN]:
        _draw_version(view, persona, version, restored)


def _draw_version(
    view: View, persona: Persona, version: PersonaVersion, restored: Callable[[], Any]
) -> None:
    async def restore() -> None:
        await view.perform(
            view.operator.personas.restore(view.actor, persona=persona.name, number=version.number),
            view.say("personas.restored", number=version.number),
            refresh=restored,
        )

    with ui.element("div").classes("nc-row nc-personas-version"):
        badge(str(version.number), "good" if version is persona.newest else "")
        told = (local_time(version.saved_at), version.by, version.note)
        ui.label(" · ".join(filter(None, told))).classes("nc-small nc-grow")
        if version is not persona.newest and view.may(AccessRole.OPERATOR):
            ui.button(view.say("personas.restore"), on_click=restore).props("flat dense no-caps")


def _draw_comparison(view: View, persona: Persona) -> None:
    texts = {each.number: each.text for each in persona.versions}
    numbers = {each: view.say("personas.number", number=each) for each in reversed(texts)}
    newest = [*texts]
    with ui.element("div").classes("nc-filters"):
        old = ui.select(numbers, value=newest[-2], label=view.say("personas.compare"))
        new = ui.select(numbers, value=newest[-1], label=view.say("personas.with"))
        for each in (old, new):
            each.props("outlined dense")
    shown = ui.element("div").classes("nc-code nc-diff").props('tabindex="0" role="region"')
    shown.props["aria-label"] = view.say("personas.compare")

    def compare() -> None:
        shown.clear()
        before, after = texts[old.value].splitlines(), texts[new.value].splitlines()
        with shown:
            if before == after:
                ui.label(view.say("personas.equal")).classes("nc-soft")
                return
            for line in difflib.ndiff(before, after):
                if line[:2] in _MARKS:  # lines with "? " only mark places within a line
                    ui.label(line).classes(_MARKS[line[:2]])

    old.on_value_change(compare)
    new.on_value_change(compare)
    compare()
