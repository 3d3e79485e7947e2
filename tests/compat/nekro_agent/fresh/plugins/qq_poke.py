from typing import Optional

from nekro_agent.adapters.onebot_v11.core.bot import get_bot
from nekro_agent.api.core import logger
from nekro_agent.api.plugin import NekroPlugin, SandboxMethodType, dynamic_import_pkg
from nekro_agent.api.schemas import AgentCtx
from nekro_agent.core.config import config
from nekro_agent.schemas.signal import MsgSignal
from nonebot import get_driver, on_command
from nonebot.adapters.onebot.v11 import Bot, GroupMessageEvent, Message, MessageSegment
from nonebot.adapters.onebot.v11.exception import ActionFailed

PIL = dynamic_import_pkg("pillow>=9", import_name="PIL")

plugin = NekroPlugin(
    name="戳一戳",
    module_name="qq_poke",
    description="QQ 戳一戳",
    version="1.1.0",
    author="poker",
    url="https://github.com/poker/qq_poke",
)


@plugin.mount_sandbox_method(SandboxMethodType.BEHAVIOR, "poke", "戳一戳群友")
async def poke(_ctx: AgentCtx, user_qq: str) -> str:
    """戳一戳群友

    Args:
        user_qq (str): QQ 号
    """
    try:
        bot: Bot = await _ctx.get_onebot_v11_bot()
        chat_id = _ctx.channel_id
        if chat_id.startswith("group_"):
            chat_id = chat_id.split("_", 1)[1]
        await bot.call_api("group_poke", group_id=int(chat_id), user_id=int(user_qq))
        await bot.send_group_msg(
            group_id=int(chat_id),
            message=Message([MessageSegment.at(user_qq), MessageSegment.text(" 戳!")]),
        )
        return f"poked {user_qq}"
    except ActionFailed as e:
        logger.error(f"poke failed: {e}")
        return f"failed: {e}"
    except Exception as e:
        return f"cannot poke here: {type(e).__name__}"


@plugin.mount_on_system_message()
async def on_system(_ctx: AgentCtx, text: str) -> Optional[MsgSignal]:
    if "poke" in text:
        logger.info("system message about a poke")
    return MsgSignal.CONTINUE


@plugin.mount_sandbox_method(SandboxMethodType.TOOL, "pil_version", "version")
async def pil_version(_ctx: AgentCtx) -> str:
    """Version of PIL."""
    core_cfg = await _ctx.get_core_config()
    return PIL.__version__ + ("" if core_cfg is not None else "!")
