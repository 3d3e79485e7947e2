"""Draws one setting, and the field in which it is changed."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

from nicegui import ui

from nekro_core.console.setting_texts import help_of, type_of
from nekro_core.console.view import View
from nekro_core.console.widgets import badge, draw_with_code
from nekro_core.operator.audit import Done
from nekro_core.operator.errors import InvalidParameters
from nekro_core.operator.roles import AccessRole
from nekro_core.system.errors import NekroError
from nekro_core.system.live_settings import Applies
from nekro_core.system.setting_info import SettingInfo, SettingSource

_SHOWN = 300
"""Maximum number of characters of a value that a card shows whole."""


class SettingCard:
    """One setting.

    Args:
        view: The opened page.
        info: The setting.
        refresh: Reads all shown settings again after a change.
    """

    def __init__(
        self, view: View, info: SettingInfo, refresh: Callable[[], Awaitable[None]]
    ) -> None:
        self._view, self._info, self._refresh = view, info, refresh
        self._area, self._actor = view.operator.settings, view.actor
        self._editing = False
        self._card = ui.element("article").classes("nc-card nc-setting")
        # Set this property directly, and not as text through `props()`: a name can have any
        # characters, because operators choose the names of models.
        self._card.props["data-setting"] = info.name
        self._draw()

    def show(self, info: SettingInfo) -> None:
        """Show the present value of the setting. If the person is typing in the field, only say
        that the setting has changed."""
        if info == self._info:
            return
        if self._editing:
            if info.value != self._seen.value:
                now = self._view.say("settings.meanwhile", value=_text(info.value))
                self._problem.text = now
            return
        self._info = info
        self._draw()

    @property
    def editing(self) -> bool:
        """True if the person is typing in the field."""
        return self._editing

    def move_to(self, place: int) -> None:
        """Move the card to this place in its list."""
        self._card.move(target_index=place)

    def delete(self) -> None:
        """Remove the card from the page."""
        self._card.delete()

    def _draw(self) -> None:
        view, info = self._view, self._info
        self._editing = False
        self._card.clear()
        with self._card:
            with ui.element("div").classes("nc-row"):
                name = ui.label(info.name).classes("nc-setting-name nc-grow")
                name.props('role="heading" aria-level="2"')
                if info.restart_needed:
                    badge(view.say("settings.needs_restart"), "warn")
                elif info.applies is Applies.AFTER_RESTART:
                    badge(view.say("settings.after_restart"))
                source = {
                    SettingSource.DEFAULT: "default",
                    SettingSource.FILE: "file",
                    SettingSource.DOTENV: "dotenv",
                    SettingSource.ENVIRONMENT: "environment",
                }[info.source]
                badge(
                    view.say(f"settings.from_{source}"),
                    "good" if info.source is SettingSource.FILE else "",
                )
            if info.description:
                draw_with_code(help_of(info, view.language)).classes("nc-soft")
            ui.label(self._value()).classes("nc-text nc-setting-value")
            about = [type_of(info, view.language)]
            if not info.secret and info.is_set:
                about.append(view.say("settings.default", value=_text(info.default) or "—"))
            about.append(info.variable)
            ui.label(" · ".join(filter(None, about))).classes("nc-soft nc-small nc-text")
            if info.locked_by:
                self._draw_lock()
            elif view.may(AccessRole.OWNER):
                self._draw_buttons()

    def _value(self) -> str:
        view, info = self._view, self._info
        if info.secret:
            return view.say("settings.is_set" if info.is_set else "settings.not_set")
        text = _text(info.value)
        return text[:_SHOWN] + ("…" if len(text) > _SHOWN else "") or view.say("settings.empty")

    def _draw_lock(self) -> None:
        view, info = self._view, self._info
        with ui.element("div").classes("nc-row"):
            ui.icon("lock").props('aria-hidden="true"')
            place = info.locked_in or view.say("settings.the_environment")
            text = view.say("settings.locked", variable=info.locked_by, place=place)
            ui.label(text).classes("nc-grow nc-small")
            if info.locked_in and view.may(AccessRole.OWNER):
                move = ui.button(
                    view.say("settings.move"),
                    on_click=lambda: view.perform(
                        self._area.move_from_env(self._actor, names=[info.name]),
                        view.say("settings.moved"),
                        refresh=self._refresh,
                    ),
                )
                move.props("flat dense no-caps")

    def _draw_buttons(self) -> None:
        view, info = self._view, self._info
        with ui.element("div").classes("nc-row"):
            change = ui.button(view.say("settings.change"), icon="edit", on_click=self._edit)
            change.props("flat dense no-caps")
            change.props["aria-label"] = f"{view.say('settings.change')} {info.name}"
            if info.source is SettingSource.FILE:
                unset = ui.button(
                    view.say("settings.unset"),
                    on_click=lambda: view.perform(
                        self._area.unset(self._actor, names=[info.name]),
                        view.say("settings.was_unset", name=info.name),
                        refresh=self._refresh,
                    ),
                )
                unset.props("flat dense no-caps")

    def _edit(self) -> None:
        view, info = self._view, self._info
        self._editing, self._seen = True, info
        self._card.clear()
        with self._card:
            ui.label(info.name).classes("nc-setting-name").props('role="heading" aria-level="2"')
            if info.description:
                draw_with_code(help_of(info, view.language)).classes("nc-soft")
            field = _field(info, view)
            self._problem = ui.label("").classes("nc-bad nc-text").props('role="alert"')

            async def save() -> None:
                await view.perform(
                    self._save(_typed(info, field.value)),
                    view.say("settings.saved", name=info.name),
                    refresh=self._refresh,
                )

            with ui.element("div").classes("nc-row"):
                ui.button(view.say("settings.save"), on_click=save).props("unelevated no-caps")
                ui.button(view.say("frame.cancel"), on_click=self._cancel).props("flat no-caps")

    async def _cancel(self) -> None:
        self._draw()
        await self._refresh()

    async def _save(self, value: Any) -> Done[list[SettingInfo]]:
        """Write the value. If it is refused, the reason is shown at the field."""
        info = self._seen
        given: dict[str, Any] = {"values": {info.name: value}}
        if not info.secret:
            given["seen"] = {info.name: info.value}
        try:
            done = await self._area.set.invoke(self._actor, given)
        except InvalidParameters as error:
            self._problem.text = "\n".join(error.problems.values())
            raise
        except NekroError as error:
            self._problem.text = str(error)
            await self._look_at_new_value()
            raise
        self._info = next((each for each in done.result if each.name == info.name), info)
        self._draw()
        return done

    async def _look_at_new_value(self) -> None:
        # The person was told that somebody else changed the value. So the next attempt to save may
        # overwrite it.
        self._seen = await self._area.one(self._actor, setting=self._seen.name)


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _schema(info: SettingInfo) -> dict[str, Any]:
    kinds = [each for each in info.schema.get("anyOf", []) if each.get("type") != "null"]
    return dict(kinds[0]) if len(kinds) == 1 else dict(info.schema)


def _field(info: SettingInfo, view: View) -> Any:
    """Draw the field for a value of the setting's type."""
    schema = _schema(info)
    if info.secret:
        field: Any = ui.input(view.say("settings.new_secret"), password=True)
        return field.props('outlined dense autocomplete="new-password" autofocus').classes(
            "nc-wide"
        )
    if schema.get("type") == "boolean" and "anyOf" not in info.schema:
        return ui.switch(info.type, value=bool(info.value))
    if "enum" in schema:
        choices = {each: str(each) or view.say("settings.empty") for each in schema["enum"]}
        return ui.select(choices, value=info.value, label=info.type).props("outlined dense")
    if schema.get("type") in ("integer", "number"):
        field = ui.input(info.type, value=_text(info.value))
        return field.props("outlined dense autofocus inputmode=decimal")
    if schema.get("type") == "array":
        text = "\n".join(map(_text, info.value or []))
        field = ui.textarea(view.say("settings.one_a_line"), value=text)
    else:
        field = ui.textarea(info.type or info.name, value=_text(info.value))
    return field.props("outlined dense autogrow autofocus").classes("nc-wide")


def _typed(info: SettingInfo, value: Any) -> Any:
    """Convert what was typed to the setting's type. An empty field becomes an empty list, an empty
    text or None, as the type allows. If the text cannot be converted, return the text; the check of
    the settings then says what is wrong."""
    if not isinstance(value, str):
        return value
    schema = _schema(info)
    if schema.get("type") == "array":
        lines = [line.strip() for line in value.splitlines() if line.strip()]
        return lines if _is_text(schema.get("items", {})) else [_read(line) for line in lines]
    if info.secret or "enum" in schema:
        return value
    if _is_text(schema):
        return value if value or "anyOf" not in info.schema else None
    return _read(value.strip()) if value.strip() else None


def _is_text(schema: dict[str, Any]) -> bool:
    return schema.get("type") == "string"


def _read(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
