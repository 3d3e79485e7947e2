"""A plugin whose pages ask who is logged in, as plugins with a panel do."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Depends, HTTPException, Query, Request
from pydantic import BaseModel, Field

from nekro_agent.api.plugin import (
    CmdCtl,
    CommandExecutionContext,
    CommandResponse,
    ConfigBase,
    NekroPlugin,
)
from nekro_agent.core.config import config as core_config
from nekro_agent.schemas.message import Ret
from nekro_agent.services.config_service import ConfigService
from nekro_agent.services.plugin.manager import save_plugin_config
from nekro_agent.services.user.deps import get_current_active_user, get_current_user
from nekro_agent.services.user.perm import Role, check_role, require_role
from nekro_agent.tools.image_utils import process_image_data_url

plugin = NekroPlugin("面板", "admin_panel", "面板", "0.1.0", "keeper", "")


@plugin.mount_config()
class PanelConfig(ConfigBase):
    MODEL: str = Field(default="small", title="模型")
    LIMIT: int = Field(default=3, title="上限", ge=1)


config = plugin.get_config(PanelConfig)


class Change(BaseModel):
    title: str


async def _access(request: Request, key: str = Query("")) -> None:
    if key == "secret":
        return
    user = await get_current_user(request)
    if not user.is_active or not check_role(user, Role.Admin):
        raise HTTPException(status_code=403)


def build_router() -> APIRouter:
    router = APIRouter()
    api = APIRouter(prefix="/api", dependencies=[Depends(get_current_active_user)])

    @router.get("/")
    async def index() -> dict[str, str]:
        return {"page": "panel"}

    @api.get("/me")
    async def me(current_user: Any = Depends(get_current_active_user)) -> dict[str, Any]:
        return {"id": current_user.id, "name": current_user.username}

    @api.post("/things/{number}")
    @require_role(Role.Admin)
    async def change(
        number: int, body: Change, _current_user=Depends(get_current_active_user)
    ) -> dict[str, Any]:
        return {"number": number, "title": body.title}

    @api.get("/state")
    async def state() -> Ret:
        return Ret.success(msg="ok", data={"limit": config.LIMIT})

    @api.get("/forgotten")
    @require_role(Role.Admin)
    async def forgotten() -> None:
        return None

    @router.get("/guarded")
    async def guarded(_guard=Depends(_access)) -> dict[str, bool]:
        return {"ok": True}

    router.include_router(api)
    return router


@plugin.mount_router()
def create_router() -> APIRouter:
    return build_router()


@plugin.mount_command("panel_set", "设置")
async def panel_set(context: CommandExecutionContext, key: str, value: str) -> CommandResponse:
    try:
        saved = await save_plugin_config(plugin.key, {key: value})
    except ValueError as error:
        return CmdCtl.failed(f"失败: {error}")
    done, reason = ConfigService.set_config_value(core_config, key, value)
    return CmdCtl.success(f"{saved} {config.MODEL} {config.LIMIT} {done} {reason}")


async def smaller(data_url: str, max_size: int) -> str:
    return await process_image_data_url(data_url, max_size=max_size)
