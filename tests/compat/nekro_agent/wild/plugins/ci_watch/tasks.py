import asyncio
import uuid
from typing import AsyncGenerator

from nekro_agent.api.schemas import AgentCtx
from nekro_agent.core import logger
from nekro_agent.services.plugin.base import SandboxMethodType
from nekro_agent.services.plugin.task import AsyncTaskHandle, TaskCtl, task

from .plugin import config, plugin

TASK_TYPE = "ci_rerun"
latest: dict = {}


@plugin.mount_async_task(TASK_TYPE)
async def rerun_task(
    handle: AsyncTaskHandle, repo: str, branch: str = "main"
) -> AsyncGenerator[TaskCtl, None]:
    """等审批，然后一步步重跑"""
    yield TaskCtl.report_progress("等待审批", 0)
    try:
        who = await handle.wait("approve", timeout=config.APPROVE_TIMEOUT)
    except asyncio.TimeoutError:
        yield TaskCtl.fail("审批超时")
        return
    for step in range(1, config.RERUN_STEPS + 1):
        if handle.is_cancelled:
            yield TaskCtl.cancel("被取消")
            return
        await asyncio.sleep(0.05)
        yield TaskCtl.report_progress(f"第 {step} 步", int(step / config.RERUN_STEPS * 100))
    await handle.notify_agent(f"[CI] {repo}@{branch} 重跑完成，由 {who} 批准")
    yield TaskCtl.success("重跑完成", data={"repo": repo, "by": who})


@plugin.mount_sandbox_method(
    SandboxMethodType.TOOL, name="重跑CI", description="申请重跑一个仓库的 CI，需要有人批准"
)
async def rerun_ci(_ctx: AgentCtx, repo: str, branch: str = "main") -> str:
    """申请重跑 CI

    Args:
        repo (str): 仓库名
        branch (str): 分支

    Returns:
        str: 任务 ID
    """
    task_id = f"rerun_{uuid.uuid4().hex[:8]}"
    await task.start(
        task_type=TASK_TYPE,
        task_id=task_id,
        chat_key=_ctx.chat_key,
        plugin=plugin,
        repo=repo,
        branch=branch,
    )
    latest[_ctx.chat_key] = task_id
    logger.info(f"[ci_watch] 任务 {task_id} 已创建")
    return task_id


@plugin.mount_cleanup_method()
async def clean_up():
    await task.stop_all()
    latest.clear()
