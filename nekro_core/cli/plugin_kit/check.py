"""Implements ``nekro plugin check``: loads a plugin in a confined process, and prints what a model
reads about it and what is wrong with it."""

from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import TextIO

from nekro_core.plugins.host.links import plugin_name
from nekro_core.plugins.host.settings import PluginSettings
from nekro_core.plugins.installation.acceptance import NOT_CONFINED, make_order, time_limit
from nekro_core.plugins.installation.check_order import CheckResult
from nekro_core.plugins.installation.check_process import CheckProcess
from nekro_core.plugins.installation.packages import PluginNeeds, fetch_packages, plugin_needs
from nekro_core.plugins.installation.report import with_author_paths
from nekro_core.plugins.installation.sources import plugin_of
from nekro_core.plugins.installation.surroundings import lend_surroundings
from nekro_core.plugins.packages import InvalidRequirements, PackagesRefused


async def check(
    plugin: Path,
    out: TextIO,
    settings: PluginSettings | None = None,
    process: CheckProcess | None = None,
    data_dir: Path | None = None,
    said: TextIO | None = None,
) -> int:
    """Load a plugin in a new bot, and print a report. Nothing that the plugin does while it is
    loaded changes this machine's files. ``plugin`` may also be a repository with the plugin in one
    of its folders.

    ``process`` is a process of the check that was already started. Without it, this function starts
    a process. ``data_dir`` is the operator's data folder. The plugin's configuration is read from
    there, and so are other plugins that its manifest names. What the plugin prints and logs is
    written to ``said``.

    Returns 0, or 1 if the plugin or one of its tools cannot be used. Raises `NoPlugin`,
    `SourceRefused` and `OSError`.
    """
    settings = settings or PluginSettings()
    repository, plugin = plugin, plugin_of(plugin)
    name = plugin_name(plugin)
    try:
        needs = plugin_needs(plugin, f"local/{name}", repository)
        once = partial(
            _check_once, plugin, name, settings=settings, out=out, said=said, data_dir=data_dir
        )
        checked = await once(needs, process)
        # If the plugin tried to install packages with pip, install these packages, and check the
        # plugin once more with them.
        more = needs.with_attempts(f"local/{name}", checked.attempts)
        if more != needs:
            checked = await once(more)
    except (InvalidRequirements, PackagesRefused) as error:
        out.write(f"{error}\n")
        return 1
    if not checked.confined:
        out.write(f"{NOT_CONFINED}\n")
    out.write(checked.report)
    return checked.status


async def _check_once(
    plugin: Path,
    name: str,
    needs: PluginNeeds,
    process: CheckProcess | None = None,
    *,
    settings: PluginSettings,
    out: TextIO,
    said: TextIO | None,
    data_dir: Path | None,
) -> CheckResult:
    async with AsyncExitStack() as stack:
        running = process
        if running is None:
            running = await stack.enter_async_context(CheckProcess.open())
        copy = running.copy(plugin, name)
        if data_dir is not None:
            lend_surroundings(copy, data_dir, running.data_dir)
        await fetch_packages(needs, f"local/{name}", settings.shelf(running.data_dir), out)
        result = await running.check(make_order(copy, plugin, settings), time_limit(settings))
        if said is not None:
            said.write(with_author_paths(running.said(), running.data_dir, plugin))
        return result
