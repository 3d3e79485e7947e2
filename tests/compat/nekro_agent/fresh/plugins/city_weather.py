"""
城市天气插件 —— 查询天气 / 生活指数
v1.3.2: 支持多个接口, 支持代理
"""

import json
import time
from typing import Dict, List, Literal, Optional

import httpx
from nekro_agent.core import logger
from nekro_agent.core.core_utils import ExtraField
from nekro_agent.schemas.agent_ctx import AgentCtx
from nekro_agent.services.plugin.base import ConfigBase, NekroPlugin, SandboxMethodType
from pydantic import BaseModel, Field

plugin = NekroPlugin(
    name="城市天气",
    module_name="city_weather",
    description="查询城市的实时天气，支持多个数据源",
    version="1.3.2",
    author="zhuque",
    url="https://github.com/zhuque/nekro-city-weather",
)


class Source(BaseModel):
    """一个数据源"""

    name: str = Field(default="main", title="名称")
    base_url: str = Field(default="http://127.0.0.1:1", title="地址")
    enabled: bool = True


@plugin.mount_config()
class WeatherConfig(ConfigBase):
    """天气配置"""

    API_KEY: str = Field(
        default="",
        title="API 密钥",
        description="和风天气的 <a href='https://dev.qweather.com'>密钥</a>",
        json_schema_extra=ExtraField(is_secret=True, placeholder="sk-...").model_dump(),
    )
    SOURCES: List[Source] = Field(
        default=[Source()],
        title="数据源",
        json_schema_extra=ExtraField(sub_item_name="数据源").model_dump(),
    )
    ALIASES: Dict[str, str] = Field(default={"魔都": "上海"}, title="别名")
    UNIT: Literal["C", "F"] = Field(default="C", title="单位")
    TIMEOUT: int = Field(default=10, title="超时", ge=1, le=60)
    BLOCKED: List[str] = Field(
        default_factory=list,
        title="不查的城市",
        json_schema_extra=ExtraField(is_textarea=True, overridable=True).model_dump(),
    )


# 在模块顶层就取配置，大家都这么写
config: WeatherConfig = plugin.get_config(WeatherConfig)

_cache: Dict[str, tuple] = {}


async def _fetch(city: str) -> Optional[dict]:
    cfg = plugin.get_config(WeatherConfig)
    for source in cfg.SOURCES:
        if not source.enabled:
            continue
        try:
            async with httpx.AsyncClient(timeout=cfg.TIMEOUT, trust_env=False) as client:
                resp = await client.get(
                    f"{source.base_url}/v7/now", params={"q": city, "key": cfg.API_KEY}
                )
                resp.raise_for_status()
                return resp.json()
        except Exception as e:
            logger.warning(f"数据源 {source.name} 失败: {e}")
            logger.opt(exception=e).debug("detail")
    return None


@plugin.mount_prompt_inject_method(name="weather_prompt", description="天气提示")
async def weather_prompt(_ctx: AgentCtx) -> str:
    return f"Weather unit: {config.UNIT}. Never answer weather for: {', '.join(config.BLOCKED) or 'none'}"


@plugin.mount_sandbox_method(SandboxMethodType.TOOL, name="查询天气", description="查询城市天气")
async def get_city_weather(_ctx: AgentCtx, city: str, days: int = 1) -> Dict:
    """查询城市天气

    Args:
        city (str): 城市名, 例如 "北京"
        days (int): 天数

    Returns:
        Dict: 天气数据 {"city":..., "temp":..., "text":...}

    Example:
        get_city_weather("上海")
    """
    city = config.ALIASES.get(city, city)
    if city in _cache and time.time() - _cache[city][0] < 300:
        return _cache[city][1]
    data = await _fetch(city)
    if data is None:
        raise Exception(f"查询 {city} 的天气失败")
    data["days"] = days
    _cache[city] = (time.time(), data)
    logger.success(f"[{plugin.name}] {city}: {json.dumps(data, ensure_ascii=False)}")
    return data


@plugin.mount_sandbox_method(SandboxMethodType.AGENT, name="天气报告", description="生成天气报告")
async def weather_report(_ctx: AgentCtx, cities: List[str]) -> str:
    """Generate a weather report of several cities.

    Args:
        cities (List[str]): The cities.

    Returns:
        str: report
    """
    lines = []
    for c in cities:
        try:
            d = await get_city_weather(_ctx, c)
            lines.append(f"{d['city']}: {d['temp']}°{config.UNIT} {d['text']}")
        except Exception as e:
            lines.append(f"{c}: error {e}")
    path = await _ctx.fs.mixed_forward_file("\n".join(lines).encode(), file_name="report.txt")
    return "Report:\n" + "\n".join(lines) + f"\nsaved at {path}"


@plugin.mount_sandbox_method(SandboxMethodType.BEHAVIOR, name="block_city", description="屏蔽城市")
async def block_city(_ctx: AgentCtx, city: str) -> str:
    """Block a city.

    Args:
        city (str): name
    """
    cfg = plugin.get_config(WeatherConfig)
    if city not in cfg.BLOCKED:
        cfg.BLOCKED.append(city)
        plugin.save_config(cfg)
    return f"{city} 已屏蔽"


@plugin.mount_cleanup_method()
async def clean_up():
    """清理插件资源"""
    _cache.clear()
    logger.info("天气插件资源已清理")
