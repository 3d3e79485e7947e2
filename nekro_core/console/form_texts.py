"""Defines what all inputs of a form have in common, and draws the texts around them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from nicegui import ui
from nicegui.element import Element

from nekro_core.console.view import View
from nekro_core.plugins.forms.fields import FieldKind, FormField

ABSENT: Final = object()
"""A value that the form does not send, so that it stays as it is or gets its default."""
Place = tuple[str | int, ...]
_LONG_CHARS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class FormSetting:
    """What all inputs of a form have in common.

    Attributes:
        view: The opened page.
        read_only: Whether nothing can be entered.
        kept: The places of secrets that are set, for forms whose values leave them out.
        suggestions: The names that a text input offers. The key is the kind of thing that the text
            names, as in `FormField.names_a`.
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
        """Return the entered value; `ABSENT` if no value is to be sent. If the value cannot be
        read, add the reason to ``problems`` under the place of the field."""

    def show_problem(self, place: Sequence[str], text: str) -> None:
        """Show what is wrong with the value at a place inside of this field."""

    def clear_problems(self) -> None:
        """Remove all shown problems."""


class ProblemLine:
    """The line below an input that says what is wrong with it."""

    def __init__(self) -> None:
        self.label = ui.label("").classes("nc-bad nc-small nc-lines").props('role="alert"')
        self.label.set_visibility(False)

    def show(self, text: str) -> None:
        """Show a text below the texts that are already shown."""
        self.label.text = f"{self.label.text}\n{text}" if self.label.text else text
        self.label.set_visibility(True)

    def clear(self) -> None:
        """Remove all texts."""
        self.label.text = ""
        self.label.set_visibility(False)


def title_of(setting: FormSetting, own: FormField) -> str:
    """Return the title of a field, with a star if the field must be filled in."""
    title = own.title_in(setting.view.language)
    return f"{title} *" if own.required and not setting.read_only else title


def lock(setting: FormSetting, own: FormField, element: Element) -> None:
    """Disable an input if its field or the form is read-only."""
    if setting.read_only or own.read_only:
        element.props("disable")


def draw_legend(setting: FormSetting, own: FormField) -> None:
    """Draw the title and the explanation of a table or list."""
    if title := title_of(setting, own):
        with ui.element("legend"):
            ui.label(title)
    for line in _about(setting, own):
        ui.label(line).classes("nc-soft nc-small nc-lines")


def describe(setting: FormSetting, own: FormField, element: Element, value: Any = ABSENT) -> None:
    """Draw the explanation below an input. If the value is not the default, the explanation also
    names the default."""
    lines = _about(setting, own)
    text = "" if value in (ABSENT, own.default) else _default(setting, own.default)
    if text and len(text) <= _LONG_CHARS and "\n" not in text:
        lines.append(setting.say("default", value=text))
    if lines:
        label = ui.label("\n".join(lines)).classes("nc-soft nc-small nc-lines")
        element.props["aria-describedby"] = label.html_id


def _about(setting: FormSetting, own: FormField) -> list[str]:
    lines = [own.help_in(setting.view.language), _bounds(setting, own)]
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
