"""Runs hooks and events before and after requests to the bot's model."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from typing import Any

from nekro_core.chat import ChatKey, ChatKeyError
from nekro_core.compat.maibot.bot_view import BotView
from nekro_core.compat.maibot.formats.prompt_changes import (
    PLAN_TIME,
    REPLY_TIME,
    ShownPrompt,
    with_words,
)
from nekro_core.compat.maibot.formats.prompt_messages import (
    calls_of,
    changed_functions,
    function_dicts,
)
from nekro_core.compat.maibot.hooks.handlers import HookRunner
from nekro_core.compat.maibot.plugin.loaded import LoadedPlugins
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
from nekro_core.tools.schema import function_schema
from nekro_core.tools.tool import Tool, Visibility

_PLANNER, _PLAN_EVENT = "maisaka.planner.before_request", "on_plan"
_REPLYER, _REPLYER_MODEL = "maisaka.replyer.before_request", "maisaka.replyer.before_model_request"
_BEFORE = (_PLANNER, _PLAN_EVENT, _REPLYER, _REPLYER_MODEL)
_AFTER = ("maisaka.planner.after_response", "post_llm", "after_llm")


class HookedModel:
    """A `ChatModel` that runs hooks and events for the requests of turns and for their replies.

    If no plugin has a handler for replies, the reply is streamed as usual. If a handler may change
    the reply, the reply is yielded only when it is complete.
    """

    def __init__(
        self, model: ChatModel, bot: BotView, hooks: HookRunner, plugins: LoadedPlugins
    ) -> None:
        self._model = model
        self._bot = bot
        self._hooks = hooks
        self._plugins = plugins

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
        return AgentCtx(services=self._bot.services, chat=key)

    async def _changed_request(self, request: ChatRequest, ctx: AgentCtx | None) -> ChatRequest:
        """Run the hooks before a request. One request of a turn takes the place of two requests of
        MaiBot: one of the planner, which chooses tools, and one of the replyer, which writes the
        answer."""
        if self._hooks.any(_PLANNER, _PLAN_EVENT):
            request = await self._plan(request, ctx)
        if self._hooks.any(_REPLYER):
            request = await self._with_extra_prompt(request, ctx)
        if self._hooks.any(_REPLYER_MODEL):
            shown = ShownPrompt.of(request.messages, self._bot.now(), REPLY_TIME)
            about = {**await self._session(request, ctx), **shown.kwargs()}
            kwargs = await self._run(_REPLYER_MODEL, about, ctx)
            request = replace(request, messages=shown.changed(kwargs))
        return request

    async def _plan(self, request: ChatRequest, ctx: AgentCtx | None) -> ChatRequest:
        shown = ShownPrompt.of(request.messages, self._bot.now(), PLAN_TIME)
        named = await self._tools(ctx)
        tools = function_dicts(request.functions) or [
            shown_tool
            for tool, shown_tool in named.values()
            if tool.visibility is Visibility.VISIBLE
        ]
        about = {
            **await self._session(request, ctx),
            **shown.kwargs(),
            "tool_definitions": tools,
        }
        kwargs = await self._run(_PLANNER, about, ctx)
        message = {"stream_id": request.chat, "llm_prompt": shown.messages}
        event = await self._hooks.event(_PLAN_EVENT, message, ctx=ctx)
        if event.aborted:
            raise ModelRefused("a plugin stopped the request to the model")
        functions = changed_functions(request.functions, tools, kwargs["tool_definitions"], named)
        return replace(request, messages=shown.changed(kwargs), functions=functions)

    async def _with_extra_prompt(self, request: ChatRequest, ctx: AgentCtx | None) -> ChatRequest:
        about = {
            **await self._session(request, ctx),
            "extra_prompt": "",
            "reference_info": "",
            "reply_reason": "",
            "reply_tool_args": {},
            "task_name": "replyer",
            "model_name": "",
            "attempt": 1,
            "retry_count": 0,
        }
        kwargs = await self._run(_REPLYER, about, ctx)
        wanted = [str(kwargs[key] or "").strip() for key in ("reference_info", "extra_prompt")]
        text = "\n\n".join(filter(None, wanted))
        return replace(request, messages=with_words(request.messages, text))

    async def _session(self, request: ChatRequest, ctx: AgentCtx | None) -> dict[str, Any]:
        answered = await self._bot.answered_message(ctx.chat) if ctx else ""
        return {
            "session_id": request.chat,
            "stream_id": request.chat,
            "reply_message_id": answered,
        }

    async def _run(
        self, hook: str, about: Mapping[str, Any], ctx: AgentCtx | None
    ) -> Mapping[str, Any]:
        outcome = await self._hooks.hook(hook, about, ctx=ctx)
        if outcome.aborted:
            raise ModelRefused("a plugin stopped the request to the model")
        return outcome.kwargs

    async def _tools(self, ctx: AgentCtx | None) -> dict[str, tuple[Tool, dict[str, Any]]]:
        """Return the tools of a chat and their function dicts, by the names of the functions.
        Plugins get these if the model writes code, because the request then has no functions."""
        registry = self._plugins.registry
        if ctx is None or registry is None:
            return {}
        offered = await registry.tools_in(ctx)
        named = {}
        for each in offered.named:
            if each.tool.visibility is not Visibility.HIDDEN:
                shown = function_schema(each.tool, each.name)
                named[str(shown["function"]["name"])] = (each.tool, shown)
        return named

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
