"""沙盒方法"""

from __future__ import annotations

import time
from typing import Any, Dict, List

from nekro_agent.api import core
from nekro_agent.api.plugin import SandboxMethodType
from nekro_agent.api.schemas import AgentCtx

from .models import DAY, Garden, Plant
from .plugin import config, plugin, store

_KEY = "garden"
_ready = False


async def load_garden(chat_key: str) -> Garden:
    raw = await store.get(chat_key=chat_key, store_key=_KEY)
    return Garden.model_validate_json(raw) if raw else Garden()


async def save_garden(chat_key: str, garden: Garden) -> None:
    await store.set(chat_key=chat_key, store_key=_KEY, value=garden.model_dump_json())


@plugin.mount_init_method()
async def init() -> None:
    global _ready
    _ready = True
    core.logger.success(f"花草养护已就绪，数据目录 {plugin.get_plugin_data_dir()}")


@plugin.mount_prompt_inject_method("plantcare_prompt", "注入当前频道的植物列表")
async def inject(_ctx: AgentCtx) -> str:
    garden = await load_garden(_ctx.chat_key)
    if not garden.plants:
        return "[Plant Care] 当前频道还没有登记植物。"
    return f"[Plant Care] 当前频道登记了 {len(garden.plants)} 盆植物:\n" + garden.render(
        config.PROMPT_STYLE == "full"
    )


@plugin.mount_sandbox_method(
    SandboxMethodType.BEHAVIOR,
    name="登记植物",
    description="把一盆植物登记到当前频道",
)
async def add_plant(
    _ctx: AgentCtx, name: str, species: str = "未知", interval_days: int = 0
) -> str:
    """登记一盆植物

    Args:
        name (str): 植物的昵称，频道内唯一
        species (str): 品种，如 "绿萝"
        interval_days (int): 浇水间隔天数，0 表示使用默认值

    Returns:
        str: 登记结果

    Example:
        add_plant(name="小绿", species="绿萝")
    """
    garden = await load_garden(_ctx.chat_key)
    if len(garden.plants) >= config.MAX_PLANTS:
        return "阳台放不下啦，先送走几盆吧"
    days = interval_days or config.DEFAULT_INTERVAL
    if species in config.DRY_SPECIES:
        days *= 2
    owner = ""
    try:
        owner = _ctx.from_platform_userid or ""
    except Exception:
        # 老版本沙盒里拿不到触发用户
        pass
    garden.plants[name] = Plant(name=name, species=species, interval_days=days, owner=owner)
    await save_garden(_ctx.chat_key, garden)
    return f"已登记 {name}（{species}），每 {days} 天浇一次水，主人 {owner}"


@plugin.mount_sandbox_method(
    SandboxMethodType.TOOL, name="查看植物", description="列出当前频道的植物"
)
async def list_plants(_ctx: AgentCtx) -> List[Dict[str, Any]]:
    """列出当前频道登记的全部植物

    Returns:
        List[Dict[str, Any]]: 每项包含 name, species, interval_days, due_in
    """
    garden = await load_garden(_ctx.chat_key)
    return [
        {**p.model_dump(exclude={"last_watered"}), "due_in": p.due_in()}
        for p in garden.plants.values()
    ]


@plugin.mount_sandbox_method(SandboxMethodType.BEHAVIOR, "浇水打卡", "记录一次浇水")
async def water_plant(_ctx: AgentCtx, name: str) -> str:
    """记录一次浇水

    Args:
        name (str): 植物昵称
    """
    garden = await load_garden(_ctx.chat_key)
    if name not in garden.plants:
        raise ValueError(f"没有找到名为 {name} 的植物，先用 add_plant 登记")
    garden.plants[name].last_watered = time.time()
    await save_garden(_ctx.chat_key, garden)
    return f"{name} 喝饱水了"


@plugin.mount_sandbox_method(SandboxMethodType.AGENT, "养护清单", "生成某一天的养护清单")
async def plant_todo(_ctx: AgentCtx, day_offset: int = 0) -> str:
    """生成养护清单

    Args:
        day_offset (int): 相对今天的天数，0 为今天，7 为一周后

    Returns:
        str: 清单文本
    """
    garden = await load_garden(_ctx.chat_key)
    now = time.time() + day_offset * DAY
    due = [p for p in garden.plants.values() if p.due_in(now) <= 0]
    if not due:
        return f"{day_offset} 天后没有植物需要浇水"
    return f"{day_offset} 天后需要浇水: " + "、".join(p.name for p in due)


@plugin.mount_on_channel_reset()
async def on_reset(_ctx: AgentCtx) -> None:
    await store.delete(chat_key=_ctx.chat_key, store_key=_KEY)


@plugin.mount_cleanup_method()
async def clean_up() -> None:
    """清理插件资源"""
    global _ready
    _ready = False
