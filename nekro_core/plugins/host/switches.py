"""Stores which plugins the operator switched off, and the bot's list of plugins. Commands and the
running bot communicate through these two small files in the data folder."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec
from loguru import logger

from nekro_core.plugins.host.listing import PluginInfo, PluginState, UnknownPlugin
from nekro_core.system.atomic_files import write_whole

FILE_NAME = "plugins.json"
LIST_NAME = "plugins.list.json"


class _Chosen(msgspec.Struct, frozen=True):
    """The content of the operator's file: the items of plugins that are switched off, each with the
    plugin's key."""

    disabled: dict[str, str] = {}


class ListedPlugin(msgspec.Struct, frozen=True, kw_only=True):
    """A plugin in the list that the bot wrote. ``problems`` are whole sentences. ``author`` is the
    author's name as the plugin writes it; it may have characters that a key cannot have."""

    item: str
    key: str
    version: str
    state: str
    tools: list[str]
    problems: list[str]
    addresses: list[str] = []
    author: str = ""


class PluginSwitches:
    """The operator's switches. A plugin that the file does not name is on."""

    def __init__(self, data_dir: Path) -> None:
        self._path = data_dir / FILE_NAME
        self._stamp = (0, 0)
        self._disabled: Mapping[str, str] = {}
        self.changed()

    @property
    def off(self) -> Mapping[str, str]:
        """The keys of the plugins that are switched off, by item."""
        return self._disabled

    def wanted(self, item: str) -> bool:
        """Return True if a plugin is switched on."""
        return item not in self._disabled

    def key_of(self, item: str) -> str:
        """Get the key of a switched-off plugin. It was stored when the plugin was switched off,
        because the plugin is no longer imported. Empty for a plugin that is on."""
        return self._disabled.get(item, "")

    def changed(self) -> bool:
        """Read the file again if it has changed. Returns whether it has changed."""
        try:
            found = self._path.stat()
        except OSError:
            stamp = (0, 0)
        else:
            stamp = (found.st_mtime_ns, found.st_ino)
        if stamp == self._stamp:
            return False
        self._stamp = stamp
        self._disabled = self._read()
        return True

    def choose(self, item: str, key: str, *, wanted: bool) -> None:
        """Store on disk whether a plugin is on."""
        self.changed()
        disabled = {each: known for each, known in self._disabled.items() if each != item}
        if not wanted:
            disabled[item] = key
        write_whole(self._path, msgspec.json.format(msgspec.json.encode(_Chosen(disabled))))
        self.changed()

    def _read(self) -> Mapping[str, str]:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=_Chosen).disabled
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.MsgspecError) as error:
            aside = self._path.with_suffix(".broken")
            logger.error(
                "{}: cannot be read ({}); kept as {}, every plugin is on", self._path, error, aside
            )
            if self._path.is_file():
                os.replace(self._path, aside)  # noqa: PTH105 - clearer than Path.replace
            return {}


def write_list(data_dir: Path, plugins: Iterable[PluginInfo]) -> None:
    """Write the list of plugins."""
    listed = [
        ListedPlugin(
            item=info.item,
            key=info.key,
            version=info.version,
            state=info.state.value,
            author=info.author,
            tools=[tool.name for tool in info.tools],
            addresses=list(info.addresses) if info.state is PluginState.LOADED else [],
            problems=[f"{problem.severity.value}: {problem}" for problem in info.problems],
        )
        for info in plugins
    ]
    write_whole(data_dir / LIST_NAME, msgspec.json.format(msgspec.json.encode(listed)))


def read_list(data_dir: Path) -> list[ListedPlugin]:
    """Read the list that the bot last wrote; empty if no bot has written one or if it cannot be
    read."""
    try:
        return msgspec.json.decode((data_dir / LIST_NAME).read_bytes(), type=list[ListedPlugin])
    except (OSError, msgspec.MsgspecError):
        return []


def switch_plugin(data_dir: Path, plugin: str, *, wanted: bool) -> str:
    """Switch a plugin on or off by key or item, and return its item. A running bot loads or unloads
    it within a second. ``plugin`` may be an item even if no bot has listed the plugin yet. Raises
    `UnknownPlugin`."""
    known = read_list(data_dir)
    for each in known:
        if plugin and plugin in (each.item, each.key):
            PluginSwitches(data_dir).choose(each.item, each.key, wanted=wanted)
            return each.item
    source, _, name = plugin.partition("/")
    folder = data_dir / "plugins"
    if source == "local" and ((folder / f"{name}.py").is_file() or (folder / name).is_dir()):
        PluginSwitches(data_dir).choose(plugin, "", wanted=wanted)
        return plugin
    names = ", ".join(each.key or each.item for each in known) or "none that the bot has seen"
    raise UnknownPlugin(f"there is no plugin {plugin!r}; there are {names}")
