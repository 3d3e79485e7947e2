"""Reads which packages a plugin needs, from the four places in which authors may list them."""

import json
import re
import sys
import tomllib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from nekro_core.plugins.packages.errors import InvalidRequirements

_SCRIPT = re.compile(r"^# /// script\s*$\n(?P<body>(?:^#(?:| .*)$\n)+?)^# ///\s*$", re.MULTILINE)
"""Finds the metadata in a single file (see "Inline script metadata" in the packaging
specifications)."""


LISTS = ("requirements.txt", "pyproject.toml")
"""The files of a folder that list packages, besides a MaiBot plugin's manifest."""


def has_lists(folder: Path) -> bool:
    """Return True if a folder has a file that lists packages."""
    return any((folder / name).is_file() for name in LISTS)


@dataclass(frozen=True, slots=True)
class PluginRequirement:
    """A requirement and the plugin that has it, named by key, item or name."""

    requirement: Requirement
    plugin: str

    def __str__(self) -> str:
        return f"{self.plugin} needs {self.requirement}"


def plugin_requirements(
    plugin: Path, name: str, *, provided: Collection[str] = ()
) -> tuple[PluginRequirement, ...]:
    """Return the packages that a plugin's file or folder requires on this machine and Python.

    They are read from ``requirements.txt``, ``[project] dependencies`` in ``pyproject.toml``,
    inline script metadata of a single file, and the ``python_package`` dependencies of a
    ``_manifest.json``. Addresses, local paths and options of pip are refused. ``provided`` are
    canonical names of distributions that this framework replaces. They are left out, whatever
    version is asked for. Modules of Python's standard library are left out too. Raises
    `InvalidRequirements`.
    """
    found = _of_file(plugin) if plugin.is_file() else _of_folder(plugin)
    parsed = [_parsed(text, where, provided) for where, text in found]
    fitting = {
        str(each): each
        for each in parsed
        if canonicalize_name(each.name) not in provided
        and not is_in_python(each.name)
        and (each.marker is None or each.marker.evaluate())
    }
    return tuple(PluginRequirement(each, name) for each in fitting.values())


def parse_requirement(text: str) -> Requirement:
    """Parse one requirement of a name and a version. Raises `InvalidRequirements`."""
    return _parsed(text, "this", ())


def is_in_python(name: str) -> bool:
    """Return True if a name is ``python`` or the name of a module in Python's standard library.
    Some authors list such names; the packages with these names are copies for Python 2."""
    return name.lower() == "python" or name.replace("-", "_") in sys.stdlib_module_names


def poetry_names(plugin: Path) -> dict[str, str]:
    """Return the names in ``[tool.poetry.dependencies]`` of a plugin's ``pyproject.toml``, by
    canonical name. Empty if there is no such table or the file cannot be read.

    The names are used only to find the distribution of an imported module. They are not used as
    requirements, because authors seldom keep such a list up to date.
    """
    try:
        table: Any = _toml(_text(plugin / "pyproject.toml"), "pyproject.toml")
    except InvalidRequirements:
        return {}
    for part in ("tool", "poetry", "dependencies"):
        table = table.get(part) if isinstance(table, dict) else None
    names = table if isinstance(table, dict) else {}
    return {canonicalize_name(name): name for name in names if canonicalize_name(name) != "python"}


def _parsed(text: str, where: str, provided: Collection[str]) -> Requirement:
    try:
        wanted = Requirement(text)
    except InvalidRequirement as error:
        reason = str(error).partition("\n")[0]
        raise InvalidRequirements(
            f"{where}: {text!r} is no requirement ({reason}); expected a name and a version, for "
            "example httpx>=0.27"
        ) from None
    if wanted.url and canonicalize_name(wanted.name) not in provided:
        raise InvalidRequirements(
            f"{where}: {text!r} is an address; packages come by name from the package index"
        )
    return wanted


def _of_folder(folder: Path) -> Iterator[tuple[str, str]]:
    plain = folder / "requirements.txt"
    if plain.is_file():
        for number, line in enumerate(_text(plain).splitlines(), 1):
            wanted = re.sub(r"(^|\s)#.*", "", line).strip()
            where = f"{plain.name}:{number}"
            if wanted.startswith("-"):
                raise InvalidRequirements(
                    f"{where}: {wanted!r} is an option of pip; name packages only"
                )
            if wanted:
                yield where, wanted
    project = folder / "pyproject.toml"
    if project.is_file():
        yield from _strings(_toml(_text(project), project.name).get("project"), project.name)
    manifest = folder / "_manifest.json"
    if manifest.is_file():
        yield from _of_manifest(manifest)


def _of_file(file: Path) -> Iterator[tuple[str, str]]:
    found = _SCRIPT.search(_text(file).replace("\r\n", "\n"))
    if found:
        body = "".join(
            line[2:] if line.startswith("# ") else line[1:]
            for line in found["body"].splitlines(keepends=True)
        )
        yield from _strings(_toml(body, file.name), file.name)


def _of_manifest(manifest: Path) -> Iterator[tuple[str, str]]:
    try:
        data = json.loads(manifest.read_text("utf-8-sig"))
    except ValueError as error:
        raise InvalidRequirements(f"{manifest.name}: no valid JSON: {error}") from None
    wanted = data.get("dependencies", ()) if isinstance(data, dict) else ()
    for each in wanted if isinstance(wanted, list) else ():
        if isinstance(each, dict) and each.get("type") == "python_package":
            version = str(each.get("version_spec", "")).replace("*", "").strip()
            yield manifest.name, f"{each.get('name', '')}{version}"


def _strings(table: Any, where: str) -> Iterator[tuple[str, str]]:
    wanted = table.get("dependencies", []) if isinstance(table, dict) else []
    if not isinstance(wanted, list) or not all(isinstance(each, str) for each in wanted):
        raise InvalidRequirements(f'{where}: dependencies: expected a list, ["httpx>=0.27"]')
    for each in wanted:
        yield where, each


def _toml(text: str, where: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidRequirements(f"{where}: no valid TOML: {error}") from None


def _text(file: Path) -> str:
    try:
        return file.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequirements(f"{file.name}: cannot be read: {error}") from None
