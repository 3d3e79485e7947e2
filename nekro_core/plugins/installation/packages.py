"""Finds and installs the packages that a plugin needs, for `nekro plugin check`, `run` and
`install`."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TextIO

import anyio.to_thread
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from nekro_core.plugins.installation.attempts import Attempt
from nekro_core.plugins.installation.undeclared import UndeclaredPackage, undeclared_packages
from nekro_core.plugins.packages import PackageFolder, PackagesRefused
from nekro_core.plugins.packages.nekro_agent_environment import PROVIDED, THE_FRAMEWORK
from nekro_core.plugins.packages.own_environment import bot_version
from nekro_core.plugins.packages.requirements import (
    PluginRequirement,
    has_lists,
    plugin_requirements,
)


@dataclass(frozen=True, slots=True)
class PluginNeeds:
    """The packages that a plugin needs: ``declared`` are packages that it names, ``undeclared`` are
    packages that it imports without naming them, and ``by_pip`` are packages that it installs with
    pip itself."""

    declared: tuple[PluginRequirement, ...]
    undeclared: tuple[UndeclaredPackage, ...] = ()
    by_pip: tuple[PluginRequirement, ...] = ()
    other_versions: tuple[str, ...] = ()
    """A line for each part of the framework that the plugin wants in another version."""

    @property
    def every(self) -> tuple[PluginRequirement, ...]:
        """All packages that the plugin needs."""
        return (*self.declared, *self.found)

    @property
    def found(self) -> tuple[PluginRequirement, ...]:
        """The packages that the plugin needs but does not name."""
        return (*(each.need for each in self.undeclared), *self.by_pip)

    def with_attempts(self, item: str, attempts: Iterable[Attempt]) -> "PluginNeeds":
        """Return these needs, extended by the packages that the plugin tried to install with pip.
        Packages that are in these needs or in the bot's own environment are not added."""
        known = {canonicalize_name(need.requirement.name) for need in self.every}
        found = {}
        for text in dict.fromkeys(text for each in attempts for text in each.packages):
            wanted = Requirement(text)
            name = canonicalize_name(wanted.name)
            if name not in known | PROVIDED and not bot_version(name):
                found[name] = PluginRequirement(wanted, item)
        return replace(self, by_pip=(*self.by_pip, *found.values()))

    def offers(self) -> list[str]:
        """Return a line for each package that is added although the plugin does not name it, and a
        line for each package that stays in another version than the plugin wants."""
        return [
            *self.other_versions,
            *(f"{each}: it is added" for each in self.undeclared),
            *(f"it runs pip for {each.requirement}: it is added" for each in self.by_pip),
        ]


def plugin_needs(plugin: Path, item: str, repository: Path | None = None) -> PluginNeeds:
    """Read the packages that a plugin needs from its files. If it names none and is a folder of a
    ``repository``, the files of the repository count. Raises `InvalidRequirements`."""
    every = plugin_requirements(plugin, item, provided=THE_FRAMEWORK)
    lists = plugin
    if repository is not None and repository != plugin and not has_lists(plugin):
        lists = repository
        more = plugin_requirements(lists, item, provided=THE_FRAMEWORK)
        every = (*every, *(each for each in more if each not in every))
    declared = tuple(
        each for each in every if canonicalize_name(each.requirement.name) not in PROVIDED
    )
    others = [
        f"it asks for {each.requirement}; the bot itself has {version}, and loads it all the same"
        for each in every
        if each not in declared
        and (version := bot_version(each.requirement.name))
        and not each.requirement.specifier.contains(version, prereleases=True)
    ]
    return PluginNeeds(
        declared, undeclared_packages(plugin, item, declared, lists), other_versions=tuple(others)
    )


def get_packages(
    shelf: PackageFolder, item: str, needs: PluginNeeds, gone: Collection[str] = ()
) -> Iterator[str]:
    """Install the packages that a plugin needs, and yield a line for each new package. For ``gone``
    see `PackageFolder.ensure`. Blocks.

    A plugin may work without a package that it does not name. If such a package cannot be
    installed, a line says so, and the other packages are installed. Raises `PackagesRefused` if a
    package that the plugin names cannot be installed.
    """
    if not needs.every and item not in shelf.needs:
        return
    try:
        got = shelf.ensure(item, needs.every, gone=gone)
    except PackagesRefused:
        if not needs.found:
            raise
        got = shelf.ensure(item, needs.declared, gone=gone)
        for need in needs.found:
            try:
                got |= shelf.ensure(item, [need], more=True)
            except PackagesRefused as error:
                _, reason, *_ = (*str(error).splitlines(), "")
                yield f"not got: {reason}"
    yield from (f"got {name} {version}" for name, version in got.items())


async def fetch_packages(needs: PluginNeeds, item: str, shelf: PackageFolder, out: TextIO) -> None:
    """Install the missing packages of a plugin, and print their names and versions. Raises
    `PackagesRefused`."""
    out.writelines(f"{line}\n" for line in needs.offers())
    if any(not shelf.has(need.requirement) for need in needs.every):
        lines = await anyio.to_thread.run_sync(lambda: [*get_packages(shelf, item, needs)])
        out.writelines(f"{line}\n" for line in lines)
