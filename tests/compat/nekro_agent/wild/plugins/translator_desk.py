# -*- coding: utf-8 -*-
"""这是一个翻译插件

提供翻译、关键词提取、看图说话。
"""

import json
import re
from pathlib import Path
from typing import Dict, List, Optional

from pydantic import Field

from nekro_agent.core import config as global_config
from nekro_agent.core import logger
from nekro_agent.core.config import ModelConfigGroup
from nekro_agent.schemas.agent_ctx import AgentCtx
from nekro_agent.services.agent.creator import ContentSegment, OpenAIChatMessage
from nekro_agent.services.agent.openai import OpenAIResponse, gen_openai_chat_response
from nekro_agent.services.plugin.base import ConfigBase, NekroPlugin, SandboxMethodType
from nekro_agent.tools.common_util import limited_text_output
from nekro_agent.tools.path_convertor import convert_to_host_path

# TODO: 插件元信息，请修改为你的插件信息
plugin = NekroPlugin(
    name="翻译台",
    module_name="translator_desk",
    description="调用大模型翻译文本、提取关键词、看图说话",
    version="0.1.0",
    author="KeKe",
    url="https://github.com/keke-xx/translator-desk",
)


@plugin.mount_config()
class TranslatorConfig(ConfigBase):
    """翻译台配置"""

    MODEL_GROUP: str = Field(
        default="default",
        title="模型组",
        description="翻译用的模型组",
        json_schema_extra={"ref_model_groups": True, "required": True},
    )
    GLOSSARY: Dict[str, str] = Field(default={"群主": "the boss"}, title="术语表")
    TIMEOUT: int = Field(default=60, title="超时")


config: TranslatorConfig = plugin.get_config(TranslatorConfig)

logger.info("翻译台插件加载中...")


def _group() -> ModelConfigGroup:
    if config.MODEL_GROUP not in global_config.MODEL_GROUPS:
        raise Exception(f"模型组 `{config.MODEL_GROUP}` 未配置")
    return global_config.MODEL_GROUPS[config.MODEL_GROUP]


async def _chat(messages: List[dict], temperature: float = 0.3) -> str:
    group = _group()
    res: OpenAIResponse = await gen_openai_chat_response(
        model=group.CHAT_MODEL,
        messages=messages,
        temperature=temperature,
        base_url=group.BASE_URL,
        api_key=group.API_KEY,
        proxy_url=group.CHAT_PROXY,
        stream_mode=False,
        max_wait_time=config.TIMEOUT,
    )
    logger.debug(f"模型 {res.use_model} 消耗 {res.token_consumption}")
    return res.response_content.strip()


@plugin.mount_sandbox_method(
    SandboxMethodType.TOOL, name="翻译", description="把文本翻译成指定语言"
)
async def translate_text(_ctx: AgentCtx, text: str, target: str = "英文") -> str:
    """翻译文本

    Args:
        text (str): 原文
        target (str): 目标语言

    Returns:
        str: 译文
    """
    glossary = "\n".join(f"{k} => {v}" for k, v in config.GLOSSARY.items())
    messages = [
        OpenAIChatMessage.from_text(
            "system", f"你是翻译，只输出译文。目标语言: {target}\n术语表:\n{glossary}"
        ),
        OpenAIChatMessage.from_text("user", text),
    ]
    return await _chat([m.to_dict() for m in messages])


@plugin.mount_sandbox_method(
    SandboxMethodType.TOOL, name="提取关键词", description="从文本里提取关键词"
)
async def extract_keywords(_ctx: AgentCtx, text: str, count: int = 3) -> List[str]:
    """提取关键词

    Args:
        text (str): 文本
        count (int): 数量

    Returns:
        List[str]: 关键词列表
    """
    raw = await _chat(
        [
            {
                "role": "user",
                "content": f"提取 {count} 个关键词，返回 JSON 数组，不要解释:\n{limited_text_output(text, 2000)}",
            }
        ],
        temperature=0,
    )
    m = re.search(r"\[.*\]", raw, re.DOTALL)
    if not m:
        raise ValueError(f"模型返回的不是 JSON: {raw[:50]}")
    return json.loads(m.group(0))[:count]


@plugin.mount_sandbox_method(SandboxMethodType.AGENT, name="看图说话", description="描述一张图片")
async def describe_image(_ctx: AgentCtx, image_path: str, question: Optional[str] = None) -> str:
    """描述图片

    Args:
        image_path (str): 图片路径，例如 "/app/shared/a.png"
        question (Optional[str]): 关于图片的问题
    """
    path = convert_to_host_path(
        Path(image_path), chat_key=_ctx.from_chat_key, container_key=_ctx.container_key
    )
    if not path.exists():
        raise ValueError(f"图片不存在: {image_path}")
    msg = OpenAIChatMessage.create_empty("user")
    msg = msg.add(ContentSegment.text_content(question or "请描述这张图片"))
    msg = msg.add(ContentSegment.image_content_from_path(str(path)))
    return "图片描述: " + await _chat([msg.to_dict()])


@plugin.mount_cleanup_method()
async def clean_up():
    """清理插件资源"""
    # 如有必要，在此实现清理资源的逻辑
