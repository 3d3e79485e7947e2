"""Installs the packages that a plugin needs, before `nekro plugin check` or `run` starts its
bot."""

from functools import partial
from pathlib import Path
from typing import TextIO

import anyio.to_thread

from nekro_core.plugins.host.settings import PluginSettings
from nekro_core.plugins.packages.requirements import plugin_requirements
from nekro_core.testing.link import link_plugin


async def fetch_packages(
    plugin: Path, data_dir: Path, settings: PluginSettings, out: TextIO
) -> None:
    """Install the missing packages of a plugin for the bot whose data folder is ``data_dir``, and
    print their names and versions. Raises `NoPlugin`, `InvalidRequirements` and
    `PackagesRefused`."""
    item = link_plugin(plugin, data_dir)
    needs, shelf = plugin_requirements(plugin, item), settings.shelf(data_dir)
    if any(not shelf.has(need.requirement) for need in needs):
        got = await anyio.to_thread.run_sync(partial(shelf.ensure, item, needs))
        out.writelines(f"got {name} {version}\n" for name, version in got.items())
