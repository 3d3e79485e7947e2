"""Reads compose.yaml as Docker Compose does, as far as our file needs it."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
FILE = ROOT / "compose.yaml"
_VARIABLE = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")

Json = Any


def composed(variables: Mapping[str, str] | None = None) -> dict[str, Json]:
    """The file with its variables replaced. A variable that is not set has its default."""
    given = variables or {}

    def replaced(value: Json) -> Json:
        match value:
            case str():
                return _VARIABLE.sub(lambda found: given.get(found[1]) or found[2] or "", value)
            case list():
                return [replaced(each) for each in value]
            case dict():
                return {name: replaced(each) for name, each in value.items()}
        return value

    read: dict[str, Json] = replaced(yaml.safe_load(FILE.read_text("utf-8")))
    return read


def variables() -> set[str]:
    """The names of the variables that the file asks for."""
    return {found[0] for found in _VARIABLE.findall(FILE.read_text("utf-8"))}


def run_options(service: Mapping[str, Json]) -> list[str]:
    """The options of ``docker run`` that confine a service as the file does."""
    options = ["--init"] if service.get("init") else []
    options += ["--read-only"] if service.get("read_only") else []
    for name, option in (
        ("cap_drop", "--cap-drop"),
        ("security_opt", "--security-opt"),
        ("tmpfs", "--tmpfs"),
    ):
        for value in service.get(name, ()):
            options += [option, value]
    return options
