"""A plugin's configuration: a pydantic model kept as YAML (or JSON) under the data folder."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from nekro_core.system.atomic_files import write_whole
from nekro_core.system.errors import NekroError

FILE_NAME = "config.yaml"


class ConfigError(NekroError):
    """A configuration file cannot be used. Names the file, the line or key, and what to do; the
    file is left as it is."""


class ExtraField(BaseModel):
    """Hints for whoever shows a configuration field:
    ``Field(json_schema_extra=ExtraField(is_secret=True).model_dump())``.

    ``load_to_sysenv`` puts the value into the process's environment while the plugin is loaded,
    as ``load_sysenv_as`` or under the field's own name; ``load_to_nonebot_env`` into NoneBot's
    configuration.
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
    """What a plugin's configuration class derives from. Every field needs a default.

    ``.json`` files are JSON, all others YAML.
    """

    model_config = ConfigDict(validate_assignment=True)

    _config_key: ClassVar[str] = ""

    @classmethod
    def load_config(cls, file_path: Path | None = None, auto_register: bool = True) -> Self:
        """Read a file; without one, the defaults. Raises `ConfigError`."""
        del auto_register  # what existing plugins give: here nothing has to be registered
        if file_path is None:
            return cls()
        path = Path(file_path)
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return cls._made({}, path)
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path}: cannot be read: {error}") from None
        data = _from_json(text, path) if _is_json(path) else _from_yaml(text, path)
        if data is not None and not isinstance(data, dict):
            raise ConfigError(f"{path}: expected 'name: value' lines, got {type(data).__name__}")
        return cls._made(data or {}, path)

    def dump_config(self, file_path: Path) -> None:
        """Write the file in one step, so that a crash leaves the old one or the new one."""
        path = Path(file_path)
        values = self.model_dump(mode="json")
        if _is_json(path):
            text = json.dumps(values, ensure_ascii=False, indent=2)
        else:
            text = yaml.safe_dump(values, allow_unicode=True, sort_keys=False, width=100)
        # It may hold keys of other services: nobody else may read it.
        write_whole(path, text.encode())

    load_yaml = load_config
    load_json = load_config
    dump_yaml = dump_config
    dump_json = dump_config

    @classmethod
    def set_config_key(cls, key: str) -> None:
        """Name the configuration, for whoever lists several."""
        cls._config_key = key

    @classmethod
    def get_config_key(cls) -> str:
        """The name that was set, or the class's."""
        return cls._config_key or cls.__name__

    @classmethod
    def get_field_title(cls, field_name: str) -> str:
        """The title of a field, or its name."""
        field = cls.model_fields.get(field_name)
        return (field.title if field else None) or field_name

    @classmethod
    def get_field_extra(cls, field_name: str) -> ExtraField:
        """The hints of a field. What is no `ExtraField` there counts as none."""
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
        """What a form shows in a field that is empty."""
        return cls.get_field_extra(field_name).placeholder

    def take_over(self, other: "ConfigBase") -> None:
        """Have the values of another one of the same class: plugins keep hold of this object."""
        for name in type(self).model_fields:
            self.__dict__[name] = other.__dict__[name]

    @classmethod
    def _made(cls, data: dict[str, Any], file_path: Path) -> Self:
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            faults = "; ".join(
                f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors()
            )
            raise ConfigError(f"{file_path}: {faults}. Correct it or delete the line") from None


def environment_of(config: ConfigBase) -> Iterator[tuple[str, str]]:
    """What fields of it belong into the process's environment: name and value."""
    for name in type(config).model_fields:
        extra = config.get_field_extra(name)
        if extra.load_to_sysenv or extra.load_sysenv_as:
            value = getattr(config, name)
            yield extra.load_sysenv_as or name, _as_text(value)


def nonebot_values(config: ConfigBase) -> Iterator[tuple[str, Any]]:
    """What fields of it belong into NoneBot's configuration: name and value."""
    for name in type(config).model_fields:
        extra = config.get_field_extra(name)
        if extra.load_to_nonebot_env or extra.load_nbenv_as:
            yield (extra.load_nbenv_as or name).lower(), getattr(config, name)


def put_in_environment(
    variables: dict[str, str], attributes: dict[str, tuple[Any, Any]]
) -> Callable[[], None]:
    """Set variables of the process, and attributes: each by its name with its object and value. The
    function that is given back restores what was there."""
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


def _is_json(path: Path) -> bool:
    return path.suffix.lower() == ".json"


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _from_yaml(text: str, path: Path) -> Any:
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
