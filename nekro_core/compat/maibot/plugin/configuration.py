"""Reads and writes a plugin's ``config.toml``. Comments in the file are preserved."""

import os
import re
import tomllib
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import tomlkit
from loguru import logger
from tomlkit.exceptions import TOMLKitError

from nekro_core.compat.maibot.plugin.legacy import legacy_defaults, merged
from nekro_core.system.errors import NekroError

FILE_NAME = "config.toml"
_MAX_BYTES = 1024 * 1024
_MOST_COPIES = 50


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
    """Return False if ``[plugin] enabled`` is false, so that the plugin is not loaded. Otherwise
    return True."""
    section = values.get("plugin")
    return not (isinstance(section, Mapping) and section.get("enabled") is False)


def normalized(instance: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """Check the values with ``normalize_plugin_config``, the plugin's own method or that of the
    SDK's base class. It adds missing values. If there are no values, it gets the plugin's defaults.

    Values of another version than the defaults are first brought into the form of the defaults. If
    the plugin has its own ``normalize_plugin_config``, this method does that: it gets the values as
    they are in the file, because it may move them to new places. If it fails or the version stays
    another one, or if the plugin has no such method of its own, the values are merged into the
    defaults. Raises `MaiBotConfigError`.
    """
    if not hasattr(instance, "normalize_plugin_config"):
        return _with_legacy_defaults(legacy_defaults(instance), values)
    try:
        defaults = _defaults_of(instance)
        if not values:
            made, _ = instance.normalize_plugin_config(defaults)
        elif not defaults or version_of(values) == version_of(defaults):
            made, _ = instance.normalize_plugin_config(values)
        else:
            made, _ = instance.normalize_plugin_config(_moved(instance, defaults, values))
    except Exception as error:  # a plugin's own class may raise any exception
        text = " ".join(str(error).split())
        raise MaiBotConfigError(f"{FILE_NAME}: {text[:600]}") from error
    return dict(made)


def _with_legacy_defaults(defaults: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    made = merged(defaults, values)
    if isinstance(made.get("plugin"), dict) and version_of(defaults):
        made["plugin"]["config_version"] = version_of(defaults)
    return made


def _moved(
    instance: Any, defaults: Mapping[str, Any], values: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Bring values of another version into the form of the defaults."""
    if has_own_normalization(instance):
        try:
            values, _ = instance.normalize_plugin_config(deepcopy(dict(values)))
        except Exception as error:  # noqa: BLE001 - it may not know this version
            logger.warning(
                "normalize_plugin_config of {} does not accept the values of version {!r}: {!r}",
                type(instance).__name__,
                version_of(values),
                error,
            )
        if version_of(values) == version_of(defaults):
            return values
    return _rebuilt(defaults, values)


def has_own_normalization(instance: Any) -> bool:
    """Return True if the plugin has its own ``normalize_plugin_config``."""
    method = getattr(type(instance), "normalize_plugin_config", None)
    return getattr(method, "__module__", "") != "maibot_sdk.plugin"


def save(path: Path, old: Mapping[str, Any], new: Mapping[str, Any]) -> Path | None:
    """Write the values ``new`` over the values ``old`` of a file. If a value of the file is missing
    or different in ``new``, the file is first copied to a file beside it; a changed version alone
    is no reason for a copy. Returns the path of the copy, or None. Raises the same errors as
    `write`."""
    copied = _copy(path, version_of(old)) if path.exists() and _loses(old, new) else None
    write(path, new)
    return copied


def _loses(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    for key, value in old.items():
        if key not in new:
            return True
        if isinstance(value, Mapping) and isinstance(new[key], Mapping):
            if _loses(value, new[key]):
                return True
        elif new[key] != value and key != "config_version":
            return True
    return False


def _copy(path: Path, version: str) -> Path:
    """Copy a file to a free name beside it, for example ``config.toml.1.3.0.bak``."""
    data = path.read_bytes()
    clean = re.sub(r"[^\w.+-]", "_", version)[:40] or "old"
    for number in range(1, _MOST_COPIES + 1):
        suffix = f".{number}" if number > 1 else ""
        copy = path.with_name(f"{path.name}.{clean}{suffix}.bak")
        if copy.exists() and copy.read_bytes() == data:
            return copy
        if not copy.exists():
            copy.write_bytes(data)
            return copy
    raise MaiBotConfigError(
        f"{path.name} is not changed, because there are {_MOST_COPIES} copies of it ({copy.name}): "
        "delete those that you do not need"
    )


def _defaults_of(instance: Any) -> Mapping[str, Any]:
    defaults = instance.get_default_config() if hasattr(instance, "get_default_config") else {}
    return defaults if isinstance(defaults, Mapping) else {}


def write(path: Path, values: Mapping[str, Any]) -> None:
    """Write the values to the file and preserve its comments. Raises the same errors as
    `new_text`."""
    text = new_text(path, values)
    new_file = path.with_name(f".{path.name}.new")
    new_file.write_text(text, encoding="utf-8")
    os.replace(new_file, path)  # noqa: PTH105 - replaces the old file


def new_text(path: Path, values: Mapping[str, Any]) -> str:
    """Return the text of the file with other values. Its comments are preserved. Raises `OSError`,
    and `MaiBotConfigError` for values that cannot be written as TOML."""
    try:
        document = tomlkit.parse(path.read_text("utf-8-sig")) if path.exists() else None
    except (TOMLKitError, UnicodeDecodeError):
        document = None
    document = document if document is not None else tomlkit.document()
    try:
        _put(document, values)
        return tomlkit.dumps(document)
    except (TOMLKitError, TypeError, ValueError) as error:
        raise MaiBotConfigError(f"{path.name} cannot be written: {error}") from None


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
