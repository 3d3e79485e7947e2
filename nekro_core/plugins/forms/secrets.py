"""Hides the secrets of a form, and puts them back into the values that the form sends.

In place of a secret that is set, the form gets the mark ``{"$secret": "sources.0.api_key"}``. If
the form sends this mark in a secret field, the secret is kept, even if the item of the list has
moved. So secrets are never shown, and people need not type them again.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from nekro_core.plugins.forms.fields import FieldKind, FormField, field_at, place_text

KEPT = "$secret"
Place = tuple[str | int, ...]


def hidden_secrets(fields: tuple[FormField, ...], values: Mapping[str, Any]) -> dict[str, Any]:
    """Copy the values of a form, with a mark in place of each secret that is set."""
    return {str(name): _hidden(fields, value, (str(name),)) for name, value in values.items()}


def without_secrets(fields: tuple[FormField, ...], value: Any, place: Place) -> Any:
    """Copy one value of a form for a log, with ``set`` or ``not set`` in place of each secret."""
    own = field_at(fields, place)
    if own is not None and own.kind is FieldKind.SECRET:
        return "set" if value not in (None, "") else "not set"
    match value:
        case Mapping():
            return {
                str(name): without_secrets(fields, inner, (*place, str(name)))
                for name, inner in value.items()
            }
        case list() | tuple():
            return [
                without_secrets(fields, inner, (*place, number))
                for number, inner in enumerate(value)
            ]
    return value


def with_secrets(
    fields: tuple[FormField, ...],
    sent: Mapping[str, Any],
    values: Mapping[str, Any],
    problems: dict[str, str],
) -> dict[str, Any]:
    """Copy the values that a form sent, with the secrets of ``values`` in place of their marks. If
    a mark is in a field that is not a secret, or if its secret does not exist, add its place to
    ``problems``."""
    return {
        str(name): _restored(fields, value, (str(name),), values, problems)
        for name, value in sent.items()
    }


def _hidden(fields: tuple[FormField, ...], value: Any, place: Place) -> Any:
    own = field_at(fields, place)
    kind = own.kind if own is not None else FieldKind.ANY
    if kind is FieldKind.SECRET:
        return {KEPT: place_text(place)} if value not in (None, "") else ""
    match value:
        case Mapping():
            return {
                str(name): _hidden(fields, inner, (*place, str(name)))
                for name, inner in value.items()
            }
        case list() | tuple():
            return [_hidden(fields, inner, (*place, number)) for number, inner in enumerate(value)]
    return value


def _restored(
    fields: tuple[FormField, ...],
    value: Any,
    place: Place,
    values: Mapping[str, Any],
    problems: dict[str, str],
) -> Any:
    match value:
        case {"$secret": str(name)} if len(value) == 1:
            own = field_at(fields, place)
            if own is None or own.kind is not FieldKind.SECRET:
                problems[place_text(place)] = "a secret cannot be copied into a field that shows it"
                return None
            known = dict(secrets_of(fields, values))
            if name not in known:
                problems[place_text(place)] = f"there is no secret at {name}: enter it again"
                return None
            return known[name]
        case Mapping():
            return {
                str(name): _restored(fields, inner, (*place, str(name)), values, problems)
                for name, inner in value.items()
            }
        case list() | tuple():
            return [
                _restored(fields, inner, (*place, number), values, problems)
                for number, inner in enumerate(value)
            ]
    return value


def secrets_of(
    fields: tuple[FormField, ...], value: Any, place: Place = ()
) -> Iterator[tuple[str, Any]]:
    """Yield each secret in a value of the form, with its place as text."""
    own = field_at(fields, place) if place else None
    if own is not None and own.kind is FieldKind.SECRET:
        yield place_text(place), value
        return
    match value:
        case Mapping():
            for name, inner in value.items():
                yield from secrets_of(fields, inner, (*place, str(name)))
        case list() | tuple():
            for number, inner in enumerate(value):
                yield from secrets_of(fields, inner, (*place, number))
