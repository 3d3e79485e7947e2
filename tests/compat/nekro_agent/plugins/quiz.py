"""A plugin with commands that have arguments, a group of commands, a question to a person, and a
command with several answers."""

from typing import Annotated, AsyncIterator

from nekro_agent.api import i18n
from nekro_agent.api.plugin import (
    Arg,
    CmdCtl,
    CommandExecutionContext,
    CommandPermission,
    CommandResponse,
    NekroPlugin,
)

plugin = NekroPlugin("Quiz", "quiz", "Questions", "0.1.0", "teacher", "")
quiz = plugin.mount_command_group(
    name="quiz", description="quiz", permission=CommandPermission.PUBLIC
)


@quiz.command(name="start", description="Begin a quiz")
async def start(
    context: CommandExecutionContext,
    topic: Annotated[str, Arg("题目", positional=True)] = "math",
    rounds: Annotated[int, Arg("回合", range=(1, 5))] = 1,
) -> CommandResponse:
    return CmdCtl.wait(
        f"[{topic} x{rounds}] 6 * 7 = ?",
        callback_cmd="quiz.answer",
        options=["42", "54"],
        timeout=30,
        on_timeout_message="too late",
        context_data={"topic": topic, "by": context.user_id},
    )


@quiz.command(name="answer", description="Answer", internal=True)
async def answer(context: CommandExecutionContext, text: Annotated[str, Arg(greedy=True)] = ""):
    if text.strip() == "42":
        return CmdCtl.success(i18n.i18n_text(zh_CN="答对了", en_US="right"))
    return CmdCtl.failed(f"{text} is wrong, {context.username}")


@plugin.mount_command(name="count_down", description="Count", aliases=["cd"])
async def count_down(
    context: CommandExecutionContext,
    start_at: Annotated[int, Arg("From", positional=True)] = 3,
) -> AsyncIterator[CommandResponse]:
    for number in range(start_at, 0, -1):
        yield CmdCtl.message(f"{number}")
    yield CmdCtl.success("go", data={"from": start_at})
