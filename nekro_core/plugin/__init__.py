"""The plugin object, its context, what loads it and what it may reach."""

from nekro_core.plugin.blocking import loop_watched
from nekro_core.plugin.calls import call
from nekro_core.plugin.choices import ListedPlugin, read_list, switch
from nekro_core.plugin.context import AgentCtx
from nekro_core.plugin.hooks import PromptInjection
from nekro_core.plugin.listing import PluginInfo, PluginState, UnknownPlugin
from nekro_core.plugin.registry import PluginRegistry
from nekro_core.plugin.services import BoxFiles, Journal, Outgoing, PluginDataKeeper, Services
from nekro_core.plugin.settings import PluginSettings
from nekro_core.plugin.signal import MsgSignal

__all__ = [
    "AgentCtx",
    "BoxFiles",
    "Journal",
    "ListedPlugin",
    "MsgSignal",
    "Outgoing",
    "PluginDataKeeper",
    "PluginInfo",
    "PluginRegistry",
    "PluginSettings",
    "PluginState",
    "PromptInjection",
    "Services",
    "UnknownPlugin",
    "call",
    "loop_watched",
    "read_list",
    "switch",
]
