"""Prepares the request of a step. A turn's first request is prepared while the person may still be
typing."""

import uuid
from dataclasses import dataclass, replace

from nekro_core.agent.prompt.functions import FunctionSet
from nekro_core.agent.prompt.sources import PromptSources
from nekro_core.agent.turn.boxes import LazyBox
from nekro_core.agent.turn.context import TurnContext, TurnRequest
from nekro_core.agent.turn.services import PromptServices
from nekro_core.chat import ChatKey
from nekro_core.llm.model import ChatRequest
from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.plugins.authoring.services import MessageSender
from nekro_core.tools.names import ToolSet


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedStep:
    """A request to the model, with the objects that the run of its reply needs.

    ``tools`` are the tools that this chat may use now. ``offered`` are the tools of all chats of
    the chat's adapter. ``functions`` is set if the model calls functions natively. ``changes`` is
    the value of `MessageRepository.changes` just before the history was read. ``sources`` are the
    texts and records from which the request is made.
    """

    run_id: str
    offered: ToolSet
    tools: ToolSet
    ctx: AgentCtx
    request: ChatRequest
    bare_code: bool
    changes: int
    sources: PromptSources
    functions: FunctionSet | None = None

    def is_current(self, services: PromptServices) -> bool:
        """Return whether the history and the adapter's tools have not changed since the step was
        prepared."""
        chat_key = self.ctx.chat
        return (
            services.store.messages.changes(chat_key) == self.changes
            and services.plugins.tools_for(chat_key) is self.offered
        )


@dataclass(frozen=True, slots=True)
class PreparedTurn:
    """A turn's first step, prepared before the turn begins."""

    request: TurnRequest
    context: TurnContext
    files: LazyBox
    step: PreparedStep


def uses_native_calls(services: PromptServices, chat_key: ChatKey) -> bool:
    """Return True if the model calls functions natively in this chat; False if it writes code. A
    model that does not support native calls writes code, whatever the settings say."""
    policy = services.policies.of(chat_key)
    return policy.mode == "tools" and policy.model.profile.functions


async def prepare_step(
    services: PromptServices,
    context: TurnContext,
    files: LazyBox,
    outgoing: MessageSender | None = None,
) -> PreparedStep:
    """Read the chat's history and write the next request. If ``outgoing`` is given, the code's
    messages are sent through it. The chat's box is opened only if a plugin uses ``files``. Raises
    `StoreError`."""
    chat_key, trigger = context.chat_key, context.request.trigger_record
    changes = services.store.messages.changes(chat_key)
    run_id = uuid.uuid4().hex
    offered = services.plugins.tools_for(chat_key)
    ctx = services.plugins.context_for(
        chat_key,
        user_id=trigger.sender.user_id,
        user_name=trigger.sender.name,
        message_id=trigger.message_id,
        run_id=run_id,
        box=files,
    )
    if outgoing is not None:
        ctx = replace(ctx, services=replace(ctx.services, outgoing=outgoing))
    natively, discovery = uses_native_calls(services, chat_key), services.discovery
    tools = discovery.with_search_tool(await services.plugins.tools_in(ctx), natively=natively)
    await discovery.recall(chat_key, tools)
    await context.read_history()
    files.media = context.media
    functions = discovery.functions(chat_key, tools) if natively else None
    request, bare_code, sources = await context.write_prompt(tools, ctx, functions)
    return PreparedStep(
        run_id=run_id,
        offered=offered,
        tools=tools,
        ctx=ctx,
        request=request,
        bare_code=bare_code,
        changes=changes,
        sources=sources,
        functions=functions,
    )


async def prepare_turn(services: PromptServices, request: TurnRequest) -> PreparedTurn:
    """Prepare the first step of a turn. Raises the same errors as `prepare_step`."""
    context, files = TurnContext(services, request), LazyBox(services.boxes, request.chat_key)
    try:
        step = await prepare_step(services, context, files)
        return PreparedTurn(request, context, files, step)
    finally:
        await files.close()
