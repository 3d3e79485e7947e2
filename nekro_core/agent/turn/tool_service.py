"""Offers the bot's tools to other programs over HTTP. The MCP server uses this HTTP interface."""

import uuid
from collections.abc import Mapping
from typing import Any, assert_never

import anyio

from nekro_core.agent.prompt.functions import FunctionSet
from nekro_core.agent.prompt.prompt import CallAnswer
from nekro_core.agent.turn.boxes import LazyBox
from nekro_core.agent.turn.native_calls import NativeCalls
from nekro_core.agent.turn.native_reply import calls_text
from nekro_core.agent.turn.recorder import ANSWERED
from nekro_core.agent.turn.run_calls import RunCalls, arguments_text
from nekro_core.agent.turn.services import TurnServices
from nekro_core.chat import ChatKey, ChatKind
from nekro_core.llm.model import AudioPart, FunctionCall, ImagePart, Part, TextPart
from nekro_core.sandbox.tools import TOOL_NAMES, mcp_tools
from nekro_core.store import ToolCall
from nekro_core.tools.content import AudioContent, Content, ImageContent, TextContent
from nekro_core.tools.names import ToolSet, tool_set
from nekro_core.tools.offer import OfferedTool, ToolAnswer

NO_CHAT = ChatKey("tools", ChatKind.PRIVATE, "outside")
"""The chat key that owns the boxes for calls without a chat. No account has the instance ``tools``,
so such calls cannot send messages."""
_AT_ONCE = 16
_LAST_WORDS_S = 5.0


class AgentToolService:
    """Implements `ToolService`. Each call is stored as a run without a turn. The run's row is
    stored before the call is carried out; the log of the call and the run's end are stored
    afterwards."""

    def __init__(self, services: TurnServices) -> None:
        self._services = services
        self._slots = anyio.CapacityLimiter(_AT_ONCE)
        self._chatless: tuple[ToolSet, ToolSet] | None = None

    async def tools(self, chat_key: ChatKey | None) -> tuple[OfferedTool, ...]:
        """Return the eight tools for boxes, then the plugins' tools of the chat. If ``chat_key`` is
        None, only plugins' tools that need no chat are included."""
        boxes = [
            OfferedTool(
                name=tool["name"], description=tool["description"], schema=tool["inputSchema"]
            )
            for tool in mcp_tools()
        ]
        _, functions = await self._functions(chat_key)
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
        """Carry out a call. If this method is cancelled, the tool is cancelled too. Raises
        `StoreError`."""
        store, clock = self._services.store, self._services.clock
        tools, functions = await self._functions(chat_key)
        call = FunctionCall(call_id="1", name=name, arguments=arguments)
        run_id = uuid.uuid4().hex
        log: list[ToolCall] = []
        async with self._slots:
            await store.runs.begin(run_id, chat_key or NO_CHAT, code=calls_text([call]))
            began, stop = clock(), "cancelled"
            try:
                if name in TOOL_NAMES or name not in functions.names:
                    answer = await self._on_boxes(chat_key, call, log)
                else:
                    tool = tools.name_of(functions.names[name])
                    answer = await self._by_plugin(chat_key, tools, tool, call, run_id, log)
                stop = ANSWERED
            finally:
                with anyio.move_on_after(_LAST_WORDS_S, shield=True):
                    if log:
                        await store.runs.add_calls(run_id, log)
                    await store.runs.end(run_id, output="", stop=stop, seconds=clock() - began)
        return answer

    async def _functions(self, chat_key: ChatKey | None) -> tuple[ToolSet, FunctionSet]:
        plugins = self._services.plugins
        if chat_key is not None:
            tools = await plugins.tools_in(plugins.context_for(chat_key))
        else:
            tools = plugins.tools_for(NO_CHAT)
            if self._chatless is None or self._chatless[0] is not tools:
                free = tool_set(each.tool for each in tools.named if not each.tool.needs_chat)
                self._chatless = (tools, free)
            tools = self._chatless[1]
        discovery = self._services.discovery
        await discovery.recall(chat_key or NO_CHAT, tools)
        tools = discovery.with_search_tool(tools, natively=True)
        return tools, discovery.functions(chat_key or NO_CHAT, tools)

    async def _on_boxes(
        self, chat_key: ChatKey | None, call: FunctionCall, log: list[ToolCall]
    ) -> ToolAnswer:
        began, started = self._services.clock(), self._services.wall()
        outcome = "cut off: nobody waited for it any more"
        try:
            chat = chat_key or NO_CHAT
            result = await self._services.boxes.call(chat, call.name, call.arguments)
            outcome = "failed" if result.is_error else "ok"
            return ToolAnswer(content=(TextContent(result.content),), is_error=result.is_error)
        finally:
            log.append(
                ToolCall(
                    position=0,
                    name=call.name,
                    arguments=arguments_text((), dict(call.arguments)),
                    outcome=outcome,
                    started=started,
                    seconds=self._services.clock() - began,
                )
            )

    async def _by_plugin(
        self,
        chat_key: ChatKey | None,
        tools: ToolSet,
        tool: str,
        call: FunctionCall,
        run_id: str,
        log: list[ToolCall],
    ) -> ToolAnswer:
        services, chat = self._services, chat_key or NO_CHAT
        files = LazyBox(services.boxes, chat)
        ctx = services.plugins.context_for(chat, run_id=run_id, box=files)

        async def note(text: str) -> None:
            if chat_key is not None:
                await services.inbox.note(chat_key, text, run_id=run_id)

        calls = RunCalls(tools, ctx, note=note, clock=services.clock, wall=services.wall)
        chars = services.settings.turn.result_chars
        native = NativeCalls(calls, calls.call, lambda _: tool, at_once=1, result_chars=chars)
        try:
            (answer,) = await native.carry_out([call])
        finally:
            log += calls.finished
            await files.close()
        return _tool_answer(answer)


def _tool_answer(answer: CallAnswer) -> ToolAnswer:
    media = tuple(map(_content, answer.media))
    return ToolAnswer(content=(TextContent(answer.text), *media), is_error=answer.failed)


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
