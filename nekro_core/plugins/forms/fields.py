"""The fields of a form."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from nekro_core.chat.catalogue.languages import get_text


class FieldKind(StrEnum):
    """How a value is entered."""

    TEXT = "text"
    MULTILINE = "multiline"
    SECRET = "secret"  # noqa: S105 - the kind of a field
    NUMBER = "number"
    BOOL = "bool"
    CHOICE = "choice"
    LIST = "list"
    """A list whose items are described by `FormField.item`."""
    TABLE = "table"
    """A value for each of `FormField.fields`; if there are none, free names with values that are
    described by `FormField.item`."""
    ANY = "any"
    """Any JSON value, entered as JSON text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FormField:
    """One field of a form.

    Attributes:
        name: The name of the value within its table. Empty for the items of a list.
        kind: How the value is entered.
        title: What the form calls it; `title_in` has other languages.
        help: What it means; `help_in` has other languages.
        titles: Titles by BCP 47 tag.
        helps: Explanations by BCP 47 tag.
        default: The value if none is given. Of a secret it is left out.
        required: Whether it must be filled in.
        nullable: Whether it may be null, which a form shows as empty.
        whole: Whether a number must be whole.
        least: The smallest number; of a text or list, the smallest length. None for no bound.
        most: The largest number or length. None for no bound.
        above: The number must be larger than this. None for no bound.
        below: The number must be smaller than this. None for no bound.
        step: The distance between two numbers that a form offers.
        pattern: A regular expression that a text must match. Empty for none.
        choices: The allowed values of a choice.
        several: Whether a choice is a list of the allowed values.
        item: The items of a list, or the values of a table with free names.
        fields: The fields of a table with fixed names.
        group: The heading under which a form shows it. Empty for none.
        placeholder: What the empty field shows.
        hidden: Whether a form leaves it out. Its value stays as it is.
        read_only: Whether a form only shows it.
        needs_reload: Whether a change takes effect only when the plugin is loaded again.
        names_a: What a text names: ``model_group``, ``persona`` or ``mail_account``. Empty for any
            text.
    """

    name: str
    kind: FieldKind
    title: str = ""
    help: str = ""
    titles: Mapping[str, str] = field(default_factory=dict)
    helps: Mapping[str, str] = field(default_factory=dict)
    default: Any = None
    required: bool = False
    nullable: bool = False
    whole: bool = False
    least: float | None = None
    most: float | None = None
    above: float | None = None
    below: float | None = None
    step: float | None = None
    pattern: str = ""
    choices: tuple[Any, ...] = ()
    several: bool = False
    item: "FormField | None" = None
    fields: tuple["FormField", ...] = ()
    group: str = ""
    placeholder: str = ""
    hidden: bool = False
    read_only: bool = False
    needs_reload: bool = False
    names_a: str = ""

    def title_in(self, language: str) -> str:
        """The title in a language, given as BCP 47 tag; the name if there is no title."""
        return get_text({**self.titles}, self.title, language) or self.name

    def help_in(self, language: str) -> str:
        """The explanation in a language, given as BCP 47 tag. May be empty."""
        return get_text({**self.helps}, self.help, language)


def field_at(fields: tuple[FormField, ...], place: tuple[str | int, ...]) -> FormField | None:
    """The field at a place in a form: names of fields, numbers of list items, and free names of
    tables. None if there is none."""
    found = next((each for each in fields if place and each.name == place[0]), None)
    for step in place[1:]:
        if found is None:
            return None
        if found.fields:
            found = next((each for each in found.fields if each.name == step), None)
        else:
            found = found.item
    return found


def place_text(place: tuple[str | int, ...]) -> str:
    """A place in a form as text, for example ``sources.0.api_key``."""
    return ".".join(map(str, place))
