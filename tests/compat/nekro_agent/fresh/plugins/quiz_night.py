import random
from typing import List

from nekro_agent.api import i18n
from nekro_agent.api.plugin import (
    Arg,
    CmdCtl,
    CommandExecutionContext,
    CommandPermission,
    NekroPlugin,
    SandboxMethod,
    SandboxMethodType,
)
from nekro_agent.api.schemas import AgentCtx
from nekro_agent.services.command.base import CommandPermission as CP2
from nekro_agent.services.command.ctl import CmdCtl as CmdCtl2
from nekro_agent.services.command.schemas import (
    CommandExecutionContext as Ctx2,
)
from nekro_agent.services.command.schemas import (
    CommandOutputSegment,
    CommandOutputSegmentType,
)

assert CP2 is CommandPermission
assert CmdCtl2 is CmdCtl

plugin = NekroPlugin(
    name="Quiz Night",
    module_name="quiz_night",
    description="quiz",
    version="1.0",
    author="quizzers",
    url="u",
)

QUESTIONS = {"2+2?": "4", "capital of France?": "paris"}


@plugin.mount_command(
    "quiz",
    "start a quiz",
    aliases=["问答"],
    i18n_description=i18n.i18n_text(zh_CN="开始", en_US="start"),
)
async def quiz(
    context: CommandExecutionContext,
    difficulty: str = Arg("how hard", default="easy", positional=True, choices=["easy", "hard"]),
):
    q = "2+2?" if difficulty == "easy" else "capital of France?"
    await plugin.store.set(
        chat_key=context.chat_key, user_key=context.user_id, store_key="q", value=q
    )
    return CmdCtl.wait(
        f"Question: {q}",
        callback_cmd="quiz_answer",
        timeout=30.0,
        on_timeout_message="too slow",
        context_data={"q": q},
    )


@plugin.mount_command("quiz_answer", "answer", internal=True)
async def quiz_answer(
    context: CommandExecutionContext,
    answer: str = Arg("answer", positional=True, greedy=True, default=""),
):
    q = await plugin.store.get(chat_key=context.chat_key, user_key=context.user_id, store_key="q")
    if answer.strip().lower() == QUESTIONS[q]:
        k = int(await plugin.store.get(user_key=context.user_id, store_key="points") or 0) + 1
        await plugin.store.set(user_key=context.user_id, store_key="points", value=str(k))
        yield CmdCtl.message("Right!")
        yield CmdCtl.success(f"{context.username} has {k}")
    else:
        yield CmdCtl.failed(f"Wrong: {QUESTIONS[q]}")


@plugin.mount_command("points_card", description="card", permission=CommandPermission.PUBLIC)
async def card(context: Ctx2):
    return CmdCtl.success(
        [
            CommandOutputSegment(type=CommandOutputSegmentType.TEXT, text="Card of "),
            CommandOutputSegment(type="text", text=context.username),
        ]
    )


@plugin.mount_command("quiz-admin", "admin only", permission=CommandPermission.SUPER_USER)
async def quiz_admin(context: CommandExecutionContext):
    return CmdCtl.success("secret")


async def _hint(_ctx: AgentCtx) -> str:
    """A hint for the running question.

    Returns:
        str: hint
    """
    q = await plugin.store.get(chat_key=_ctx.chat_key, user_key=_ctx.from_user_id, store_key="q")
    return f"hint: it starts with {QUESTIONS[q][0]}" if q else "no question"


async def quiz_stats(_ctx: AgentCtx, limit: int = 3) -> str:
    """Stats in groups only."""
    return f"stats {limit}"


quiz_stats._method_type = SandboxMethodType.TOOL  # noqa


@plugin.mount_collect_methods()
async def collect(_ctx: AgentCtx) -> List[SandboxMethod]:
    methods = [SandboxMethod(SandboxMethodType.TOOL, "quiz_hint", "give a hint", _hint)]
    if _ctx.channel_type == "group":
        methods.append(quiz_stats)
    return methods
