"""Draws the page of all plugins, on which new plugins are installed."""

from base64 import b64encode
from collections.abc import Callable, Sequence

from nicegui import events, ui
from nicegui.element import Element

from nekro_core.console.plugin_parts import (
    PluginActions,
    address_of,
    draw_problems,
    draw_state,
    title_of,
)
from nekro_core.console.upload_button import upload_button
from nekro_core.console.view import View, link_to
from nekro_core.console.widgets import empty
from nekro_core.operator.plugin_views import PluginView
from nekro_core.operator.roles import AccessRole
from nekro_core.plugins.installation.plugin_index import IndexedPlugin
from nekro_core.plugins.installation.uploads import MOST_BYTES
from nekro_core.system.errors import NekroError

_READ_AGAIN_S = 3.0
_STATES = ("", "loaded", "disabled", "broken")
_FOUND = 50
"""Maximum number of plugins of an index that are shown at once."""


async def plugins_page(view: View) -> None:
    """Draw the page."""
    area, actor = view.operator.plugins, view.actor
    ui.label(view.say("plugins.lead")).classes("nc-lead")

    async def draw() -> None:
        found = await area.every(actor)
        rows = [each for each in found.plugins if _matches(each, words.value, state.value)]
        # Broken plugins come first.
        cards.show(found.at_next_start, sorted(rows, key=lambda row: row.state != "broken"))

    install = ui.element("div").classes("nc-wide")
    progress = ui.element("div").classes("nc-list nc-plugin-jobs")
    actions = PluginActions(view, progress, draw, draw)
    if view.may(AccessRole.OWNER):
        with install:
            _draw_install(view, actions)
    with ui.element("div").classes("nc-filters"):
        words = ui.input(view.say("plugins.find")).props("outlined dense clearable debounce=200")
        names = {each: view.say(f"plugins.state_{each or 'any'}") for each in _STATES}
        state = ui.select(names, value="", label=view.say("plugins.state"))
        state.props("outlined dense")
    cards = _PluginCards(view, actions)
    words.on_value_change(draw)
    state.on_value_change(draw)
    await draw()
    ui.timer(_READ_AGAIN_S, draw, immediate=False)


class _PluginCards:
    """The cards of the shown plugins. Only the card of a plugin that changed is drawn again:
    pressing a button of a card that is being drawn again would do nothing."""

    def __init__(self, view: View, actions: PluginActions) -> None:
        self._view, self._actions = view, actions
        self._top = ui.element("div").classes("nc-list")
        self._list = ui.element("div").classes("nc-list")
        self._top_shown: tuple[tuple[str, ...], bool] | None = None
        self._shown: dict[str, tuple[PluginView, Element]] = {}

    def show(self, at_next_start: tuple[str, ...], plugins: Sequence[PluginView]) -> None:
        """Show these plugins in this order, below the packages that are used at the next start."""
        if self._top_shown != (at_next_start, not plugins):
            self._top_shown = (at_next_start, not plugins)
            self._draw_top(at_next_start, nothing=not plugins)
        for item in self._shown.keys() - {each.item for each in plugins}:
            self._shown.pop(item)[1].delete()
        for place, plugin in enumerate(plugins):
            before, card = self._shown.get(plugin.item, (None, None))
            if card is None:
                with self._list:
                    card = ui.element("article").classes("nc-card nc-plugin")
            if before != plugin:
                card.clear()
                with card:
                    _draw(self._view, plugin, self._actions)
            self._shown[plugin.item] = (plugin, card)
            if self._list.default_slot.children.index(card) != place:
                card.move(target_index=place)

    def _draw_top(self, at_next_start: tuple[str, ...], *, nothing: bool) -> None:
        self._top.clear()
        with self._top:
            for line in at_next_start:
                text = self._view.say("plugins.at_next_start", text=line)
                ui.label(text).classes("nc-card nc-plugin-warn")
            if nothing:
                empty(self._view, "plugins.nothing")


def _matches(plugin: PluginView, words: str | None, state: str) -> bool:
    wanted = (words or "").casefold().strip()
    texts = (plugin.name, plugin.key, plugin.item, plugin.author, plugin.description, *plugin.tools)
    return (not state or plugin.state == state) and (
        not wanted or any(wanted in each.casefold() for each in texts)
    )


def _draw(view: View, plugin: PluginView, actions: PluginActions) -> None:
    with ui.element("div").classes("nc-row"):
        draw_state(view, plugin)
        with ui.link(target=link_to(address_of(plugin))).classes("nc-grow nc-plugin-name"):
            ui.label(title_of(plugin))
        ui.label(plugin.version).classes("nc-soft nc-small")
    about = (
        plugin.author,
        plugin.key or plugin.item,
        view.say("plugins.builtin") if plugin.builtin else plugin.source,
    )
    ui.label(" · ".join(filter(None, about))).classes("nc-soft nc-small nc-text")
    if plugin.description:
        ui.label(plugin.description).classes("nc-text")
    if plugin.tools:
        tools = view.say("plugins.tools_are", names=", ".join(plugin.tools))
        ui.label(tools).classes("nc-soft nc-small nc-text")
    draw_problems(plugin.problems)
    actions.draw(plugin)


def _draw_install(view: View, actions: PluginActions) -> None:
    with ui.expansion(view.say("plugins.new"), icon="add") as install:
        install.classes("nc-card nc-expansion nc-plugin-install")
        ui.label(view.say("plugins.trust")).classes("nc-soft nc-wide")

        def look() -> None:
            actions.look((source.value or "").strip())

        with ui.element("div").classes("nc-row"):
            source = ui.input(view.say("plugins.source")).props("outlined dense stack-label")
            source.classes("nc-plugin-source").on("keydown.enter", look)
            source.props["placeholder"] = "https://github.com/NAME/PLUGIN.git#main"
            ui.button(view.say("plugins.look"), on_click=look).props("unelevated no-caps")
            _draw_upload(view, actions.look)
        ui.separator().classes("nc-wide")
        _draw_index(view, actions.look)


def _draw_upload(view: View, look: Callable[[str], None]) -> None:
    async def uploaded(event: events.UploadEventArguments) -> None:
        data = b64encode(await event.file.read())
        area, name = view.operator.plugins, event.file.name
        given = {"name": name[-200:], "data": data}
        place = await view.perform(
            area.upload.invoke(view.actor, given), view.say("plugins.uploaded", name=name)
        )
        if place is not None:
            look(place)

    upload_button(
        view, view.say("plugins.upload"), uploaded, max_bytes=MOST_BYTES, accept=".zip,.py"
    )


def _draw_index(view: View, look: Callable[[str], None]) -> None:
    area, found = view.operator.plugins, list[IndexedPlugin]()
    ui.label(view.say("plugins.index_lead")).classes("nc-soft nc-wide")

    async def read() -> None:
        button.set_enabled(False)
        try:
            given = {"address": (address.value or "").strip()}
            found[:] = await area.index.invoke(view.actor, given)
        except NekroError as error:
            view.show_error(error)
        finally:
            button.set_enabled(True)
        words.set_visibility(bool(found))
        show.refresh()

    with ui.element("div").classes("nc-row"):
        address = ui.input(view.say("plugins.index")).props("outlined dense")
        address.classes("nc-plugin-source").on("keydown.enter", read)
        button = ui.button(view.say("plugins.read_index"), on_click=read).props("outline no-caps")
    words = ui.input(view.say("plugins.find")).props("outlined dense clearable debounce=200")
    words.classes("nc-wide").set_visibility(False)

    @ui.refreshable
    def show() -> None:
        wanted = (words.value or "").casefold().strip()
        rows = [each for each in found if wanted in f"{each.name} {each.description}".casefold()]
        _draw_indexed(view, rows[:_FOUND], look)
        if len(rows) > _FOUND:
            ui.label(view.say("plugins.more_found", count=len(rows) - _FOUND)).classes("nc-soft")

    words.on_value_change(show.refresh)
    with ui.element("div").classes("nc-list"):
        show()


def _draw_indexed(view: View, rows: Sequence[IndexedPlugin], look: Callable[[str], None]) -> None:
    for each in rows:
        with ui.element("article").classes("nc-card"):
            with ui.element("div").classes("nc-row"):
                ui.label(each.name or each.source).classes("nc-grow nc-plugin-name")
                ui.label(" · ".join(filter(None, (each.version, each.author)))).classes("nc-soft")
                if each.source:
                    ui.button(
                        view.say("plugins.look"), on_click=lambda each=each: look(each.source)
                    ).props("flat dense no-caps")
            for text in (each.description, each.source, each.url):
                if text:
                    ui.label(text).classes("nc-soft nc-small nc-text")
            if each.problem:
                ui.label(each.problem).classes("nc-bad nc-small nc-text")
