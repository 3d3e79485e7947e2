"""Draws the page of the bot's settings."""

from collections.abc import Sequence

from nicegui import ui

from nekro_core.console.pages.setting_card import SettingCard
from nekro_core.console.restart import ask_restart
from nekro_core.console.setting_texts import help_of
from nekro_core.console.view import View
from nekro_core.console.widgets import confirm, empty
from nekro_core.operator.roles import AccessRole
from nekro_core.operator.settings import SettingsState
from nekro_core.system.errors import NekroError
from nekro_core.system.setting_info import SettingInfo

_READ_AGAIN_S = 4.0


async def settings_page(view: View) -> None:
    """Draw the page."""
    await _SettingsPage(view).draw()


class _SettingsPage:
    """The settings on the page. If a setting changes while a person types a value for it, the typed
    value stays."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._area, self._actor = view.operator.settings, view.actor
        self._cards: dict[str, SettingCard] = {}
        self._state: SettingsState | None = None

    async def draw(self) -> None:
        view = self._view
        ui.label(view.say("settings.lead")).classes("nc-lead")
        if not view.may(AccessRole.OWNER):
            ui.label(view.say("settings.read_only")).classes("nc-soft nc-settings-note")
        self._banners = ui.element("div").classes("nc-list nc-settings-note")
        with ui.element("div").classes("nc-filters"):
            self._words = ui.input(view.say("settings.find"), on_change=self._list)
            self._words.props("outlined dense clearable debounce=250").classes("nc-grow")
            self._table = ui.select({}, label=view.say("settings.table"), on_change=self._list)
            self._table.props("outlined dense")
            if view.may(AccessRole.OPERATOR):
                restart = ui.button(view.say("settings.restart"), icon="restart_alt")
                restart.props("outline no-caps").on_click(self._restart)
        self._rows = ui.element("div").classes("nc-list")
        with ui.element("div") as self._nothing:
            empty(view, "settings.nothing")
        self._nothing.set_visibility(False)
        try:
            tables = _tables(await self._area.listed(self._actor))
        except NekroError as error:
            with self._rows:
                ui.label(str(error)).classes("nc-empty nc-bad")
            return
        choices = {"": view.say("settings.all_tables")} | {name: name for name in tables}
        self._table.set_options(choices, value="agent" if "agent" in tables else "")
        await self._list()
        await self.refresh()
        ui.timer(_READ_AGAIN_S, self.refresh, immediate=False)

    async def refresh(self) -> None:
        """Show what has changed. A card in which the person is typing only says that its setting
        has changed."""
        state = await self._area.state(self._actor)
        if state != self._state:
            self._state = state
            self._draw_banners(state)
        for info in await self._area.listed(self._actor):
            if info.name in self._cards:
                self._cards[info.name].show(info)

    async def _list(self) -> None:
        words = (self._words.value or "").strip()
        # Search in all tables, because a person who searches may not know the table of the setting.
        table = "" if words else self._table.value or ""
        infos = [
            each
            for each in await self._area.listed(self._actor, table=table)
            if self._fits(each, words.casefold())
        ]
        listed = {each.name for each in infos}
        for name, card in [*self._cards.items()]:
            # Keep the card of a setting in which the person types.
            if name not in listed and not card.editing:
                self._cards.pop(name).delete()
        self._nothing.set_visibility(not infos)
        with self._rows:
            for place, info in enumerate(infos):
                if info.name in self._cards:
                    self._cards[info.name].show(info)
                else:
                    self._cards[info.name] = SettingCard(self._view, info, self.refresh)
                self._cards[info.name].move_to(place)

    def _fits(self, info: SettingInfo, words: str) -> bool:
        """Return True if the text ``words`` is in the name, the environment variable or the
        description of a setting. The description is searched in the language of the page and in
        English."""
        texts = (info.name, info.variable, info.description, help_of(info, self._view.language))
        return words in "\n".join(texts).casefold()

    def _draw_banners(self, state: SettingsState) -> None:
        view = self._view
        self._banners.clear()
        with self._banners:
            if state.problem:
                with ui.element("div").classes("nc-card nc-settings-problem").props('role="alert"'):
                    ui.label(view.say("settings.broken")).classes("nc-bad")
                    ui.label(state.problem).classes("nc-text")
            if state.waiting:
                with ui.element("div").classes("nc-card nc-row"):
                    names = ", ".join(state.waiting)
                    ui.label(view.say("settings.waiting", names=names)).classes("nc-grow")
                    if view.may(AccessRole.OPERATOR):
                        ui.button(view.say("settings.restart_now"), on_click=self._restart).props(
                            "flat no-caps"
                        )
            if state.in_dotenv:
                with ui.element("div").classes("nc-card nc-row"):
                    count = len(state.in_dotenv)
                    ui.label(view.say("settings.in_dotenv", count=count)).classes("nc-grow")
                    if view.may(AccessRole.OWNER):
                        ui.button(view.say("settings.move_all"), on_click=self._move_all).props(
                            "flat no-caps"
                        )

    async def _move_all(self) -> None:
        view = self._view
        names = "\n".join(self._state.in_dotenv if self._state else ())
        if await confirm(
            view, view.say("settings.move_ask"), details=names, button=view.say("settings.move_all")
        ):
            await view.perform(
                self._area.move_from_env(self._actor),
                view.say("settings.moved"),
                refresh=self.refresh,
            )

    async def _restart(self) -> None:
        await ask_restart(self._view)


def _tables(infos: Sequence[SettingInfo]) -> list[str]:
    return list(dict.fromkeys(each.name.split(".")[0] for each in infos if "." in each.name))
