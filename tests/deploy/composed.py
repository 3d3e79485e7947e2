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
    """Return the content of compose.yaml with its variables replaced. A variable that
    ``variables`` does not have gets the default that the file names, or is empty."""
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
    """Return the names of the variables that compose.yaml uses."""
    return {found[0] for found in _VARIABLE.findall(FILE.read_text("utf-8"))}


def in_network(network: str) -> set[str]:
    """Return the services that are in a network. A service that names no network is in the network
    ``default``."""
    services = composed()["services"]
    return {name for name, each in services.items() if network in each.get("networks", ["default"])}


def run_options(service: Mapping[str, Json]) -> list[str]:
    """Return the options with which ``docker run`` confines a container as compose.yaml confines
    this service."""
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
