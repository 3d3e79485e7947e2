"""Writes MaiBot plugins into the plugin folder of a test's bot."""

import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from nekro_core.compat.maibot.capabilities import CAPABILITIES
from nekro_core.plugins.host.listing import PluginInfo
from nekro_core.testing import Bot

PLUGINS = Path(__file__).parent / "plugins"


def manifest(plugin_id: str, **changes: Any) -> dict[str, Any]:
    """A manifest that allows the plugin every capability."""
    return {
        "manifest_version": 2,
        "id": plugin_id,
        "version": "1.0.0",
        "name": plugin_id,
        "description": "A plugin of a test.",
        "author": {"name": "ann"},
        "license": "MIT",
        "host_application": {"min_version": "1.0.0", "max_version": "1.99.99"},
        "sdk": {"min_version": "2.0.0", "max_version": "2.99.99"},
        "capabilities": sorted(CAPABILITIES),
    } | changes


def plant(
    data_dir: Path,
    source: str,
    *,
    plugin_id: str = "ann.seed",
    config: str = "",
    **changes: Any,
) -> Path:
    """Write a plugin. Its folder is named after the last part of its id."""
    folder = data_dir / "plugins" / plugin_id.rpartition(".")[2]
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(manifest(plugin_id, **changes), ensure_ascii=False)
    (folder / "_manifest.json").write_text(text, encoding="utf-8")
    (folder / "plugin.py").write_text(source, encoding="utf-8")
    if config:
        (folder / "config.toml").write_text(config, encoding="utf-8")
    return folder


def copy(data_dir: Path, *names: str) -> None:
    """Copy plugins from ``plugins/`` beside this file into the bot's plugin folder."""
    for name in names:
        shutil.copytree(
            PLUGINS / name,
            data_dir / "plugins" / name,
            ignore=shutil.ignore_patterns("__pycache__"),
        )


def info_of(bot: Bot, name: str) -> PluginInfo:
    """A plugin's entry in the bot's list of plugins."""
    return next(each for each in bot.app.plugins.plugins() if each.item == f"local/{name}")


@asynccontextmanager
async def bot_with(data_dir: Path, *names: str, **settings: Any) -> AsyncIterator[Bot]:
    """A whole bot with plugins from ``plugins/`` beside this file."""
    copy(data_dir, *names)
    async with Bot.open(data_dir, settings=settings) as bot:
        yield bot
