"""A plugin with its own page, a webhook, and a background task."""

import asyncio
from typing import AsyncGenerator, Dict

from fastapi import APIRouter, HTTPException
from pydantic import BaseModel

from nekro_agent.api.core import logger
from nekro_agent.api.message import send_text
from nekro_agent.api.plugin import (
    AsyncTaskHandle,
    NekroPlugin,
    SandboxMethodType,
    TaskCtl,
    task,
)
from nekro_agent.api.schemas import AgentCtx, WebhookRequest

plugin = NekroPlugin("Dashboard", "dashboard", "面板", "0.3.0", "builder", "")
_notes: Dict[str, str] = {}


class Note(BaseModel):
    name: str
    text: str


@plugin.mount_router()
def create_router() -> APIRouter:
    """路由"""
    router = APIRouter()

    @router.get("/")
    async def index() -> Dict[str, int]:
        return {"notes": len(_notes)}

    @router.get("/notes/{name}")
    async def read(name: str) -> Note:
        if name not in _notes:
            raise HTTPException(404, f"no note {name}")
        return Note(name=name, text=_notes[name])

    @router.post("/notes")
    async def write(note: Note) -> Dict[str, bool]:
        _notes[note.name] = note.text
        return {"ok": True}

    return router


@plugin.mount_webhook_method(endpoint="deploy", name="deploy", description="部署通知")
async def deployed(_ctx: AgentCtx) -> None:
    """收到部署"""
    request: WebhookRequest = _ctx.webhook_request
    chat_key = request.body["chat_key"]
    ctx = await AgentCtx.create_by_chat_key(chat_key)
    await send_text(chat_key, f"deployed {request.body['version']}", ctx)


@plugin.mount_async_task("build")
async def build(handle: AsyncTaskHandle, target: str) -> AsyncGenerator[TaskCtl, None]:
    """构建"""
    yield TaskCtl.report_progress(f"building {target}", 50)
    approved = await handle.wait("approve", timeout=20)
    if handle.is_cancelled:
        yield TaskCtl.cancel("gone")
        return
    await asyncio.sleep(0)
    _notes[target] = f"approved by {approved}"
    yield TaskCtl.success("built", data={"target": target})


@plugin.mount_sandbox_method(SandboxMethodType.TOOL, "start_build", "开始构建")
async def start_build(_ctx: AgentCtx, target: str) -> str:
    """Start a build.

    Args:
        target (str): What to build.
    """
    await task.start("build", target, _ctx.chat_key, plugin, target)
    logger.info(f"build of {target}")
    return f"running: {task.is_running('build', target)}"


@plugin.mount_sandbox_method(SandboxMethodType.TOOL, "approve_build", "批准")
async def approve_build(_ctx: AgentCtx, target: str) -> str:
    """Approve a build.

    Args:
        target (str): What.
    """
    handle = task.get_handle("build", target)
    if handle is None:
        raise ValueError(f"no build {target}")
    handle.notify("approve", _ctx.from_user_id)
    for _ in range(200):
        if not task.is_running("build", target):
            break
        await asyncio.sleep(0.01)
    return _notes[target]
