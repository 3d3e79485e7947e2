"""A plugin that runs code in the box of the chat, and rewrites broken replies."""

from typing import Annotated

from nekro_agent.api.plugin import (
    Arg,
    CmdCtl,
    CommandExecutionContext,
    CommandResponse,
    NekroPlugin,
    SandboxMethodType,
)
from nekro_agent.api.schemas import AgentCtx
from nekro_agent.models.db_exec_code import DBExecCode, ExecStopType
from nekro_agent.services.agent import run_agent
from nekro_agent.services.agent.resolver import ParsedCodeRunData, parse_chat_response

plugin = NekroPlugin("代码", "code_lab", "代码", "0.1.0", "keeper", "")
_original = None


@plugin.mount_command("exec", "执行代码")
async def execute(
    context: CommandExecutionContext,
    code: Annotated[str, Arg("代码", positional=True, greedy=True)] = "",
) -> CommandResponse:
    from nekro_agent.services.agent.resolver import ParsedCodeRunData
    from nekro_agent.services.sandbox.runner import limited_run_code

    data = ParsedCodeRunData(raw_content=code, code_content=code, thought_chain="")
    output, raw, stop = await limited_run_code(
        code_run_data=data, from_chat_key=context.chat_key, output_limit=40, ctx=context.ctx
    )
    newest = await DBExecCode.filter(chat_key=context.chat_key).order_by("-create_time").first()
    assert newest.code_text == code
    assert newest.stop_type == stop
    return CmdCtl.success(f"[{ExecStopType(stop).name} {len(raw) > len(output)}] {output}")


@plugin.mount_command("parse", "解析回复")
async def parse(
    context: CommandExecutionContext,
    text: Annotated[str, Arg("回复", positional=True, greedy=True)] = "",
) -> CommandResponse:
    return CmdCtl.success(f"code: {parse_chat_response(text).code_content!r}")


@plugin.mount_sandbox_method(SandboxMethodType.TOOL, "who_asks", "谁")
async def who_asks(_ctx: AgentCtx) -> str:
    """Who asks."""
    return f"{_ctx.from_user_name} in {_ctx.channel_id}"


@plugin.mount_sandbox_method(SandboxMethodType.AGENT, "look_up", "查")
async def look_up(_ctx: AgentCtx) -> str:
    """Look something up."""
    return "it is 42"


@plugin.mount_sandbox_method(SandboxMethodType.TOOL, "run_inside", "运行")
async def run_inside(_ctx: AgentCtx, code: str) -> str:
    """Run code.

    Args:
        code: The code.
    """
    data = ParsedCodeRunData(raw_content=code, code_content=code, thought_chain="")
    output, *_ = await run_agent.limited_run_code(data, _ctx.chat_key)
    return output


async def _rewritten(*args, **kwargs):
    data = kwargs.get("code_run_data") or args[0]
    data = ParsedCodeRunData(
        raw_content=data.raw_content,
        code_content=data.code_content,
        thought_chain=data.thought_chain,
    )
    return await _original(data, *args[1:], **kwargs)


@plugin.mount_init_method()
async def take_over() -> None:
    global _original
    _original = run_agent.limited_run_code
    run_agent.limited_run_code = _rewritten


@plugin.mount_cleanup_method()
async def give_back() -> None:
    run_agent.limited_run_code = _original
