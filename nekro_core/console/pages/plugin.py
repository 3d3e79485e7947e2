"""Draws the page of one plugin: what it is, its configuration, its tools, its use, and a link to
its own page."""

from collections.abc import Mapping, Sequence
from typing import Any

from nicegui import ui

from nekro_core.console.form_view import FormView
from nekro_core.console.plugin_parts import (
    PluginActions,
    draw_problems,
    draw_state,
    title_of,
)
from nekro_core.console.plugin_tools import draw_tools
from nekro_core.console.plugin_use import draw_use
from nekro_core.console.view import View, link_to
from nekro_core.console.widgets import heading, local_time
from nekro_core.operator.errors import OperatorError
from nekro_core.operator.plugin_views import PluginView
from nekro_core.operator.roles import AccessRole
from nekro_core.system.errors import NekroError

_READ_AGAIN_S = 3.0
LIST = "/ui/console/plugins"


async def plugin_page(view: View) -> None:
    """Draw the page."""
    area, actor = view.operator.plugins, view.actor
    plugin = await area.one(actor, plugin=view.place["plugin"])
    state = [plugin]
    ui.link(view.say("plugins.all"), link_to(LIST))

    @ui.refreshable
    async def head() -> None:
        state[0] = await area.one(actor, plugin=plugin.item)
        _draw_head(view, state[0])
        actions.draw(state[0])

    async def changed() -> None:
        head.refresh()
        await config.changed()
        tools.refresh()

    progress = ui.element("div").classes("nc-list nc-plugin-jobs")
    actions = PluginActions(view, progress, changed, lambda: ui.navigate.to(link_to(LIST)))
    await head()
    with ui.tabs().props("no-caps dense align=left outside-arrows mobile-arrows") as tabs:
        names = ["config", "tools", "use", "about"]
        if plugin.page and view.may(AccessRole.OPERATOR):
            names.append("page")
        for name in names:
            ui.tab(name, label=view.say(f"plugins.tab_{name}"))
    config = ConfigurationTab(view, plugin.item)
    first = "config" if plugin.has_form else "tools" if plugin.tools else "about"
    with ui.tab_panels(tabs, value=first, animated=False).classes("nc-plugin-panels"):
        with ui.tab_panel("config"):
            await config.draw()
        with ui.tab_panel("tools"):
            tools = await draw_tools(view, lambda: state[0].key)
        with ui.tab_panel("use"):
            await draw_use(view, plugin.item)
        with ui.tab_panel("about"):
            about = await _draw_about(view, plugin.item)
        if "page" in names:
            with ui.tab_panel("page"):
                _draw_own_page(view, plugin)

    async def look() -> None:
        try:
            found = await area.one(actor, plugin=plugin.item)
        except OperatorError:
            return  # the plugin was removed; the page stays as it is
        if found != state[0]:
            if (found.state, found.version) != (state[0].state, state[0].version):
                await changed()
            head.refresh()
            about.refresh()
        await config.look()

    ui.timer(_READ_AGAIN_S, look, immediate=False)


def _draw_head(view: View, plugin: PluginView) -> None:
    with ui.element("div").classes("nc-row nc-plugin-head-row"):
        with ui.element("h2").classes("nc-plugin-title"):
            ui.label(title_of(plugin))
        draw_state(view, plugin)
        ui.label(plugin.version).classes("nc-soft")
    if plugin.description:
        ui.label(plugin.description).classes("nc-text")
    draw_problems(plugin.problems)
    fault = plugin.last_error
    if fault is not None:
        with ui.element("div").classes("nc-plugin-problem"):
            ui.label(view.say("plugins.last_error", what=fault.what, time=local_time(fault.at)))
            ui.label(fault.text).classes("nc-bad nc-text")
            ui.label(fault.where).classes("nc-soft nc-small nc-plugin-where")


async def _draw_about(view: View, item: str) -> Any:
    @ui.refreshable
    async def show() -> None:
        plugin = await view.operator.plugins.one(view.actor, plugin=item)
        facts = {
            "plugins.key": plugin.key,
            "plugins.item": plugin.item,
            "plugins.author": plugin.author,
            "plugins.version": plugin.version,
            "plugins.came_from": view.say("plugins.builtin") if plugin.builtin else plugin.source,
            "plugins.commit": plugin.commit,
            "plugins.installed_at": local_time(plugin.installed),
        }
        _facts(view, facts)
        if plugin.changed:
            heading(view.say("plugins.changed_here"))
            for line in plugin.changed:
                ui.label(line).classes("nc-text")
        if plugin.versions:
            heading(view.say("plugins.old_versions"))
            for each in plugin.versions:
                about = (each.version, each.commit[:12], local_time(each.installed))
                ui.label(" · ".join(filter(None, about)))

    await show()
    return show


def _facts(view: View, facts: Mapping[str, str]) -> None:
    with ui.element("dl").classes("nc-plugin-facts"):
        for key, value in facts.items():
            if value:
                with ui.element("dt"):
                    ui.label(view.say(key)).classes("nc-soft")
                with ui.element("dd"):
                    ui.label(value).classes("nc-text")


def _draw_own_page(view: View, plugin: PluginView) -> None:
    # Not `ui.link`, which would put the path of the console's pages in front of the address.
    link = ui.element("a").props('target="_blank"')
    link.props["href"] = plugin.page
    with link:
        ui.label(view.say("plugins.open_page"))
    frame = ui.element("iframe").classes("nc-plugin-frame")
    frame.props["src"] = plugin.page
    frame.props["title"] = view.say("plugins.own_page", name=title_of(plugin))


class ConfigurationTab:
    """The form of a plugin's configuration."""

    def __init__(self, view: View, item: str) -> None:
        self._view, self._item = view, item
        self._revision = ""
        self._told = ""
        self._form: FormView | None = None

    async def draw(self) -> None:
        """Draw the form into the current element of the page."""
        self._box = ui.element("div").classes("nc-wide")
        await self.reload()

    async def changed(self) -> None:
        """Draw the form anew after the plugin was loaded or unloaded, unless the person has typed
        something in it."""
        if self._form is None or not self._form.is_touched:
            await self.reload()

    async def look(self) -> None:
        """Show what somebody else has changed. If the person has typed something in the form, only
        say that it was changed."""
        if self._form is None:
            return
        try:
            found = await self._view.operator.plugins.form(self._view.actor, plugin=self._item)
        except NekroError:
            return
        if found.revision in (self._revision, self._told):
            return
        if self._form.is_touched:
            self._told = found.revision
            self._form.tell(self._view.say("plugins.changed_elsewhere"), reload=True)
        else:
            await self.reload()

    async def reload(self) -> None:
        """Draw the form anew with the present values."""
        view, area = self._view, self._view.operator.plugins
        self._box.clear()
        self._form = None
        with self._box:
            plugin = await area.one(view.actor, plugin=self._item)
            if not plugin.has_form:
                key = "no_form" if plugin.state == "loaded" else "form_needs_loaded"
                ui.label(view.say(f"plugins.{key}")).classes("nc-empty")
                return
            try:
                found = await area.form(view.actor, plugin=self._item)
            except NekroError as error:
                ui.label(str(error)).classes("nc-bad nc-text")
                return
            self._revision = found.revision
            if found.problem:
                ui.label(view.say("plugins.file_broken", problem=found.problem)).classes(
                    "nc-bad nc-text"
                )
            may = view.may(AccessRole.OWNER)
            self._form = FormView(
                view,
                found.fields,
                found.values,
                read_only=not may,
                suggestions=await self._suggestions(),
                reload=self.reload,
            )
            if may:
                with ui.element("div").classes("nc-row nc-plugin-save"):
                    ui.button(view.say("form.save"), on_click=self._save).props(
                        "unelevated no-caps"
                    )

    async def _save(self) -> None:
        view, form = self._view, self._form
        if form is None:
            return
        change = await form.send(
            lambda values: view.operator.plugins.configure.invoke(
                view.actor,
                {"plugin": self._item, "values": values, "expected": self._revision},
            ),
            view.say("plugins.saved"),
            refresh=self.reload,
        )
        if change is not None and change.reloaded:
            view.tell(view.say("plugins.loaded_again"))

    async def _suggestions(self) -> Mapping[str, Sequence[str]]:
        """Get the names of model groups and personas, which the form offers for texts. A person who
        may not list these names gets none."""
        view = self._view
        try:
            models = [each.group for each in await view.operator.models.all(view.actor)]
            personas = [each.name for each in await view.operator.personas.all(view.actor)]
        except NekroError:
            return {}
        return {"model_group": models, "persona": personas}
