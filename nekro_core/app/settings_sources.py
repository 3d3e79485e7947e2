"""Collects the settings of all sources, and says which source gives a value.

The sources are ``settings.toml`` and ``secrets.toml`` in the data folder, ``.env``,
``.env.{ENVIRONMENT}``, and the environment of the process. A later source overrides the values of
an earlier source.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self, get_args, get_origin

from dotenv import dotenv_values
from nonebot.config import DotEnvSettingsSource
from pydantic import BaseModel

from nekro_core.app.settings_file import (
    FREE_TABLES,
    PREFIX,
    SECRETS,
    SETTINGS,
    TomlFault,
    line_of,
    parse_toml,
)
from nekro_core.system.errors import NekroError
from nekro_core.system.live_settings import LiveSettings

DATA_DIR = f"{PREFIX}data_dir"
_CONTAINERS = (tuple, list, set, frozenset, dict)
FieldPath = tuple[str, ...]
"""The place of a value in `Settings`: ``("nekro_agent", "turn", "max_steps")``."""


class SettingsError(NekroError):
    """A setting is wrong. The text contains the setting's name as the operator wrote it, and says
    what was expected. If the setting is in a file, the text begins with the file and the line."""


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable that gives a value. ``name`` is written as the operator wrote it. ``file`` is the
    ``.env`` file that has it; None for the environment."""

    name: str
    file: Path | None = None


@dataclass(frozen=True)
class SettingsSources:
    """The content of all sources at one moment.

    Attributes:
        folder: The folder with ``.env``.
        environment: The environment of the process.
        dotenv: The variables of each ``.env`` file. A later file takes precedence over an earlier
            file.
        data: The data folder.
        texts: The texts of those of the files ``settings.toml`` and ``secrets.toml`` that exist.
    """

    folder: Path
    environment: Mapping[str, str]
    dotenv: tuple[tuple[Path, Mapping[str, str]], ...]
    data: Path
    texts: Mapping[str, str]

    @classmethod
    def read(cls, folder: Path = Path(), texts: Mapping[str, str] | None = None) -> Self:
        """Read all sources. ``texts`` replaces the texts of the files in the data folder. Raises
        `SettingsError` if a file cannot be read."""
        environment = dict(os.environ)
        dotenv = tuple(
            (path, {name: value or "" for name, value in dotenv_values(path).items()})
            for path in dotenv_files(folder)
            if path.is_file()
        )
        known = {name.lower(): value for _, each in dotenv for name, value in each.items()}
        known |= {name.lower(): value for name, value in environment.items()}
        data = folder / (known.get(DATA_DIR) or "data")
        if texts is None:
            found = {name: _text(data / name) for name in (SETTINGS, SECRETS)}
            texts = {name: text for name, text in found.items() if text is not None}
        return cls(folder, environment, dotenv, data, texts)

    def written(self) -> dict[str, str]:
        """Return the variables of ``.env`` and of the environment, with lower-case names."""
        names = {name.lower(): value for _, each in self.dotenv for name, value in each.items()}
        return names | {name.lower(): value for name, value in self.environment.items()}

    def values(self, model: type[BaseModel]) -> dict[str, Any]:
        """Return the values of all sources for the class of the settings. Raises `SettingsError`,
        and NoneBot's error for a value that is not JSON."""
        return _merged(self.of_files(model), self.of_variables(model), model)

    def of_files(self, model: type[BaseModel]) -> dict[str, Any]:
        """Return the values of the two files in the data folder. Raises `SettingsError`."""
        values: dict[str, Any] = {}
        for name in (SETTINGS, SECRETS):
            values = _merged(values, self._of_file(name, model), model)
        return values

    def of_variables(self, model: type[BaseModel]) -> dict[str, Any]:
        """Return the values of ``.env`` and of the environment."""
        files = tuple(path for path, _ in self.dotenv)
        values = DotEnvSettingsSource(
            model, env_file=files, env_file_encoding="utf-8", env_nested_delimiter="__"
        )()
        return _with_lists(values, model)

    def variable(self, path: FieldPath) -> Variable | None:
        """Return the variable that gives the value at a path, or a part of this value; None if
        there is no such variable."""
        for depth in range(len(path), 0, -1):
            wanted = "__".join(path[:depth]).upper()
            if found := self._variable(wanted):
                return found
        inside = "__".join(path).upper() + "__"
        return next((v for v in self._variables() if v.name.upper().startswith(inside)), None)

    def file_of(self, path: FieldPath) -> str:
        """Return the name of the file in the data folder that has a value at this path; empty if no
        file has one."""
        for name in (SECRETS, SETTINGS):
            table: Any = self._parsed.get(name, {})
            for part in toml_path(path):
                table = table.get(part) if isinstance(table, Mapping) else None
            if table is not None:
                return name
        return ""

    def line(self, name: str, path: Sequence[str]) -> int | None:
        """Return the line of a file that sets the name at a path of tables."""
        return line_of(self.texts.get(name, ""), path)

    def secret_texts(self) -> list[str]:
        """Return all texts in ``secrets.toml``, which must not appear in logs."""
        return [*_texts(self._parsed.get(SECRETS, {}))]

    def fault(self, name: str, line: int | None, problem: str) -> SettingsError:
        """Return the error for a problem in a file."""
        place = f", line {line}" if line is not None else ""
        return SettingsError(f"{self.data / name}{place}: {problem}")

    @cached_property
    def _parsed(self) -> dict[str, dict[str, Any]]:
        found = {}
        for name, text in self.texts.items():
            try:
                found[name] = parse_toml(text)
            except TomlFault as error:
                raise self.fault(name, error.line, f"not TOML: {error}") from None
        return found

    def _of_file(self, name: str, model: type[BaseModel]) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key, value in self._parsed.get(name, {}).items():
            if key in FREE_TABLES:
                if not isinstance(value, Mapping):
                    raise self.fault(name, self.line(name, [key]), f"{key}: expected a table")
                values |= {inner.lower(): each for inner, each in value.items()}
            elif f"{PREFIX}{key}" == DATA_DIR:
                problem = f"{key}: this file is in that folder; set NEKRO_DATA_DIR in .env instead"
                raise self.fault(name, self.line(name, [key]), problem)
            elif f"{PREFIX}{key}" in model.model_fields:
                values[f"{PREFIX}{key}"] = value
            elif key in model.model_fields and not key.startswith(PREFIX):
                values[key] = value
            else:
                problem = f"{key}: {unknown_name(key, _top_names(model))}"
                raise self.fault(name, self.line(name, [key]), problem)
        return values

    def _variable(self, name: str) -> Variable | None:
        return next((each for each in self._variables() if each.name.upper() == name), None)

    def _variables(self) -> Iterator[Variable]:
        """Yield all variables. A variable overrides later variables of the same name."""
        yield from map(Variable, self.environment)
        for path, names in reversed(self.dotenv):
            yield from (Variable(name, path) for name in names)


def toml_path(path: FieldPath) -> FieldPath:
    """Return the place in ``settings.toml`` of the value at a path of `Settings`."""
    return (path[0].removeprefix(PREFIX), *path[1:])


def dotenv_files(folder: Path) -> tuple[Path, Path]:
    """Return the paths of the ``.env`` files of a folder. The second file overrides the first."""
    first = folder / ".env"
    named = dotenv_values(first).get("ENVIRONMENT") if first.is_file() else None
    environment = os.environ.get("ENVIRONMENT") or named or "prod"
    return first, folder / f".env.{environment}"


def unknown_name(name: str, known: Sequence[str]) -> str:
    """Return the advice for a setting's name that is not known."""
    import difflib  # noqa: PLC0415 - only an error needs it

    by_lower = {each.lower(): each for each in known}
    close = difflib.get_close_matches(name.lower(), by_lower, 1, 0.7)
    if close:
        return f"did you mean {by_lower[close[0]]}?"
    return f"no such setting; there are {', '.join(known)}"


def _top_names(model: type[BaseModel]) -> list[str]:
    names = {each.removeprefix(PREFIX) for each in model.model_fields} - {"data_dir"}
    return sorted(names | {*FREE_TABLES})


def _with_lists(
    values: Mapping[str, Any], model: type[BaseModel], above: FieldPath = ()
) -> dict[str, Any]:
    """Parse lists and tables that are texts. NoneBot parses most of them, but not the values of
    fields with a constraint, such as a minimum length. Raises `SettingsError`."""
    found = dict(values)
    for name, value in values.items():
        field = model.model_fields.get(name)
        if field is None:
            continue
        inner = _section(field.annotation)
        if isinstance(inner, type) and isinstance(value, Mapping):
            found[name] = _with_lists(value, inner, (*above, name))
        elif isinstance(value, str) and get_origin(field.annotation) in _CONTAINERS:
            try:
                found[name] = json.loads(value)
            except ValueError:
                written = "__".join((*above, name)).upper()
                raise SettingsError(
                    f'{written}: not readable as JSON; a list is written ["one", "two"]'
                ) from None
    return found


def _merged(
    below: Mapping[str, Any], above: Mapping[str, Any], model: type[BaseModel] | None
) -> dict[str, Any]:
    """Merge two trees of values. If both trees have a value at a place, and it is not a section,
    the value of ``above`` is used."""
    merged = dict(below)
    for name, value in above.items():
        field = model.model_fields.get(name) if model is not None else None
        inner = _section(field.annotation) if field is not None else None
        there = merged.get(name)
        if inner is None or not (isinstance(there, Mapping) and isinstance(value, Mapping)):
            merged[name] = value
        elif isinstance(inner, tuple):
            merged[name] = {
                key: _merged(there.get(key, {}), value.get(key, {}), inner[0])
                for key in {**there, **value}
            }
        else:
            merged[name] = _merged(there, value, inner)
    return merged


def _section(annotation: Any) -> type[LiveSettings] | tuple[type[LiveSettings]] | None:
    """Return the class of a section, or a tuple with the class if the field is a dictionary of
    sections."""
    if get_origin(annotation) is dict and isinstance(inner := get_args(annotation)[1], type):
        return (inner,) if issubclass(inner, LiveSettings) else None
    if isinstance(annotation, type) and issubclass(annotation, LiveSettings):
        return annotation
    return None


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)


def _text(path: Path) -> str | None:
    try:
        return path.read_bytes().decode()
    except (FileNotFoundError, NotADirectoryError):
        return None  # a problem of the data folder is reported later in the start
    except UnicodeDecodeError as error:
        line = path.read_bytes()[: error.start].count(b"\n") + 1
        raise SettingsError(f"{path}, line {line}: not UTF-8") from None
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}") from None
