"""The capabilities behind ``ctx.api``, ``ctx.component`` and ``ctx.tool``, which are about plugins,
and the capabilities that this bot does not have."""

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
from nekro_core.compat.maibot.plugin.components import MaiBotComponent, components_of
from nekro_core.compat.maibot.plugin.loaded import MaiBotPlugin, current_call
from nekro_core.compat.maibot.tools import offer_tools
from nekro_core.plugins.authoring.faults import is_cancellation
from nekro_core.plugins.host.listing import UnknownPlugin
from nekro_core.tools.schema import function_schema
from nekro_core.tools.tool import Visibility

_NOT_SHOWN = (Visibility.HIDDEN, Visibility.UNLISTED)

_API_S = 120.0


async def call_api(call: CapabilityCall) -> Answer:
    """``api.call``: calls a public API of another plugin, or any API of the plugin itself."""
    plugin, component = _named_api(call)
    given = call.args.get("args")
    arguments = dict(given) if isinstance(given, Mapping) else {}
    handler = current_call()
    ctx = handler.ctx if handler is not None and not handler.over else None
    try:
        result = await plugin.call(component, arguments, ctx=ctx, limit_s=_API_S)
    except BaseException as error:
        if is_cancellation(error):
            raise
        logger.opt(exception=error).warning("api {} of {}", component.name, plugin.plugin_id)
        raise CapabilityError(f"{plugin.plugin_id}.{component.name}: {error}") from None
    return success(result=result)


async def get(call: CapabilityCall) -> Answer:
    """``api.get``: the description of an API; None if there is no API with this name."""
    try:
        plugin, component = _named_api(call)
    except CapabilityError:
        return success(api=None)
    return success(api=_api(plugin, component))


async def list_apis(call: CapabilityCall) -> Answer:
    """``api.list``: the APIs that the calling plugin may call."""
    wanted = call.text("plugin_id")
    return success(
        apis=[
            _api(plugin, each)
            for plugin in call.plugins
            if wanted in ("", plugin.plugin_id)
            for each in plugin.of_type("API")
            if plugin is call.plugin or each.flag("public")
        ]
    )


async def replace_dynamic(call: CapabilityCall) -> Answer:
    """``api.replace_dynamic``: replaces the dynamic APIs of the calling plugin."""
    given = call.args.get("apis")
    apis, problems = components_of(given if isinstance(given, list) else (), "")
    if problems:
        raise CapabilityError(f"api.replace_dynamic: {problems[0]}")
    others = [each for each in call.plugin.components if not each.flag("dynamic")]
    call.plugin.components[:] = [*others, *apis]
    return success(count=len(apis))


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
    owner, _, bare = name.rpartition(".")
    stream = call.text("stream_id") if call.text("scope") not in ("", "global") else ""
    for plugin in call.plugins:
        if owner and owner != plugin.plugin_id:
            continue
        for each in plugin.components:
            if each.type == kind and each.name in (name, bare):
                mark = (each.type, each.name, stream)
                if call.name.endswith("disable"):
                    plugin.off.add(mark)
                else:
                    plugin.off.discard(mark)
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
    """``tool.get_definitions``: the tools of the handler's chat, in the form of function schemas.
    Outside of handlers, the tools of all MaiBot plugins."""
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
    raise CapabilityError(f"{call.name}: this bot has none")


def _named_api(call: CapabilityCall) -> tuple[MaiBotPlugin, MaiBotComponent]:
    full = call.text("api_name", needed=True)
    version = call.text("version")
    for plugin in call.plugins:
        own = plugin is call.plugin
        for each in plugin.of_type("API"):
            named = full == f"{plugin.plugin_id}.{each.name}" or (own and full == each.name)
            if named and version in ("", str(each.metadata.get("version", "1"))):
                if not own and not each.flag("public"):
                    raise CapabilityError(f"{call.name}: {full} is not public")
                return plugin, each
    raise CapabilityError(f"{call.name}: there is no API {full!r} {version}".rstrip())


def _api(plugin: MaiBotPlugin, component: MaiBotComponent) -> dict[str, Any]:
    return {
        "name": component.name,
        "full_name": f"{plugin.plugin_id}.{component.name}",
        "plugin_id": plugin.plugin_id,
        "description": component.description,
        "version": str(component.metadata.get("version", "1")),
        "public": component.flag("public"),
    }


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
    "api.call": CapabilityEntry(call_api),
    "api.get": CapabilityEntry(get),
    "api.list": CapabilityEntry(list_apis),
    "api.replace_dynamic": CapabilityEntry(replace_dynamic, free=True),
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
