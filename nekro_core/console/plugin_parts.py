"""Draws the parts that the page of all plugins and the page of one plugin have in common."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from nicegui import ui
from nicegui.element import Element

from nekro_core.console.plugin_proposal import agreed_to
from nekro_core.console.view import ROOT, View
from nekro_core.console.widgets import badge, local_time, role_button, start_job
from nekro_core.operator.actions import BoundAction
from nekro_core.operator.plugin_views import PluginView, ProposalView
from nekro_core.operator.roles import AccessRole
from nekro_core.tools.problem import PluginProblem, ProblemSeverity

STATES: Mapping[str, str] = {"loaded": "good", "disabled": "", "broken": "bad"}
"""The kind of the badge for each state of a plugin."""


def title_of(plugin: PluginView) -> str:
    """Return the title of a plugin on a page."""
    return plugin.name or plugin.key or plugin.item


def address_of(plugin: PluginView) -> str:
    """Return the address of the page of one plugin."""
    return f"{ROOT}/plugins/{quote(plugin.item)}"


def draw_state(view: View, plugin: PluginView) -> None:
    """Draw the badges of a plugin's state."""
    badge(view.say(f"plugins.state_{plugin.state}"), STATES.get(plugin.state, "warn"))
    if plugin.errors:
        badge(view.say("plugins.errors_count", count=plugin.errors), "bad")


def draw_problems(problems: Sequence[PluginProblem]) -> None:
    """Draw what is wrong with a plugin, each problem with its file and line if they are known."""
    for each in problems:
        with ui.element("div").classes("nc-plugin-problem"):
            kind = "nc-bad" if each.severity is ProblemSeverity.ERROR else "nc-plugin-warn"
            ui.label(each.message).classes(f"{kind} nc-text")
            if each.remedy:
                ui.label(each.remedy).classes("nc-soft nc-small nc-text")
            if each.where:
                ui.label(each.where).classes("nc-soft nc-small nc-plugin-where")


class PluginActions:
    """The buttons that change a plugin.

    Args:
        view: The opened page.
        progress: The element in which running work is shown.
        refresh: Draws the plugins anew.
        gone: Called after a plugin was removed.
    """

    def __init__(
        self,
        view: View,
        progress: Element,
        refresh: Callable[[], Any],
        gone: Callable[[], Any],
    ) -> None:
        self._view, self._progress, self._refresh, self._gone = view, progress, refresh, gone
        self._area = view.operator.plugins
        self._looking: set[tuple[str, str]] = set()

    def draw(self, plugin: PluginView) -> None:
        """Draw the buttons for one plugin."""
        view = self._view
        if not view.may(AccessRole.OPERATOR):
            return
        with ui.element("div").classes("nc-row nc-plugin-buttons"):
            if plugin.state == "disabled":
                self._button("enable", lambda: self._switch(self._area.enable, plugin, "enabled"))
            else:
                self._button("reload", lambda: self._switch(self._area.reload, plugin, "reloaded"))
                self._button(
                    "disable", lambda: self._switch(self._area.disable, plugin, "disabled")
                )
            if plugin.source:
                given = {"plugin": plugin.item}
                look = self._area.look_at_update
                self._button("update", lambda: self._propose(look, given), AccessRole.OWNER)
            if plugin.versions:
                self._button("roll_back", lambda: self._roll_back(plugin))
            if not plugin.builtin:
                self._button("remove", lambda: self._remove(plugin))

    def look(self, source: str) -> None:
        """Fetch a plugin, show what it may do, and install it if the person agrees. If the plugin
        is already installed, it is updated."""
        self._propose(self._area.look, {"source": source})

    def _propose(self, look: BoundAction[..., Any], given: Mapping[str, Any]) -> None:
        asked = (look.full_name, repr(given))
        if asked in self._looking:  # the button was pressed twice
            return

        async def ended() -> None:
            self._looking.discard(asked)
            if job is None or job.outcome is None:
                return
            found: ProposalView = job.outcome.result
            update = bool(found.installed) or "plugin" in given
            force = await agreed_to(self._view, found, update=update)
            if force is None:
                return
            wanted = {**given, "expected": found.digest, "force": force}
            name = found.name or found.key or found.item
            if update:
                self._start(self._area.update, {"plugin": found.item, **wanted}, "updated", name)
            else:
                self._start(self._area.install, wanted, "installed", name)

        with self._progress:
            job = start_job(self._view, look, given, done="", on_end=ended)
        if job is not None:
            self._looking.add(asked)

    def _start(
        self, act: BoundAction[..., Any], given: Mapping[str, Any], done: str, name: str
    ) -> None:
        with self._progress:
            start_job(
                self._view,
                act,
                given,
                done=self._view.say(f"plugins.{done}", name=name),
                on_end=self._refresh,
            )

    async def _switch(
        self, act: BoundAction[..., PluginView], plugin: PluginView, done: str
    ) -> None:
        view = self._view
        result = await view.perform(
            act.invoke(view.actor, {"plugin": plugin.item}),
            view.say(f"plugins.{done}", name=title_of(plugin)),
            refresh=self._refresh,
        )
        if result is not None and result.state == "broken":
            view.tell(view.say("plugins.is_broken", name=title_of(plugin)), bad=True)

    async def _roll_back(self, plugin: PluginView) -> None:
        view = self._view
        with self._progress, ui.dialog() as dialog, ui.card().classes("nc-dialog"):
            ui.label(view.say("plugins.which_version", name=title_of(plugin))).classes(
                "nc-dialog-title"
            )
            for each in plugin.versions:
                with ui.element("div").classes("nc-row"):
                    ui.label(each.version or each.commit[:12]).classes("nc-grow")
                    ui.label(local_time(each.installed)).classes("nc-soft nc-small")
                    ui.button(
                        view.say("plugins.go_back"),
                        on_click=lambda each=each: dialog.submit(each.number),
                    ).props("flat dense no-caps")
            with ui.row().classes("nc-dialog-buttons"):
                stay = ui.button(view.say("frame.cancel"), on_click=dialog.close)
                stay.props("flat no-caps autofocus")
        number = await dialog
        dialog.delete()
        if number is not None:
            given = {"plugin": plugin.item, "number": number}
            self._start(self._area.roll_back, given, "rolled_back", title_of(plugin))

    async def _remove(self, plugin: PluginView) -> None:
        view, name = self._view, title_of(plugin)
        with self._progress, ui.dialog() as dialog, ui.card().classes("nc-dialog"):
            ui.label(view.say("plugins.remove_question", name=name)).classes("nc-dialog-title")
            ui.label(
                view.say("plugins.remove_what", item=plugin.item, versions=len(plugin.versions))
            ).classes("nc-soft")
            data = ui.checkbox(view.say("plugins.remove_data"))
            with ui.row().classes("nc-dialog-buttons"):
                stay = ui.button(view.say("frame.cancel"), on_click=dialog.close)
                stay.props("flat no-caps autofocus")
                go = ui.button(view.say("plugins.remove"), on_click=lambda: dialog.submit(True))
                go.props("unelevated no-caps color=negative")
        agreed, with_data = await dialog, bool(data.value)
        dialog.delete()
        if not agreed:
            return

        async def ended() -> None:
            removed = job is not None and job.outcome is not None
            told = self._gone() if removed else self._refresh()
            if hasattr(told, "__await__"):
                await told

        with self._progress:
            job = start_job(
                view,
                self._area.remove,
                {"plugin": plugin.item, "data": with_data},
                done=view.say("plugins.removed", name=name),
                on_end=ended,
            )

    def _button(
        self, key: str, do: Callable[[], Any], role: AccessRole = AccessRole.OPERATOR
    ) -> None:
        button = role_button(self._view, role, self._view.say(f"plugins.{key}"), do)
        button.props("flat dense no-caps")
