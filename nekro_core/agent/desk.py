"""The bot's tools for those who are no model of its own: over HTTP, and through it over MCP."""

import uuid
from collections.abc import Mapping
from typing import Any, assert_never

import anyio

from nekro_core.agent.accounting import ANSWERED
from nekro_core.agent.box_on_demand import BoxOnDemand
from nekro_core.agent.functions import Functions, functions_of
from nekro_core.agent.native_calls import Answered, NativeCalls
from nekro_core.agent.native_reply import calls_text
from nekro_core.agent.ports import Ports
from nekro_core.agent.run_calls import RunCalls
from nekro_core.chat import ChatKey, ChatKind
from nekro_core.llm.model import AudioPart, FunctionCall, ImagePart, Part, TextPart
from nekro_core.plugin.context import AgentCtx
from nekro_core.sandbox.tools import TOOL_NAMES, mcp_tools
from nekro_core.tools.content import AudioContent, Content, ImageContent, TextContent
from nekro_core.tools.names import ToolSet, tool_set
from nekro_core.tools.offer import OfferedTool, ToolAnswer

NOWHERE = ChatKey("tools", ChatKind.PRIVATE, "outside")
"""Owns the boxes of those who chose no chat. No account has this instance: nothing can be sent."""
_AT_ONCE = 16
_LAST_WORDS_S = 5.0


class ToolDesk:
    """See `nekro_core.delivery.host.ToolDesk`. Calls are written down as runs that no turn asked
    for, with arguments and times."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._slots = anyio.CapacityLimiter(_AT_ONCE)
        self._chatless: tuple[ToolSet, ToolSet] | None = None

    def tools(self, chat_key: ChatKey | None) -> tuple[OfferedTool, ...]:
        """The boxes' eight tools, then the plugins'; without a chat those that need none."""
        boxes = [
            OfferedTool(
                name=tool["name"], description=tool["description"], schema=tool["inputSchema"]
            )
            for tool in mcp_tools()
        ]
        functions = self._functions(chat_key)[1]
        return (
            *boxes,
            *(
                OfferedTool(name=each.name, description=each.description, schema=each.parameters)
                for each in functions.offered
                if each.name not in TOOL_NAMES
            ),
        )

    async def call(
        self, chat_key: ChatKey | None, name: str, arguments: Mapping[str, Any]
    ) -> ToolAnswer:
        """Carry a call out; cancelled, it ends what runs. Raises `StoreError`."""
        tools, functions = self._functions(chat_key)
        async with self._slots:
            if name in TOOL_NAMES or name not in functions.names:
                told = await self._ports.boxes.call(chat_key or NOWHERE, name, arguments)
                return ToolAnswer(content=(TextContent(told.content),), is_error=told.is_error)
            return await self._call_plugin(chat_key, tools, functions, name, arguments)

    def _functions(self, chat_key: ChatKey | None) -> tuple[ToolSet, Functions]:
        tools = self._ports.plugins.tools_for(chat_key or NOWHERE)
        if chat_key is None:
            if self._chatless is None or self._chatless[0] is not tools:
                free = tool_set(each.tool for each in tools.named if not each.tool.needs_chat)
                self._chatless = (tools, free)
            tools = self._chatless[1]
        return tools, tools.once(functions_of)

    async def _call_plugin(
        self,
        chat_key: ChatKey | None,
        tools: ToolSet,
        functions: Functions,
        name: str,
        arguments: Mapping[str, Any],
    ) -> ToolAnswer:
        ports, chat = self._ports, chat_key or NOWHERE
        call = FunctionCall(call_id="1", name=name, arguments=arguments)
        run_id = uuid.uuid4().hex
        files = BoxOnDemand(ports.boxes, chat)
        try:
            ctx = ports.plugins.context_for(chat, run_id=run_id, box=files)
            calls = self._run_calls(chat_key, tools, ctx)
            native = NativeCalls(
                calls,
                ctx,
                lambda function: tools.name_of(functions.names[function]),
                at_once=1,
                result_chars=ports.settings.turn.result_chars,
            )
            await ports.store.runs.begin(run_id, chat, code=calls_text([call]))
            began, stop = ports.clock(), "cancelled"
            try:
                (answered,) = await native.carry_out([call])
                stop = ANSWERED
            finally:
                with anyio.move_on_after(_LAST_WORDS_S, shield=True):
                    for made in calls.made:
                        await ports.store.runs.add_call(run_id, made)
                    await ports.store.runs.end(
                        run_id, output="", stop=stop, seconds=ports.clock() - began
                    )
        finally:
            await files.close()
        return _answer(answered)

    def _run_calls(self, chat_key: ChatKey | None, tools: ToolSet, ctx: AgentCtx) -> RunCalls:
        async def note(text: str) -> None:
            if chat_key is not None:
                await self._ports.inbox.note(chat_key, text, run_id=ctx.run_id)

        return RunCalls(tools, ctx, note=note, clock=self._ports.clock, wall=self._ports.wall)


def _answer(answered: Answered) -> ToolAnswer:
    media = tuple(map(_content, answered.media))
    return ToolAnswer(content=(TextContent(answered.text), *media), is_error=answered.failed)


def _content(part: Part) -> Content:
    match part:
        case TextPart(text):
            return TextContent(text)
        case ImagePart(data, mime, url):
            return ImageContent(data=data, mime=mime, url=url)
        case AudioPart(data, sound_format):
            return AudioContent(data=data, format=sound_format)
        case _:
            assert_never(part)
