"""Functions with which plugins of nekro-agent read and change settings."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from nekro_core.compat.nekro_agent.core import CoreConfig
from nekro_core.compat.nekro_agent.host import NoBot, current_host
from nekro_core.plugins.authoring.config import ConfigBase
from nekro_core.plugins.authoring.plugin_key import folded_key
from nekro_core.tools.outcome import InvalidValue

__all__ = ["ConfigService", "save_plugin_config"]

_READ_ONLY = "a plugin can only read the bot's settings; they are in .env"


class ConfigService:
    """Reads and changes a plugin's configuration, and reads the bot's settings."""

    @staticmethod
    def get_config_list(config: ConfigBase | CoreConfig) -> list[dict[str, Any]]:
        """The settings, each as a dict with its ``key`` and ``value``."""
        return [{"key": key, "value": value} for key, value in config.model_dump().items()]

    @staticmethod
    def set_config_value(
        config: ConfigBase | CoreConfig, key: str, value: Any
    ) -> tuple[bool, str | None]:
        """Change a setting. Return True if it was changed, else False and the reason."""
        if isinstance(config, CoreConfig):
            return False, f"{key}: {_READ_ONLY}"
        try:
            _set(config, key, value)
        except InvalidValue as error:
            return False, str(error)
        return True, None

    @staticmethod
    def save_config(config: ConfigBase | CoreConfig, file_path: Path | str) -> None:
        """Write a configuration to a file. Raises `InvalidValue` for the bot's settings."""
        if isinstance(config, CoreConfig):
            raise InvalidValue(_READ_ONLY)
        config.dump_config(Path(file_path))


async def save_plugin_config(plugin_key: str, values: Mapping[str, Any]) -> bool:
    """Change settings of a plugin and write them to its file. ``plugin_key`` is
    ``author.module_name``. The caller may write the author and the module name as the plugin's code
    writes them, or as the bot's key of the plugin has them. Returns True.

    Raises `UnknownPlugin` for a plugin that is not loaded, and `InvalidValue` for a setting that
    does not exist or cannot have the value. In both cases nothing changes.
    """
    plugins = current_host().plugins
    if plugins is None:
        raise NoBot("the bot has not loaded its plugins yet: use this in a function that it calls")
    known = any(each.key == plugin_key for each in plugins.plugins())
    plugin = plugins.loaded(plugin_key if known else folded_key(plugin_key))
    config = plugin.get_config()
    changed = config.model_copy()
    for key, value in values.items():
        _set(changed, key, value)
    config.take_over(changed)
    plugin.save_config(config)
    return True


def _set(config: BaseModel, key: str, value: Any) -> None:
    known = type(config).model_fields
    if key not in known:
        raise InvalidValue(f"there is no setting {key!r}; there are {', '.join(known)}")
    try:
        setattr(config, key, value)
    except ValidationError as error:
        reasons = "; ".join(each["msg"] for each in error.errors())
        raise InvalidValue(f"{key}: {value!r} is not allowed: {reasons}") from None
