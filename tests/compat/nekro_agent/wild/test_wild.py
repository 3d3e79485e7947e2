"""Ten plugins, written as strangers write them, run in one bot. Each is used in conversations that
its author would imagine. `expectations.md` beside this file says what each of them should do.
"""

import base64
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from io import BytesIO
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from PIL import Image

from tests.e2e.bot_process import ROOT, running_bot
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
from tests.peers.onebot_v11 import OneBotPeer, at, image, text
from tests.peers.scripted_model import PIECE, Answer, Asked, Reply, ScriptedModelServer

pytestmark = pytest.mark.long

WILD = Path(__file__).parent / "plugins"
SOURCES = sorted(path for path in WILD.iterdir() if path.name != "__pycache__")
OPERATOR, LI, WANG, ZHAO = 10001, 10002, 10003, 10004


class ModelThatTranslates(ModelByChat):
    """A scripted model that also answers the requests of the plugin translator_desk."""

    def __init__(self) -> None:
        super().__init__()
        self.asked_by_plugins: list[Asked] = []

    def __call__(self, asked: Asked) -> Reply:
        said = written(asked)
        for words, reply in (
            ("你是翻译，只输出译文", "Hello, the boss"),
            ("返回 JSON 数组", '当然：\n```json\n["猫", "狗", "鱼"]\n```'),
            ("图里有几只猫", "一只橘猫"),
        ):
            if words in said and "[chat] " not in said:
                self.asked_by_plugins.append(asked)
                return reply if asked.body.get("stream") else whole_answer(reply)
        return super().__call__(asked)


def whole_answer(text: str) -> Answer:
    """An answer that comes whole, not as a stream."""
    message = {"role": "assistant", "content": text}
    body = {
        "id": "whole",
        "object": "chat.completion",
        "model": "scripted",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": PIECE, "completion_tokens": 3, "total_tokens": PIECE + 3},
    }
    return Answer(body=json.dumps(body).encode(), content_type="application/json")


def written(asked: Asked) -> str:
    """All text of a request."""
    texts = []
    for message in asked.messages:
        content = message["content"]
        if isinstance(content, str):
            texts.append(content)
        else:
            texts += [part["text"] for part in content or () if part["type"] == "text"]
    return "\n".join(texts)


@pytest.fixture(scope="module")
async def whole(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[WholeBot]:
    folder = tmp_path_factory.mktemp("wild")
    plugins = folder / "data" / "plugins"
    plugins.mkdir(parents=True)
    for source in SOURCES:
        if source.is_dir():
            shutil.copytree(source, plugins / source.name)
        else:
            shutil.copy(source, plugins)
    script = ModelThatTranslates()
    more = {
        "NEKRO_COMMAND__SUPER_USERS": f'["onebot_v11:{OPERATOR}"]',
        "NEKRO_LLM__VISION": "true",
    }
    async with (
        ScriptedModelServer(script) as model,
        running_bot(folder, **(model_settings(model) | more)) as bot,
        OneBotPeer("20002", TOKEN, bot.onebot_url) as peer,
    ):
        await peer.wait_connected()
        whole = WholeBot(bot, peer, script)
        async with whole.web:
            yield whole


async def runs(whole: WholeBot, group: int, code: str, what: Any = "请帮忙") -> Any:
    """Let the model run this code, which sets a variable ``out``. Return the value of ``out``."""
    told = "import json\nsend_channel_message('OUT ' + json.dumps(out, ensure_ascii=False))"
    whole.model.replies[key(group)].append(fence(f"{code}\n{told}"))
    before = len(whole.said(group))
    await whole.peer.say_in_group(group, OPERATOR, what, at_me=True)

    def told_or_failed() -> bool:
        return any(said.startswith(("OUT ", WELL)) for said in whole.said(group)[before:])

    with anyio.fail_after(LONG_S):
        while not told_or_failed():
            await anyio.sleep(0.02)
    for said in whole.said(group)[before:]:
        if said.startswith("OUT "):
            return json.loads(said.removeprefix("OUT "))
    raise AssertionError(f"the code failed:\n{written(whole.prompts(group)[-1])[-1500:]}")


def key(group: int) -> str:
    return f"onebot_v11-group_{group}"


async def hears(whole: WholeBot, group: int, user: int, what: Any, count: int = 1) -> list[str]:
    """A person says something without a mention. Returns the next ``count`` texts of the bot."""
    before = len(whole.said(group))
    await whole.peer.say_in_group(group, user, what)
    return (await whole.answers(group, before + count))[before:]


async def resets(whole: WholeBot, group: int) -> None:
    """Begin a new conversation, once no turn runs. The bot would first say that it has stopped a
    running turn."""
    await until(lambda: all(whole.stops(group)))
    await hears(whole, group, OPERATOR, "/reset")


@pytest.mark.slow
def test_the_check_accepts_every_plugin(tmp_path: Path) -> None:
    refused = {}
    for source in SOURCES:
        checked = nekro("plugin", "check", str(source), data=tmp_path / "data")
        if checked.returncode:
            refused[source.name] = checked.stdout + checked.stderr
    assert refused == {}


async def test_every_plugin_is_loaded(whole: WholeBot) -> None:
    listed = (await whole.web.get("/plugins")).json()
    found = listed["plugins"] if isinstance(listed, dict) else listed
    states = {plugin["key"]: (plugin["state"], plugin["problems"]) for plugin in found}
    assert {
        "YunShang.nekro_plugin_plantcare",
        "laowang.checkin",
        "Tangyuan.shared_ledger",
        "xiaoyu.lunch_vote",
        "Aki.cover_maker",
        "dirac2.chat_report",
        "chef_zhang.recipe_memory",
        "devops_Kun.ci_watch",
        "KeKe.translator_desk",
        "Momo-chan.mood_keeper",
    } <= {key for key, (state, _problems) in states.items() if state == "loaded"}, states


# -- nekro_plugin_plantcare ----------------------------------------------------------------


async def test_plants_are_stored_and_shown_to_the_model(whole: WholeBot) -> None:
    group = whole.group(fence("print(tool_search('浇水'))"))
    await whole.ask(group, "你会养花吗")
    assert "养花、浇水、盆栽时激活" in written(whole.prompts(group)[0]), (
        "the prompt shows the plugin only with its brief text"
    )
    code = (
        "add_plant(name='小绿', species='绿萝')\n"
        "add_plant('刺头', '仙人掌', 10)\n"
        "out = list_plants()"
    )
    plants = await runs(whole, group, code)
    assert [(p["name"], p["interval_days"], p["owner"]) for p in plants] == [
        ("小绿", 7, "10001"),
        ("刺头", 20, "10001"),
    ]
    whole.model.replies[key(group)].append(fence("plant_todo(8)"))
    assert await whole.ask(group, "下周要浇谁？") == [WELL]
    asked, answered = whole.prompts(group)[-2:]
    told = "[Plant Care] 当前频道登记了 2 盆植物:\n- 小绿（绿萝）\n- 刺头（仙人掌）"
    assert told in written(asked)
    assert "已登记 小绿（绿萝），每 7 天浇一次水，主人 10001" in written(asked)
    assert "8 天后需要浇水: 小绿" in written(answered)
    assert "刺头" not in written(answered).split("8 天后需要浇水:")[-1].splitlines()[0]


async def test_an_unknown_plant_is_an_error_that_the_model_reads(whole: WholeBot) -> None:
    group = whole.group(fence("water_plant('无名')"))
    assert await whole.ask(group, "浇一下无名") == [WELL]
    assert "没有找到名为 无名 的植物" in written(whole.prompts(group)[-1])


async def test_a_reset_forgets_the_plants(whole: WholeBot) -> None:
    group = whole.group()
    await runs(whole, group, "add_plant('小红')\nout = 1")
    await resets(whole, group)
    assert await runs(whole, group, "out = list_plants()") == []


# -- checkin -------------------------------------------------------------------------------


async def test_people_can_check_in_once_a_day(whole: WholeBot) -> None:
    group = whole.group()
    (said,) = await hears(whole, group, LI, "/签到")
    assert said.strip() == "签到成功，+5 分，共 5 分"
    sent = next(c for c in whole.peer.sends if c.params.get("group_id") == group)
    assert sent.segments[0] == {"type": "at", "data": {"qq": str(LI)}}
    assert [again.strip() for again in await hears(whole, group, LI, "/qd")] == ["今天已经签过啦"]
    assert await hears(whole, group, WANG, f"查积分 {LI}") == [f"name of {LI} 有 5 分"]
    assert await hears(whole, group, WANG, "查积分") == [f"{WANG} 还没有签到过"]
    assert whole.prompts(group) == []


async def test_only_super_users_change_points(whole: WholeBot) -> None:
    group = whole.group()
    await hears(whole, group, LI, "/签到")
    await whole.peer.say_in_group(group, LI, f"/签到管理 发 {LI} 100")
    (said,) = await hears(whole, group, OPERATOR, f"/签到管理 发 {LI} 10")
    assert f"{LI} 现在有 15 分" in said
    (usage,) = await hears(whole, group, OPERATOR, "/checkin_admin 乱来")
    assert "用法: /签到管理" in usage
    whole.model.replies[key(group)].append(fence("score_board()"))
    assert await whole.ask(group, "谁分最高？") == [WELL]
    assert f"1. name of {LI}({LI}) 15分" in written(whole.prompts(group)[-1])


async def test_a_poke_is_answered(whole: WholeBot) -> None:
    group = whole.group()
    await whole.peer.notice("notify", sub_type="poke", group_id=group, user_id=LI, target_id=20002)
    assert await whole.answers(group) == ["再戳就报警了！"]


async def test_a_tool_asks_the_platform_for_a_name(whole: WholeBot) -> None:
    group = whole.group()
    assert await runs(whole, group, f"out = group_card('{LI}')") == f"name of {LI}"


# -- shared_ledger -------------------------------------------------------------------------


async def test_expenses_of_the_chat_are_on_the_page(whole: WholeBot) -> None:
    group = whole.group()
    code = "add_expense('奶茶<b>', '36', '小李')\nadd_expense('披萨', 64.0)\nout = settle()"
    assert await runs(whole, group, code) == {"小李": -14.0, "10001": 14.0}
    pages = f"{whole.bot.address}/plugins/Tangyuan.shared_ledger"
    page = await whole.web.get(f"{pages}/")
    assert page.status_code == 200
    assert "<h1>AA 记账本</h1>" in page.text
    assert "奶茶&lt;b&gt;" in page.text
    body = {"chat_key": key(group), "title": "打车", "amount": 20}
    made = (await whole.web.post(f"{pages}/entries", json=body)).json()
    assert made["ok"] is True
    found = (await whole.web.get(f"{pages}/entries", params={"chat_key": key(group)})).json()
    assert found["total"] == 120
    assert [item["payer"] for item in found["items"]] == ["小李", "10001", "网页"]
    assert (await whole.web.post(f"{pages}/entries", json=body | {"amount": -1})).status_code == 422
    assert (await whole.web.delete(f"{pages}/entries/{made['id']}")).json() == {"ok": True}
    gone = await whole.web.delete(f"{pages}/entries/{made['id']}")
    assert (gone.status_code, gone.json()["detail"]) == (404, "没有这条记录")
    table = await whole.web.get(f"{pages}/export.csv")
    assert table.headers["content-type"].startswith("text/csv")
    assert "披萨,64.0,10001" in table.text
    async with httpx.AsyncClient(trust_env=False) as stranger:
        refused = await stranger.get(f"{pages}/entries")
    assert refused.status_code in (401, 403, 303, 307)


# -- lunch_vote ----------------------------------------------------------------------------


async def test_people_vote_for_lunch(whole: WholeBot) -> None:
    group = whole.group()
    (few,) = await hears(whole, group, LI, "/吃什么 火锅")
    assert "至少要两个候选" in few
    (begun,) = await hears(whole, group, LI, "/中午吃啥 火锅，烧烤")
    assert f"name of {LI} 发起了投票:\n1. 火锅 — 0 票\n2. 烧烤 — 0 票" in begun
    assert f"name of {LI} 投给了 烧烤" in (await hears(whole, group, LI, "/投 2"))[0]
    assert "有人 投给了 火锅" in (await hears(whole, group, WANG, "/投 火锅 anonymous:true"))[0]
    assert "没有「寿司」这个候选" in (await hears(whole, group, ZHAO, "/投 寿司"))[0]
    await hears(whole, group, ZHAO, "/投 烧烤")
    assert "2. 烧烤 — 2 票" in (await hears(whole, group, ZHAO, "/lunch.status"))[0]
    assert "1. 火锅 — 1 票" in (await hears(whole, group, ZHAO, "/lunch.st"))[0]
    (question,) = await hears(whole, group, LI, "/lunch.end")
    assert "确定结束吗" in question
    await whole.peer.say_in_group(group, WANG, "不要")
    (decided,) = await hears(whole, group, LI, "是")
    assert "今天吃 烧烤（2 票）" in decided
    assert "现在没有投票" in (await hears(whole, group, ZHAO, "/lunch.status"))[0]
    assert whole.prompts(group) == []


async def test_a_command_sends_its_answer_in_parts_and_checks_its_arguments(
    whole: WholeBot,
) -> None:
    group = whole.group()
    said = await hears(whole, group, LI, "/lunch.remind 2 tone:loud", 3)
    assert said == ["还有 2 次提醒!", "还有 1 次提醒!", "快去投票!"]
    (wrong,) = await hears(whole, group, LI, "/lunch.remind 9")
    assert "提醒!" not in wrong
    assert "次数" in wrong or "times" in wrong


async def test_the_result_of_a_vote_is_exported_for_the_operator_only(whole: WholeBot) -> None:
    group = whole.group()
    await hears(whole, group, LI, "/吃什么 面 饭")
    await hears(whole, group, LI, "/lunch.export")
    assert whole.files(group) == []
    assert "导出好了:" in (await hears(whole, group, OPERATOR, "/lunch.export"))[0]
    await until(lambda: whole.files(group) != [])
    assert whole.files(group) == ["1. 面 — 0 票\n2. 饭 — 0 票"]


# -- cover_maker ---------------------------------------------------------------------------


async def test_pictures_go_to_the_box_and_to_the_chat(whole: WholeBot) -> None:
    group = whole.group()
    code = (
        "path = make_cover('Summer', color='#aa3300', send=True)\n"
        "info = thumbnail(path, width=32)\n"
        "send_cover(info['path'], '缩略图来了')\n"
        "head = open(path, 'rb').read(4)[1:].decode()\n"
        "out = [head, list(info['size']), list(info['origin'])]"
    )
    assert await runs(whole, group, code) == ["PNG", [32, 18], [320, 180]]
    assert "缩略图来了" in whole.said(group)
    sizes = [picture(c).size for c in sent_pictures(whole, group)]
    assert sizes == [(320, 180), (32, 18)]


async def test_cover_maker_counts_a_text_and_sends_a_list_as_a_file(whole: WholeBot) -> None:
    group = whole.group()
    code = (
        "from pathlib import Path\n"
        "Path('/app/shared/poem.txt').write_text('床前 明月光\\n疑是地上霜')\n"
        "counted = count_text('/app/shared/poem.txt')\n"
        "path = export_lines(['牛奶', '面包'])\n"
        "out = [counted, open(path).read()]"
    )
    assert await runs(whole, group, code) == [
        {"lines": 2, "chars": 12, "words": 3},
        "牛奶\n面包",
    ]
    await until(lambda: whole.files(group) != [])
    assert whole.files(group) == ["牛奶\n面包"]


async def test_the_model_looks_at_a_picture(whole: WholeBot) -> None:
    group = whole.group(fence("appreciate(make_cover('Look'))"))
    assert await whole.ask(group, "画一张自己看看") == [WELL]
    asked = whole.prompts(group)[-1]
    assert re.search(r"图片 \S+cover_\w+\.png 共 \d+ 字节:", written(asked))
    contents = [message["content"] for message in asked.messages]
    parts = [part for content in contents if isinstance(content, list) for part in content]
    assert any(part["type"] == "image_url" for part in parts)


async def test_a_path_outside_the_box_is_refused(whole: WholeBot) -> None:
    group = whole.group(fence("print('GOT', count_text('/etc/hostname'))"))
    assert await whole.ask(group, "数一下") == [WELL]
    assert "GOT {" not in written(whole.prompts(group)[-1])


def sent_pictures(whole: WholeBot, group: int) -> list[Any]:
    sent = [c for c in whole.peer.sends if c.params.get("group_id") == group]
    return [s for c in sent if "message" in c.params for s in c.segments if s["type"] == "image"]


def picture(segment: Any) -> Image.Image:
    data = base64.b64decode(segment["data"]["file"].removeprefix("base64://"))
    return Image.open(BytesIO(data))


# -- chat_report ---------------------------------------------------------------------------


async def chatted(whole: WholeBot) -> int:
    """Make a group in which people have talked about noodles."""
    group = whole.group()
    for user, words in ((LI, "今天吃拉面"), (WANG, "我不吃拉面 Ramen"), (LI, "那你吃啥")):
        await whole.peer.say_in_group(group, user, words)
    await until(lambda: len(whole.stored(group)) == 3)
    return group


async def test_history_is_counted_and_searched(whole: WholeBot) -> None:
    group = await chatted(whole)
    counted = await runs(whole, group, "out = count_talk()")
    assert counted == {f"name of {LI}": 2, f"name of {WANG}": 1, f"name of {OPERATOR}": 1}
    whole.model.replies[key(group)].append(fence("search_history('拉面')"))
    await whole.ask(group, "谁聊过面？")
    found = written(whole.prompts(group)[-1])
    assert "共 2 条:" in found
    assert f"name of {LI}({LI}): 今天吃拉面" in found
    whole.model.replies[key(group)].append(fence(f"search_history('ramen', user_id='{WANG}')"))
    await whole.ask(group, "再搜")
    assert "共 1 条:" in written(whole.prompts(group)[-1])


async def test_people_and_the_channel_have_profiles(whole: WholeBot) -> None:
    group = await chatted(whole)
    profile = await runs(whole, group, f"out = user_profile('{WANG}')")
    assert profile["username"] == f"name of {WANG}"
    assert profile["unique_id"] == f"onebot_v11:{WANG}"
    assert profile["is_active"] is True
    assert profile["first_said"]
    assert await runs(whole, group, "out = user_profile('987654')") is None
    channel = await runs(whole, group, "out = channel_profile()")
    assert channel["chat_key"] == key(group)
    assert channel["channel_name"] == f"group {group}"
    assert channel["is_active"] is True
    assert channel["type"] == "group"
    assert channel["start"] >= 0
    assert channel["preset"]


async def test_a_plugin_reads_the_database_with_sql(whole: WholeBot) -> None:
    group = await chatted(whole)
    ranked = await runs(whole, group, "out = talk_rank(1)")
    assert ranked == [{"nick": f"name of {LI}", "count": 2}]


async def test_a_command_reports_on_the_week(whole: WholeBot) -> None:
    group = await chatted(whole)
    (said,) = await hears(whole, group, WANG, "/周报 24")
    found = re.search(r"最近 24 小时 (\d) 人说了 (\d) 条", said)
    assert found
    assert found[1] == "2"
    assert found[2] in "34", "the message of the command may be counted or not"


# -- recipe_memory -------------------------------------------------------------------------


async def test_recipes_are_found_by_a_similar_description(whole: WholeBot) -> None:
    group = whole.group()
    code = (
        "save_recipe('番茄炒蛋', ['番茄', '鸡蛋'], '先炒蛋再放番茄')\n"
        "save_recipe('红烧肉', ['五花肉', '冰糖'])\n"
        "save_recipe('红烧肉', ['五花肉', '冰糖', '八角'])\n"
        "out = [list_recipes(), nearest_title('番茄 鸡蛋')]"
    )
    listed, nearest = await runs(whole, group, code)
    assert listed == sorted(["番茄炒蛋", "红烧肉"])
    assert nearest["title"] == "番茄炒蛋"
    assert 0 < nearest["score"] <= 1
    whole.model.replies[key(group)].append(fence("find_recipe('五花肉 冰糖', limit=1)"))
    assert await whole.ask(group, "有肉吗") == [WELL]
    assert "《红烧肉》: 五花肉、冰糖、八角" in written(whole.prompts(group)[-1])
    elsewhere = whole.group()
    assert await runs(whole, elsewhere, "out = list_recipes()") == []
    assert await runs(whole, group, "out = delete_recipe('红烧肉')") == 1


# -- ci_watch ------------------------------------------------------------------------------


def nekro(*arguments: str, data: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command line of the project."""
    return subprocess.run(
        [sys.executable, "-m", "nekro_core", *arguments],
        cwd=ROOT,
        env={**os.environ, **environment, "NEKRO_DATA_DIR": str(data)},
        capture_output=True,
        text=True,
        timeout=LONG_S,
        check=False,
    )


async def test_a_failed_build_wakes_the_chat(whole: WholeBot) -> None:
    group = whole.group()
    code = "subscribe_ci('me/app')\nsubscribe_ci('me/app')\nout = list_ci()"
    assert await runs(whole, group, code) == ["me/app"]
    listed = nekro("plugin", "list", data=whole.bot.data, **whole.bot.environment)
    found = re.search(r"/api/webhook/ci_status/[\w-]+", listed.stdout)
    assert found, listed.stdout + listed.stderr
    url = f"{whole.bot.address}{found[0]}"
    before = len(whole.prompts(group))
    async with httpx.AsyncClient(trust_env=False) as ci:
        good = {"repo": "me/app", "status": "success", "title": "build 6"}
        assert (await ci.post(url, json=good)).status_code == 200
        await anyio.sleep(1)
        assert len(whole.prompts(group)) == before, "a successful build must not wake the agent"
        bad = {"repo": "me/app", "status": "failure", "title": "build 7"}
        posted = await ci.post(url, json=bad)
        assert posted.json() == {"ok": True, "pushed": 1}
        await until(lambda: len(whole.prompts(group)) > before)
    asked = written(whole.prompts(group)[-1])
    assert "[CI] me/app 构建 failure: build 7" in asked
    assert "[CI] me/app 构建 success: build 6" in asked


async def test_a_task_waits_for_approval_and_tells_the_chat(whole: WholeBot) -> None:
    group = whole.group()
    task_id = await runs(whole, group, "out = rerun_ci('me/app', branch='dev')")
    assert re.fullmatch(r"rerun_\w{8}", task_id)
    assert "运行中: 等待审批" in (await hears(whole, group, LI, "/ci.state"))[0]
    await whole.peer.say_in_group(group, LI, "/ci.approve")
    said = await hears(whole, group, OPERATOR, "/ci.approve", 2)
    assert any(f"已批准 {task_id}" in line for line in said)
    await until(lambda: WELL in whole.said(group))
    told = written(whole.prompts(group)[-1])
    assert f"[CI] me/app@dev 重跑完成，由 name of {OPERATOR} 批准" in told
    assert "已结束: 重跑完成" in (await hears(whole, group, LI, "/ci.state"))[0]


async def test_the_cleanup_of_ci_watch_ends_without_an_error_when_the_bot_ends(
    tmp_path: Path,
) -> None:
    shutil.copytree(WILD / "ci_watch", tmp_path / "data" / "plugins" / "ci_watch")
    async with (
        ScriptedModelServer([]) as model,
        running_bot(tmp_path, **model_settings(model)) as bot,
    ):
        pass
    assert "its cleanup method failed" not in bot.log


# -- translator_desk -----------------------------------------------------------------------


async def test_a_tool_makes_a_request_to_the_model(whole: WholeBot) -> None:
    group = whole.group()
    code = "out = [translate_text('你好，群主'), extract_keywords('猫和狗还有鱼', count=2)]"
    assert await runs(whole, group, code) == ["Hello, the boss", ["猫", "狗"]]
    asked = next(a for a in whole.model.asked_by_plugins if "你是翻译" in written(a))
    assert [message["role"] for message in asked.messages] == ["system", "user"]
    assert "群主 => the boss" in written(asked)
    assert asked.body["temperature"] == 0.3


async def test_a_tool_shows_the_model_a_picture(whole: WholeBot) -> None:
    drawn = BytesIO()
    Image.new("RGB", (8, 8), "orange").save(drawn, "PNG")
    code = (
        "import base64\nfrom pathlib import Path\n"
        f"data = base64.b64decode({base64.b64encode(drawn.getvalue()).decode()!r})\n"
        "Path('/app/shared/cat.png').write_bytes(data)\n"
        "describe_image('/app/shared/cat.png', '图里有几只猫？')"
    )
    group = whole.group(fence(code))
    assert await whole.ask(group, "看看") == [WELL]
    assert "图片描述: 一只橘猫" in written(whole.prompts(group)[-1])
    asked = next(a for a in whole.model.asked_by_plugins if "图里有几只猫" in written(a))
    shown = [part for part in asked.messages[-1]["content"] if part["type"] == "image_url"]
    assert shown[0]["image_url"]["url"].startswith("data:image/png;base64,")


# -- mood_keeper ---------------------------------------------------------------------------


async def test_the_mood_is_shown_to_the_model_and_changed(whole: WholeBot) -> None:
    group = whole.group()
    mood = await runs(whole, group, "change_mood('happy', '有糖')\nout = get_mood()")
    assert (mood["word"], mood["value"]) == ("开心", 90)
    assert "Your mood right now: 平静 (51/100)" in written(whole.prompts(group)[0])
    whole.model.replies[key(group)].append(fence("set_mood(level='furious')"))
    assert await whole.ask(group, "生气吧") == [WELL]
    refused = written(whole.prompts(group)[-1])
    assert "mood is now 开心 because 有糖" in refused
    assert "furious" in refused
    assert "happy" in refused.split("furious")[-1], "the error must list the allowed values"


async def test_the_signal_that_a_message_hook_returns_keeps_the_bot_silent_or_wakes_it(
    whole: WholeBot,
) -> None:
    group = whole.group()
    (said,) = await hears(whole, group, LI, [at(20002), text(" 加群链接")])
    assert said == "这条消息被我吞掉了"
    await whole.peer.say_in_group(group, LI, "闭嘴", at_me=True)
    await until(lambda: len(whole.stored(group)) == 1)
    await anyio.sleep(1)
    assert whole.prompts(group) == []
    assert await hears(whole, group, WANG, "救命啊") == [WELL]
    asked = written(whole.prompts(group)[-1])
    assert "闭嘴" in asked
    assert "加群链接" not in asked
    assert "Your mood right now: 生气 (20/100)" in asked


async def test_a_hook_sees_pictures_and_mentions(whole: WholeBot) -> None:
    group = whole.group()
    drawn = BytesIO()
    Image.new("RGB", (8, 8), "red").save(drawn, "PNG")
    data = "base64://" + base64.b64encode(drawn.getvalue()).decode()
    await whole.peer.say_in_group(group, LI, [at(WANG), image(data)])
    await until(lambda: len(whole.stored(group)) == 1)
    mood = await runs(whole, group, "out = get_mood()")
    assert mood["images"] == 1
    assert str(WANG) in mood["ats"]
    assert mood["value"] == 56


async def test_a_tool_that_the_plugin_does_not_offer_in_this_chat_is_missing(
    whole: WholeBot,
) -> None:
    group = whole.group(fence("fortune()"))
    assert await whole.ask(group, "抽个签") == [WELL]
    assert "大吉" not in written(whole.prompts(group)[-1])
    assert "小吉" not in written(whole.prompts(group)[-1])


async def test_the_reset_hook_that_was_registered_last_is_used(whole: WholeBot) -> None:
    group = whole.group()
    await runs(whole, group, "change_mood('happy')\nout = 1")
    await resets(whole, group)
    assert (await runs(whole, group, "out = get_mood()"))["value"] == 51
