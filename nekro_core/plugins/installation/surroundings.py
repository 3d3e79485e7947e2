"""Gives the bot of a check the surroundings that a plugin has in the operator's bot: the other
plugins that it needs, and its configuration."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

from nekro_core.plugins.host.links import LOCAL_FOLDER, link_plugin, plugin_name
from nekro_core.plugins.installation.inspection import MANIFEST, inspect_plugin

_SETTINGS = frozenset({".yaml", ".yml", ".toml", ".json"})
_LARGEST = 1_000_000
_OWN_FOLDERS = "plugin_data"


def lend_surroundings(plugin: Path, data_dir: Path, check_data: Path) -> None:
    """Link installed plugins into ``check_data``, the data folder of a check: the plugins that a
    plugin's manifest names, and the plugins that their manifests name in turn. Copy the
    configuration of all these plugins there too. ``data_dir`` is the data folder of the operator's
    bot. Raises `OSError`."""
    installed = {inspect_plugin(path).key: path for path in _plugins_in(data_dir / LOCAL_FOLDER)}
    waiting, linked = [*_needed_keys(plugin)], set[str]()
    while waiting:
        key = waiting.pop()
        if key in installed and key not in linked and not _is_same(installed[key], plugin):
            linked.add(key)
            link_plugin(installed[key], check_data)
            waiting += _needed_keys(installed[key])
    for key in {inspect_plugin(plugin).key, *linked} - {""}:
        _copy_settings(data_dir / _OWN_FOLDERS / key, check_data / _OWN_FOLDERS / key)


def _plugins_in(folder: Path) -> Iterator[Path]:
    """Yield the plugins that have a manifest. Only such plugins can be named in the manifests of
    other plugins."""
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if (path / MANIFEST).is_file() and not path.name.startswith((".", "_")):
            yield path


def _is_same(installed: Path, plugin: Path) -> bool:
    return plugin_name(installed) == plugin.name


def _needed_keys(plugin: Path) -> Iterator[str]:
    try:
        manifest = json.loads((plugin / MANIFEST).read_text("utf-8-sig"))
    except (OSError, ValueError, RecursionError):
        return
    needed = manifest.get("dependencies") if isinstance(manifest, dict) else None
    for each in needed if isinstance(needed, list) else ():
        if isinstance(each, dict) and each.get("type") == "plugin" and each.get("id"):
            yield str(each["id"])


def _copy_settings(own: Path, target: Path) -> None:
    if own.parent.name != _OWN_FOLDERS or own.name == ".." or not own.is_dir():
        return  # The key was read from the plugin's files, which may be hostile.
    for path in own.iterdir():
        if path.suffix in _SETTINGS and path.is_file() and path.stat().st_size <= _LARGEST:
            target.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target / path.name)
