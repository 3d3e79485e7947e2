"""A plugin's configuration: a pydantic model kept as YAML under the data folder."""

import os
from pathlib import Path
from typing import Any, Self

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

FILE_NAME = "config.yaml"


class ConfigError(Exception):
    """A configuration file cannot be used. Names the file, the line or key, and what to do; the
    file is left as it is."""


class ExtraField(BaseModel):
    """Hints for whoever shows a configuration field:
    ``Field(json_schema_extra=ExtraField(is_secret=True).model_dump())``."""

    is_hidden: bool = False
    is_secret: bool = False
    placeholder: str = ""
    is_textarea: bool = False
    ref_model_groups: bool = False
    ref_email_accounts_send_enabled: bool = False
    model_type: str = ""
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
    """What a plugin's configuration class derives from. Every field needs a default."""

    model_config = ConfigDict(validate_assignment=True)

    @classmethod
    def load_config(cls, file_path: Path) -> Self:
        """Read a file; without one, the defaults. Raises `ConfigError`."""
        try:
            text = file_path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return cls._made({}, file_path)
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{file_path}: cannot be read: {error}") from None
        try:
            data = yaml.safe_load(text)
        except yaml.YAMLError as error:
            place = getattr(error, "problem_mark", None)
            line = f":{place.line + 1}" if place else ""
            reason = getattr(error, "problem", None) or error
            raise ConfigError(f"{file_path}{line}: no valid YAML: {reason}") from None
        if data is not None and not isinstance(data, dict):
            raise ConfigError(
                f"{file_path}: expected 'name: value' lines, got {type(data).__name__}"
            )
        return cls._made(data or {}, file_path)

    def dump_config(self, file_path: Path) -> None:
        """Write the file in one step, so that a crash leaves the old one or the new one."""
        text = yaml.safe_dump(
            self.model_dump(mode="json"), allow_unicode=True, sort_keys=False, width=100
        )
        file_path.parent.mkdir(parents=True, exist_ok=True)
        fresh = file_path.with_name(f".{file_path.name}.new")
        fresh.write_text(text, encoding="utf-8")
        # It may hold keys of other services.
        fresh.chmod(0o600)
        os.replace(fresh, file_path)  # noqa: PTH105 - said plainly: the old file is replaced

    @classmethod
    def get_field_title(cls, field_name: str) -> str:
        """The title of a field, or its name."""
        field = cls.model_fields.get(field_name)
        return (field.title if field else None) or field_name

    @classmethod
    def _made(cls, data: dict[str, Any], file_path: Path) -> Self:
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            faults = "; ".join(
                f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors()
            )
            raise ConfigError(f"{file_path}: {faults}. Correct it or delete the line") from None
