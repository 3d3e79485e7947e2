"""Ten MaiBot plugins, written as strangers write them, run in a whole bot. Each has a conversation.

`expectations.md` says what their authors expect. The model follows a script: its code calls the
plugins' tools like a model that has read the prompt.
"""

import json
import re
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream

from nekro_core.system.atomic_files import write_whole
from tests.e2e.bot_process import running_bot
from tests.e2e.whole_bot import (
    LONG_S,
    TOKEN,
    WELL,
    ModelByChat,
    WholeBot,
    fence,
    model_settings,
    until,
)
from tests.peers.onebot_v11 import OneBotPeer
from tests.peers.ports import free_port
from tests.peers.scripted_model import Answer, Asked, Call, Reply, ScriptedModelServer

pytestmark = [pytest.mark.long, pytest.mark.slow]

ROOT = Path(__file__).parents[4]
PLUGINS = Path(__file__).parent / "plugins"
NAMES = sorted(folder.name for folder in PLUGINS.iterdir() if folder.is_dir())
OLDER = "flower_signin"
"""The manifest of this plugin supports MaiBot up to version 1.0.0, which gives a warning here."""
ANY_PORT = '[plugin]\nenabled = true\nconfig_version = "1.0.0"\n[server]\nport = 0\n'
"""A configuration of the bridge with a free port, because tests run at the same time."""
SIGNS = "乾坤屯蒙需讼师比"


class WildModel(ModelByChat):
    """A scripted model that also answers requests which plugins make outside of a chat."""

    def __init__(self) -> None:
        super().__init__()
        self.aside: list[Reply] = []
        self.asked_aside: list[Asked] = []

    def __call__(self, asked: Asked) -> Reply:
        reply = super().__call__(asked)
        if not isinstance(reply, Answer) or reply.error != {"message": "a prompt of no chat"}:
            return reply
        self.asked_aside.append(asked)
        return self.aside.pop(0) if self.aside else reply


@asynccontextmanager
async def bot_with(folder: Path, *names: str, **settings: str) -> AsyncIterator[WholeBot]:
    """A whole bot with these plugins and with those that are already in its folder."""
    for name in names:
        put(folder, name)
    script = WildModel()
    async with (
        ScriptedModelServer(script) as model,
        running_bot(folder, **(model_settings(model) | settings)) as bot,
        OneBotPeer("20002", TOKEN, bot.onebot_url) as peer,
    ):
        await peer.wait_connected()
        whole = WholeBot(bot, peer, script)
        async with whole.web:
            yield whole


def put(folder: Path, name: str, config: str = "") -> Path:
    """Copy a plugin into a bot's folder, together with the operator's configuration if it is
    given."""
    target = folder / "data" / "plugins" / name
    unwanted = shutil.ignore_patterns("__pycache__")
    shutil.copytree(PLUGINS / name, target, dirs_exist_ok=True, ignore=unwanted)
    if config:
        (target / "config.toml").write_text(config, "utf-8")
    return target


def at(number: int) -> dict[str, Any]:
    return {"type": "at", "data": {"qq": str(number)}}


def words(text: str) -> dict[str, Any]:
    return {"type": "text", "data": {"text": text}}


def tell(call: str) -> str:
    """Code that sends the result of a call, or the error if the call failed."""
    return fence(
        f"try:\n    done = str({call})\n"
        "except Exception as error:\n    done = 'failed: ' + str(error)\n"
        "send_channel_message(done)"
    )


def text_of(asked: Asked) -> str:
    """The whole text of a request, with the descriptions of its functions."""
    found = []
    for message in asked.messages:
        content = message.get("content") or ""
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        found += [part["text"] for part in parts if part["type"] == "text"]
    return "\n".join([*found, json.dumps(asked.body.get("tools", []), ensure_ascii=False)])


def pictures(asked: Asked) -> list[Any]:
    """The parts of a request that are pictures."""
    contents = [message.get("content") for message in asked.messages]
    parts = [part for content in contents if isinstance(content, list) for part in content]
    return [part for part in parts if part["type"] == "image_url"]


async def says(whole: WholeBot, group: int, user: int, what: Any, count: int = 1) -> list[str]:
    """Let somebody write in a group without addressing the bot. Return what the bot sends then."""
    before = len(whole.said(group))
    await whole.peer.say_in_group(group, user, what)
    return (await whole.answers(group, before + count))[before:]


@pytest.mark.parametrize("name", NAMES)
async def test_check_accepts_each_plugin_and_warns_about_the_one_for_an_older_maibot(
    tmp_path: Path, name: str
) -> None:
    plugin = put(tmp_path, name, ANY_PORT if name == "line_bridge" else "")
    command = [sys.executable, "-m", "nekro_core", "plugin", "check", str(plugin)]
    done = await anyio.run_process(command, cwd=ROOT, check=False)
    said = (done.stdout + done.stderr).decode()
    assert done.returncode == 0, said
    assert ("warning: host_application: wants 1.0.0 to 1.0.0" in said) == (name == OLDER)


# ── kitchen_helper ──────────────────────────────────────────────────────────────────────────────


@pytest.fixture
async def kitchen(tmp_path: Path) -> AsyncIterator[WholeBot]:
    async with bot_with(tmp_path, "kitchen_helper") as whole:
        yield whole


async def test_the_core_tool_of_kitchen_helper_is_in_every_prompt(kitchen: WholeBot) -> None:
    group = kitchen.group(tell("find_recipe(ingredient='番茄')"))
    [told] = await kitchen.ask(group, "番茄能做什么？")
    assert "番茄炒蛋" in told
    assert "番茄牛腩面" not in told, "this dish takes 70 minutes, more than the default allows"
    prompt = text_of(kitchen.prompts(group)[0])
    assert "find_recipe" in prompt
    assert "按一种食材查找家常菜谱" in prompt or "只认识本店菜单上的菜" in prompt
    assert "kitchen_selfcheck" not in prompt


async def test_the_model_finds_the_deferred_tool_of_kitchen_helper_with_tool_search(
    kitchen: WholeBot,
) -> None:
    code = (
        "print(tool_search('菜谱 人数 换算'))\n"
        "send_channel_message(str(scale_recipe(name='番茄炒蛋', servings='4', without=['盐'])))"
    )
    group = kitchen.group(fence(code))
    [told] = await kitchen.ask(group, "四个人吃番茄炒蛋要多少料，不放盐")
    assert "番茄 600克，鸡蛋 300克" in told
    assert "盐" not in told.split("：")[-1]
    prompt = text_of(kitchen.prompts(group)[0])
    assert "scale_recipe" in prompt
    assert "忌口的食材" not in prompt, (
        "the prompt must not describe the parameters of a deferred tool"
    )


async def test_kitchen_failures_are_reported_to_the_model(kitchen: WholeBot) -> None:
    unknown = kitchen.group(tell("scale_recipe(name='佛跳墙', servings=2)"))
    assert "菜单上没有「佛跳墙」" in (await kitchen.ask(unknown))[0]
    refused = kitchen.group(tell("scale_recipe(name='凉拌黄瓜', servings=2, unit='吨')"))
    assert "吨" in (await kitchen.ask(refused))[0]
    hidden = kitchen.group(tell("kitchen_selfcheck()"))
    assert "厨房一切正常" not in (await kitchen.ask(hidden))[0]


async def test_kitchen_tool_that_is_no_coroutine_and_returns_a_tuple_answers(
    kitchen: WholeBot,
) -> None:
    group = kitchen.group(tell("random_dinner(quick=True)"))
    [told] = await kitchen.ask(group)
    assert re.search("今晚吃(番茄炒蛋|凉拌黄瓜)吧", told)


async def test_kitchen_switches_a_tool_off_when_the_plugin_loads(kitchen: WholeBot) -> None:
    group = kitchen.group(tell("order_takeaway(dish='炒饭')"))
    [told] = await kitchen.ask(group, "点个炒饭")
    assert told.startswith("failed"), told
    assert "order_takeaway" not in text_of(kitchen.prompts(group)[0])
    assert "外卖工具已停用" in kitchen.bot.log


async def test_kitchen_command_switches_a_tool_on_and_off(kitchen: WholeBot) -> None:
    group = kitchen.group(fence("order_takeaway(dish='牛肉面')"))
    assert await says(kitchen, group, 10001, "/外卖 开") == ["外卖已开"]
    assert await kitchen.ask(group, "点碗牛肉面") == ["🧾 巷口面馆：牛肉面 ×1"]
    assert "order_takeaway" in text_of(kitchen.prompts(group)[0])
    assert await says(kitchen, group, 10001, "/外卖 关") == ["外卖已关"]
    await kitchen.ask(group, "再来一份")
    assert "向配置好的店家下一张外卖小票" not in text_of(kitchen.prompts(group)[-1])


async def test_kitchen_uses_its_configuration_file_as_soon_as_the_file_is_changed(
    kitchen: WholeBot,
) -> None:
    await kitchen.logged("碗碗厨房开张")
    file = kitchen.bot.data / "plugins" / "kitchen_helper" / "config.toml"
    changed = file.read_text("utf-8").replace("enabled = false", "enabled = true")
    write_whole(file, changed.replace("巷口面馆", "街角粉店").encode())
    await kitchen.logged("外卖工具已启用")
    group = kitchen.group(fence("order_takeaway(dish='米粉')"))
    assert await kitchen.ask(group, "来碗粉") == ["🧾 街角粉店：米粉 ×1"]


async def test_kitchen_tool_is_called_natively_in_tool_mode(tmp_path: Path) -> None:
    async with bot_with(tmp_path, "kitchen_helper", NEKRO_AGENT__MODE="tools") as whole:
        group = whole.group(
            Answer(calls=[Call("find_recipe", {"ingredient": "番茄", "max_minutes": 100})]),
            "有两道",
        )
        assert await whole.ask(group, "番茄能做什么？") == ["有两道"]
        offered = whole.prompts(group)[0].body["tools"]
        [recipe] = [one["function"] for one in offered if one["function"]["name"] == "find_recipe"]
        parameters = recipe["parameters"]
        assert parameters["required"] == ["ingredient"]
        assert parameters["properties"]["max_minutes"]["default"] == 60
        [result] = whole.prompts(group)[1].results
        assert json.loads(result.removeprefix("> "))["count"] == 2, (
            'each line of a result must begin with the mark ">" of a quotation'
        )


# ── chart_painter ───────────────────────────────────────────────────────────────────────────────


async def test_chart_is_shown_to_the_model(tmp_path: Path) -> None:
    async with bot_with(tmp_path, "chart_painter", NEKRO_LLM__VISION="true") as whole:
        code = "print(draw_bar_chart(title='雨量', labels=['周一', '周二'], values=[3, 7]))"
        group = whole.group(fence(code), fence("send_channel_message('周二下得多')"))
        assert await whole.ask(group, "画一下雨量") == ["周二下得多"]
        after = whole.prompts(group)[1]
        assert "《雨量》画好了：周一=3，周二=7" in text_of(after)
        assert re.search(r"tool_result:[^\s\"']+:1", text_of(after))
        assert len(pictures(after)) == 1
        assert "chart_1.png" in text_of(after)


async def test_chart_picture_after_a_text_is_shown_as_the_second_item_of_the_tools_result(
    tmp_path: Path,
) -> None:
    settings = {"NEKRO_LLM__VISION": "true", "NEKRO_AGENT__MODE": "tools"}
    async with bot_with(tmp_path, "chart_painter", **settings) as whole:
        group = whole.group(Answer(calls=[Call("color_swatch", {"color": "#ffcc00"})]), "是黄色")
        assert await whole.ask(group, "ffcc00 什么颜色") == ["是黄色"]
        after = whole.prompts(group)[1]
        assert "#ffcc00 的色卡，16×16" in after.results[0]
        assert re.search(r"tool_result:[^\s\"']+:2", text_of(after))
        assert len(pictures(after)) == 1


async def test_chart_result_for_a_model_without_vision_is_text_and_bad_arguments_are_refused(
    tmp_path: Path,
) -> None:
    async with bot_with(tmp_path, "chart_painter") as whole:
        group = whole.group(
            fence("print(color_swatch(color='00ff00'))"), fence("send_channel_message('绿的')")
        )
        assert await whole.ask(group) == ["绿的"]
        assert "#00ff00 的色卡" in text_of(whole.prompts(group)[1])
        assert pictures(whole.prompts(group)[1]) == []
        uneven = whole.group(tell("draw_bar_chart(title='x', labels=['a'], values=[1, 2])"))
        assert "个数必须一致" in (await whole.ask(uneven))[0]


async def test_chart_call_with_a_number_below_the_minimum_of_its_schema_fails(
    tmp_path: Path,
) -> None:
    async with bot_with(tmp_path, "chart_painter") as whole:
        small = whole.group(tell("color_swatch(color='00ff00', size=2)"))
        assert (await whole.ask(small))[0].startswith("failed")


async def test_chart_is_sent_to_the_group(tmp_path: Path) -> None:
    async with bot_with(tmp_path, "chart_painter") as whole:
        group = whole.group(fence("send_bar_chart(labels=['a', 'b'], values=[1, 2])"))
        await whole.peer.say_in_group(group, 10001, "画出来发一下", at_me=True)
        await whole.answers(group)
        sent = [call for call in whole.peer.sends if call.params.get("group_id") == group]
        assert sent[0].types == ["image"]


# ── flower_signin ───────────────────────────────────────────────────────────────────────────────


def flowers(folder: Path, *edits: tuple[str, str, str]) -> None:
    """The plugin after its operator raised the supported version of MaiBot and made these other
    edits."""
    plugin = put(folder, OLDER)
    for file, old, new in (("_manifest.json", '"max_version": "1.0.0"', RAISED), *edits):
        text = (plugin / file).read_text("utf-8")
        assert old in text
        (plugin / file).write_text(text.replace(old, new), "utf-8")


RAISED = '"max_version": "1.99.99"'
BY_FOLDER = "from plugins.flower_signin.storage import"


async def test_flowers_plugin_can_import_its_own_module_as_plugins_dot_folder_name(
    tmp_path: Path,
) -> None:
    flowers(tmp_path)
    async with bot_with(tmp_path) as whole:
        await whole.logged("[签到送花] 已加载，0 个群", 20)


async def test_flowers_are_earned_and_given_away_by_commands(tmp_path: Path) -> None:
    flowers(tmp_path, ("plugin.py", BY_FOLDER, "from .storage import"))
    async with bot_with(tmp_path) as whole:
        await whole.logged("[签到送花] 已加载，0 个群", 20)
        group = whole.group()
        [told] = await says(whole, group, 10001, "/签到")
        assert "签到第 1 天，得到 4 朵花" in told
        [told] = await says(whole, group, 10001, "/qd")
        assert "今天已经签过啦" in told
        give = [words("/送花 "), at(10003), words(" 3")]
        [told] = await says(whole, group, 10001, give)
        assert "(10003) 3 朵花" in told
        give[2] = words(" 2朵")
        assert await says(whole, group, 10001, give) == ["花不够，你只有 1 朵"]
        assert await says(whole, group, 10001, "/送花 1") == ["要 @ 一个人才能送花哦"]
        mine = [words("/送花 "), at(10001), words(" 1")]
        assert await says(whole, group, 10001, mine) == ["不可以送给自己"]
        [told] = await says(whole, group, 10002, "花榜")
        assert [line.split()[-1] for line in told.splitlines()[1:]] == ["3朵", "1朵"]
        assert whole.prompts(group) == [], "commands must not start a turn"
        [book] = whole.bot.data.rglob("flowers.json")
        assert str(group) in json.loads(book.read_text("utf-8"))


# ── night_owl ───────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
async def owl(tmp_path: Path) -> AsyncIterator[WholeBot]:
    async with bot_with(tmp_path, "night_owl") as whole:
        await whole.logged("夜猫子管家已加载，广告词 1 个", 20)
        yield whole


async def test_owl_drops_advertisements(owl: WholeBot) -> None:
    group = owl.group()
    await owl.peer.say_in_group(group, 10002, "免费领皮肤，点我", at_me=True)
    await owl.logged("拦下一条广告")
    assert await owl.ask(group, "在吗") == [WELL]
    assert len(owl.prompts(group)) == 1
    assert "免费领皮肤" not in text_of(owl.prompts(group)[0])


async def test_owl_rewrites_received_messages(owl: WholeBot) -> None:
    group = owl.group()
    await owl.ask(group, "小猫咪在吗")
    assert "夜猫子在吗" in text_of(owl.prompts(group)[0])
    assert "小猫咪在吗" not in text_of(owl.prompts(group)[0])


async def test_owl_rewrites_sent_messages(owl: WholeBot) -> None:
    group = owl.group(fence("send_channel_message('电话 13812345678')"))
    assert await owl.ask(group, "老板电话多少") == ["电话 138****5678"]


async def test_owl_hides_a_secret_from_the_model(owl: WholeBot) -> None:
    group = owl.group(
        fence("send_channel_message('内部代号是乌贼')"), fence("send_channel_message('不能说')")
    )
    await owl.peer.say_in_group(group, 10001, "代号是什么", at_me=True)
    await owl.logged("麦麦差点说漏嘴")
    await owl.ask(group, "算了")
    assert not [text for text in owl.said(group) if "内部代号" in text]


async def test_owl_counts_messages(owl: WholeBot) -> None:
    await owl.logged("夜猫子上线")
    group = owl.group()
    await owl.ask(group, "一")
    await owl.ask(group, "二")
    [told] = await says(owl, group, 10002, "/话痨榜")
    assert told.startswith("话痨榜：10001×2"), told
    [told] = await says(owl, group, 10002, "/夜猫状态")
    assert re.fullmatch(r"启动=True 拦截=0 发送=[1-9]\d* 命令=[1-9]\d*", told), told


# ── line_bridge ─────────────────────────────────────────────────────────────────────────────────


class Line:
    """A client of the bridge."""

    def __init__(self, stream: anyio.abc.SocketStream) -> None:
        self._stream = stream
        self._reader = BufferedByteReceiveStream(stream)

    async def send(self, **data: str) -> None:
        await self._stream.send(json.dumps(data, ensure_ascii=False).encode() + b"\n")

    async def send_raw(self, line: bytes) -> None:
        await self._stream.send(line + b"\n")

    async def read(self) -> dict[str, Any]:
        with anyio.fail_after(LONG_S):
            return json.loads(await self._reader.receive_until(b"\n", 65536))


@pytest.fixture
async def bridge(tmp_path: Path) -> AsyncIterator[tuple[WholeBot, Line]]:
    port = free_port()
    put(tmp_path, "line_bridge", ANY_PORT.replace("port = 0", f"port = {port}"))
    async with bot_with(tmp_path) as whole:
        await whole.logged(f"line bridge listens on port {port} (accepted: True)", 20)
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            line = Line(stream)
            assert await line.read() == {"text": "line-bridge ready"}
            yield whole, line


async def test_bridge_carries_a_private_conversation(bridge: tuple[WholeBot, Line]) -> None:
    whole, line = bridge
    await line.send_raw(b"what?")
    assert await line.read() == {"error": "not a line of JSON"}
    await line.send(**{"from": "alice", "name": "Alice", "text": "hi"})
    assert (await line.read())["text"] == WELL
    [(chat, asked)] = whole.model.asked.items()
    assert "line" in chat
    assert "Alice" in text_of(asked[0])


async def test_bridge_is_told_which_person_an_answer_is_for(bridge: tuple[WholeBot, Line]) -> None:
    _, line = bridge
    await line.send(**{"from": "alice", "name": "Alice", "text": "hi"})
    assert (await line.read())["to"] == "alice", (
        "the answer must go to the person of platform_io_target_user_id"
    )


async def test_bridge_carries_conversations_in_rooms(bridge: tuple[WholeBot, Line]) -> None:
    whole, line = bridge
    await line.send(**{"from": "bob", "name": "Bob", "room": "kitchen", "text": "hello there"})
    told = await line.read()
    assert (told["text"], told["room"]) == (WELL, "kitchen")
    await line.send(**{"from": "eve", "room": "cellar", "text": "hello too"})
    assert (await line.read())["room"] == "cellar"
    assert len(whole.model.asked) == 2


# ── group_warden ────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
async def warden(tmp_path: Path) -> AsyncIterator[WholeBot]:
    async with bot_with(tmp_path, "group_warden") as whole:
        yield whole


async def test_warden_mutes_by_command(warden: WholeBot) -> None:
    group = warden.group()
    [told] = await says(warden, group, 10001, [words("/禁言 "), at(10003), words(" 10")])
    assert told == "已禁言 10003 10 分钟"
    ban = await warden.peer.next_call("set_group_ban", timeout=LONG_S)
    assert [int(ban.params[name]) for name in ("group_id", "user_id", "duration")] == [
        group,
        10003,
        600,
    ]
    assert await says(warden, group, 10001, "/禁言 10003 999") == ["已禁言 10003 60 分钟"]


async def test_warden_refuses_a_person_who_is_not_an_admin(warden: WholeBot) -> None:
    group = warden.group(tell("mute_member(qq='10003', minutes=5)"))
    await warden.peer.say_in_group(group, 10002, "禁言他", at_me=True)
    assert "提出要求的人不是管理员" in (await warden.answers(group))[0]
    assert await says(warden, group, 10002, "/禁言 10003 1") == ["你不是管理员"]


async def test_warden_mutes_for_an_admin(warden: WholeBot) -> None:
    group = warden.group(tell("mute_member(qq='10003', minutes=5)"))
    [told] = await warden.ask(group, "禁言他")
    assert "已禁言 10003 5 分钟" in told


async def test_warden_tools_call_actions_of_the_onebot_platform(warden: WholeBot) -> None:
    await warden.logged("NapCat API", 20)
    group = warden.group(
        tell("get_member_card(qq='10003')"),
        tell("poke_member(qq='10003')"),
        tell("set_member_card(qq='10003', card='小三')"),
    )
    [told] = await warden.ask(group, "10003 是谁")
    asked = await warden.peer.next_call("get_group_member_info", timeout=LONG_S)
    assert (asked.data.get("card") or asked.data["nickname"]) in told
    [told] = await warden.ask(group, "戳他")
    assert "戳了 10003 一下" in told
    poke = await warden.peer.next_call("send_poke", "group_poke", timeout=LONG_S)
    assert int(poke.params["user_id"]) == 10003
    [told] = await warden.ask(group, "改名")
    assert "名片改成了「小三」" in told
    card = await warden.peer.next_call("set_group_card", timeout=LONG_S)
    assert (int(card.params["user_id"]), card.params["card"]) == (10003, "小三")


async def test_warden_tool_recalls_a_message_of_a_person(warden: WholeBot) -> None:
    group = warden.group()
    number = await warden.peer.say_in_group(group, 10003, "说错话了")
    warden.model.replies[f"onebot_v11-group_{group}"].append(
        tell(f"recall_message(message_id='{number}')")
    )
    [told] = await warden.ask(group, "撤回他那条")
    assert "已撤回" in told
    recall = await warden.peer.next_call("delete_msg", timeout=LONG_S)
    assert int(recall.params["message_id"]) == int(number)


# ── pocket_ledger ───────────────────────────────────────────────────────────────────────────────


@pytest.fixture
async def ledger(tmp_path: Path) -> AsyncIterator[WholeBot]:
    async with bot_with(tmp_path, "pocket_ledger") as whole:
        await whole.logged("口袋账本已加载，共有 0 笔账", 20)
        yield whole


async def keep_two(ledger: WholeBot, group: int) -> None:
    assert await says(ledger, group, 10001, "记账 奶茶 18.5") == [
        "记下了 奶茶 18.50 元，第 1 笔，合计 18.50 元"
    ]
    assert await says(ledger, group, 10001, "记账 打车 32") == [
        "记下了 打车 32.00 元，第 2 笔，合计 50.50 元"
    ]


async def test_ledger_stores_rows(ledger: WholeBot) -> None:
    group = ledger.group()
    await keep_two(ledger, group)
    assert await says(ledger, group, 10001, "/账单 1") == ["最近的账：\n打车 32.00 元"]
    assert await says(ledger, group, 10002, "/账单") == ["一笔账都没有"]
    assert await says(ledger, group, 10001, "/改账 打车 出租") == ["现在有 1 笔叫「出租」"]
    assert await says(ledger, group, 10001, "/清账") == ["清掉 2 笔，剩 0 笔，已存档"]


async def test_ledger_keeps_each_row_once_over_a_restart(tmp_path: Path) -> None:
    async with bot_with(tmp_path, "pocket_ledger") as whole:
        group = whole.group()
        await says(whole, group, 10001, "记账 奶茶 18.5")
    async with bot_with(tmp_path) as whole:
        await whole.logged("口袋账本已加载，共有 1 笔账", 20)
        assert whole.group() == group, "the new bot counts its groups from the beginning"
        await whole.others_are_served()
        await anyio.sleep(1)
        assert whole.said(group) == [], "nobody wrote after the restart, so nothing may be sent"


async def test_ledger_shows_the_spending_of_the_person_who_asks(ledger: WholeBot) -> None:
    group = ledger.group(tell("query_spending()"), tell("query_spending(keyword='奶')"))
    await keep_two(ledger, group)
    assert "(10001) 共 2 笔，50.50 元" in (await ledger.ask(group, "我花了多少"))[0]
    assert "共 1 笔，18.50 元" in (await ledger.ask(group, "奶茶呢"))[0]


async def test_ledger_shows_the_spending_of_another_person(ledger: WholeBot) -> None:
    group = ledger.group(tell("query_spending(user_id='10002')"))
    await says(ledger, group, 10002, "记账 书 60")
    assert "(10002) 共 1 笔，60.00 元" in (await ledger.ask(group, "10002 花了多少"))[0]


async def test_ledger_counts_the_messages_of_the_chat_that_the_bot_has_stored(
    ledger: WholeBot,
) -> None:
    group = ledger.group(tell("count_talk()"))
    for text in ("一", "二", "三"):
        await ledger.peer.say_in_group(group, 10002, text)
    await until(lambda: len(ledger.stored(group)) == 3)
    [told] = await ledger.ask(group, "存了多少")
    assert int(re.search(r"\d+", told)[0]) >= 3, told


# ── chat_digest ─────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
async def digest(tmp_path: Path) -> AsyncIterator[WholeBot]:
    async with bot_with(tmp_path, "chat_digest") as whole:
        await whole.logged("聊天摘要已加载，可用任务", 20)
        yield whole


async def talk(whole: WholeBot, group: int) -> None:
    await whole.peer.say_in_group(group, 10002, "晚上吃什么")
    await whole.peer.say_in_group(group, 10003, "火锅吧，七点老地方")
    await until(lambda: len(whole.stored(group)) == 2)


async def test_digest_summarizes_a_chat(digest: WholeBot) -> None:
    group = digest.group(tell("summarize_chat(limit=5)"))
    await talk(digest, group)
    digest.model.aside += ["七点吃火锅。", "还是火锅。"]
    assert await says(digest, group, 10001, "/总结 5") == ["📝 七点吃火锅。"]
    asked = digest.model.asked_aside[0]
    assert [message["role"] for message in asked.messages] == ["system", "user"]
    assert "火锅吧，七点老地方" in asked.last_user_text
    assert "晚上吃什么" in asked.last_user_text
    assert "还是火锅。" in (await digest.ask(group, "他们说了什么"))[0]


async def test_digest_says_so_if_its_request_to_the_model_fails(digest: WholeBot) -> None:
    group = digest.group()
    await talk(digest, group)
    assert await says(digest, group, 10001, "/总结") == ["模型没理我，等会儿再试"]


async def test_digest_classifies_with_a_function_call(digest: WholeBot) -> None:
    group = digest.group()
    label = Call("put_label", {"label": "提问", "score": 0.9})
    digest.model.aside.append(Answer(calls=[label]))
    assert await says(digest, group, 10001, "/归类 几点开会") == ["「几点开会」属于：提问"]
    [tool] = digest.model.asked_aside[0].body["tools"]
    assert tool["function"]["name"] == "put_label"


async def test_digest_adds_words_to_the_prompt_of_an_angry_chat_only(digest: WholeBot) -> None:
    group = digest.group()
    await digest.peer.say_in_group(group, 10002, "这破网烦死了")
    await until(lambda: len(digest.stored(group)) == 1)
    await digest.ask(group, "怎么办")
    assert "火药味很重" in text_of(digest.prompts(group)[0])
    calm = digest.group()
    await digest.ask(calm, "怎么办")
    assert "火药味很重" not in text_of(digest.prompts(calm)[0])
    await digest.logged("看到第 2 次规划器响应")


# ── wardrobe ────────────────────────────────────────────────────────────────────────────────────

OLD_WARDROBE = """\
# 我的衣橱
[plugin]
enabled = true
config_version = "1.3.0"

[general]
city = "成都"
colors = "红, 黑"

[style]
taste = "复古"
boldness = 1.8
"""


@pytest.mark.parametrize("version", ["1.3.0", "2.0.0"])
async def test_wardrobe_migrates_its_configuration(tmp_path: Path, version: str) -> None:
    plugin = put(tmp_path, "wardrobe", OLD_WARDROBE.replace("1.3.0", version))
    file = plugin / "config.toml"
    async with bot_with(tmp_path) as whole:
        group = whole.group()
        shown = "成都 {} 红/黑 1 白衬衫、羽绒服 v2.0.0"
        assert await says(whole, group, 10001, "/衣橱") == [shown.format("复古")]
        assert await says(whole, group, 10001, "/衣橱城市") == ["成都 缺省"]
        written = file.read_text("utf-8")
        assert "[general]" not in written
        assert 'config_version = "2.0.0"' in written
        write_whole(file, written.replace('"复古"', '"运动"').encode())
        await whole.logged("衣橱换季：成都 / 运动")
        assert await says(whole, group, 10001, "/衣橱") == [shown.format("运动")]


async def test_wardrobe_gives_advice(tmp_path: Path) -> None:
    async with bot_with(tmp_path, "wardrobe") as whole:
        group = whole.group(
            tell("outfit_advice(degrees=5, occasion='遛狗')"),
            tell("outfit_advice(degrees=5, occasion='登月')"),
        )
        assert await whole.ask(group, "五度遛狗穿什么") == ["今天杭州5度，遛狗建议穿：羽绒服"]
        [told] = await whole.ask(group, "登月呢")
        assert told.startswith("failed")


async def test_wardrobe_writes_its_first_configuration(tmp_path: Path) -> None:
    async with bot_with(tmp_path, "wardrobe") as whole:
        await whole.logged("衣橱已加载：杭州，2 件衣服", 20)
        written = (tmp_path / "data" / "plugins" / "wardrobe" / "config.toml").read_text("utf-8")
        for piece in ("[style]", "羽绒服", 'city = "杭州"', 'config_version = "2.0.0"'):
            assert piece in written


# ── old_fortune ─────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
async def fortune(tmp_path: Path) -> AsyncIterator[WholeBot]:
    async with bot_with(tmp_path, "old_fortune") as whole:
        yield whole


def sign(about: str) -> str:
    return SIGNS[sum(about.encode()) % len(SIGNS)]


async def test_fortune_answers_its_command(fortune: WholeBot) -> None:
    group = fortune.group()
    about = "明日可出行否"
    assert await says(fortune, group, 10001, f"/算卦 {about}") == [
        f"所问「{about}」，得{sign(about)}卦"
    ]


async def test_fortune_tool_can_be_called(fortune: WholeBot) -> None:
    group = fortune.group(tell("lookup_hexagram(words='你好', style='文')"))
    assert f"卦曰：{sign('你好')}" in (await fortune.ask(group, "算算你好"))[0]


async def test_fortune_action_can_be_called(fortune: WholeBot) -> None:
    group = fortune.group(fence("bless_someone(who='小明')"))
    [told] = await fortune.ask(group, "小明今天很倒霉")
    assert re.fullmatch(f"小明，老夫.+一个「{sign('小明')}」字", told), told


async def test_fortune_counts_sighs(fortune: WholeBot) -> None:
    group = fortune.group()
    await fortune.peer.say_in_group(group, 10002, "唉，好累")
    await fortune.logged("第 1 声叹气")
    assert await says(fortune, group, 10001, "/叹气") == ["一共 1 声叹气"]
