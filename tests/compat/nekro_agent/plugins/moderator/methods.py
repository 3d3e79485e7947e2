from nonebot.adapters.onebot.v11 import ActionFailed, Bot, MessageSegment

from nekro_agent.adapters.onebot_v11.core.bot import get_bot
from nekro_agent.api.core import logger
from nekro_agent.api.plugin import SandboxMethodType
from nekro_agent.api.schemas import AgentCtx

from .plugin import config, plugin


@plugin.mount_sandbox_method(SandboxMethodType.TOOL, "禁言用户", "禁言")
async def mute_user(
    _ctx: AgentCtx, chat_key: str, user_qq: str, duration: int, report: str
) -> bool:
    """禁言用户

    Args:
        chat_key (str): 会话
        user_qq (str): QQ
        duration (int): 秒
        report (str): 原因
    """
    _, group_id = chat_key.replace("onebot_v11-", "").split("_")
    if _ctx.channel_type != "group":
        raise ValueError("只能在群里禁言")
    bot: Bot = await _ctx.get_onebot_v11_bot()
    assert get_bot().self_id == bot.self_id
    member = await bot.get_group_member_info(group_id=int(group_id), user_id=int(user_qq))
    try:
        await bot.set_group_ban(
            group_id=int(group_id),
            user_id=int(user_qq),
            duration=min(duration, config.MAX_SECONDS),
        )
    except ActionFailed as e:
        logger.error(f"禁言失败: {e}")
        return False
    await bot.send_group_msg(
        group_id=int(group_id),
        message=MessageSegment.at(int(user_qq)) + MessageSegment.text(f" {report}"),
    )
    logger.info(f"{member['nickname']} 被禁言")
    return True
