"""What a plugin is made of."""

from nekro_core.plugin.config import ConfigBase, ConfigError, ExtraField
from nekro_core.plugin.kept import PluginStore
from nekro_core.plugin.methods import SandboxMethod, SandboxMethodType
from nekro_core.plugin.plugin import NekroPlugin, NotLoaded
from nekro_core.tools.outcome import ToolFailure

__all__ = [
    "ConfigBase",
    "ConfigError",
    "ExtraField",
    "NekroPlugin",
    "NotLoaded",
    "PluginStore",
    "SandboxMethod",
    "SandboxMethodType",
    "ToolFailure",
]
