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
    SECRET = "secret"  # noqa: S105 - this is not a password
    NUMBER = "number"
    BOOL = "bool"
    CHOICE = "choice"
    LIST = "list"
    """A list whose items are described by `FormField.item`."""
    TABLE = "table"
    """An object. If `FormField.fields` is not empty, it has these fields. Otherwise its names are
    free, and `FormField.item` describes its values."""
    ANY = "any"
    """Any JSON value, entered as JSON text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FormField:
    """One field of a form.

    Attributes:
        name: The name of the value within its table. Empty for the items of a list.
        kind: How the value is entered.
        title: The title of the field; `title_in` has other languages.
        help: The explanation of the field; `help_in` has other languages.
        titles: Titles by BCP 47 tag.
        helps: Explanations by BCP 47 tag.
        default: The value if none is given. It is left out for a secret.
        required: Whether the field must be filled in.
        nullable: Whether the value may be null, which a form shows as empty.
        whole: Whether a number must be whole.
        least: The minimum of a number, or of the length of a text or list. None for no bound.
        most: The maximum of a number, or of the length of a text or list. None for no bound.
        above: The number must be larger than this. None for no bound.
        below: The number must be smaller than this. None for no bound.
        step: The distance between two numbers that a form offers.
        pattern: A regular expression that a text must match. Empty for none.
        choices: The allowed values of a choice.
        several: Whether several of the allowed values can be chosen; the value is then a list.
        item: The items of a list, or the values of a table with free names.
        fields: The fields of a table with fixed names.
        group: The heading under which a form shows the field. Empty for none.
        placeholder: The text that the empty field shows.
        hidden: Whether a form leaves the field out. Its value stays as it is.
        read_only: Whether a form shows the value but does not let people change it.
        needs_reload: Whether a change takes effect only when the plugin is loaded again.
        names_a: The kind of thing that a text must name: ``model_group``, ``persona`` or
            ``mail_account``. Empty for any text.
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
        """Return the title in a language (a BCP 47 tag); the name if there is no title."""
        return get_text({**self.titles}, self.title, language) or self.name

    def help_in(self, language: str) -> str:
        """Return the explanation in a language (a BCP 47 tag). May be empty."""
        return get_text({**self.helps}, self.help, language)


def field_at(fields: tuple[FormField, ...], place: tuple[str | int, ...]) -> FormField | None:
    """Return the field at a place in a form; None if there is none. A place consists of names of
    fields, numbers of list items, and free names of tables."""
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
    """Return a place in a form as text, for example ``sources.0.api_key``."""
    return ".".join(map(str, place))
