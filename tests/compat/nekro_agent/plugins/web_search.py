"""A search tool: it uses HTTP and a secret from the configuration, and returns an observation."""

from typing import Any, Dict, List

import httpx
from pydantic import Field

from nekro_agent.api import core, i18n
from nekro_agent.api.plugin import ConfigBase, ExtraField, NekroPlugin, SandboxMethodType
from nekro_agent.api.schemas import AgentCtx

plugin = NekroPlugin(
    name="网页搜索",
    module_name="web_search",
    description="使用搜索引擎查询互联网信息",
    version="0.2.0",
    author="searcher",
    url="https://github.com/example/web_search",
    i18n_name=i18n.i18n_text(zh_CN="网页搜索", en_US="Web search"),
    i18n_description=i18n.i18n_text(zh_CN="查询互联网", en_US="Look things up"),
)


@plugin.mount_config()
class SearchConfig(ConfigBase):
    """搜索配置"""

    BASE_URL: str = Field(default="http://127.0.0.1:1", title="接口地址", description="搜索接口")
    API_KEY: str = Field(
        default="",
        title="API 密钥",
        json_schema_extra=ExtraField(
            is_secret=True, i18n_title=i18n.i18n_text(zh_CN="密钥", en_US="Key")
        ).model_dump(),
    )
    MAX_RESULTS: int = Field(default=3, title="最大返回条目数", ge=1, le=10)


config: SearchConfig = plugin.get_config(SearchConfig)
_last_keyword = ""


async def _query(keyword: str) -> List[Dict[str, Any]]:
    proxy = core.config.DEFAULT_PROXY
    async with httpx.AsyncClient(proxy=proxy if proxy else None, timeout=10) as client:
        response = await client.get(
            f"{config.BASE_URL}/search", params={"q": keyword, "key": config.API_KEY}
        )
        response.raise_for_status()
        return response.json()["items"][: config.MAX_RESULTS]


@plugin.mount_prompt_inject_method(name="search_prompt")
async def search_prompt(_ctx: AgentCtx) -> str:
    """搜索提示"""
    return f"Last keyword: {_last_keyword}" if _last_keyword else ""


@plugin.mount_sandbox_method(SandboxMethodType.AGENT, name="搜索", description="搜索互联网")
async def web_search(_ctx: AgentCtx, keyword: str) -> str:
    """使用搜索引擎查询

    Args:
        keyword (str): 关键词

    Returns:
        str: 搜索结果
    """
    global _last_keyword
    if not config.API_KEY:
        return "[Error] 未配置 API 密钥"
    try:
        items = await _query(keyword)
    except httpx.HTTPError as e:
        core.logger.exception("搜索失败")
        raise ValueError(f"搜索失败: {e}") from e
    _last_keyword = keyword
    core.logger.info(f"{_ctx.chat_key} 搜索 {keyword}")
    lines = [f"{i}. {item['title']} - {item['snippet']}" for i, item in enumerate(items, 1)]
    return "[Search Results]\n" + "\n".join(lines)


@plugin.mount_cleanup_method()
async def clean_up():
    """清理"""
    global _last_keyword
    _last_keyword = ""
