"""群签到

/签到          每天一次，连续签到有加成
/签到管理 ...  管理员：清零 <QQ> / 发 <QQ> <分>
查积分 [QQ]    不需要前缀
戳一戳机器人会被凶

AI 可以查询积分榜。
"""

import datetime
import json
import re
from typing import Dict, Optional

from nonebot import on_command, on_regex, on_type
from nonebot.adapters import Bot, Message
from nonebot.adapters.onebot.v11 import (
    GroupMessageEvent,
    MessageEvent,
    MessageSegment,
    PokeNotifyEvent,
)
from nonebot.matcher import Matcher
from nonebot.params import CommandArg, RegexGroup
from pydantic import Field

from nekro_agent.adapters.onebot_v11.core.bot import get_bot
from nekro_agent.adapters.onebot_v11.matchers.command import command_guard, finish_with
from nekro_agent.api import core
from nekro_agent.api.plugin import ConfigBase, NekroPlugin, SandboxMethodType
from nekro_agent.api.schemas import AgentCtx
from nekro_agent.schemas.chat_message import ChatType

plugin = NekroPlugin(
    name="群签到",
    module_name="checkin",
    description="每日签到、积分榜、戳一戳",
    version="1.2",
    author="laowang",
    url="https://github.com/laowang233/nekro-checkin",
    support_adapter=["onebot_v11"],
)


@plugin.mount_config()
class CheckinConfig(ConfigBase):
    BASE_POINTS: int = Field(default=5, title="基础积分")
    STREAK_BONUS: int = Field(default=1, title="连续签到每天加成")
    POKE_REPLY: str = Field(default="再戳就报警了！", title="戳一戳回复")


config = plugin.get_config(CheckinConfig)

# 同一条消息只处理一次
_seen: Dict[int, float] = {}


async def _load(chat_key: str) -> Dict[str, dict]:
    data = await plugin.store.get(chat_key=chat_key, store_key="points")
    return json.loads(data) if data else {}


async def _save(chat_key: str, data: Dict[str, dict]):
    await plugin.store.set(
        chat_key=chat_key, store_key="points", value=json.dumps(data, ensure_ascii=False)
    )


def _chat_key(event) -> str:
    if isinstance(event, GroupMessageEvent):
        return f"onebot_v11-group_{event.group_id}"
    return f"onebot_v11-private_{event.user_id}"


checkin = on_command("签到", aliases={"打卡", "qd"}, priority=5, block=True)


@checkin.handle()
async def handle_checkin(matcher: Matcher, event: MessageEvent, bot: Bot):
    if event.message_id in _seen:
        return
    _seen[event.message_id] = 1
    key = _chat_key(event)
    data = await _load(key)
    uid = str(event.user_id)
    me = data.setdefault(
        uid, {"points": 0, "days": 0, "last": "", "name": event.sender.nickname or uid}
    )
    today = datetime.date.today().isoformat()
    if me["last"] == today:
        await matcher.finish(MessageSegment.at(event.user_id) + " 今天已经签过啦")
    yesterday = (datetime.date.today() - datetime.timedelta(days=1)).isoformat()
    me["days"] = me["days"] + 1 if me["last"] == yesterday else 1
    gain = config.BASE_POINTS + config.STREAK_BONUS * (me["days"] - 1)
    me["points"] += gain
    me["last"] = today
    await _save(key, data)
    await matcher.finish(
        MessageSegment.at(event.user_id)
        + MessageSegment.text(f" 签到成功，+{gain} 分，共 {me['points']} 分")
    )


@on_command("签到管理", aliases={"checkin_admin"}, priority=5, block=True).handle()
async def handle_admin(
    matcher: Matcher, event: MessageEvent, bot: Bot, arg: Message = CommandArg()
):
    username, cmd_content, chat_key, chat_type = await command_guard(event, bot, arg, matcher)
    if chat_type != ChatType.GROUP:
        await finish_with(matcher, message="只能在群里用")
    m = re.match(r"(清零|发)\s*(\d+)\s*(\d+)?", cmd_content or "")
    if not m:
        await finish_with(matcher, message="用法: /签到管理 清零 <QQ> | 发 <QQ> <分>")
    op, uid, num = m.groups()
    data = await _load(chat_key)
    me = data.setdefault(uid, {"points": 0, "days": 0, "last": "", "name": uid})
    me["points"] = 0 if op == "清零" else me["points"] + int(num or 0)
    await _save(chat_key, data)
    core.logger.info(f"{username} 调整了 {uid} 的积分")
    await finish_with(matcher, message=f"{uid} 现在有 {me['points']} 分")


query = on_regex(r"^查积分\s*(\d+)?$", priority=6, block=False)


@query.handle()
async def _(event: GroupMessageEvent, groups: tuple = RegexGroup()):
    uid = groups[0] or str(event.user_id)
    data = await _load(_chat_key(event))
    if uid not in data:
        await query.finish(f"{uid} 还没有签到过")
    await query.send(f"{data[uid]['name']} 有 {data[uid]['points']} 分")


def _poke_me(event: PokeNotifyEvent) -> bool:
    return event.is_tome()


poke = on_type(PokeNotifyEvent, rule=_poke_me, priority=3, block=False)


@poke.handle()
async def handle_poke(bot: Bot, event: PokeNotifyEvent):
    try:
        await bot.send(event, config.POKE_REPLY)
    except Exception as e:
        core.logger.warning(f"戳一戳回复失败: {e}")


@plugin.mount_sandbox_method(
    SandboxMethodType.AGENT, name="查询积分榜", description="查询当前群的签到积分榜"
)
async def score_board(_ctx: AgentCtx, top: int = 5) -> str:
    """查询签到积分榜

    Args:
        top (int): 取前几名
    """
    data = await _load(_ctx.chat_key)
    rows = sorted(data.items(), key=lambda kv: -kv[1]["points"])[:top]
    if not rows:
        return "还没有人签到"
    return "\n".join(f"{i}. {v['name']}({k}) {v['points']}分" for i, (k, v) in enumerate(rows, 1))


@plugin.mount_sandbox_method(SandboxMethodType.TOOL, name="群名片", description="查询群成员名片")
async def group_card(_ctx: AgentCtx, user_qq: str) -> Optional[str]:
    """查询群成员的群名片

    Args:
        user_qq (str): QQ号

    Returns:
        Optional[str]: 名片，没有则为 None
    """
    bot = get_bot()
    group_id = int(_ctx.channel_id.replace("group_", ""))
    info = await bot.get_group_member_info(group_id=group_id, user_id=int(user_qq), no_cache=True)
    return info.get("card") or info.get("nickname")


@plugin.mount_cleanup_method()
async def clean_up():
    _seen.clear()
