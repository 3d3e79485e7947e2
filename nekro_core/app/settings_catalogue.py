"""Lists all settings, with their types, descriptions, values and sources."""

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from functools import lru_cache
from typing import Any, get_args, get_origin

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo
from pydantic_core import to_jsonable_python

from nekro_core.app.settings import SECRET_NAME, Settings
from nekro_core.app.settings_file import FREE_TABLES, PREFIX
from nekro_core.app.settings_sources import (
    DATA_DIR,
    FieldPath,
    SettingsError,
    SettingsSources,
    Variable,
    toml_path,
    unknown_name,
)
from nekro_core.system.live_settings import Applies, LiveSettings, applies
from nekro_core.system.setting_info import SettingInfo, SettingSource
from nekro_core.system.setting_type import type_in_words

_OF_NONEBOT = {
    "log_level": "The least important lines that the log shows: DEBUG, INFO, WARNING or ERROR.",
    "nickname": "NoneBot's setting: the names of the bot for NoneBot's plugins.",
    "api_timeout": "NoneBot's setting: the time limit in seconds for a call to a platform.",
    "session_expire_timeout": "NoneBot's setting: how long its plugins wait for an answer.",
    "command_sep": "NoneBot's setting: the separators in names of commands of NoneBot's plugins.",
}
_PASSWORD = re.compile(r"(?<=://)[^/@\s]+(?=@)")
"""A user name and a password in an address."""
_SECRET_FIELDS = {f"{PREFIX}database_url", "proxy", "webhook_url"}
"""Fields whose values may contain a password, although they are not a `SecretStr`. Whoever knows
the address of a webhook can usually post to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingField:
    """One setting. Either a class declares it, or it is a name in one of the `FREE_TABLES`, which
    have the settings that no class declares.

    Attributes:
        path: Its place in `Settings`. For a name in one of the `FREE_TABLES`: the table and the
            name.
        field: Its declaration; None for a name in one of the `FREE_TABLES`.
        schema: Its JSON schema.
        description: What it does.
        applies: When a change takes effect.
        secret: Whether its value must not be shown.
    """

    path: FieldPath
    field: FieldInfo | None = dataclass_field(compare=False)
    schema: Mapping[str, Any] = dataclass_field(compare=False)
    description: str
    applies: Applies
    secret: bool

    @property
    def name(self) -> str:
        """The name in ``settings.toml``, with dots."""
        return ".".join(toml_path(self.path))

    @property
    def variable(self) -> str:
        """The name in the environment."""
        return (self.path[1] if self.path[0] in FREE_TABLES else "__".join(self.path)).upper()

    @property
    def comment(self) -> str:
        """The first sentence of the description, for a comment in the file."""
        return re.split(r"(?<=[.])\s", self.description, maxsplit=1)[0]


def declared_settings(settings: Settings) -> list[SettingField]:
    """Return all settings: those that classes declare, those of each group of ``models``, and the
    settings of adapters and NoneBot that have a value."""
    fields: list[SettingField] = []
    for name, field in Settings.model_fields.items():
        value, mark = getattr(settings, name), applies(field)
        if isinstance(value, LiveSettings):
            fields += _of_section(type(value), (name,), mark)
        elif isinstance(value, dict):
            for key, group in value.items():
                fields += _of_section(type(group), (name, key), mark)
        elif name != DATA_DIR:
            fields.append(_declared(Settings, (name,), Applies.AT_ONCE))
    return [*fields, *_free_fields(settings)]


def find_setting(settings: Settings, name: str) -> SettingField:
    """Return the setting with this name, as it is written in ``settings.toml`` or in the
    environment. Raises `SettingsError` if there is no such setting."""
    fields = declared_settings(settings)
    wanted = name.strip()
    for each in fields:
        if wanted in (each.name, each.variable):
            return each
    path = tuple(wanted.split("."))
    if wanted.isupper() and "." not in path:
        path = tuple(wanted.lower().split("__"))
        of_adapter = len(path) == 1 and path[0].startswith(settings.adapters.all_settings())
        path = ("adapters", path[0]) if of_adapter else path
        path = (path[0].removeprefix(PREFIX), *path[1:])
    if path[0] in FREE_TABLES and len(path) == 2:
        return _free_field(path, None)
    if path[0] == "models" and len(path) == 3:
        group = get_args(Settings.model_fields[f"{PREFIX}models"].annotation)[1]
        path = (f"{PREFIX}models", *path[1:])
        if path[-1] in group.model_fields:
            return _declared(group, path, Applies.AT_ONCE)
    if f"{PREFIX}{path[0]}" == DATA_DIR:
        raise SettingsError(
            "data_dir: settings.toml is in that folder; set NEKRO_DATA_DIR in the environment"
        )
    raise SettingsError(f"{name}: {unknown_name(wanted, [each.name for each in fields])}")


def setting_infos(wanted: Settings, running: Settings | None = None) -> list[SettingInfo]:
    """Return all settings.

    Args:
        wanted: The settings that the files and the environment give now.
        running: The settings in force, if a bot runs in this process.
    """
    sources = wanted.sources
    by_variable = sources.of_variables(Settings)
    return [
        _info(each, wanted, running, sources, by_variable) for each in declared_settings(wanted)
    ]


def value_at(settings: Settings, path: FieldPath) -> Any:
    """Return the value of a setting; None for a name in one of the `FREE_TABLES` that is not
    set."""
    if path[0] in FREE_TABLES:
        return (settings.model_extra or {}).get(path[1])
    value: Any = settings
    for part in path:
        value = value.get(part) if isinstance(value, dict) else getattr(value, part, None)
    return value


def plain(value: Any) -> Any:
    """Return a value as plain JSON. Sets are sorted."""
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if isinstance(value, set | frozenset):
        return sorted(plain(each) for each in value)
    return to_jsonable_python(value)


def variable_of(
    sources: SettingsSources, by_variable: Mapping[str, Any], each: SettingField
) -> Variable | None:
    """Return the variable of the environment or of ``.env`` that gives the value of a setting; None
    if no variable gives it. ``by_variable`` is the result of `SettingsSources.of_variables`."""
    there: Any = by_variable
    for part in path_of_variable(each.path):
        if not isinstance(there, Mapping) or part not in there:
            break
        there = there[part]
    else:
        return sources.variable(path_of_variable(each.path))
    if each.path[0] in FREE_TABLES and each.path[1] in sources.written():
        # NoneBot reads such names only from files. The bot gives NoneBot those that are in the
        # environment.
        return sources.variable(path_of_variable(each.path))
    return None


def _info(
    each: SettingField,
    wanted: Settings,
    running: Settings | None,
    sources: SettingsSources,
    by_variable: Mapping[str, Any],
) -> SettingInfo:
    value = value_at(wanted, each.path)
    locked = variable_of(sources, by_variable, each)
    source = SettingSource.DEFAULT
    if locked is not None:
        source = SettingSource.DOTENV if locked.file else SettingSource.ENVIRONMENT
    elif sources.file_of(each.path):
        source = SettingSource.FILE
    default = each.field.get_default(call_default_factory=True) if each.field else None
    waits = running is not None and plain(value_at(running, each.path)) != plain(value)
    return SettingInfo(
        name=each.name,
        variable=each.variable,
        type=type_in_words(each.schema, secret=each.secret),
        schema=each.schema,
        description=each.description,
        default=None if each.secret else plain(default),
        value=None if each.secret else _shown(plain(value)),
        is_set=source is not SettingSource.DEFAULT and plain(value) not in ("", None),
        secret=each.secret,
        source=source,
        locked_by=locked.name if locked else "",
        locked_in=locked.file.name if locked and locked.file else "",
        applies=each.applies,
        restart_needed=waits and each.applies is Applies.AFTER_RESTART,
    )


def path_of_variable(path: FieldPath) -> FieldPath:
    """Return the path that the variable of a setting has in the environment."""
    return path[1:] if path[0] in FREE_TABLES else path


def _of_section(section: type[BaseModel], path: FieldPath, mark: Applies) -> Iterator[SettingField]:
    for name, field in section.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, LiveSettings):
            yield from _of_section(inner, (*path, name), applies(field, mark))
        else:
            yield _declared(section, (*path, name), mark)


def _declared(model: type[BaseModel], path: FieldPath, mark: Applies) -> SettingField:
    field = model.model_fields[path[-1]]
    return SettingField(
        path=path,
        field=field,
        schema=_schemas(model)[path[-1]],
        description=_descriptions(model).get(path[-1], ""),
        applies=applies(field, mark),
        secret=_has_secret(field.annotation) or path[-1] in _SECRET_FIELDS,
    )


def _free_fields(settings: Settings) -> Iterator[SettingField]:
    sources = settings.sources
    names = {name.lower() for name in settings.model_extra or {}}
    names |= {*_OF_NONEBOT}
    prefixes = settings.adapters.all_settings()
    names |= {name for name in sources.written() if name.startswith(prefixes)}
    for name in sorted(names):
        table = "adapters" if name.startswith(prefixes) else "nonebot"
        for each in FREE_TABLES:
            if sources.file_of((each, name)):
                table = each
        yield _free_field((table, name), (settings.model_extra or {}).get(name))


def _free_field(path: FieldPath, value: Any) -> SettingField:
    return SettingField(
        path=path,
        field=None,
        schema={},
        description=_OF_NONEBOT.get(path[1], ""),
        applies=Applies.AFTER_RESTART,
        secret=bool(SECRET_NAME.search(path[1])) or _has_secret_names(value),
    )


def _has_secret_names(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(
            SECRET_NAME.search(str(name)) or _has_secret_names(each) for name, each in value.items()
        )
    return isinstance(value, list) and any(map(_has_secret_names, value))


def _has_secret(annotation: Any) -> bool:
    if get_origin(annotation) is not None:
        return any(map(_has_secret, get_args(annotation)))
    return annotation is SecretStr


def _shown(value: Any) -> Any:
    """Return a value without passwords in addresses."""
    if isinstance(value, str):
        return _PASSWORD.sub("***", value)
    if isinstance(value, list):
        return [_shown(each) for each in value]
    if isinstance(value, dict):
        hidden = (SECRET_NAME.search(str(name)) is not None for name in value)
        return {
            name: "***" if hide else _shown(each)
            for (name, each), hide in zip(value.items(), hidden, strict=True)
        }
    return value


@lru_cache
def _schemas(model: type[BaseModel]) -> dict[str, Mapping[str, Any]]:
    """Return the JSON schema of each field of a class, without references and titles."""
    whole = model.model_json_schema()
    inner = whole.get("$defs", {})

    def resolved(schema: Any) -> Any:
        if isinstance(schema, list):
            return [resolved(each) for each in schema]
        if not isinstance(schema, dict):
            return schema
        if "$ref" in schema:
            return resolved(inner[schema["$ref"].rpartition("/")[2]])
        return {
            key: resolved(each)
            for key, each in schema.items()
            if key not in ("title", "default", "description", "applies")
        }

    return {name: resolved(schema) for name, schema in whole["properties"].items()}


@lru_cache
def _descriptions(model: type[BaseModel]) -> dict[str, str]:
    """Return the text under each field of a class and its base classes, as one line. Code is
    between single backticks, as people write it."""
    found: dict[str, str] = {}
    for base in reversed(model.__mro__):
        if not (issubclass(base, BaseModel) and base.__module__.startswith("nekro_core.")):
            continue
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        assert isinstance(tree, ast.ClassDef)
        for before, after in zip(tree.body, tree.body[1:], strict=False):
            if (
                isinstance(before, ast.AnnAssign)
                and isinstance(before.target, ast.Name)
                and isinstance(after, ast.Expr)
                and isinstance(after.value, ast.Constant)
                and isinstance(after.value.value, str)
            ):
                found[before.target.id] = " ".join(after.value.value.replace("``", "`").split())
    return found
