"""What one step asks the model. A turn's first is made ready while the person may still type."""

import uuid
from dataclasses import dataclass, replace

from nekro_core.agent.prompt.functions import FunctionSet
from nekro_core.agent.turn.boxes import LazyBox
from nekro_core.agent.turn.context import TurnContext, TurnRequest
from nekro_core.agent.turn.ports import Ports
from nekro_core.chat import ChatKey
from nekro_core.llm.model import ChatRequest
from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.plugins.authoring.services import MessageSender
from nekro_core.tools.names import ToolSet


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedStep:
    """A request with what its code will be given. ``functions`` are there where the model calls
    natively. ``offered`` are the tools that all chats of the
    adapter have, ``changes`` says how far the chat's history had come when it was read."""

    run_id: str
    offered: ToolSet
    tools: ToolSet
    ctx: AgentCtx
    request: ChatRequest
    bare_code: bool
    changes: int
    functions: FunctionSet | None = None

    def holds(self, ports: Ports) -> bool:
        """Whether it would be made the same now."""
        chat_key = self.ctx.chat
        return (
            ports.store.messages.changes(chat_key) == self.changes
            and ports.plugins.tools_for(chat_key) is self.offered
        )


@dataclass(frozen=True, slots=True)
class PreparedTurn:
    """The beginning of a turn that has not begun."""

    task: TurnRequest
    known: TurnContext
    files: LazyBox
    asking: PreparedStep


def uses_native_calls(ports: Ports, chat_key: ChatKey) -> bool:
    """Whether the model calls functions in this chat, instead of writing code. One that cannot
    call writes code whatever the settings say."""
    manner = ports.policies.of(chat_key)
    return manner.mode == "tools" and manner.model.profile.functions


async def prepare_step(
    ports: Ports,
    task: TurnRequest,
    known: TurnContext,
    files: LazyBox,
    outgoing: MessageSender | None = None,
) -> PreparedStep:
    """Look at the chat and write the next request. Plugins that look at ``files`` open the chat's
    box; nothing else here does. Raises `StoreError`."""
    changes = ports.store.messages.changes(task.chat_key)
    run_id = uuid.uuid4().hex
    offered = ports.plugins.tools_for(task.chat_key)
    ctx = ports.plugins.context_for(
        task.chat_key,
        user_id=task.trigger_record.sender.user_id,
        user_name=task.trigger_record.sender.name,
        message_id=task.trigger_record.message_id,
        run_id=run_id,
        box=files,
    )
    if outgoing is not None:
        ctx = replace(ctx, services=replace(ctx.services, outgoing=outgoing))
    natively = uses_native_calls(ports, task.chat_key)
    tools = ports.discovery.with_search_tool(await ports.plugins.tools_in(ctx), natively=natively)
    await ports.discovery.recall(task.chat_key, tools)
    await known.look()
    files.media = known.media
    functions = ports.discovery.functions(task.chat_key, tools) if natively else None
    request, bare_code = await known.prompt(tools, ctx, functions)
    return PreparedStep(
        run_id=run_id,
        offered=offered,
        tools=tools,
        ctx=ctx,
        request=request,
        bare_code=bare_code,
        changes=changes,
        functions=functions,
    )


async def prepare_turn(ports: Ports, task: TurnRequest) -> PreparedTurn:
    """Everything that a turn's first request needs. Raises as `prepare_step`."""
    known, files = TurnContext(ports, task), LazyBox(ports.boxes, task.chat_key)
    try:
        return PreparedTurn(task, known, files, await prepare_step(ports, task, known, files))
    finally:
        await files.close()
