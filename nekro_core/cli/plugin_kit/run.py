"""Implements ``nekro plugin run``: runs a bot with one plugin and reloads the plugin when its files
change."""

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TextIO

import anyio

from nekro_core.app.settings import Settings, written_settings
from nekro_core.cli.chat import converse, running_bot
from nekro_core.plugins.host.links import link_plugin
from nekro_core.plugins.host.switches import LIST_NAME, read_list
from nekro_core.plugins.installation.packages import fetch_packages, plugin_needs
from nekro_core.plugins.installation.report import state_text, with_author_paths
from nekro_core.plugins.installation.sources import plugin_of

FOLDER = "tries"
"""A folder in the data folder. For each plugin that was run with this command, it contains a
separate data folder."""
_LINK = re.compile(r"http://\S+\?token=\S+")
_LOOK_S = 0.2


async def run_plugin(settings: Settings, plugin: Path, *, lines: TextIO, out: TextIO) -> int:
    """Run a bot with one plugin, connect the terminal to a chat with it, and report each reload.
    Returns an exit status. Raises `NoPlugin`, `SourceRefused`, `InvalidRequirements` and
    `PackagesRefused`.

    The bot has its own data folder, and uses the model that ``settings`` name. It connects to no
    chat platform.
    """
    repository, plugin = plugin, plugin_of(plugin)
    own, item = _lay_out(settings.nekro_data_dir.absolute(), plugin)
    shelf = settings.nekro_plugin.shelf(own)
    await fetch_packages(plugin_needs(plugin, item, repository), item, shelf, out)
    known = settings.model_copy(update={"nekro_data_dir": own})
    environment = {**_environment(settings), "NEKRO_DATA_DIR": str(own)}
    async with running_bot(known, out, environment=environment, folder=own) as place:
        if place is None:
            return 1
        if link := _LINK.findall((own / "chat.log").read_text(errors="replace")):
            out.write(f"its page: {link[-1]}\n")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_tell_changes, own, item, plugin, out)
            status = await converse(place, room="", speaker="you", lines=lines, out=out)
            tasks.cancel_scope.cancel()
    return status


async def _tell_changes(data: Path, item: str, plugin: Path, out: TextIO) -> None:
    """Print the plugin's state at once and after each reload."""
    seen = 0
    while True:
        stamp = (data / LIST_NAME).stat().st_mtime_ns if (data / LIST_NAME).exists() else 0
        if stamp != seen:
            seen = stamp
            for each in read_list(data):
                if each.item == item:
                    out.write(with_author_paths("\n".join(state_text(each)), data, plugin) + "\n")
            out.flush()
        await anyio.sleep(_LOOK_S)


def _environment(settings: Settings) -> Mapping[str, str]:
    """Return the environment for the started bot: the settings and the environment of this process.
    Settings of chat platforms are left out, because otherwise two bots would answer on the same
    accounts. The bot has another working directory, so it does not read the ``.env`` of this
    process."""
    of_files = settings.sources.of_files(Settings) if settings.were_read else {}
    written = {
        name.upper(): value
        for name, value in {
            **{name: json.dumps(value) for name, value in of_files.items()},
            **written_settings(),
        }.items()
        if name.startswith("nekro_") and not name.startswith(("nekro_database", "nekro_platforms"))
    }
    of_adapters = (prefix.upper() for prefix in settings.adapters.all_settings())
    left_out = ("NEKRO_", "PORT", "HOST", *of_adapters)
    others = {
        name: value for name, value in os.environ.items() if not name.upper().startswith(left_out)
    }
    return {**others, **written, "NEKRO_PLUGIN__WATCH_FILES": "true", "PORT": "0"}


def _lay_out(data: Path, plugin: Path) -> tuple[Path, str]:
    """Make the data folder of this plugin's bot. Returns the folder and the plugin's item name
    (``local/NAME``)."""
    own = data / FOLDER / plugin.resolve().stem
    item = link_plugin(plugin, own)
    _share_weights(data / "models", own / "models")
    return own, item


def _share_weights(weights: Path, link: Path) -> None:
    """Link the folder of the embedded model's weights, so that all bots share one download."""
    weights.mkdir(parents=True, exist_ok=True)
    if not link.exists() and not link.is_symlink():
        link.symlink_to(weights, target_is_directory=True)
