"""Finds the packages in the bot's own environment. The packages of plugins do not count."""

import os
import sys
from collections.abc import Iterable
from importlib.metadata import distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def bot_versions() -> dict[str, str]:
    """Return the versions of the packages in the bot's environment, by canonical name."""
    found: dict[str, str] = {}
    for each in distributions(path=_own_path()):
        if each.metadata and each.metadata["Name"]:
            found.setdefault(canonicalize_name(each.metadata["Name"]), each.version)
    return found


def bot_version(name: str) -> str:
    """Return the version of one package in the bot's environment; empty if it is not there."""
    found = next(iter(distributions(name=name, path=_own_path())), None)
    return found.version if found is not None else ""


def bot_meets(wanted: Requirement) -> bool:
    """Return True if the bot has a package in a version that fits, and all packages that the wanted
    extras need."""
    return _meets(wanted, frozenset())


def _meets(wanted: Requirement, above: frozenset[str]) -> bool:
    found = next(iter(distributions(name=wanted.name, path=_own_path())), None)
    if found is None or not wanted.specifier.contains(found.version, prereleases=True):
        return False
    name = canonicalize_name(wanted.name)
    # Two packages may need each other. Do not check a package again below itself.
    if not wanted.extras or name in above:
        return True
    needs = [Requirement(text) for text in found.requires or ()]
    return all(
        _meets(each, above | {name})
        for each in needs
        if each.marker is not None
        and not each.marker.evaluate({"extra": ""})
        and any(each.marker.evaluate({"extra": extra}) for extra in wanted.extras)
    )


def own_environment() -> dict[str, str]:
    """Return this process's environment variables, changed so that Python programs do not find the
    packages of plugins."""
    shown = _without_plugins(os.environ.get("PYTHONPATH", "").split(os.pathsep))
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, shown))}


def _own_path() -> list[str]:
    return _without_plugins(sys.path)


def _without_plugins(path: Iterable[str]) -> list[str]:
    """Return the folders of ``path``, except folders with packages of plugins."""
    return [part for part in path if "plugin_packages" not in Path(part).parts]
