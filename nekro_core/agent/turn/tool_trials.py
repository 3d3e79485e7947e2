"""Shows tools as the model sees them, and lets an operator try a tool."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nekro_core.agent.prompt.functions import function_set, tool_text
from nekro_core.agent.turn.tool_service import AgentToolService
from nekro_core.chat import ChatKey
from nekro_core.plugins.authoring.tool_uses import PluginFault, PluginUses
from nekro_core.plugins.forms.fields import FormField
from nekro_core.plugins.forms.from_schema import fields_of_schema
from nekro_core.plugins.host.active_plugins import ActivePlugins
from nekro_core.system.errors import NekroError
from nekro_core.tools.names import ToolSet
from nekro_core.tools.offer import ToolAnswer
from nekro_core.tools.schema import function_schema
from nekro_core.tools.tool import ToolKind, Visibility


class NoSuchTool(NekroError, LookupError):
    """The chat has no tool of this name. The text lists similar names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownTool:
    """A tool as the model sees it.

    Attributes:
        name: The name in the model's Python code.
        function: The name for a model that calls functions.
        plugin: The key of its plugin. If the tool does not belong to a plugin, the name of its
            owner.
        kind: What a call does to the turn.
        visibility: When the model sees the tool.
        stub: The Python text that the model reads.
        schema: The JSON schema of its arguments.
        fields: The form of its arguments.
        needs_chat: Whether it can only be called in a chat.
        where: The ``file:line`` of its function; empty if not known.
    """

    name: str
    function: str
    plugin: str
    kind: ToolKind
    visibility: Visibility
    stub: str
    schema: Mapping[str, Any]
    fields: tuple[FormField, ...]
    needs_chat: bool
    where: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolTrial:
    """The outcome of trying a tool. If the call failed, ``fault`` has the whole error with its
    place in the code, for the operator. A model that calls the tool in a turn does not see it."""

    answer: ToolAnswer
    seconds: float
    fault: PluginFault | None = None


class ToolTrials:
    """Lists the tools of chats and tries them. A trial is a real call: the tool has its usual
    effects, and the call is stored as a run without a turn."""

    def __init__(self, plugins: ActivePlugins, service: AgentToolService) -> None:
        self._plugins = plugins
        self._service = service

    async def tools(
        self, chat_key: ChatKey | None = None, *, plugin: str = ""
    ) -> tuple[ShownTool, ...]:
        """List the tools of a chat. If ``chat_key`` is None, list the tools of all chats. With
        ``plugin``, list only the tools of the plugin with this key."""
        tools = await self._tools_of(chat_key)
        functions = function_set(tools)
        return tuple(
            ShownTool(
                name=each.name,
                function=functions.name_of(each.tool),
                plugin=each.tool.owner,
                kind=each.tool.kind,
                visibility=each.tool.visibility,
                stub=tool_text(each),
                schema=(schema := function_schema(each.tool)["function"]["parameters"]),
                fields=fields_of_schema(schema),
                needs_chat=each.tool.needs_chat,
                where=each.tool.where,
            )
            for each in tools.named
            if plugin in ("", each.tool.owner)
        )

    async def try_tool(
        self, chat_key: ChatKey | None, name: str, arguments: Mapping[str, Any]
    ) -> ToolTrial:
        """Call a tool in a chat, as the model would. ``name`` is its name in the model's code.
        If ``chat_key`` is None, only tools that need no chat can be called. If this method is
        cancelled, the tool is cancelled too. Raises `NoSuchTool` and `StoreError`."""
        tools = await self._tools_of(chat_key)
        tool = tools.resolve(name)
        if tool is None:
            raise NoSuchTool(tools.why_unknown(name))
        if chat_key is None and tool.needs_chat:
            raise NoSuchTool(f"{name} can only be called in a chat: choose one")
        uses = self._plugins.services.uses
        errors = _last_fault(uses, tool.owner, tool.name)
        began = time.monotonic()
        function = function_set(tools).name_of(tool)
        answer = await self._service.call(chat_key, function, arguments)
        seconds = time.monotonic() - began
        fault = _last_fault(uses, tool.owner, tool.name) if answer.is_error else None
        return ToolTrial(
            answer=answer, seconds=seconds, fault=fault if fault is not errors else None
        )

    async def _tools_of(self, chat_key: ChatKey | None) -> ToolSet:
        if chat_key is None:
            return self._plugins.all_tools()
        return await self._plugins.tools_in(self._plugins.context_for(chat_key))


def _last_fault(uses: PluginUses | None, owner: str, name: str) -> PluginFault | None:
    use = uses.tools_of(owner).get(name) if uses is not None else None
    return use.last_error if use is not None else None
