"""Finds and installs the packages that a plugin needs, for `nekro plugin check`, `run` and
`install`."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TextIO

import anyio.to_thread

from nekro_core.cli.plugin_kit.undeclared import UndeclaredPackage, undeclared_packages
from nekro_core.compat.nekro_agent.environment import PROVIDED
from nekro_core.plugins.host.settings import PluginSettings
from nekro_core.plugins.packages.requirements import PluginRequirement, plugin_requirements
from nekro_core.testing.link import link_plugin


@dataclass(frozen=True, slots=True)
class PluginNeeds:
    """The packages that a plugin names, and those that it imports without naming them."""

    declared: tuple[PluginRequirement, ...]
    undeclared: tuple[UndeclaredPackage, ...]

    @property
    def every(self) -> tuple[PluginRequirement, ...]:
        """Both."""
        return (*self.declared, *(each.need for each in self.undeclared))


def plugin_needs(plugin: Path, item: str) -> PluginNeeds:
    """Read the packages that a plugin needs from its files. Raises `InvalidRequirements`."""
    declared = plugin_requirements(plugin, item, provided=PROVIDED)
    return PluginNeeds(declared, undeclared_packages(plugin, item, declared))


async def fetch_packages(
    plugin: Path, data_dir: Path, settings: PluginSettings, out: TextIO
) -> None:
    """Install the missing packages of a plugin for the bot whose data folder is ``data_dir``, and
    print their names and versions. Raises `NoPlugin`, `InvalidRequirements` and
    `PackagesRefused`."""
    item = link_plugin(plugin, data_dir)
    needs, shelf = plugin_needs(plugin, item), settings.shelf(data_dir)
    out.writelines(f"{each}: it is added\n" for each in needs.undeclared)
    if any(not shelf.has(need.requirement) for need in needs.every):
        got = await anyio.to_thread.run_sync(partial(shelf.ensure, item, needs.every))
        out.writelines(f"got {name} {version}\n" for name, version in got.items())
