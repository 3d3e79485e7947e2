"""CI build watcher: webhook + router + async tasks + timers"""

import asyncio
import time
from typing import AsyncGenerator, Dict, Optional

from fastapi import APIRouter, HTTPException, Query
from fastapi.responses import HTMLResponse, JSONResponse
from nekro_agent.api import message, recurring_timer, timer
from nekro_agent.api.core import config as core_config
from nekro_agent.api.core import logger
from nekro_agent.api.plugin import (
    AsyncTaskHandle,
    ConfigBase,
    NekroPlugin,
    SandboxMethodType,
    TaskCtl,
    task,
)
from nekro_agent.api.schemas import AgentCtx, WebhookRequest
from pydantic import BaseModel, Field

plugin = NekroPlugin(
    name="Build Watch",
    module_name="build_watch",
    description="Watches builds",
    version="0.9.0",
    author="ops_team",
    url="https://x.invalid",
    is_package=False,
    sleep_brief="watch CI builds",
)

background: Optional[asyncio.Task] = None
beats = 0


@plugin.mount_config()
class C(ConfigBase):
    REPOS: Dict[str, str] = Field(default={"core": "ops/core"})


class Build(BaseModel):
    repo: str
    ok: bool = True
    log: Optional[str] = None


builds: list = []


@plugin.mount_init_method()
async def start():
    global background

    async def loop():
        global beats
        while True:
            beats += 1
            await asyncio.sleep(0.05)

    background = asyncio.create_task(loop())


@plugin.mount_cleanup_method()
async def stop():
    if background:
        background.cancel()
        try:
            await background
        except asyncio.CancelledError:
            pass


@plugin.mount_router()
def create_router() -> APIRouter:
    router = APIRouter(tags=["build"])

    @router.get("/", response_class=HTMLResponse)
    async def index():
        return f"<h1>{len(builds)} builds</h1>"

    @router.post("/builds")
    async def add(build: Build, notify: bool = Query(default=False)):
        if not build.repo:
            raise HTTPException(status_code=400, detail="repo?")
        builds.append(build)
        return JSONResponse({"count": len(builds), "notify": notify})

    return router


@plugin.mount_webhook_method(endpoint="ci", name="CI hook", description="called by CI")
async def on_ci(_ctx: AgentCtx):
    req: WebhookRequest = _ctx.webhook_request
    body = req.body
    logger.info(f"webhook {body}")
    chat_key = body["chat_key"]
    await message.push_system(
        chat_key, f"build of {body['repo']} {body['status']}", trigger_agent=False
    )


@plugin.mount_async_task("compile")
async def compile_task(
    handle: AsyncTaskHandle, repo: str, steps: int = 2
) -> AsyncGenerator[TaskCtl, None]:
    try:
        for i in range(steps):
            if handle.is_cancelled:
                yield TaskCtl.cancel("stopped")
                return
            yield TaskCtl.report_progress(f"step {i + 1}", int((i + 1) / steps * 100))
            await asyncio.sleep(0.01)
        answer = await handle.wait("approve", timeout=20)
        await handle.notify_agent(f"build of {repo} finished, approved={answer}", trigger=True)
        yield TaskCtl.success("done", data={"repo": repo})
    except Exception as e:
        yield TaskCtl.fail("failed", error=e)


@plugin.mount_sandbox_method(SandboxMethodType.BEHAVIOR, "start_build", description="Start a build")
async def start_build(_ctx: AgentCtx, repo: str) -> str:
    """Start a build in the background.

    Args:
        repo (str): name
    """
    task_id = f"build_{repo}"
    if task.is_running("compile", task_id):
        return "already running"
    await task.start("compile", task_id, _ctx.chat_key, plugin, repo, steps=2)
    return f"started {task_id}"


@plugin.mount_sandbox_method(SandboxMethodType.TOOL, "approve_build", description="Approve")
async def approve_build(_ctx: AgentCtx, repo: str) -> bool:
    """Approve a waiting build.

    Args:
        repo (str): name
    """
    handle = task.get_handle("compile", f"build_{repo}")
    if handle is None:
        return False
    return handle.notify("approve", "yes")


@plugin.mount_sandbox_method(SandboxMethodType.TOOL, "nightly", description="nightly builds")
async def nightly(_ctx: AgentCtx, cron: str = "0 3 * * *") -> Dict[str, str]:
    """Set a nightly build and a reminder

    Args:
        cron (str): cron
    """
    await timer.set_timer(
        _ctx.chat_key, int(time.time()) + 10_000_000_000 // 1000, "check the build"
    )
    job = await recurring_timer.create_cron_job(
        _ctx.chat_key,
        cron,
        "nightly build",
        "Asia/Shanghai",
        workday_mode="mon_fri",
        title="nightly",
    )
    jobs = await recurring_timer.list_jobs(_ctx.chat_key)
    summary = recurring_timer.get_job_summary(job)
    job_id = recurring_timer.get_job_id(job)
    await recurring_timer.pause_job(job_id)
    await recurring_timer.resume_job(job_id)
    timers = await_or(timer.get_timers(_ctx.chat_key))
    return {
        "id": str(job_id),
        "n": str(len(jobs)),
        "summary": str(summary),
        "timers": str(len(timers)),
    }


def await_or(x):
    return x
