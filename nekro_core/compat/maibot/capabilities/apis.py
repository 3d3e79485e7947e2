"""The capabilities behind ``ctx.api``, with which a plugin calls APIs of other plugins and of the
bot's OneBot adapter."""

from collections.abc import Iterator, Mapping
from typing import Any

from loguru import logger

from nekro_core.compat.maibot.capability import (
    Answer,
    CapabilityCall,
    CapabilityEntry,
    CapabilityError,
    success,
)
from nekro_core.compat.maibot.onebot import call_onebot_api
from nekro_core.compat.maibot.onebot_apis import OneBotApi, find_onebot_api, onebot_apis
from nekro_core.compat.maibot.plugin.components import MaiBotComponent, components_of
from nekro_core.compat.maibot.plugin.loaded import MaiBotPlugin, current_call
from nekro_core.plugins.authoring.faults import is_cancellation

_API_S = 120.0
PluginApi = tuple[MaiBotPlugin, MaiBotComponent]
"""An API of a plugin."""


async def call_api(call: CapabilityCall) -> Answer:
    """``api.call``: calls a public API of another plugin, any API of the calling plugin, or an
    action of OneBot (``adapter.napcat.*``)."""
    found = _named_api(call)
    given = call.args.get("args")
    arguments = dict(given) if isinstance(given, Mapping) else {}
    if isinstance(found, OneBotApi):
        return success(result=await call_onebot_api(call, found, arguments))
    plugin, component = found
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
        found = _named_api(call)
    except CapabilityError:
        return success(api=None)
    return success(api=_described(found))


async def list_apis(call: CapabilityCall) -> Answer:
    """``api.list``: the APIs that the calling plugin may call. The APIs of the OneBot adapter are
    always among them, because plugins ask in ``on_load``, before any account is connected."""
    wanted = call.text("plugin_id")
    apis = [_described(each) for each in _visible(call) if wanted in ("", each[0].plugin_id)]
    apis += [each.described() for each in onebot_apis() if wanted in ("", each.provider)]
    return success(apis=apis)


async def replace_dynamic(call: CapabilityCall) -> Answer:
    """``api.replace_dynamic``: replaces the dynamic APIs of the calling plugin."""
    given = call.args.get("apis")
    apis, problems = components_of(given if isinstance(given, list) else (), "")
    if problems:
        raise CapabilityError(f"api.replace_dynamic: {problems[0]}")
    others = [each for each in call.plugin.components if not each.flag("dynamic")]
    call.plugin.components[:] = [*others, *apis]
    return success(count=len(apis))


def _visible(call: CapabilityCall) -> Iterator[PluginApi]:
    """Yield the APIs that the calling plugin may call."""
    for plugin in call.plugins:
        for each in plugin.of_type("API"):
            if plugin is call.plugin or each.flag("public"):
                yield plugin, each


def _named_api(call: CapabilityCall) -> PluginApi | OneBotApi:
    """Find the API that ``api_name`` names, with its full name (``plugin_id.name``) or its short
    name.

    A short name is looked up in the calling plugin's own APIs, then in the APIs of other plugins,
    then in those of the bot's OneBot adapter. Raises `CapabilityError` if there is no API with this
    name that the plugin may call, or if several other plugins have an API with this short name.
    """
    wanted, version = call.text("api_name", needed=True), call.text("version")
    short: list[PluginApi] = []
    for plugin, each in _visible(call):
        if version not in ("", str(each.metadata.get("version", "1"))):
            continue
        if wanted == f"{plugin.plugin_id}.{each.name}":
            return plugin, each
        if wanted == each.name:
            short.append((plugin, each))
    own = [found for found in short if found[0] is call.plugin]
    short = own or short
    if len({plugin.plugin_id for plugin, _ in short}) > 1:
        names = ", ".join(_full_name(*each) for each in short)
        raise CapabilityError(f"{call.name}: several plugins have {wanted!r}; say which: {names}")
    if short:
        return short[0]
    if built_in := find_onebot_api(wanted, version):
        return built_in
    for plugin in call.plugins:
        hidden = (each for each in plugin.of_type("API") if not each.flag("public"))
        if any(wanted in (each.name, _full_name(plugin, each)) for each in hidden):
            raise CapabilityError(f"{call.name}: {wanted} of {plugin.plugin_id} is not public")
    raise CapabilityError(f"{call.name}: there is no API {wanted!r} {version}".rstrip())


def _full_name(plugin: MaiBotPlugin, component: MaiBotComponent) -> str:
    return f"{plugin.plugin_id}.{component.name}"


def _described(found: PluginApi | OneBotApi) -> Mapping[str, Any]:
    if isinstance(found, OneBotApi):
        return found.described()
    plugin, component = found
    return {
        "name": component.name,
        "full_name": _full_name(plugin, component),
        "plugin_id": plugin.plugin_id,
        "description": component.description,
        "version": str(component.metadata.get("version", "1")),
        "public": component.flag("public"),
    }


TABLE: Mapping[str, CapabilityEntry] = {
    "api.call": CapabilityEntry(
        call_api, "works; by the full name or a short one that is unique; `adapter.napcat.*` too"
    ),
    "api.get": CapabilityEntry(get),
    "api.list": CapabilityEntry(list_apis),
    "api.replace_dynamic": CapabilityEntry(replace_dynamic, free=True),
}
