"""Converts an account's settings to the values of a form and to stored values, and back."""

import json
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, SecretStr, ValidationError

from nekro_core.delivery.platforms.contract import ShownSettings
from nekro_core.delivery.platforms.errors import InvalidAccountSettings

Model = TypeVar("Model", bound=BaseModel)


def read_form(model: type[Model], values: Mapping[str, Any]) -> Model:
    """Check the values of a form. Raises `InvalidAccountSettings`."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        # The inputs are left out: they may be secrets.
        problems = {
            ".".join(map(str, fault["loc"])): fault["msg"].removeprefix("Value error, ")
            for fault in error.errors(include_input=False, include_url=False)
        }
        raise InvalidAccountSettings(problems) from None


def with_secrets(settings: BaseModel) -> dict[str, Any]:
    """Return the settings as plain JSON values, with secrets. `read_form` reads them."""
    text = json.dumps(settings.model_dump(mode="python"), default=_plain)
    values: dict[str, Any] = json.loads(text)
    return values


def without_secrets(settings: BaseModel) -> ShownSettings:
    """Return the settings as plain JSON values, without secrets."""
    values: dict[str, Any] = with_secrets(settings)
    return ShownSettings(values=values, secrets=tuple(_taken_out(settings, values, "")))


def merged(old: BaseModel, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the old settings, changed by the values of a form. A secret that is None in the form
    keeps its value, and so does every field that the form leaves out."""
    return _over(old, with_secrets(old), values)


def _over(old: BaseModel, known: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(known)
    for name, value in values.items():
        inner = getattr(old, name, None)
        if isinstance(inner, BaseModel) and isinstance(value, Mapping):
            result[name] = _over(inner, known[name], value)
        elif value is not None or not isinstance(inner, SecretStr):
            result[name] = value
    return result


def _taken_out(settings: BaseModel, values: dict[str, Any], path: str) -> list[str]:
    """Remove the secrets from ``values``, and return the paths of those that had a value."""
    found = []
    for name, value in settings:
        if isinstance(value, SecretStr):
            if values.pop(name, ""):
                found.append(f"{path}{name}")
        elif isinstance(value, BaseModel):
            found += _taken_out(value, values[name], f"{path}{name}.")
    return found


def _plain(value: object) -> object:
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if isinstance(value, set | frozenset):
        return sorted(value)
    return str(value)
