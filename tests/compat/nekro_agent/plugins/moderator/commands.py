from nonebot.adapters import Bot, Message
from nonebot.adapters.onebot.v11 import MessageEvent
from nonebot.matcher import Matcher
from nonebot.params import CommandArg

from nekro_agent.adapters.onebot_v11.matchers.command import (
    command_guard,
    finish_with,
    on_command,
)
from nekro_agent.adapters.onebot_v11.tools.onebot_util import get_chat_info_old, get_user_name
from nekro_agent.api.core import config, logger
from nekro_agent.api.schemas import AgentCtx
from nekro_agent.models.db_chat_channel import DBChatChannel
from nekro_agent.models.db_chat_message import DBChatMessage


@on_command("mod_where", priority=5, block=True).handle()
async def _(matcher: Matcher, event: MessageEvent, bot: Bot):
    chat_key, chat_type = await get_chat_info_old(event)
    channel = await DBChatChannel.get_channel(chat_key=chat_key)
    name = await get_user_name(event=event, bot=bot, user_id=event.get_user_id())
    await matcher.finish(f"{name}: {chat_key} {chat_type.value} {channel.channel_name}")


@on_command("mod_state", aliases={"mod-state"}, priority=5, block=True).handle()
async def _(matcher: Matcher, event: MessageEvent, bot: Bot, arg: Message = CommandArg()):
    username, cmd_content, chat_key, chat_type = await command_guard(event, bot, arg, matcher)
    ctx = await AgentCtx.create_by_chat_key(chat_key)
    channel = await DBChatChannel.get_channel(chat_key=chat_key)
    heard = await DBChatMessage.filter(chat_key=chat_key).count()
    await ctx.push_system(f"{username} looked", trigger_agent=False)
    logger.info(f"{heard} messages of {config.AI_CHAT_PRESET_NAME}")
    await finish_with(matcher, message=f"{channel.chat_key} {chat_type} {cmd_content or '-'}")
