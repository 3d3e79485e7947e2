"""A plugin's configuration: a pydantic class, stored as YAML or JSON below the data folder."""

import json
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, TypeVar, overload

from loguru import logger
from pydantic import BaseModel, ConfigDict, SecretStr, TypeAdapter, ValidationError

from nekro_core.plugins.authoring.binding import PluginOwner
from nekro_core.system.atomic_files import write_whole
from nekro_core.system.errors import NekroError

FILE_NAME = "config.yaml"


class ConfigError(NekroError):
    """A configuration file cannot be used. The message names the file and the line or key, and says
    how to correct it. The bot does not change the file."""


class ExtraField(BaseModel):
    """Hints on a field of a configuration, for pages that show it and for the loader of plugins:
    ``Field(json_schema_extra=ExtraField(is_secret=True).model_dump())``.

    Attributes:
        is_hidden: Whether a page leaves the field out.
        is_secret: Whether a page hides the value.
        placeholder: What a form shows in the empty field.
        is_textarea: Whether the field has several lines in a form.
        ref_model_groups: Whether the value is the name of a model group.
        ref_email_accounts_send_enabled: Whether the value names a mail account that can send.
        model_type: The kind of model group that the value must name; empty for any.
        required: Whether the field must be filled in.
        overridable: Whether a chat may have a separate value.
        sub_item_name: The name of one item of a list in a form.
        load_to_sysenv: Whether the value is in the process's environment while the plugin is
            loaded.
        load_sysenv_as: The environment variable's name; empty for the field's name. A name here
            also switches ``load_to_sysenv`` on.
        load_to_nonebot_env: Whether the value is in NoneBot's configuration while the plugin is
            loaded.
        load_nbenv_as: The name in NoneBot's configuration, in lower case; empty for the field's
            name. A name here also switches ``load_to_nonebot_env`` on.
        is_need_restart: Whether a change takes effect only after a restart of the bot.
        ref_presets: Whether the value is the id of a preset (existing plugins' word for a persona).
        ref_presets_no_default: Whether the bot's own preset cannot be chosen.
        ref_presets_multiple: Whether several presets can be chosen.
        i18n_category: The category by BCP 47 tag.
        i18n_title: The title by BCP 47 tag.
        i18n_description: The description by BCP 47 tag.
    """

    is_hidden: bool = False
    is_secret: bool = False
    placeholder: str = ""
    is_textarea: bool = False
    ref_model_groups: bool = False
    ref_email_accounts_send_enabled: bool = False
    model_type: Literal["", "chat", "embedding", "draw"] = ""
    required: bool = False
    overridable: bool = False
    sub_item_name: str = ""
    load_to_sysenv: bool = False
    load_sysenv_as: str = ""
    load_to_nonebot_env: bool = False
    load_nbenv_as: str = ""
    is_need_restart: bool = False
    ref_presets: bool = False
    ref_presets_no_default: bool = False
    ref_presets_multiple: bool = False
    i18n_category: dict[str, str] | None = None
    i18n_title: dict[str, str] | None = None
    i18n_description: dict[str, str] | None = None


class ConfigBase(BaseModel):
    """The base class of plugins' configurations. Every field needs a default.

    ``.json`` files are JSON, all others YAML.
    """

    model_config = ConfigDict(validate_assignment=True)

    _config_key: ClassVar[str] = ""

    @classmethod
    def load_config(cls, file_path: Path | None = None, auto_register: bool = True) -> Self:
        """Read a configuration from a file.

        Args:
            file_path: A ``.json`` file is read as JSON, any other as YAML. None, or a file that is
                missing, gives the defaults.
            auto_register: Has no effect; existing plugins pass it.

        Returns:
            The configuration.

        Raises:
            ConfigError: The file cannot be read, or a value in it is wrong; the text names the
                line or key.
        """
        del auto_register  # accepted for existing plugins; there is nothing to register here
        if file_path is None:
            return cls()
        path = Path(file_path)
        return cls._made(_read(path), path)

    @classmethod
    def load_filled(cls, file_path: Path | None) -> Self:
        """Read a configuration from a file, as `load_config` does. A field that has neither a
        default nor a value in the file gets an empty value of its type, so that the operator can
        set it while the plugin is loaded.

        Args:
            file_path: The file; None, or a file that is missing, has no values.

        Returns:
            The configuration.

        Raises:
            ConfigError: As in `load_config`, also if a field accepts no empty value.
        """
        path = Path(file_path) if file_path is not None else Path(cls.__name__)
        values = _read(path) if file_path is not None else {}
        for name, field in cls.model_fields.items():
            if field.is_required() and not {name, field.alias} & values.keys():
                values |= _empty_value(field.alias or name, field.annotation)
        return cls._made(values, path)

    @classmethod
    def unset_fields(cls, config: "ConfigBase") -> list[str]:
        """List the fields without a default that have an empty value.

        Args:
            config: A configuration of this class.

        Returns:
            The names of the fields.
        """
        return [
            name
            for name, field in cls.model_fields.items()
            if field.is_required() and not getattr(config, name)
        ]

    def dump_config(self, file_path: Path) -> None:
        """Write the configuration to a file that only the bot's user can read. After a
        crash, the file is the whole old one or the whole new one.

        Args:
            file_path: A ``.json`` file is written as JSON, any other as YAML.
        """
        path = Path(file_path)
        values = plain_values(self)
        if _is_json(path):
            text = json.dumps(values, ensure_ascii=False, indent=2)
        else:
            import yaml  # noqa: PLC0415 - this import takes 10 ms; most plugins have no such file

            text = yaml.safe_dump(values, allow_unicode=True, sort_keys=False, width=100)
        # The file may contain keys of other services, so only its owner may read it.
        write_whole(path, text.encode())

    load_yaml = load_config
    load_json = load_config
    dump_yaml = dump_config
    dump_json = dump_config

    @classmethod
    def set_config_key(cls, key: str) -> None:
        """Set the name under which lists show this configuration.

        Args:
            key: The name.
        """
        cls._config_key = key

    @classmethod
    def get_config_key(cls) -> str:
        """Get the name of the configuration.

        Returns:
            The name that was set, else the name of the class.
        """
        return cls._config_key or cls.__name__

    @classmethod
    def get_field_title(cls, field_name: str) -> str:
        """Get the title of a field.

        Args:
            field_name: The field.

        Returns:
            The title; the field's name if it has no title.
        """
        field = cls.model_fields.get(field_name)
        return (field.title if field else None) or field_name

    @classmethod
    def get_field_extra(cls, field_name: str) -> ExtraField:
        """Get the hints of a field.

        Args:
            field_name: The field.

        Returns:
            The hints; the defaults if the field has no hints or invalid ones.
        """
        field = cls.model_fields.get(field_name)
        extra = field.json_schema_extra if field else None
        if not isinstance(extra, dict):
            return ExtraField()
        try:
            return ExtraField.model_validate(extra)
        except ValidationError:
            return ExtraField()

    @classmethod
    def get_field_placeholder(cls, field_name: str) -> str:
        """Get the text that a form shows in an empty field.

        Args:
            field_name: The field.

        Returns:
            The text; may be empty.
        """
        return cls.get_field_extra(field_name).placeholder

    def take_over(self, other: "ConfigBase") -> None:
        """Copy the values of another configuration into this object. The object must stay the same,
        because plugins keep references to it.

        Args:
            other: A configuration of the same class.
        """
        for name in type(self).model_fields:
            self.__dict__[name] = other.__dict__[name]

    @classmethod
    def _made(cls, data: dict[str, Any], file_path: Path) -> Self:
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            faults = "; ".join(f"{place}: {text}" for place, text in faults_of(error))
            raise ConfigError(f"{file_path}: {faults}. Correct it or delete the line") from None


def plain_values(model: BaseModel) -> dict[str, Any]:
    """Return the values of a pydantic object as JSON values. Pydantic's own dump masks secrets; in
    the result of this function they are readable."""
    values: dict[str, Any] = _in_clear(model, model.model_dump(mode="json"))
    return values


def _in_clear(value: Any, dumped: Any) -> Any:
    match value:
        case SecretStr():
            return value.get_secret_value()
        case BaseModel() if isinstance(dumped, dict):
            return {
                name: _in_clear(getattr(value, name, each), each) for name, each in dumped.items()
            }
        case dict() if isinstance(dumped, dict) and len(dumped) == len(value):
            both = zip(value.values(), dumped.items(), strict=True)
            return {name: _in_clear(inner, each) for inner, (name, each) in both}
        case list() | tuple() if isinstance(dumped, list) and len(dumped) == len(value):
            return [_in_clear(inner, each) for inner, each in zip(value, dumped, strict=True)]
    return dumped


def faults_of(error: ValidationError) -> Iterator[tuple[str, str]]:
    """Yield the place of each wrong value of a configuration, with a text that says what is
    wrong."""
    for fault in error.errors(include_url=False, include_input=False):
        yield ".".join(map(str, fault["loc"])), fault["msg"]


def environment_of(config: ConfigBase) -> Iterator[tuple[str, str]]:
    """Yield the name and value of each environment variable that a configuration sets."""
    for name in type(config).model_fields:
        extra = config.get_field_extra(name)
        if extra.load_to_sysenv or extra.load_sysenv_as:
            value = getattr(config, name)
            yield extra.load_sysenv_as or name, _as_text(value)


def nonebot_values(config: ConfigBase) -> Iterator[tuple[str, Any]]:
    """Yield the name and value of each setting that a configuration sets in NoneBot."""
    for name in type(config).model_fields:
        extra = config.get_field_extra(name)
        if extra.load_to_nonebot_env or extra.load_nbenv_as:
            yield (extra.load_nbenv_as or name).lower(), getattr(config, name)


def put_in_environment(
    variables: dict[str, str], attributes: dict[str, tuple[Any, Any]]
) -> Callable[[], None]:
    """Set environment variables and attributes. ``attributes`` has, by name, the object and the new
    value. The returned function restores the earlier values."""
    before = {name: os.environ.get(name) for name in variables}
    had = {name: getattr(target, name, None) for name, (target, _) in attributes.items()}
    os.environ.update(variables)
    for name, (target, value) in attributes.items():
        setattr(target, name, value)

    def restore() -> None:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        for name, (target, _) in attributes.items():
            setattr(target, name, had[name])

    return restore


def _read(path: Path) -> dict[str, Any]:
    """Read the values of a file; an empty dict if there is no file. Raises `ConfigError`."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from None
    data = _from_json(text, path) if _is_json(path) else _from_yaml(text, path)
    if data is not None and not isinstance(data, dict):
        raise ConfigError(f"{path}: expected 'name: value' lines, got {type(data).__name__}")
    return data or {}


def _empty_value(name: str, annotation: Any) -> dict[str, Any]:
    """Return a dict that maps ``name`` to the first of `_EMPTY_VALUES` that the type accepts; an
    empty dict if the type accepts none of them."""
    kind: TypeAdapter[Any] = TypeAdapter(annotation)
    for value in _EMPTY_VALUES:
        try:
            kind.validate_python(value)
        except ValidationError:
            continue
        return {name: value}
    return {}


def _is_json(path: Path) -> bool:
    return path.suffix.lower() == ".json"


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _from_yaml(text: str, path: Path) -> Any:
    import yaml  # noqa: PLC0415 - as above

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        place = getattr(error, "problem_mark", None)
        line = f":{place.line + 1}" if place else ""
        reason = getattr(error, "problem", None) or error
        raise ConfigError(f"{path}{line}: no valid YAML: {reason}") from None


def _from_json(text: str, path: Path) -> Any:
    try:
        return json.loads(text) if text.strip() else None
    except ValueError as error:
        raise ConfigError(f"{path}: no valid JSON: {error}") from None


_EMPTY_VALUES: Sequence[Any] = (None, "", 0, False, [], {})
Config = TypeVar("Config", bound=ConfigBase)


class Configured(ABC):
    """The part of `NekroPlugin` that holds its configuration: one class, one object, one file.

    When the operator edits the file, the object stays the same and gets the new values, because
    plugins keep references to the object.
    """

    def __init__(self) -> None:
        self._config_class: type[ConfigBase] = ConfigBase
        self._config: ConfigBase | None = None
        self._config_stamp = (0, 0)
        self._in_environment: Callable[[], None] | None = None

    def mount_config(self) -> Callable[[type[Config]], type[Config]]:
        """Class decorator that makes a class the plugin's configuration and reads the configuration
        file. If there is no file, one is written with the defaults. If no bot loads the plugin, no
        file is read or written.

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
        """Get the configuration. Every call for one class returns the same object, until
        `save_config` puts another one in its place. If no bot has loaded the plugin, the object has
        the default values.

        Args:
            config_cls: The class of the configuration; None for the mounted class.

        Returns:
            The configuration.

        Raises:
            ConfigError: This call reads the file for the first time, and the file cannot be used.
        """
        wanted = config_cls or self._config_class
        if not isinstance(self._config, wanted):
            bound = self._bot() is not None
            self._config = self._read_config(wanted, self._config_path() if bound else None)
            if bound:
                self._config_stamp = _stamp(self._config_path())
        return self._config

    def save_config(self, config: ConfigBase) -> None:
        """Write the configuration. It takes effect at once.

        Args:
            config: The new values.

        Raises:
            NotLoaded: The plugin belongs to no bot.
        """
        config.dump_config(self._config_path())
        self._config = config
        self._took(config)

    @property
    def config_class(self) -> type[ConfigBase]:
        """The class of the object that `get_config` returned last; before its first call, the
        mounted class. `ConfigBase` itself if the plugin has no configuration."""
        return type(self._config) if self._config is not None else self._config_class

    @property
    def config_path(self) -> Path:
        """The file of the configuration. Raises `NotLoaded`."""
        return self._config_path()

    def look_at_config(self) -> None:
        """Read the file again if it has changed. If it cannot be used, an error is logged once and
        the values stay as they are."""
        if self._config is None or self._bot() is None:
            return
        path = self._config_path()
        stamp = _stamp(path)
        if stamp in (self._config_stamp, _GONE):
            return
        self._config_stamp = stamp
        try:
            self._config.take_over(self._read_config(type(self._config), path))
        except ConfigError as error:
            logger.error("the configuration stays as it was: {}", error)
        else:
            self._took(self._config)

    def _read_config(self, config_class: type[ConfigBase], path: Path | None) -> ConfigBase:
        """Read the configuration from a file. If ``path`` is None, it has the default values.
        Raises `ConfigError`."""
        return config_class.load_config(path)

    def _took(self, config: ConfigBase) -> None:
        """Set the environment variables and NoneBot settings that the configuration's fields ask
        for."""
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
        """Get the owner of the plugin; None if no bot has loaded it."""

    @abstractmethod
    def _folder(self) -> Path:
        """Get the folder of the plugin's files. Raises `NotLoaded`."""

    def _config_path(self) -> Path:
        return self._folder() / FILE_NAME


_GONE = (0, 0)


def _nonebot(config: ConfigBase) -> dict[str, tuple[Any, Any]]:
    """Get, by name, NoneBot's configuration object and the value to set in it. The result is empty
    if NoneBot does not run."""
    values = dict(nonebot_values(config))
    nonebot = sys.modules.get("nonebot")
    if not values or nonebot is None:
        return {}
    try:
        target = nonebot.get_driver().config
    except ValueError:  # NoneBot is imported but not initialized.
        return {}
    return {name: (target, value) for name, value in values.items()}


def _stamp(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError:
        return _GONE
    return found.st_mtime_ns, found.st_ino
