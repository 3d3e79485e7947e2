from typing import Annotated

from nekro_agent.api.plugin import (
    Arg,
    CmdCtl,
    CommandExecutionContext,
    CommandPermission,
    CommandResponse,
)
from nekro_agent.services.plugin.task import task

from .plugin import plugin
from .tasks import TASK_TYPE, latest

ci = plugin.mount_command_group(
    name="ci", description="CI 值班员", permission=CommandPermission.SUPER_USER
)


@ci.command(name="approve", description="批准最近一次重跑")
async def approve_cmd(
    context: CommandExecutionContext,
    task_id: Annotated[str, Arg("任务 ID，默认最近一次", positional=True)] = "",
) -> CommandResponse:
    task_id = task_id or latest.get(context.chat_key, "")
    handle = task.get_handle(TASK_TYPE, task_id)
    if handle is None:
        return CmdCtl.failed("没有等待审批的任务")
    handle.notify("approve", context.username)
    return CmdCtl.success(f"已批准 {task_id}")


@ci.command(name="state", description="查看任务状态", permission=CommandPermission.PUBLIC)
async def state_cmd(context: CommandExecutionContext) -> CommandResponse:
    task_id = latest.get(context.chat_key, "")
    state = task.get_state(TASK_TYPE, task_id)
    if state is None:
        return CmdCtl.failed("没有任务")
    running = "运行中" if task.is_running(TASK_TYPE, task_id) else "已结束"
    return CmdCtl.success(f"{running}: {state.message}")
