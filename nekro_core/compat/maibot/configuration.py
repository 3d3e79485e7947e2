"""``config.toml`` of a plugin: read, filled with what is new, written with its comments kept."""

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError

from nekro_core.system.errors import NekroError

FILE_NAME = "config.toml"
_MAX_BYTES = 1024 * 1024


class MaiBotConfigError(NekroError, ValueError):
    """The file or its values cannot be used; says which, with line where there is one."""


def read(path: Path) -> dict[str, Any]:
    """The values of a file; none where there is no file. Raises `MaiBotConfigError`."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise MaiBotConfigError(f"{path.name} cannot be read: {error.strerror}") from None
    if len(data) > _MAX_BYTES:
        raise MaiBotConfigError(f"{path.name} is larger than {_MAX_BYTES} bytes")
    try:
        return tomllib.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise MaiBotConfigError(f"{path.name} is not UTF-8: save it as UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise MaiBotConfigError(f"{path.name}: {error}") from None


def is_enabled(values: Mapping[str, Any]) -> bool:
    """Whether ``[plugin] enabled`` lets the plugin be loaded; it does where nothing is said."""
    section = values.get("plugin")
    return not (isinstance(section, Mapping) and section.get("enabled") is False)


def normalized(instance: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """The plugin's own view of its values: what is missing filled in, and built anew on the
    defaults where its version is another. Raises `MaiBotConfigError`."""
    model = getattr(type(instance), "config_model", None)
    if model is None or not hasattr(instance, "normalize_plugin_config"):
        return dict(values)
    try:
        defaults = instance.get_default_config()
        if values and _version(values) != _version(defaults):
            values = _rebuilt(defaults, values)
        made, _ = instance.normalize_plugin_config(values)
    except Exception as error:  # a plugin's own model may raise anything
        text = " ".join(str(error).split())
        raise MaiBotConfigError(f"{FILE_NAME}: {text[:600]}") from error
    return dict(made)


def write(path: Path, values: Mapping[str, Any]) -> None:
    """Put the values into the file; what a person wrote around them stays. Raises `OSError` and
    `MaiBotConfigError`, for values that TOML cannot say."""
    try:
        document = tomlkit.parse(path.read_text("utf-8-sig")) if path.exists() else None
    except (TOMLKitError, UnicodeDecodeError):
        document = None
    document = document if document is not None else tomlkit.document()
    try:
        _put(document, values)
        text = tomlkit.dumps(document)
    except (TOMLKitError, TypeError, ValueError) as error:
        raise MaiBotConfigError(f"{path.name} cannot be written: {error}") from None
    fresh = path.with_name(f".{path.name}.new")
    fresh.write_text(text, encoding="utf-8")
    os.replace(fresh, path)  # noqa: PTH105 - said plainly: the old file is replaced


def version_of(values: Mapping[str, Any]) -> str:
    """``[plugin] config_version``, as a text."""
    return _version(values)


def _version(values: Mapping[str, Any]) -> str:
    section = values.get("plugin")
    return str(section.get("config_version", "")) if isinstance(section, Mapping) else ""


def _rebuilt(defaults: Mapping[str, Any], old: Mapping[str, Any]) -> dict[str, Any]:
    from maibot_sdk.config import rebuild_plugin_config_data  # noqa: PLC0415 - only with plugins

    made: dict[str, Any] = rebuild_plugin_config_data(defaults, old)
    section = made.get("plugin")
    if isinstance(section, dict):
        section["config_version"] = _version(defaults)
    return made


def _put(target: Any, values: Mapping[str, Any]) -> None:
    """What is equal is not touched, so its comments and its way of writing stay."""
    for key in [each for each in target if each not in values]:
        del target[key]
    for key, value in values.items():
        if value is None:
            target.pop(key, None)  # TOML has no word for it
        elif isinstance(value, Mapping):
            if not isinstance(target.get(key), Mapping):
                target[key] = tomlkit.table()
            _put(target[key], value)
        elif key not in target or target[key] != value:
            target[key] = value
