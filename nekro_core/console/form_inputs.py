"""Draws the input of one field of a form, and reads what a person entered there."""

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from nicegui import ui
from nicegui.element import Element
from nicegui.elements.mixins.value_element import ValueElement

from nekro_core.console.view import View
from nekro_core.plugins.forms.fields import FieldKind, FormField, place_text
from nekro_core.plugins.forms.secrets import KEPT

ABSENT: Final = object()
"""A value that the form does not send, so that it stays as it is or gets its default."""
Place = tuple[str | int, ...]
_WHOLE = re.compile(r"[+-]?[0-9]{1,300}")
_LONG_CHARS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class FormSetting:
    """What all inputs of a form share.

    Attributes:
        view: The opened page.
        read_only: Whether nothing can be entered.
        kept: The places of secrets that are set, for forms whose values leave them out.
        suggestions: What a text may name, by `FormField.names_a`.
    """

    view: View
    read_only: bool = False
    kept: frozenset[str] = frozenset()
    suggestions: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def say(self, key: str, **values: object) -> str:
        """Return a text of forms."""
        return self.view.say(f"form.{key}", **values)


class FormInput(Protocol):
    """The input of one field."""

    def read(self, place: Place, problems: dict[str, str]) -> Any:
        """Return what is entered; `ABSENT` if nothing is to be sent. What cannot be read goes into
        ``problems`` by its place."""

    def show_problem(self, place: Sequence[str], text: str) -> None:
        """Show what is wrong with the value at a place inside of this field."""

    def clear_problems(self) -> None:
        """Take all shown problems away."""


def draw_field(setting: FormSetting, own: FormField, value: Any, place: Place) -> FormInput:
    """Draw the input of a field.

    Args:
        setting: What all inputs of the form share.
        own: The field.
        value: The present value; `ABSENT` if none is given.
        place: Where the field is in the form.

    Returns:
        The input.
    """
    match own.kind:
        case FieldKind.LIST if own.item is not None:
            return ListInput(setting, own, value, place)
        case FieldKind.TABLE if own.fields:
            return TableInput(setting, own, value, place)
        case FieldKind.TABLE if own.item is not None:
            return NamesInput(setting, own, value, place)
        case FieldKind.SECRET:
            return SecretInput(setting, own, value, place)
    return ValueInput(setting, own, value)


def draw_fields(
    setting: FormSetting, fields: Sequence[FormField], values: Mapping[str, Any], place: Place
) -> dict[str, FormInput]:
    """Draw the inputs of several fields, those of a group below its heading."""
    inputs: dict[str, FormInput] = {}
    shown = [each for each in fields if not each.hidden]
    for group in sorted({each.group for each in shown}, key=lambda name: name != ""):
        if group:
            heading = ui.label(group).classes("nc-form-group")
            heading.props(f'role="heading" aria-level="{min(6, 3 + len(place))}"')
        for each in shown:
            if each.group == group:
                value = values.get(each.name, ABSENT)
                inputs[each.name] = draw_field(setting, each, value, (*place, each.name))
    return inputs


class _Problem:
    """The line below an input that says what is wrong with it."""

    def __init__(self) -> None:
        self.label = ui.label("").classes("nc-bad nc-small nc-lines").props('role="alert"')
        self.label.set_visibility(False)

    def show(self, text: str) -> None:
        self.label.text = f"{self.label.text}\n{text}" if self.label.text else text
        self.label.set_visibility(True)

    def clear(self) -> None:
        self.label.text = ""
        self.label.set_visibility(False)


class ValueInput:
    """A text, number, truth value, choice or JSON value."""

    def __init__(self, setting: FormSetting, own: FormField, value: Any) -> None:
        self._own, self._setting = own, setting
        self._given = value is not ABSENT
        self._first = value if self._given else own.default
        with ui.element("div").classes("nc-form-field"):
            self._element = _element(setting, own, self._first)
            _limit(setting, own, self._element)
            _describe(setting, own, self._element)
            self._problem = _Problem()
        self._begin = self._element.value
        self._element.on_value_change(self.clear_problems)

    def read(self, place: Place, problems: dict[str, str]) -> Any:
        """See `FormInput.read`."""
        entered = self._element.value
        if entered == self._begin and not (self._own.required and self._own.kind is FieldKind.BOOL):
            # What was not touched goes back exactly as it came.
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
    """A secret. It is never shown: an empty input keeps the one that is set."""

    def __init__(self, setting: FormSetting, own: FormField, value: Any, place: Place) -> None:
        self._own, self._first = own, value
        marked = isinstance(value, Mapping) and KEPT in value
        self._is_set = marked or place_text(place) in setting.kept
        self._removed = False
        self._button: Element | None = None
        with ui.element("div").classes("nc-form-field"):
            with ui.element("div").classes("nc-form-line"):
                self._element = ui.input(_title(setting, own), password=True)
                self._element.props('outlined dense autocomplete="new-password"')
                self._element.classes("nc-grow")
                _limit(setting, own, self._element)
                if self._is_set:
                    self._element.props("stack-label")
                    self._element.props["placeholder"] = setting.say("secret_set")
                    if not setting.read_only and not own.read_only:
                        remove = ui.button(setting.say("remove_secret"), on_click=self._remove)
                        remove.props("flat dense no-caps")
                        self._button = remove
            _describe(setting, own, self._element)
            self._problem = _Problem()
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


class TableInput:
    """A value for each of some fields."""

    def __init__(self, setting: FormSetting, own: FormField, value: Any, place: Place) -> None:
        self._own, self._first = own, value
        values = value if isinstance(value, Mapping) else own.default
        with ui.element("fieldset").classes("nc-form-table"):
            _legend(setting, own)
            given = values if isinstance(values, Mapping) else {}
            self._inputs = draw_fields(setting, own.fields, given, place)
            self._problem = _Problem()
        self._begin = read_inputs(self._inputs, place, {})

    def read(self, place: Place, problems: dict[str, str]) -> Any:
        """See `FormInput.read`."""
        made = read_inputs(self._inputs, place, problems)
        if isinstance(self._first, Mapping):
            # What the form does not show stays.
            hidden = {name: each for name, each in self._first.items() if name not in self._inputs}
            return {**hidden, **made}
        untouched = made == self._begin and not self._own.required
        return self._first if untouched else made

    def show_problem(self, place: Sequence[str], text: str) -> None:
        """See `FormInput.show_problem`."""
        inner = self._inputs.get(place[0]) if place else None
        if inner is not None:
            inner.show_problem(place[1:], text)
        else:
            self._problem.show(": ".join(filter(None, (".".join(place), text))))

    def clear_problems(self) -> None:
        """See `FormInput.clear_problems`."""
        self._problem.clear()
        for each in self._inputs.values():
            each.clear_problems()


class _Rows:
    """A list of inputs that a person makes longer and shorter."""

    def __init__(self, setting: FormSetting, own: FormField, value: Any, place: Place) -> None:
        self._setting, self._own, self._first, self._place = setting, own, value, place
        self._locked = setting.read_only or own.read_only
        self._item = own.item or FormField(name="", kind=FieldKind.ANY)
        self._rows: list[tuple[Element, ui.input | None, FormInput]] = []
        with ui.element("fieldset").classes("nc-form-table"):
            _legend(setting, own)
            self._list = ui.element("div").classes("nc-form-rows")
            self._problem = _Problem()
            if not self._locked:
                ui.button(setting.say("add"), icon="add", on_click=self._add_blank).props(
                    "flat dense no-caps"
                )

    def show_problem(self, place: Sequence[str], text: str) -> None:
        """See `FormInput.show_problem`."""
        for number, (_, name, inner) in enumerate(self._rows):
            if place and place[0] == (str(number) if name is None else name.value):
                inner.show_problem(place[1:], text)
                return
        self._problem.show(": ".join(filter(None, (".".join(place), text))))

    def clear_problems(self) -> None:
        """See `FormInput.clear_problems`."""
        self._problem.clear()
        for _, _, each in self._rows:
            each.clear_problems()

    def _add_blank(self) -> None:
        self._add(_blank(self._item), "")

    def _add(self, value: Any, name: str | None) -> None:
        setting, item = self._setting, self._item
        with self._list, ui.element("div").classes("nc-form-row") as row:
            named = None
            if name is not None and self._own.kind is FieldKind.TABLE:
                named = ui.input(setting.say("name"), value=name).props("outlined dense")
                named.classes("nc-form-name").set_enabled(not self._locked)
            with ui.element("div").classes("nc-grow"):
                place = (*self._place, len(self._rows) if named is None else name or "")
                inner = draw_field(setting, item, value, place)
            entry = (row, named, inner)
            if not self._locked:
                if named is None:
                    self._button("arrow_upward", "move_up", lambda: self._move_up(entry))
                self._button("close", "remove", lambda: self._remove(entry))
        self._rows.append(entry)

    def _button(self, icon: str, key: str, do: Callable[[], None]) -> None:
        button = ui.button(icon=icon, on_click=do).props("flat dense round size=sm")
        button.props["aria-label"] = self._setting.say(key)

    def _remove(self, entry: tuple[Element, ui.input | None, FormInput]) -> None:
        self._rows.remove(entry)
        entry[0].delete()

    def _move_up(self, entry: tuple[Element, ui.input | None, FormInput]) -> None:
        at = self._rows.index(entry)
        if at:
            self._rows.insert(at - 1, self._rows.pop(at))
            entry[0].move(target_index=at - 1)


class ListInput(_Rows):
    """A list of values of one kind."""

    def __init__(self, setting: FormSetting, own: FormField, value: Any, place: Place) -> None:
        super().__init__(setting, own, value, place)
        given = own.default if value is ABSENT else value
        for each in given if isinstance(given, list | tuple) else ():
            self._add(each, None)
        self._begin = self._entered()

    def read(self, place: Place, problems: dict[str, str]) -> Any:
        """See `FormInput.read`."""
        found: dict[str, str] = {}
        made = [
            None if (read := inner.read((*place, number), found)) is ABSENT else read
            for number, (_, _, inner) in enumerate(self._rows)
        ]
        problems |= found
        if made == self._begin and not found:
            return [] if self._first is ABSENT and self._own.required else self._first
        return made

    def _entered(self) -> list[Any]:
        return [
            None if (read := inner.read(self._place, {})) is ABSENT else read
            for _, _, inner in self._rows
        ]


class NamesInput(_Rows):
    """A table whose names are free."""

    def __init__(self, setting: FormSetting, own: FormField, value: Any, place: Place) -> None:
        super().__init__(setting, own, value, place)
        given = own.default if value is ABSENT else value
        for name, each in given.items() if isinstance(given, Mapping) else ():
            self._add(each, str(name))
        self._begin = self._entered({})

    def read(self, place: Place, problems: dict[str, str]) -> Any:
        """See `FormInput.read`."""
        del place
        found: dict[str, str] = {}
        made = self._entered(found)
        problems |= found
        if made == self._begin and not found and not (self._first is ABSENT and self._own.required):
            return self._first
        return made

    def _entered(self, problems: dict[str, str]) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for _, named, inner in self._rows:
            name = (named.value if named is not None else "") or ""
            if not name or name in made:
                key = "no_name" if not name else "same_name"
                problems[place_text(self._place)] = self._setting.say(key, name=name)
                continue
            read = inner.read((*self._place, name), problems)
            made[name] = None if read is ABSENT else read
        return made


def read_inputs(
    inputs: Mapping[str, FormInput], place: Place, problems: dict[str, str]
) -> dict[str, Any]:
    """Read several inputs; values that are absent are left out."""
    read = {name: each.read((*place, name), problems) for name, each in inputs.items()}
    return {name: value for name, value in read.items() if value is not ABSENT}


def _element(setting: FormSetting, own: FormField, value: Any) -> ValueElement[Any]:
    title = _title(setting, own)
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
    """The choices, and the present value if it is none of them."""
    present = value if own.several and isinstance(value, list) else [value]
    return [*own.choices, *(each for each in present if each not in (None, *own.choices))]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _title(setting: FormSetting, own: FormField) -> str:
    title = own.title_in(setting.view.language)
    return f"{title} *" if own.required and not setting.read_only else title


def _limit(setting: FormSetting, own: FormField, element: Element) -> None:
    if setting.read_only or own.read_only:
        element.props("disable")


def _legend(setting: FormSetting, own: FormField) -> None:
    if title := _title(setting, own):
        with ui.element("legend"):
            ui.label(title)
    for line in _about(setting, own):
        ui.label(line).classes("nc-soft nc-small nc-lines")


def _describe(setting: FormSetting, own: FormField, element: Element) -> None:
    """Draw the explanation below an input."""
    if lines := _about(setting, own):
        label = ui.label("\n".join(lines)).classes("nc-soft nc-small nc-lines")
        element.props["aria-describedby"] = label.html_id


def _about(setting: FormSetting, own: FormField) -> list[str]:
    lines = [own.help_in(setting.view.language), _bounds(setting, own)]
    text = _default(setting, own.default)
    if text and len(text) <= _LONG_CHARS:
        lines.append(setting.say("default", value=text))
    if own.needs_reload:
        lines.append(setting.say("needs_reload"))
    return [line for line in lines if line]


def _default(setting: FormSetting, default: Any) -> str:
    match default:
        case bool():
            return setting.say("yes" if default else "no")
        case str() | int() | float():
            return str(default)
    return ""


def _bounds(setting: FormSetting, own: FormField) -> str:
    unit = {
        FieldKind.TEXT: "characters", FieldKind.MULTILINE: "characters",
        FieldKind.SECRET: "characters", FieldKind.LIST: "items",
    }.get(own.kind, "number")  # fmt: skip
    sayings = [
        setting.say(f"{word}_{unit}", bound=f"{bound:g}" if bound < 1e6 else int(bound))
        for word, bound in (("least", own.least), ("most", own.most))
        if bound is not None
    ]
    for word, bound in (("above", own.above), ("below", own.below)):
        if bound is not None:
            sayings.append(setting.say(word, bound=f"{bound:g}"))
    if own.pattern:
        sayings.append(setting.say("pattern", pattern=own.pattern))
    return " ".join(sayings)


def _number(text: str) -> Any:
    """Return the number; the text itself if it is none, so that the file's check refuses it."""
    text = text.strip()
    if _WHOLE.fullmatch(text):
        return int(text)
    try:
        number = float(text)
    except ValueError:
        return text
    return number if math.isfinite(number) else text


def _blank(own: FormField) -> Any:
    if own.default is not None:
        return own.default
    blanks: Mapping[FieldKind, Any] = {
        FieldKind.TEXT: "", FieldKind.MULTILINE: "", FieldKind.SECRET: "", FieldKind.BOOL: False,
        FieldKind.LIST: [], FieldKind.TABLE: {},
    }  # fmt: skip
    return [] if own.several else blanks.get(own.kind)
