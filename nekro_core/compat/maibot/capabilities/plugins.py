"""``ctx.api``, ``ctx.component``, ``ctx.tool``: the other plugins; and what is not here."""

from collections.abc import Mapping
from typing import Any

from loguru import logger

from nekro_core.compat.maibot.capabilities.call import (
    Answer,
    CapabilityCall,
    CapabilityEntry,
    CapabilityError,
    success,
)
from nekro_core.compat.maibot.components import MaiBotComponent, components_of
from nekro_core.compat.maibot.current_call import current_call
from nekro_core.compat.maibot.plugin import MaiBotPlugin
from nekro_core.plugins.authoring.faults import is_cancellation
from nekro_core.plugins.host.listing import UnknownPlugin
from nekro_core.tools.schema import function_schema
from nekro_core.tools.tool import Visibility

_API_S = 120.0


async def call(asked: CapabilityCall) -> Answer:
    """``api.call``: another plugin's public API, or one of the plugin's own."""
    live, component = _found(asked)
    given = asked.args.get("args")
    arguments = dict(given) if isinstance(given, Mapping) else {}
    running = current_call()
    ctx = running.ctx if running is not None and not running.over else None
    try:
        result = await live.call(component, arguments, ctx=ctx, limit_s=_API_S)
    except BaseException as error:
        if is_cancellation(error):
            raise
        logger.opt(exception=error).warning("api {} of {}", component.name, live.plugin_id)
        raise CapabilityError(f"{live.plugin_id}.{component.name}: {error}") from None
    return success(result=result)


async def get(asked: CapabilityCall) -> Answer:
    """``api.get``: what is known of one; None where there is none."""
    try:
        live, component = _found(asked)
    except CapabilityError:
        return success(api=None)
    return success(api=_api(live, component))


async def list_apis(asked: CapabilityCall) -> Answer:
    """``api.list``: all that the plugin may call."""
    wanted = asked.text("plugin_id")
    return success(
        apis=[
            _api(live, each)
            for live in asked.host.plugins.values()
            if wanted in ("", live.plugin_id)
            for each in live.of_type("API")
            if live is asked.live or each.flag("public")
        ]
    )


async def replace_dynamic(asked: CapabilityCall) -> Answer:
    """``api.replace_dynamic``: the plugin's own, as they are now."""
    given = asked.args.get("apis")
    found, problems = components_of(given if isinstance(given, list) else (), "")
    if problems:
        raise CapabilityError(f"api.replace_dynamic: {problems[0]}")
    kept = [each for each in asked.live.components if not each.flag("dynamic")]
    asked.live.components[:] = [*kept, *found]
    return success(count=len(found))


async def plugins(asked: CapabilityCall) -> Answer:
    """``component.get_all_plugins``: by id."""
    return success(
        plugins={live.plugin_id: _plugin_info(live) for live in asked.host.plugins.values()}
    )


async def names(asked: CapabilityCall) -> Answer:
    """``component.list_loaded_plugins`` and ``list_registered_plugins``: ids."""
    return success(plugins=[live.plugin_id for live in asked.host.plugins.values()])


async def plugin_info(asked: CapabilityCall) -> Answer:
    """``component.get_plugin_info``: None for a plugin that is not loaded."""
    live = asked.host.find(asked.text("plugin_name", needed=True))
    return success(plugin=_plugin_info(live) if live else None)


async def config_schema(asked: CapabilityCall) -> Answer:
    """``component.get_plugin_config_schema``: fields, sections and labels for a page."""
    live = asked.host.find(asked.text("plugin_name", needed=True))
    if live is None:
        raise CapabilityError(f"{asked.name}: no such plugin is loaded")
    return success(schema=asked.host.config_schema(live))


async def switch(asked: CapabilityCall) -> Answer:
    """``component.enable`` and ``component.disable``: everywhere, or in one chat."""
    name, kind = asked.text("name", needed=True), asked.text("component_type", needed=True).upper()
    kind = "TOOL" if kind == "ACTION" else kind
    owner, _, bare = name.rpartition(".")
    stream = asked.text("stream_id") if asked.text("scope") not in ("", "global") else ""
    for live in asked.host.plugins.values():
        if owner and owner != live.plugin_id:
            continue
        for each in live.components:
            if each.type == kind and each.name in (name, bare):
                mark = (each.type, each.name, stream)
                if asked.name.endswith("disable"):
                    live.off.add(mark)
                else:
                    live.off.discard(mark)
                asked.host.offer_tools(live)
                return success(name=name, component_type=kind)
    raise CapabilityError(f"{asked.name}: there is no {kind} {name!r}")


async def load(asked: CapabilityCall) -> Answer:
    """``component.load_plugin``, ``reload_plugin`` and ``unload_plugin``: soon, since a plugin may
    ask it of itself."""
    registry = asked.host.registry
    name = asked.text("plugin_name", needed=True)
    live = asked.host.find(name)
    item = live.item if live else f"local/{name}"
    if registry is None or not any(item == info.item for info in registry.plugins()):
        raise CapabilityError(f"{asked.name}: there is no plugin {name!r}")

    async def act() -> None:
        try:
            if asked.name == "component.unload_plugin":
                await registry.disable(item)
            else:
                await registry.enable(item)
        except UnknownPlugin as error:
            logger.error("{}: {}", asked.name, error)

    asked.host.later(act)
    return success(plugin_name=name)


async def definitions(asked: CapabilityCall) -> Answer:
    """``tool.get_definitions``: the tools of the chat that asks, as functions."""
    running, registry = current_call(), asked.host.registry
    if registry is None:
        return success(tools=[])
    if running is not None:
        tools = [each.tool for each in registry.tools_for(running.ctx.chat).named]
    else:
        tools = [tool for live in asked.host.plugins.values() for tool in live.plugin.offered_tools]
    shown = [tool for tool in tools if tool.visibility is not Visibility.HIDDEN]
    return success(tools=[function_schema(tool)["function"] for tool in shown])


async def not_supported(asked: CapabilityCall) -> Answer:
    """What this bot has not."""
    raise CapabilityError(f"{asked.name}: this bot has none")


def _found(asked: CapabilityCall) -> tuple[MaiBotPlugin, MaiBotComponent]:
    full = asked.text("api_name", needed=True)
    version = asked.text("version")
    for live in asked.host.plugins.values():
        own = live is asked.live
        for each in live.of_type("API"):
            named = full == f"{live.plugin_id}.{each.name}" or (own and full == each.name)
            if named and version in ("", str(each.metadata.get("version", "1"))):
                if not own and not each.flag("public"):
                    raise CapabilityError(f"{asked.name}: {full} is not public")
                return live, each
    raise CapabilityError(f"{asked.name}: there is no API {full!r} {version}".rstrip())


def _api(live: MaiBotPlugin, component: MaiBotComponent) -> dict[str, Any]:
    return {
        "name": component.name,
        "full_name": f"{live.plugin_id}.{component.name}",
        "plugin_id": live.plugin_id,
        "description": component.description,
        "version": str(component.metadata.get("version", "1")),
        "public": component.flag("public"),
    }


def _plugin_info(live: MaiBotPlugin) -> dict[str, Any]:
    manifest = live.manifest
    return {
        "plugin_id": manifest.plugin_id,
        "name": manifest.name,
        "version": manifest.version,
        "description": manifest.description,
        "author": manifest.author,
        "enabled": True,
        "components": [
            {"name": each.name, "type": each.type, "enabled": live.is_on(each, "")}
            for each in live.components
        ],
    }


_NO_MARKET = CapabilityEntry(not_supported, "not: there is no market of plugins here")
_NO_SERIES = CapabilityEntry(not_supported, "not: statistics are the operator's, on the page")

TABLE: Mapping[str, CapabilityEntry] = {
    "api.call": CapabilityEntry(call),
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
