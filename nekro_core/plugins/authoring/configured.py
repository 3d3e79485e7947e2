"""The configuration that a plugin object has, and its file."""

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, overload

from loguru import logger

from nekro_core.plugins.authoring.binding import PluginOwner
from nekro_core.plugins.authoring.config import (
    FILE_NAME,
    ConfigBase,
    ConfigError,
    environment_of,
    nonebot_values,
    put_in_environment,
)

Config = TypeVar("Config", bound=ConfigBase)


class Configured(ABC):
    """What `NekroPlugin` knows of its configuration. One class, one object, one file.

    The object stays the same when the operator edits the file: plugins keep hold of it.
    """

    def __init__(self) -> None:
        self._config_class: type[ConfigBase] = ConfigBase
        self._config: ConfigBase | None = None
        self._config_stamp = (0, 0)
        self._in_environment: Callable[[], None] | None = None

    def mount_config(self) -> Callable[[type[Config]], type[Config]]:
        """Class decorator: this is the plugin's configuration. Its file is read, and written with
        the defaults where there is none.

        Returns:
            A decorator that gives the class back.

        Raises:
            ConfigError: The file cannot be used; raised when the class is decorated.
        """

        def mount(config_class: type[Config]) -> type[Config]:
            self._config_class = config_class
            self._config = None
            config = self.get_config(config_class)
            if self._bot() is not None:
                if not self._config_path().exists():
                    config.dump_config(self._config_path())
                self._took(config)
            return config_class

        return mount

    @overload
    def get_config(self) -> Any: ...
    @overload
    def get_config(self, config_cls: type[Config]) -> Config: ...
    def get_config(self, config_cls: type[ConfigBase] | None = None) -> Any:
        """Get the configuration, always the same object; the defaults where no bot has loaded the
        plugin.

        Args:
            config_cls: The class that is expected; None for the mounted one.

        Returns:
            The configuration.

        Raises:
            ConfigError: The file is read now, and cannot be used.
        """
        wanted = config_cls or self._config_class
        if not isinstance(self._config, wanted):
            bound = self._bot() is not None
            self._config = wanted.load_config(self._config_path()) if bound else wanted()
            if bound:
                self._config_stamp = _stamp(self._config_path())
        return self._config

    def save_config(self, config: ConfigBase) -> None:
        """Write the configuration; it is in force at once.

        Args:
            config: The new values.

        Raises:
            NotLoaded: The plugin belongs to no bot.
        """
        config.dump_config(self._config_path())
        self._config = config
        self._took(config)

    def look_at_config(self) -> None:
        """Take over what somebody wrote into the file since it was read. A file that cannot be used
        is told of once, and changes nothing."""
        if self._config is None or self._bot() is None:
            return
        path = self._config_path()
        stamp = _stamp(path)
        if stamp in (self._config_stamp, _GONE):
            return
        self._config_stamp = stamp
        try:
            self._config.take_over(type(self._config).load_config(path))
        except ConfigError as error:
            logger.error("the configuration stays as it was: {}", error)
        else:
            self._took(self._config)

    def _took(self, config: ConfigBase) -> None:
        """The values are in force: where the process is to have some, it gets them."""
        self._config_stamp = _stamp(self._config_path())
        owner = self._bot()
        if owner is None:
            return
        if self._in_environment is not None:
            self._in_environment()
        restore = put_in_environment(dict(environment_of(config)), _nonebot(config))
        forget = owner.effects.add("values of the configuration outside of it", restore)

        def take_back() -> None:
            forget()
            restore()

        self._in_environment = take_back

    @abstractmethod
    def _bot(self) -> PluginOwner | None:
        """Whose plugin it is."""

    @abstractmethod
    def _folder(self) -> Path:
        """Where its files lie. Raises `NotLoaded`."""

    def _config_path(self) -> Path:
        return self._folder() / FILE_NAME


_GONE = (0, 0)


def _nonebot(config: ConfigBase) -> dict[str, tuple[Any, Any]]:
    """NoneBot's configuration and the value, by name; nothing where NoneBot does not run."""
    values = dict(nonebot_values(config))
    nonebot = sys.modules.get("nonebot")
    if not values or nonebot is None:
        return {}
    try:
        target = nonebot.get_driver().config
    except ValueError:  # It is imported, and was not begun.
        return {}
    return {name: (target, value) for name, value in values.items()}


def _stamp(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError:
        return _GONE
    return found.st_mtime_ns, found.st_ino
