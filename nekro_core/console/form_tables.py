"""Draws the inputs of tables and lists, which contain other inputs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from nicegui import ui
from nicegui.element import Element

from nekro_core.console.form_inputs import SecretInput, ValueInput
from nekro_core.console.form_texts import (
    ABSENT,
    FormInput,
    FormSetting,
    Place,
    ProblemLine,
    draw_legend,
)
from nekro_core.plugins.forms.fields import FieldKind, FormField, place_text


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
    """Draw the inputs of several fields. Fields of a group are below the heading of the group."""
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


class TableInput:
    """A table (values with names, as in TOML) whose names are fixed. It has one input for each
    name."""

    def __init__(self, setting: FormSetting, own: FormField, value: Any, place: Place) -> None:
        self._own, self._first = own, value
        values = value if isinstance(value, Mapping) else own.default
        with ui.element("fieldset").classes("nc-form-table"):
            draw_legend(setting, own)
            given = values if isinstance(values, Mapping) else {}
            self._inputs = draw_fields(setting, own.fields, given, place)
            self._problem = ProblemLine()
        self._begin = read_inputs(self._inputs, place, {})

    def read(self, place: Place, problems: dict[str, str]) -> Any:
        """See `FormInput.read`."""
        made = read_inputs(self._inputs, place, problems)
        if isinstance(self._first, Mapping):
            # Values that the form does not show are sent back unchanged.
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
    """A list of inputs to which a person adds inputs, and from which they remove inputs."""

    def __init__(self, setting: FormSetting, own: FormField, value: Any, place: Place) -> None:
        self._setting, self._own, self._first, self._place = setting, own, value, place
        self._locked = setting.read_only or own.read_only
        item = own.item or FormField(name="", kind=FieldKind.ANY)
        # Each input needs a name for screen readers.
        named = item.titles or item.title
        self._item = item if named else replace(item, title=own.title_in(setting.view.language))
        self._rows: list[tuple[Element, ui.input | None, FormInput]] = []
        with ui.element("fieldset").classes("nc-form-table"):
            draw_legend(setting, own)
            self._list = ui.element("div").classes("nc-form-rows")
            self._problem = ProblemLine()
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
    """A table whose names the person chooses."""

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
    """Read several inputs. Inputs that send no value are left out."""
    read = {name: each.read((*place, name), problems) for name, each in inputs.items()}
    return {name: value for name, value in read.items() if value is not ABSENT}


def _blank(own: FormField) -> Any:
    if own.default is not None:
        return own.default
    blanks: Mapping[FieldKind, Any] = {
        FieldKind.TEXT: "", FieldKind.MULTILINE: "", FieldKind.SECRET: "", FieldKind.BOOL: False,
        FieldKind.LIST: [], FieldKind.TABLE: {},
    }  # fmt: skip
    return [] if own.several else blanks.get(own.kind)
