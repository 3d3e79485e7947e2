"""What the bot asks its model: the hooks and events around it."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from nekro_core.chat import ChatKey, ChatKeyError
from nekro_core.compat.maibot.prompt_messages import calls_of, merge_changes, message_dicts
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

if TYPE_CHECKING:
    from nekro_core.compat.maibot.host import MaiBotHost

_ASK = ("maisaka.planner.before_request", "on_plan")
_ANSWERED = ("maisaka.planner.after_response", "post_llm", "after_llm")


class HookedModel:
    """A `ChatModel` whose requests and replies plugins hear of. Where nobody listens it is the
    model itself; a reply that somebody may change arrives whole, not as it is written."""

    def __init__(self, model: ChatModel, host: "MaiBotHost") -> None:
        self._model = model
        self._host = host

    @property
    def profile(self) -> ModelProfile:
        """See `ChatModel`."""
        return self._model.profile

    def stream(self, request: ChatRequest) -> AbstractAsyncContextManager[AsyncIterator[Delta]]:
        """See `ChatModel`."""
        if not request.chat or not self._host.stages.any(*_ASK, *_ANSWERED):
            return self._model.stream(request)
        return self._staged(request)

    async def prepare(self, likely: Sequence[ChatRequest] = ()) -> None:
        """See `ChatModel`."""
        await self._model.prepare(likely)

    async def aclose(self) -> None:
        """See `ChatModel`."""
        await self._model.aclose()

    @asynccontextmanager
    async def _staged(self, request: ChatRequest) -> AsyncIterator[AsyncIterator[Delta]]:
        ctx = self._ctx(request)
        request = await self._asked(request, ctx)
        async with self._model.stream(request) as deltas:
            if self._host.stages.any(*_ANSWERED):
                yield self._whole(deltas, ctx)
            else:
                yield deltas

    def _ctx(self, request: ChatRequest) -> AgentCtx | None:
        try:
            key = ChatKey.parse(request.chat)
        except ChatKeyError:
            return None
        return AgentCtx(services=self._host.ports.services, chat=key)

    async def _asked(self, request: ChatRequest, ctx: AgentCtx | None) -> ChatRequest:
        stages = self._host.stages
        shown = message_dicts(request.messages)
        tools = [
            {
                "name": each.name,
                "description": each.description,
                "parameters": dict(each.parameters),
            }
            for each in request.functions
        ]
        begun = await stages.hook(
            _ASK[0],
            {"messages": shown, "tool_definitions": tools, "session_id": request.chat},
            ctx=ctx,
        )
        if begun.aborted:
            raise ModelRefused("a plugin decided that the model is not asked")
        messages = merge_changes(
            request.messages, message_dicts(request.messages), begun.kwargs["messages"]
        )
        told = await stages.event(
            _ASK[1], {"stream_id": request.chat, "llm_prompt": shown}, ctx=ctx
        )
        if told.aborted:
            raise ModelRefused("a plugin decided that the model is not asked")
        wanted = begun.kwargs["tool_definitions"]
        functions = request.functions
        if isinstance(wanted, list) and wanted != tools:
            kept = {each.get("name") for each in wanted if isinstance(each, dict)}
            functions = tuple(each for each in functions if each.name in kept)
        return replace(request, messages=messages, functions=functions)

    async def _whole(
        self, deltas: AsyncIterator[Delta], ctx: AgentCtx | None
    ) -> AsyncIterator[Delta]:
        """The reply once it is over, as the plugins left it."""
        stages = self._host.stages
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
        ended = await stages.hook(
            _ANSWERED[0],
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
        for name in _ANSWERED[1:]:
            message = {"stream_id": chat, "llm_response_content": response}
            told = await stages.event(name, message, ctx=ctx)
            changed_message = told.kwargs["message"] or message
            response = str(changed_message.get("llm_response_content") or "")
        if response:
            yield TextDelta(response)
        for call in calls:
            yield call
        for delta in others:
            yield delta
