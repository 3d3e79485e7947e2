"""Reads a person's messages from the database and asks a model about them."""

import time
from datetime import datetime, timedelta
from typing import List, Optional

from pydantic import BaseModel, Field

from nekro_agent.api.core import config as core_config
from nekro_agent.api.core import logger
from nekro_agent.api.plugin import ExtraField
from nekro_agent.api.schemas import AgentCtx
from nekro_agent.core.config import ModelConfigGroup
from nekro_agent.models.db_chat_channel import DBChatChannel
from nekro_agent.models.db_chat_message import DBChatMessage
from nekro_agent.models.db_user import DBUser
from nekro_agent.services.agent.creator import ContentSegment, OpenAIChatMessage
from nekro_agent.services.agent.openai import OpenAIResponse, gen_openai_chat_response
from nekro_agent.services.message_service import message_service
from nekro_agent.services.plugin.base import ConfigBase, NekroPlugin, SandboxMethodType

plugin = NekroPlugin(
    name="人格分析",
    module_name="personality",
    description="分析用户的聊天记录",
    version="1.1.0",
    author="analyst",
    url="https://github.com/example/personality",
    support_adapter=["test", "onebot_v11", "discord"],
)


@plugin.mount_config()
class PersonalityConfig(ConfigBase):
    MODEL_GROUP: str = Field(
        default=core_config.USE_MODEL_GROUP,
        title="使用的模型组",
        json_schema_extra=ExtraField(
            ref_model_groups=True, required=True, model_type="chat"
        ).model_dump(),
    )
    MAX_MESSAGES: int = Field(default=50, title="最大消息数", description="最多分析多少条")
    DAYS: int = Field(default=7)


class Profile(BaseModel):
    user_id: str
    name: str
    count: int
    view: str


config = plugin.get_config(PersonalityConfig)


async def _messages(chat_key: str, user_id: str) -> List[DBChatMessage]:
    since = int((datetime.now() - timedelta(days=config.DAYS)).timestamp())
    return (
        await DBChatMessage.filter(
            chat_key=chat_key,
            sender_id=user_id,
            send_timestamp__gte=min(since, 1),
        )
        .exclude(content_text="")
        .exclude(content_text__startswith="/")
        .order_by("-send_timestamp")
        .limit(config.MAX_MESSAGES)
    )


@plugin.mount_sandbox_method(SandboxMethodType.AGENT, "analyse_personality", "分析性格")
async def analyse_personality(_ctx: AgentCtx, user_id: str, focus: Optional[str] = None) -> str:
    """分析一个用户的性格

    Args:
        user_id (str): 用户的平台 ID
        focus (Optional[str]): 关注点

    Returns:
        str: 分析结果
    """
    if not _ctx.chat_key or _ctx.db_chat_channel is None:
        raise ValueError("no chat")
    channel = await DBChatChannel.get_or_none(chat_key=_ctx.chat_key)
    assert channel is not None
    assert channel.chat_key == _ctx.db_chat_channel.chat_key
    user = await DBUser.get_or_none(adapter_key=_ctx.adapter_key, platform_userid=user_id)
    if user is None:
        return f"用户 {user_id} 不存在"
    messages = await _messages(_ctx.chat_key, user_id)
    if not messages:
        return "没有消息"
    group: ModelConfigGroup = core_config.MODEL_GROUPS[config.MODEL_GROUP]
    history = "\n".join(
        f"[{time.strftime('%H:%M', time.localtime(m.send_timestamp))}] {m.sender_nickname}: "
        f"{m.content_text}"
        for m in reversed(messages)
    )
    prompt = OpenAIChatMessage.create_empty("user")
    prompt.add(ContentSegment.text_content(f"分析: {focus or 'all'}\n"))
    prompt.add(ContentSegment.text_content(history))
    response: OpenAIResponse = await gen_openai_chat_response(
        model=group.CHAT_MODEL,
        messages=[OpenAIChatMessage.from_text("system", "You judge people."), prompt],
        base_url=group.BASE_URL,
        api_key=group.API_KEY,
        temperature=0.3,
    )
    logger.info(f"{response.use_model}: {response.token_consumption} tokens")
    profile = Profile(
        user_id=user_id, name=user.username, count=len(messages), view=response.response_content
    )
    await plugin.store.set(user_key=user_id, store_key="profile", value=profile.model_dump_json())
    await message_service.push_system_message(
        chat_key=_ctx.chat_key,
        agent_messages=f"profile of {user.username} stored",
        trigger_agent=False,
    )
    return profile.model_dump_json()


@plugin.mount_sandbox_method(SandboxMethodType.TOOL, "speakers", "谁说了多少")
async def speakers(_ctx: AgentCtx) -> dict:
    """Who said how much here.

    Returns:
        dict: counts by name
    """
    names = set(
        await DBChatMessage.filter(chat_key=_ctx.chat_key).values_list("sender_nickname", flat=True)
    )
    return {
        name: await DBChatMessage.filter(chat_key=_ctx.chat_key, sender_nickname=name).count()
        for name in sorted(names)
    }
