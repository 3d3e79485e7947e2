"""``plugin_collector``: the plugins that there are, for plugins that show or find others."""

from typing import Any

from nekro_core.compat.nekro_agent.host import current_host
from nekro_core.plugins.host.listing import PluginInfo, PluginState

__all__ = ["PluginCollector", "plugin_collector"]


class PluginCollector:
    """What plugins ask of the list of plugins; `PluginInfo` stands for each. Nothing is switched
    here: that is the operator's."""

    def get_all_plugins(self) -> list[PluginInfo]:
        """Every plugin that was found."""
        return list(current_host().listed())

    def get_all_active_plugins(self) -> list[PluginInfo]:
        """Those that are loaded."""
        return [each for each in self.get_all_plugins() if each.state is PluginState.LOADED]

    def get_plugin(self, key: str) -> PluginInfo | None:
        """One by its key."""
        return next((each for each in self.get_all_plugins() if each.key == key), None)

    async def get_all_sandbox_methods(self, *_: Any) -> list[Any]:
        """The tools of all of them."""
        return [tool for each in self.get_all_active_plugins() for tool in each.tools]


plugin_collector = PluginCollector()
