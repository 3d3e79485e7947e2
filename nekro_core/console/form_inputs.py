"""Draws the inputs of single values: texts, numbers, truth values, choices, JSON, secrets."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from nicegui import ui
from nicegui.element import Element
from nicegui.elements.mixins.value_element import ValueElement

from nekro_core.console.form_texts import (
    ABSENT,
    FormSetting,
    Place,
    ProblemLine,
    describe,
    lock,
    title_of,
)
from nekro_core.plugins.forms.fields import FieldKind, FormField, place_text
from nekro_core.plugins.forms.secrets import KEPT

_WHOLE = re.compile(r"[+-]?[0-9]{1,300}")


class ValueInput:
    """A text, number, truth value, choice or JSON value."""

    def __init__(self, setting: FormSetting, own: FormField, value: Any) -> None:
        self._own, self._setting = own, setting
        self._given = value is not ABSENT
        self._first = value if self._given else own.default
        with ui.element("div").classes("nc-form-field"):
            self._element = _element(setting, own, self._first)
            lock(setting, own, self._element)
            describe(setting, own, self._element, value)
            self._problem = ProblemLine()
        self._begin = self._element.value
        self._element.on_value_change(self.clear_problems)

    def read(self, place: Place, problems: dict[str, str]) -> Any:
        """See `FormInput.read`."""
        entered = self._element.value
        if entered == self._begin and not (self._own.required and self._own.kind is FieldKind.BOOL):
            # An untouched value is sent back exactly as it came.
            return self._first if self._given else ABSENT
        match self._own.kind:
            case FieldKind.NUMBER:
                return self._empty() if not (entered or "").strip() else _number(entered)
            case FieldKind.CHOICE if self._own.several:
                return [_options(self._own, self._first)[each] for each in entered or ()]
            case FieldKind.CHOICE:
                return None if entered is None else _options(self._own, self._first)[entered]
            case FieldKind.BOOL if self._own.nullable:
                return (None, True, False)[entered]
            case FieldKind.BOOL:
                return bool(entered)
            case FieldKind.TEXT | FieldKind.MULTILINE:
                return entered or self._empty()
        return self._json(place, problems)

    def show_problem(self, place: Sequence[str], text: str) -> None:
        """See `FormInput.show_problem`."""
        inner = ".".join(place)
        self._problem.show(f"{inner}: {text}" if inner and self._own.kind.value == "any" else text)
        self._element.props("error")

    def clear_problems(self) -> None:
        """See `FormInput.clear_problems`."""
        self._problem.clear()
        self._element.props(remove="error")

    def _empty(self) -> Any:
        if self._own.nullable:
            return None
        if not self._given and self._own.default in (None, ""):
            return ABSENT
        return ""

    def _json(self, place: Place, problems: dict[str, str]) -> Any:
        text = (self._element.value or "").strip()
        if not text:
            return None if self._given else ABSENT
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            problems[place_text(place)] = self._setting.say("bad_json", error=error)
            return None


class SecretInput:
    """A secret. It is never shown. If the input is empty, the secret that is set does not change,
    unless the person has removed it with the button."""

    def __init__(self, setting: FormSetting, own: FormField, value: Any, place: Place) -> None:
        self._own, self._first = own, value
        marked = isinstance(value, Mapping) and KEPT in value
        self._is_set = marked or place_text(place) in setting.kept
        self._removed = False
        self._button: Element | None = None
        with ui.element("div").classes("nc-form-field"):
            with ui.element("div").classes("nc-form-line"):
                self._element = ui.input(title_of(setting, own), password=True)
                self._element.props('outlined dense autocomplete="new-password"')
                self._element.classes("nc-grow")
                lock(setting, own, self._element)
                if self._is_set:
                    self._element.props("stack-label")
                    self._element.props["placeholder"] = setting.say("secret_set")
                    if not setting.read_only and not own.read_only:
                        remove = ui.button(setting.say("remove_secret"), on_click=self._remove)
                        remove.props("flat dense no-caps")
                        self._button = remove
            describe(setting, own, self._element)
            self._problem = ProblemLine()
        self._gone = setting.say("secret_gone")
        self._element.on_value_change(self.clear_problems)

    def read(self, place: Place, problems: dict[str, str]) -> Any:
        """See `FormInput.read`."""
        del place, problems
        if self._element.value:
            return self._element.value
        if self._removed:
            return None if self._own.nullable else ""
        return self._first

    def show_problem(self, place: Sequence[str], text: str) -> None:
        """See `FormInput.show_problem`."""
        del place
        self._problem.show(text)

    def clear_problems(self) -> None:
        """See `FormInput.clear_problems`."""
        self._problem.clear()

    def _remove(self) -> None:
        self._removed = True
        self._element.value = ""
        self._element.props["placeholder"] = self._gone
        if self._button is not None:
            self._button.set_visibility(False)


def _element(setting: FormSetting, own: FormField, value: Any) -> ValueElement[Any]:
    title = title_of(setting, own)
    match own.kind:
        case FieldKind.BOOL if own.nullable:
            options = [setting.say("unset"), setting.say("yes"), setting.say("no")]
            chosen = {None: 0, True: 1, False: 2}.get(value, 0)
            return _outlined(ui.select(dict(enumerate(options)), label=title, value=chosen))
        case FieldKind.BOOL:
            return ui.switch(title, value=value is True)
        case FieldKind.CHOICE:
            return _outlined(_choice(own, title, value))
        case FieldKind.NUMBER:
            shown = "" if value is None else str(value)
            number = ui.input(title, value=shown, placeholder=own.placeholder or None)
            return _outlined(number).props(f'inputmode="{"numeric" if own.whole else "decimal"}"')
        case FieldKind.TEXT if "\n" not in str(value):
            known = [*setting.suggestions.get(own.names_a, ())] if own.names_a else []
            shown = "" if value is None else str(value)
            hint = own.placeholder or None
            return _outlined(ui.input(title, value=shown, placeholder=hint, autocomplete=known))
        case FieldKind.TEXT | FieldKind.MULTILINE:
            shown = "" if value is None else str(value)
            area = ui.textarea(title, value=shown, placeholder=own.placeholder or None)
            return _outlined(area).props("autogrow")
    shown = "" if value is None else json.dumps(value, indent=2, ensure_ascii=False, default=str)
    return (
        _outlined(ui.textarea(f"{title} (JSON)", value=shown))
        .props("autogrow")
        .classes("nc-form-json")
    )


def _outlined(element: ValueElement[Any]) -> ValueElement[Any]:
    return element.props("outlined dense").classes("nc-wide")


def _choice(own: FormField, title: str, value: Any) -> ValueElement[Any]:
    options = _options(own, value)
    names = {number: _text(each) for number, each in enumerate(options)}
    if own.several:
        chosen = [options.index(each) for each in value or ()] if isinstance(value, list) else []
        return ui.select(names, label=title, value=chosen, multiple=True).props("use-chips")
    at = options.index(value) if value in options else None
    return ui.select(names, label=title, value=at, clearable=own.nullable)


def _options(own: FormField, value: Any) -> list[Any]:
    """Return the choices, and the present value if it is not among them."""
    present = value if own.several and isinstance(value, list) else [value]
    return [*own.choices, *(each for each in present if each not in (None, *own.choices))]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _number(text: str) -> Any:
    """Return the number in a text. If the text is not a number, return the text. The check of the
    configuration then refuses the text."""
    text = text.strip()
    if _WHOLE.fullmatch(text):
        return int(text)
    try:
        number = float(text)
    except ValueError:
        return text
    return number if math.isfinite(number) else text
