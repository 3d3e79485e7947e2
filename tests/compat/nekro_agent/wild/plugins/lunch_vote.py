from __future__ import annotations

import json
import time
from collections import Counter
from typing import Annotated, AsyncIterator, Optional

from nekro_agent.api.i18n import i18n_text
from nekro_agent.api.plugin import (
    Arg,
    CmdCtl,
    CommandExecutionContext,
    CommandPermission,
    CommandResponse,
    ConfigBase,
    NekroPlugin,
)
from nekro_agent.services.command.schemas import CommandOutputSegment, CommandOutputSegmentType
from pydantic import Field

plugin = NekroPlugin(
    name="午饭吃什么",
    module_name="lunch_vote",
    description="群里投票决定中午吃什么，纯命令插件，不需要 AI 参与",
    version="2.0.1",
    author="xiaoyu",
    url="",
)


@plugin.mount_config()
class LunchConfig(ConfigBase):
    MAX_OPTIONS: int = Field(default=6, title="最多候选数")
    CONFIRM_TIMEOUT: int = Field(default=30, title="确认超时（秒）")


def _cfg() -> LunchConfig:
    return plugin.get_config(LunchConfig)


async def _get(chat_key: str) -> Optional[dict]:
    raw = await plugin.store.get(chat_key=chat_key, store_key="vote")
    return json.loads(raw) if raw else None


async def _put(chat_key: str, vote: dict) -> None:
    await plugin.store.set(
        chat_key=chat_key, store_key="vote", value=json.dumps(vote, ensure_ascii=False)
    )


def _render(vote: dict) -> str:
    tally = Counter(vote["ballots"].values())
    return "\n".join(f"{i}. {o} — {tally.get(o, 0)} 票" for i, o in enumerate(vote["options"], 1))


@plugin.mount_command(
    name="吃什么",
    description="发起午饭投票",
    aliases=["lunch_start", "中午吃啥"],
    usage="吃什么 <候选1> <候选2> ...",
    category="娱乐",
    tags=["lunch", "vote"],
)
async def start_cmd(
    context: CommandExecutionContext,
    options: Annotated[str, Arg("空格分隔的候选", positional=True, greedy=True)] = "",
) -> CommandResponse:
    names = [o for o in options.replace("，", " ").replace(",", " ").split() if o]
    if len(names) < 2:
        return CmdCtl.failed("至少要两个候选，例如 /吃什么 火锅 烧烤")
    if len(names) > _cfg().MAX_OPTIONS:
        return CmdCtl.failed(f"最多 {_cfg().MAX_OPTIONS} 个候选")
    vote = {"options": names, "ballots": {}, "by": context.user_id, "at": time.time()}
    await _put(context.chat_key, vote)
    return CmdCtl.success(
        f"{context.username} 发起了投票:\n{_render(vote)}", data={"count": len(names)}
    )


@plugin.mount_command(
    name="投",
    description="给一个候选投票",
    permission=CommandPermission.PUBLIC,
    usage="投 <名字或序号>",
)
async def ballot_cmd(
    context: CommandExecutionContext,
    choice: Annotated[str, Arg("候选名或序号", positional=True)],
    anonymous: bool = Arg("是否匿名", default=False),
) -> CommandResponse:
    vote = await _get(context.chat_key)
    if vote is None:
        return CmdCtl.failed("现在没有投票")
    if choice.isdigit() and 1 <= int(choice) <= len(vote["options"]):
        choice = vote["options"][int(choice) - 1]
    if choice not in vote["options"]:
        return CmdCtl.failed(f"没有「{choice}」这个候选")
    vote["ballots"][context.user_id] = choice
    await _put(context.chat_key, vote)
    who = "有人" if anonymous else context.username
    return CmdCtl.success(f"{who} 投给了 {choice}")


lunch = plugin.mount_command_group(
    name="lunch",
    description="午饭投票管理",
    permission=CommandPermission.PUBLIC,
    category="娱乐",
    tags=["lunch"],
)


@lunch.command(name="status", description="查看票数", aliases=["st"], usage="lunch.status")
async def status_cmd(context: CommandExecutionContext) -> CommandResponse:
    vote = await _get(context.chat_key)
    if not vote:
        return CmdCtl.failed(i18n_text(zh_CN="现在没有投票", en_US="No vote is running"))
    return CmdCtl.success(_render(vote))


@lunch.command(name="remind", description="倒数几次提醒", usage="lunch.remind [次数]")
async def remind_cmd(
    context: CommandExecutionContext,
    times: Annotated[int, Arg("次数", positional=True, range=(1, 3))] = 2,
    tone: Annotated[str, Arg("语气", choices=["soft", "loud"])] = "soft",
) -> AsyncIterator[CommandResponse]:
    mark = "!" if tone == "loud" else "~"
    for left in range(times, 0, -1):
        yield CmdCtl.message(f"还有 {left} 次提醒{mark}")
    yield CmdCtl.success("快去投票" + mark)


@lunch.command(name="export", description="导出结果", permission=CommandPermission.ADVANCED)
async def export_cmd(context: CommandExecutionContext) -> CommandResponse:
    vote = await _get(context.chat_key)
    if not vote:
        return CmdCtl.failed("现在没有投票")
    path = plugin.get_plugin_data_dir() / "export" / f"lunch_{int(time.time())}.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_render(vote), encoding="utf-8")
    return CmdCtl.success(
        [
            CommandOutputSegment(type=CommandOutputSegmentType.TEXT, text="导出好了:"),
            CommandOutputSegment(
                type=CommandOutputSegmentType.FILE, file_path=str(path), file_name="lunch.txt"
            ),
        ]
    )


@lunch.command(name="end", description="结束投票")
async def end_cmd(context: CommandExecutionContext) -> CommandResponse:
    vote = await _get(context.chat_key)
    if not vote:
        return CmdCtl.failed("现在没有投票")
    return CmdCtl.wait(
        message="确定结束吗？回复 是 / 否",
        callback_cmd="lunch_end_confirm",
        options=["是", "否"],
        timeout=float(_cfg().CONFIRM_TIMEOUT),
        on_timeout_message="那就继续投吧",
        context_data={"by": context.user_id},
    )


@plugin.mount_command(name="lunch_end_confirm", description="确认结束投票", internal=True)
async def end_confirm_cmd(
    context: CommandExecutionContext,
    answer: Annotated[str, Arg("是或否", positional=True, greedy=True)] = "",
    by: str = "",
) -> CommandResponse:
    if answer.strip() not in ("是", "y", "yes"):
        return CmdCtl.success("继续投票")
    vote = await _get(context.chat_key)
    await plugin.store.delete(chat_key=context.chat_key, store_key="vote")
    tally = Counter((vote or {"ballots": {}})["ballots"].values())
    if not tally:
        return CmdCtl.success("没人投票，各吃各的")
    winner, n = tally.most_common(1)[0]
    return CmdCtl.success(f"今天吃 {winner}（{n} 票）")
