"""Runs hooks and events before and after requests to the bot's model."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace

from nekro_core.chat import ChatKey, ChatKeyError
from nekro_core.compat.maibot.formats.prompt_messages import calls_of, merge_changes, message_dicts
from nekro_core.compat.maibot.hooks.handlers import HookRunner
from nekro_core.llm.model import (
    ChatModel,
    ChatRequest,
    Delta,
    FunctionCall,
    ModelProfile,
    ModelRefused,
    TextDelta,
)
from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.plugins.authoring.services import Services

_BEFORE = ("maisaka.planner.before_request", "on_plan")
_AFTER = ("maisaka.planner.after_response", "post_llm", "after_llm")


class HookedModel:
    """A `ChatModel` that runs hooks and events for the requests of turns and for their replies.

    If no plugin has a handler for replies, the reply is streamed as usual. If a handler may change
    the reply, the reply is yielded only when it is complete.
    """

    def __init__(self, model: ChatModel, services: Services, hooks: HookRunner) -> None:
        self._model = model
        self._services = services
        self._hooks = hooks

    @property
    def profile(self) -> ModelProfile:
        """See `ChatModel`."""
        return self._model.profile

    def stream(self, request: ChatRequest) -> AbstractAsyncContextManager[AsyncIterator[Delta]]:
        """See `ChatModel`."""
        if not request.chat or not self._hooks.any(*_BEFORE, *_AFTER):
            return self._model.stream(request)
        return self._hooked(request)

    async def prepare(self, likely: Sequence[ChatRequest] = ()) -> None:
        """See `ChatModel`."""
        await self._model.prepare(likely)

    async def aclose(self) -> None:
        """See `ChatModel`."""
        await self._model.aclose()

    @asynccontextmanager
    async def _hooked(self, request: ChatRequest) -> AsyncIterator[AsyncIterator[Delta]]:
        ctx = self._ctx(request)
        request = await self._changed_request(request, ctx)
        async with self._model.stream(request) as deltas:
            if self._hooks.any(*_AFTER):
                yield self._whole_reply(deltas, ctx)
            else:
                yield deltas

    def _ctx(self, request: ChatRequest) -> AgentCtx | None:
        try:
            key = ChatKey.parse(request.chat)
        except ChatKeyError:
            return None
        return AgentCtx(services=self._services, chat=key)

    async def _changed_request(self, request: ChatRequest, ctx: AgentCtx | None) -> ChatRequest:
        shown = message_dicts(request.messages)
        tools = [
            {
                "name": each.name,
                "description": each.description,
                "parameters": dict(each.parameters),
            }
            for each in request.functions
        ]
        before = await self._hooks.hook(
            _BEFORE[0],
            {"messages": shown, "tool_definitions": tools, "session_id": request.chat},
            ctx=ctx,
        )
        if before.aborted:
            raise ModelRefused("a plugin stopped the request to the model")
        messages = merge_changes(
            request.messages, message_dicts(request.messages), before.kwargs["messages"]
        )
        event = await self._hooks.event(
            _BEFORE[1], {"stream_id": request.chat, "llm_prompt": shown}, ctx=ctx
        )
        if event.aborted:
            raise ModelRefused("a plugin stopped the request to the model")
        wanted = before.kwargs["tool_definitions"]
        functions = request.functions
        if isinstance(wanted, list) and wanted != tools:
            names = {each.get("name") for each in wanted if isinstance(each, dict)}
            functions = tuple(each for each in functions if each.name in names)
        return replace(request, messages=messages, functions=functions)

    async def _whole_reply(
        self, deltas: AsyncIterator[Delta], ctx: AgentCtx | None
    ) -> AsyncIterator[Delta]:
        """Read the whole reply, let the handlers change it, then yield it."""
        words: list[str] = []
        calls: list[FunctionCall] = []
        others: list[Delta] = []
        async for delta in deltas:
            match delta:
                case TextDelta(text):
                    words.append(text)
                case FunctionCall():
                    calls.append(delta)
                case _:
                    others.append(delta)
        response = "".join(words)
        shown = [
            {"id": each.call_id, "function": {"name": each.name, "arguments": dict(each.arguments)}}
            for each in calls
        ]
        chat = ctx.chat_key if ctx else ""
        ended = await self._hooks.hook(
            _AFTER[0],
            {"response": response, "tool_calls": shown, "session_id": chat},
            ctx=ctx,
        )
        if ended.aborted:
            response, calls = "", []
        else:
            response = str(ended.kwargs["response"] or "")
            if ended.kwargs["tool_calls"] != shown:
                changed = calls_of(ended.kwargs["tool_calls"])
                calls = calls if changed is None else changed
        for name in _AFTER[1:]:
            message = {"stream_id": chat, "llm_response_content": response}
            event = await self._hooks.event(name, message, ctx=ctx)
            changed_message = event.kwargs["message"] or message
            response = str(changed_message.get("llm_response_content") or "")
        if response:
            yield TextDelta(response)
        for call in calls:
            yield call
        for delta in others:
            yield delta
