"""The capabilities behind ``ctx.component`` and ``ctx.tool``, which are about plugins, and the
capabilities that this bot does not have."""

from collections.abc import Mapping
from typing import Any

from loguru import logger

from nekro_core.compat.maibot.capability import (
    Answer,
    CapabilityCall,
    CapabilityEntry,
    CapabilityError,
    success,
)
from nekro_core.compat.maibot.plugin.loaded import MaiBotPlugin, current_call
from nekro_core.compat.maibot.tools import offer_tools
from nekro_core.plugins.host.listing import UnknownPlugin
from nekro_core.tools.schema import function_schema
from nekro_core.tools.tool import Visibility

_NOT_SHOWN = (Visibility.HIDDEN, Visibility.UNLISTED)


async def plugins(call: CapabilityCall) -> Answer:
    """``component.get_all_plugins``: the loaded plugins, by id."""
    return success(plugins={plugin.plugin_id: _plugin_info(plugin) for plugin in call.plugins})


async def names(call: CapabilityCall) -> Answer:
    """``component.list_loaded_plugins`` and ``list_registered_plugins``: the ids of the loaded
    plugins."""
    return success(plugins=[plugin.plugin_id for plugin in call.plugins])


async def plugin_info(call: CapabilityCall) -> Answer:
    """``component.get_plugin_info``: the description of a plugin; None if it is not loaded."""
    plugin = call.plugins.find(call.text("plugin_name", needed=True))
    return success(plugin=_plugin_info(plugin) if plugin else None)


async def config_schema(call: CapabilityCall) -> Answer:
    """``component.get_plugin_config_schema``: the fields, sections and labels of a plugin's
    configuration, for a web page."""
    plugin = call.plugins.find(call.text("plugin_name", needed=True))
    if plugin is None:
        raise CapabilityError(f"{call.name}: no such plugin is loaded")
    return success(schema=plugin.config_schema())


async def switch(call: CapabilityCall) -> Answer:
    """``component.enable`` and ``component.disable``: switches a component on or off, in all chats
    or in one chat."""
    name, kind = call.text("name", needed=True), call.text("component_type", needed=True).upper()
    kind = "TOOL" if kind == "ACTION" else kind
    stream = call.text("stream_id") if call.text("scope") not in ("", "global") else ""
    # The plugin's own components are searched first, because a plugin that gives a short name
    # usually means its own component.
    for plugin in sorted(call.plugins, key=lambda each: each is not call.plugin):
        for each in plugin.declared():
            if each.type == kind and name in (each.name, f"{plugin.plugin_id}.{each.name}"):
                mark = (each.type, each.name, stream)
                if call.name.endswith("disable"):
                    plugin.off.add(mark)
                else:
                    plugin.off.discard(mark)
                if plugin.offered:
                    offer_tools(plugin, call.bot.message_for)
                return success(name=name, component_type=kind)
    raise CapabilityError(f"{call.name}: there is no {kind} {name!r}")


async def load(call: CapabilityCall) -> Answer:
    """``component.load_plugin``, ``reload_plugin`` and ``unload_plugin``: loads or unloads a
    plugin. This happens after the call has returned, because a plugin may unload itself."""
    registry = call.plugins.registry
    name = call.text("plugin_name", needed=True)
    plugin = call.plugins.find(name)
    item = plugin.item if plugin else f"local/{name}"
    if registry is None or not any(item == info.item for info in registry.plugins()):
        raise CapabilityError(f"{call.name}: there is no plugin {name!r}")

    async def act() -> None:
        try:
            if call.name == "component.unload_plugin":
                await registry.disable(item)
            else:
                await registry.enable(item)
        except UnknownPlugin as error:
            logger.error("{}: {}", call.name, error)

    call.plugins.start_later(act)
    return success(plugin_name=name)


async def definitions(call: CapabilityCall) -> Answer:
    """``tool.get_definitions``: the tools as function schemas. In a handler, these are the tools of
    its chat. Outside of handlers, these are the tools of all MaiBot plugins."""
    handler, registry = current_call(), call.plugins.registry
    if registry is None:
        return success(tools=[])
    if handler is not None:
        tools = [each.tool for each in registry.tools_for(handler.ctx.chat).named]
    else:
        tools = [tool for plugin in call.plugins for tool in plugin.native.offered_tools]
    shown = [tool for tool in tools if tool.visibility not in _NOT_SHOWN]
    return success(tools=[function_schema(tool)["function"] for tool in shown])


async def not_supported(call: CapabilityCall) -> Answer:
    """Refuse a call of a capability that this bot does not have."""
    raise CapabilityError(f"{call.name}: this bot does not have this capability")


def _plugin_info(plugin: MaiBotPlugin) -> dict[str, Any]:
    manifest = plugin.manifest
    return {
        "plugin_id": manifest.plugin_id,
        "name": manifest.name,
        "version": manifest.version,
        "description": manifest.description,
        "author": manifest.author,
        "enabled": True,
        "components": [
            {"name": each.name, "type": each.type, "enabled": plugin.is_on(each, "")}
            for each in plugin.components
        ],
    }


_NO_MARKET = CapabilityEntry(not_supported, "not: there is no market of plugins here")
_NO_SERIES = CapabilityEntry(not_supported, "not: statistics are the operator's, on the page")

TABLE: Mapping[str, CapabilityEntry] = {
    "component.get_all_plugins": CapabilityEntry(plugins, "works; the MaiBot plugins"),
    "component.get_plugin_info": CapabilityEntry(plugin_info),
    "component.get_plugin_config_schema": CapabilityEntry(config_schema),
    "component.list_loaded_plugins": CapabilityEntry(names),
    "component.list_registered_plugins": CapabilityEntry(names),
    "component.enable": CapabilityEntry(switch),
    "component.disable": CapabilityEntry(switch),
    "component.load_plugin": CapabilityEntry(load, "works; it happens right after the answer"),
    "component.unload_plugin": CapabilityEntry(load, "works; it happens right after the answer"),
    "component.reload_plugin": CapabilityEntry(load, "works; it happens right after the answer"),
    "tool.get_definitions": CapabilityEntry(definitions),
    "statistics.local.models": _NO_SERIES,
    "statistics.local.model_trend": _NO_SERIES,
    "statistics.local.token_trend": _NO_SERIES,
    "statistics.local.token_distribution": _NO_SERIES,
    "statistics.local.message_trend": _NO_SERIES,
    "statistics.local.tool_trend": _NO_SERIES,
    "statistics.local.online_time_trend": _NO_SERIES,
    "market.search": _NO_MARKET,
    "market.get_detail": _NO_MARKET,
    "market.get_readme": _NO_MARKET,
    "webui.claim_upload": CapabilityEntry(
        not_supported, "not: the page takes no uploads for plugins"
    ),
}
