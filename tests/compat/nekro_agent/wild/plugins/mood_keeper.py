"""Mood Keeper - gives the bot a mood that chat members can change.

How it works:
  1. every message moves the mood a little (on_user_message)
  2. the mood is injected into the system prompt
  3. banned words silence a message completely
"""

from __future__ import annotations

import random
from typing import Dict, List, Literal, Optional

from nekro_agent.api import core, i18n
from nekro_agent.api.plugin import ConfigBase, ExtraField, NekroPlugin, SandboxMethodType
from nekro_agent.api.schemas import AgentCtx
from nekro_agent.api.signal import MsgSignal
from nekro_agent.schemas.chat_message import (
    ChatMessage,
    ChatMessageSegmentAt,
    ChatMessageSegmentImage,
    ChatMessageSegmentType,
)
from pydantic import BaseModel, Field

plugin = NekroPlugin(
    name="Mood Keeper",
    module_name="mood_keeper",
    description="Gives the bot a mood. 给机器人一点心情。",
    version="0.5.0",
    author="Momo-chan",
    url="https://github.com/Momo-chan/mood_keeper",
    i18n_name=i18n.i18n_text(zh_CN="心情管家", en_US="Mood Keeper"),
)


@plugin.mount_config()
class MoodConfig(ConfigBase):
    START: int = Field(default=50, title="Start mood", ge=0, le=100)
    BANNED: List[str] = Field(
        default_factory=lambda: ["加群链接"],
        title="Banned words",
        json_schema_extra=ExtraField(sub_item_name="word").model_dump(),
    )
    WAKE_WORDS: List[str] = Field(default=["救命"], title="Words that always wake the bot")
    SULK_WORDS: List[str] = Field(default=["闭嘴"], title="Words that make the bot sulk")


config = plugin.get_config(MoodConfig)


class Mood(BaseModel):
    value: int = 50
    images: int = 0
    ats: List[str] = []
    notices: List[str] = []


_cache: Dict[str, Mood] = {}


async def _mood(chat_key: str) -> Mood:
    if chat_key not in _cache:
        raw = await plugin.store.get(chat_key=chat_key, store_key="mood")
        _cache[chat_key] = Mood.model_validate_json(raw) if raw else Mood(value=config.START)
    return _cache[chat_key]


async def _save(chat_key: str) -> None:
    await plugin.store.set(
        chat_key=chat_key, store_key="mood", value=_cache[chat_key].model_dump_json()
    )


def _word(value: int) -> str:
    if value >= 70:
        return "开心"
    return "平静" if value >= 30 else "生气"


@plugin.mount_prompt_inject_method(name="mood_prompt", description="current mood")
async def mood_prompt(ctx: AgentCtx) -> str:
    mood = await _mood(ctx.chat_key)
    return f"Your mood right now: {_word(mood.value)} ({mood.value}/100). Pictures seen: {mood.images}."


@plugin.mount_on_user_message()
async def on_message(_ctx: AgentCtx, message: ChatMessage) -> Optional[MsgSignal]:
    if message.is_empty():
        return None
    text = message.content_text.strip()
    chat_key = message.chat_key
    mood = await _mood(chat_key)
    for seg in message.content_data:
        if (
            isinstance(seg, ChatMessageSegmentImage)
            or seg.type == ChatMessageSegmentType.IMAGE.value
        ):
            mood.images += 1
            mood.value += 5
        elif isinstance(seg, ChatMessageSegmentAt):
            mood.ats.append(seg.target_platform_userid)
    if any(w in text for w in config.BANNED):
        core.logger.warning(
            f"banned: {message.sender_nickname}({message.platform_userid}) in {message.chat_type}"
        )
        await _ctx.send_text("这条消息被我吞掉了", record=False)
        return MsgSignal.BLOCK_ALL
    if any(w in text for w in config.SULK_WORDS):
        mood.value = max(0, mood.value - 30)
        await _save(chat_key)
        return MsgSignal.BLOCK_TRIGGER
    if message.is_tome:
        mood.value = min(100, mood.value + 1)
    await _save(chat_key)
    if any(w in text for w in config.WAKE_WORDS):
        return MsgSignal.FORCE_TRIGGER
    return MsgSignal.CONTINUE


@plugin.mount_on_system_message()
async def on_system(_ctx: AgentCtx, message: str) -> MsgSignal | None:
    mood = await _mood(_ctx.chat_key)
    mood.notices = (mood.notices + [message])[-5:]
    return None


@plugin.mount_on_channel_reset()
async def forget(_ctx: AgentCtx):
    _cache.pop(_ctx.chat_key, None)


# the second one wins
@plugin.mount_on_channel_reset()
async def forget_all(_ctx: AgentCtx):
    _cache.pop(_ctx.chat_key, None)
    await plugin.store.delete(chat_key=_ctx.chat_key, store_key="mood")


@plugin.mount_sandbox_method(
    SandboxMethodType.TOOL, name="get_mood", description="Look at the mood"
)
async def get_mood(_ctx: AgentCtx) -> Dict[str, object]:
    """Get the bot's mood.

    Returns:
        Dict[str, object]: value, word, images, ats, notices
    """
    mood = await _mood(_ctx.chat_key)
    return {"word": _word(mood.value), **mood.model_dump()}


@plugin.mount_sandbox_method(
    SandboxMethodType.BEHAVIOR, name="set_mood", description="Change the mood"
)
async def change_mood(
    _ctx: AgentCtx, level: Literal["happy", "calm", "angry"], reason: str = ""
) -> str:
    """Change the bot's mood.

    Args:
        level (Literal["happy", "calm", "angry"]): the new mood
        reason (str): why
    """
    mood = await _mood(_ctx.chat_key)
    mood.value = {"happy": 90, "calm": 50, "angry": 10}[level]
    await _save(_ctx.chat_key)
    return f"mood is now {_word(mood.value)}" + (f" because {reason}" if reason else "")


@plugin.mount_sandbox_method(
    SandboxMethodType.TOOL, name="fortune", description="Private chats only: a fortune"
)
async def fortune(_ctx: AgentCtx) -> str:
    """Draw a fortune (private chats only)."""
    return random.choice(["大吉", "小吉"])


@plugin.mount_collect_methods()
async def collect(_ctx: AgentCtx):
    if _ctx.channel_type == "group":
        return [get_mood, change_mood]
    return [get_mood, change_mood, fortune]


@plugin.mount_cleanup_method()
async def clean_up():
    _cache.clear()
