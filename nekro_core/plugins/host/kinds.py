"""Plugins that are written for another host: how the registry finds and loads them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from nekro_core.plugins.authoring.effects import UndoStack
from nekro_core.plugins.authoring.plugin import NekroPlugin
from nekro_core.plugins.host.loader import DiscoveredPlugin


class PluginKind(Protocol):
    """One other world. What it loads is listed, switched and unloaded like any plugin.

    It is asked before our own loader, so a folder that it takes is not looked at twice.
    """

    def items(self, source: str, folder: Path) -> Sequence[DiscoveredPlugin]:
        """Its plugins among those that lie in a folder, sorted. Reads names alone."""

    async def load(self, item: DiscoveredPlugin, effects: UndoStack, limit_s: float) -> NekroPlugin:
        """A plugin object of ours that stands for it: what it offers is mounted on it, with
        `NekroPlugin.offered_tools` for tools that are described already, and its start is the
        init method. Raises `LoadFailed`; what was done by then is among the effects."""
