"""What one step asks the model. A turn's first is made ready while the person may still type."""

import uuid
from dataclasses import dataclass, replace

from nekro_core.agent.boxes import KeptBox
from nekro_core.agent.functions import Functions
from nekro_core.agent.knowledge import Knowledge, Task
from nekro_core.agent.ports import Ports
from nekro_core.chat import ChatKey
from nekro_core.llm.model import ChatRequest
from nekro_core.plugin.context import AgentCtx
from nekro_core.plugin.services import Outgoing
from nekro_core.tools.names import ToolSet


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """A request with what its code will be given. ``functions`` are there where the model calls
    natively; only then there is no box. ``offered`` are the tools that all chats of the
    adapter have, ``changes`` says how far the chat's history had come when it was read."""

    run_id: str
    kept: KeptBox | None
    offered: ToolSet
    tools: ToolSet
    ctx: AgentCtx
    request: ChatRequest
    bare_code: bool
    changes: int
    functions: Functions | None = None

    def holds(self, ports: Ports, kept: KeptBox | None) -> bool:
        """Whether it would be made the same now."""
        chat_key = self.ctx.chat
        return (
            kept is self.kept
            and ports.store.messages.changes(chat_key) == self.changes
            and ports.plugins.tools_for(chat_key) is self.offered
        )


@dataclass(frozen=True, slots=True)
class Ready:
    """The beginning of a turn that has not begun."""

    task: Task
    known: Knowledge
    asking: Asking


def acts_natively(ports: Ports, chat_key: ChatKey) -> bool:
    """Whether the model calls functions in this chat, instead of writing code. One that cannot
    call writes code whatever the settings say."""
    manner = ports.manners.of(chat_key)
    return manner.mode == "tools" and manner.model.profile.functions


async def ask(
    ports: Ports,
    task: Task,
    known: Knowledge,
    kept: KeptBox | None,
    outgoing: Outgoing | None = None,
) -> Asking:
    """Look at the chat and write the next request. Raises `BoxLost` and `StoreError`."""
    changes = ports.store.messages.changes(task.chat_key)
    run_id = uuid.uuid4().hex
    offered = ports.plugins.tools_for(task.chat_key)
    ctx = ports.plugins.context_for(
        task.chat_key,
        user_id=task.asks.sender.user_id,
        user_name=task.asks.sender.name,
        message_id=task.asks.message_id,
        run_id=run_id,
        box=kept.box if kept else None,
    )
    if outgoing is not None:
        ctx = replace(ctx, services=replace(ctx.services, outgoing=outgoing))
    natively = acts_natively(ports, task.chat_key)
    tools = ports.discovery.searchable(await ports.plugins.tools_in(ctx), natively=natively)
    await ports.discovery.recall(task.chat_key, tools)
    await known.look()
    if kept:
        await kept.put_uploads(known.media)
    functions = ports.discovery.functions(task.chat_key, tools) if natively else None
    request, bare_code = await known.prompt(tools, ctx, functions)
    return Asking(
        run_id=run_id,
        kept=kept,
        offered=offered,
        tools=tools,
        ctx=ctx,
        request=request,
        bare_code=bare_code,
        changes=changes,
        functions=functions,
    )


async def make_ready(ports: Ports, task: Task) -> Ready:
    """Everything that a turn's first request needs, its box too. Raises as `ask`, and
    `BackendUnavailable`."""
    known = Knowledge(ports, task)
    if acts_natively(ports, task.chat_key):
        return Ready(task, known, await ask(ports, task, known, None))
    kept = await ports.boxes.open(task.chat_key)
    try:
        return Ready(task, known, await ask(ports, task, known, kept))
    finally:
        await ports.boxes.close(task.chat_key, kept, changed=False)
