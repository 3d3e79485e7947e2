"""Makes a `Tool` for a MaiBot tool or action, with the description of its parameters for the
model."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any

from maibot_sdk.types import ToolComponentInfo, build_tool_detailed_description
from pydantic import ValidationError

from nekro_core.compat.maibot.formats.declared_names import (
    given_by_host,
    optional_here,
    set_by_model,
    within_chat,
)
from nekro_core.compat.maibot.formats.messages import adapters_of, host_arguments
from nekro_core.compat.maibot.formats.results import outcome
from nekro_core.compat.maibot.formats.schema import (
    object_schema,
    parameters_of,
    python_name,
    without_host_names,
)
from nekro_core.compat.maibot.plugin.chat_limits import is_limited
from nekro_core.compat.maibot.plugin.components import MaiBotComponent
from nekro_core.compat.maibot.plugin.loaded import MaiBotPlugin
from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.tools.describe import place_of
from nekro_core.tools.outcome import ToolFailure
from nekro_core.tools.tool import Tool, ToolKind, Visibility

MessageOf = Callable[[AgentCtx], Awaitable[dict[str, Any]]]
"""A function that returns the message that a run answers, in MaiBot's form."""

_HEADING = "Parameter details:"
_LONGEST_S = 600.0


def offer_tools(plugin: MaiBotPlugin, message_of: MessageOf) -> None:
    """Replace the plugin's offered tools by the tools that are switched on now."""
    tools: list[tuple[Tool, MaiBotComponent]] = []
    names = set[str]()
    for each in plugin.of_type("TOOL"):
        tool = tool_of(plugin, each, message_of, taken=names)
        names.add(tool.python_name)
        tools.append((tool, each))
    plugin.native.offered_tools[:] = [tool for tool, _ in tools]

    async def in_chat(ctx: AgentCtx) -> list[Any]:
        return [tool.handler for tool, each in tools if plugin.is_on(each, ctx.chat_key)]

    limited = any(is_limited(each) for _, each in tools)
    plugin.native.collect_method = in_chat if limited else None
    plugin.native.tools_changed()


def tool_of(
    plugin: MaiBotPlugin,
    component: MaiBotComponent,
    message_of: MessageOf,
    *,
    taken: Collection[str] = (),
) -> Tool:
    """Make the `Tool` of a component. ``taken`` are the Python names of the plugin's other
    tools."""
    metadata = component.metadata
    whole = object_schema(_declared(metadata))
    own = set_by_model(whole)
    schema = optional_here(without_host_names(whole, own))
    parameters, names = parameters_of(schema)
    order = tuple(each.name for each in parameters)
    optional = {each.name for each in parameters if not each.required}
    action = component.flag("legacy_action") or "activation_type" in metadata

    async def handler(_ctx: AgentCtx, *args: Any, **kwargs: Any) -> Any:
        if not plugin.is_on(component, _ctx.chat_key):
            reason = "not offered in" if is_limited(component) else "switched off in"
            raise ToolFailure(f"{component.name} is {reason} this chat")
        bound = {**dict(zip(order, args, strict=False)), **kwargs}
        # A model that wants to leave out an optional argument may write null for it.
        given = {
            names[name]: value
            for name, value in bound.items()
            if value is not None or name not in optional
        }
        elsewhere = _ctx.services.may_send_elsewhere
        given = within_chat(given, own, _ctx.chat, anywhere=plugin.native.key in elsewhere)
        host: dict[str, Any] = {**host_arguments(_ctx), "message": await message_of(_ctx)}
        if action:
            host |= {"reasoning": "", "action_data": dict(given), "action_message": host["message"]}
        if component.flag("legacy"):
            host["function_args"] = dict(given)
        filled = given_by_host(host, given, {**whole, "required": schema["required"]})
        return outcome(await plugin.call(component, given, ctx=_ctx, given=filled))

    brief = str(metadata.get("brief_description") or component.description or component.name)
    return Tool(
        name=component.name,
        python_name=python_name(component.name, taken, "tool"),
        module=plugin.native.module_name,
        owner=plugin.native.key,
        kind=ToolKind.TOOL,
        handler=handler,
        description=brief.strip(),
        summary=authors_text(metadata) or brief.strip(),
        details=details_block(schema),
        parameters=parameters,
        visibility=visibility_of(metadata),
        where=place_of(getattr(plugin.instance, component.handler, None) or type(plugin.instance)),
        timeout_s=min(component.number("timeout_ms") / 1000 or plugin.tool_s, _LONGEST_S),
        around=plugin.native.acting,
        adapters=frozenset(
            name for platform in component.words("platforms") for name in adapters_of(platform)
        ),
    )


def visibility_of(metadata: Mapping[str, Any]) -> Visibility:
    """Return the visibility that ``visibility`` names. If it names none, return ``VISIBLE`` for a
    ``core_tool``. Return ``DEFERRED`` for any other tool, so that only a search finds the tool."""
    named = str(metadata.get("visibility") or "").strip().lower()
    if named in tuple(Visibility):
        return Visibility(named)
    core = metadata.get("core_tool")
    yes = core.strip().lower() in ("true", "1", "yes") if isinstance(core, str) else bool(core)
    return Visibility.VISIBLE if yes else Visibility.DEFERRED


def _declared(metadata: Mapping[str, Any]) -> Any:
    raw = metadata.get("parameters_raw") or metadata.get("parameters")
    return raw or metadata.get("parameters_schema")


def details_block(schema: Mapping[str, Any]) -> str:
    """The text ``Parameter details:`` with a line for each parameter, like MaiBot's descriptions of
    tools. Empty for a tool without parameters."""
    lines = [
        _line(name, each, required=name in schema["required"])
        for name, each in schema["properties"].items()
    ]
    return "\n".join([_HEADING, *lines]) if lines else ""


def authors_text(metadata: Mapping[str, Any]) -> str:
    """The detailed description that the author of a tool wrote.

    The SDK writes a block in Chinese about the parameters before the author's text. This function
    makes the same block, and removes it if the text begins with it.
    """
    text = str(metadata.get("detailed_description") or "").strip()
    try:
        info = ToolComponentInfo.model_validate(
            {
                "name": "tool",
                "parameters": metadata.get("parameters") or [],
                "parameters_raw": metadata.get("parameters_raw") or {},
            }
        )
    except ValidationError:
        return text  # the SDK could not make a block from such parameters
    block = build_tool_detailed_description(info.get_parameters_schema())
    if block and (text == block or text.startswith(f"{block}\n\n")):
        return text[len(block) :].strip()
    return text


def _line(name: str, schema: Mapping[str, Any], *, required: bool) -> str:
    kind = schema.get("type") or "any"
    parts = [str(schema.get("description") or "").strip()]
    if choices := schema.get("enum"):
        parts.append(f"One of: {', '.join(map(str, choices))}")
    if schema.get("default") is not None:
        parts.append(f"Default: {schema['default']}")
    line = ""
    for part in filter(None, parts):
        stop = "" if not line or line.endswith((".", "。", "!", "?", "！", "？")) else "."
        line = f"{line}{stop} {part}"
    return f"- {name}: {kind}, {'required' if required else 'optional'}.{line}"
