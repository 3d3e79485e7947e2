"""The plugin object, its context, what loads it and what it may reach."""

from nekro_core.plugin.settings import PluginSettings

__all__ = ["PluginSettings"]
