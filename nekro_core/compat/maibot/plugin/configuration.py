"""Reads and writes a plugin's ``config.toml``. Comments in the file are preserved."""

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
    """The file or a value in it is invalid. The error's text says what is wrong and, if known, in
    which line."""


def read(path: Path) -> dict[str, Any]:
    """Read the values of a file; an empty dict if the file does not exist. Raises
    `MaiBotConfigError`."""
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
    """Whether the plugin may be loaded: True unless ``[plugin] enabled`` is false."""
    section = values.get("plugin")
    return not (isinstance(section, Mapping) and section.get("enabled") is False)


def normalized(instance: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """Check the values with the plugin's configuration model, which adds missing values. If the
    ``config_version`` in the values is not the model's version, the values are first merged into
    the model's defaults. Raises `MaiBotConfigError`."""
    model = getattr(type(instance), "config_model", None)
    if model is None or not hasattr(instance, "normalize_plugin_config"):
        return dict(values)
    try:
        defaults = instance.get_default_config()
        if values and version_of(values) != version_of(defaults):
            values = _rebuilt(defaults, values)
        made, _ = instance.normalize_plugin_config(values)
    except Exception as error:  # a plugin's model may raise anything
        text = " ".join(str(error).split())
        raise MaiBotConfigError(f"{FILE_NAME}: {text[:600]}") from error
    return dict(made)


def write(path: Path, values: Mapping[str, Any]) -> None:
    """Write the values to the file and preserve its comments. Raises `OSError`, and
    `MaiBotConfigError` for values that cannot be written as TOML."""
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
    new_file = path.with_name(f".{path.name}.new")
    new_file.write_text(text, encoding="utf-8")
    os.replace(new_file, path)  # noqa: PTH105 - replaces the old file


def version_of(values: Mapping[str, Any]) -> str:
    """The ``[plugin] config_version`` as text; empty if there is none."""
    section = values.get("plugin")
    return str(section.get("config_version", "")) if isinstance(section, Mapping) else ""


def _rebuilt(defaults: Mapping[str, Any], old: Mapping[str, Any]) -> dict[str, Any]:
    from maibot_sdk.config import rebuild_plugin_config_data  # noqa: PLC0415 - only with plugins

    made: dict[str, Any] = rebuild_plugin_config_data(defaults, old)
    section = made.get("plugin")
    if isinstance(section, dict):
        section["config_version"] = version_of(defaults)
    return made


def _put(target: Any, values: Mapping[str, Any]) -> None:
    """Change only the values that differ, so that the other values keep their comments and
    format."""
    for key in [each for each in target if each not in values]:
        del target[key]
    for key, value in values.items():
        if value is None:
            target.pop(key, None)  # TOML has no null
        elif isinstance(value, Mapping):
            if not isinstance(target.get(key), Mapping):
                target[key] = tomlkit.table()
            _put(target[key], value)
        elif key not in target or target[key] != value:
            target[key] = value
