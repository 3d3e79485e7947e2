"""Plugins that use less common names of nekro-agent act in conversations."""

import base64
import io
import random

import pytest
from fastapi import FastAPI
from PIL import Image

from nekro_core.chat import File, Mention, Text
from nekro_core.policy.permissions import CommandSettings
from nekro_core.tools.outcome import ToolFailure
from tests.compat.nekro_agent.conftest import OpenBot, visitor


async def test_people_and_groups_have_numbers_and_the_operator_is_number_1(
    bot_with: OpenBot,
) -> None:
    async with bot_with("relations") as bot:
        group = bot.chat("group_7")
        assert await group.ask("hello", reply="hi", by="Ann") == ["hi"]
        assert await group.say("/people") == ["['Ann', 'Lin'] ['Lin'] 3"]
        assert await bot.chat("group_8").say("/groups") == ["2 8"]


async def test_an_answer_mentions_the_person_and_says_the_groups_name(bot_with: OpenBot) -> None:
    async with bot_with("relations") as bot:
        group = bot.chat("group_7", name="茶馆")
        await group.say("/where")
        assert group.sent[0].segments == (Mention("lin", "Lin"), Text(" 茶馆, 茶馆"))
        private = bot.chat()
        await private.say("/where")
        assert private.sent[0].segments[1] == Text(" Lin, lin")


async def test_a_plugin_can_tell_the_bots_own_preset_from_others(bot_with: OpenBot) -> None:
    async with bot_with("relations") as bot:
        chat = bot.chat()
        assert await chat.say("/identity") == ["默认 未变 []"]
        assert await chat.say("/identity Pirate") == ["1 已变 ['Pirate']"]
        assert await chat.say("/identity") == ["1 未变 ['Pirate']"]


async def test_a_chat_that_is_observed_gets_no_answers(bot_with: OpenBot) -> None:
    settings = {"nekro_command": CommandSettings(super_users=frozenset({"test:lin"}))}
    async with bot_with("relations", settings=settings) as bot:
        chat = bot.chat("group_7")
        assert await chat.say("/watch") == ["1 observed"]
        assert await chat.say("hello") == []
        assert await chat.say("/speak") == ["observe active"]
        assert await chat.ask("hello", reply="hi") == ["hi"]
        assert "hello" in bot.prompt


async def test_a_plugin_sends_through_the_adapter_of_the_chat(bot_with: OpenBot) -> None:
    async with bot_with("herald") as bot:
        chat = bot.chat("group_7", name="茶馆")
        await chat.say("/announce dinner")
        announced, note, answer = chat.sent
        assert announced.segments == (Mention("lin", "Lin"), Text(" dinner"))
        assert isinstance(note.segments[0], File)
        assert answer.segments == (Text("Lin 茶馆"),)
        (refused,) = await chat.say("/announce dinner chat_key:nowhere")
        assert refused.startswith("失败: ")


async def test_a_plugin_runs_code_in_the_box_of_the_chat(bot_with: OpenBot) -> None:
    async with bot_with("code_lab") as bot:
        chat = bot.chat("group_7")
        assert await chat.say("/exec print(6 * 7)") == ["[NORMAL False] 42"]
        assert await chat.say("/exec who_asks()") == ["[NORMAL False] Lin in group_7"]
        assert await chat.say("/exec open('n.txt', 'w').write('kept')") == ["[NORMAL False]"]
        await chat.ask("read it", code="send_channel_message(open('n.txt').read())")
        assert chat.texts[-1] == "kept"
        assert await chat.say("/exec print(look_up())") == ["[AGENT False] it is 42"]
        (long,) = await chat.say("/exec print('x' * 100)")
        assert long.startswith("[NORMAL True] xxx")
        assert len(long) < 60
        (wrong,) = await chat.say("/exec 1 /")
        assert wrong.startswith("[ERROR ")
        sent = await chat.say("/exec send_msg_text(_ck, 'from code')")
        assert sent[0] == "from code"


async def test_a_tool_that_the_code_waits_for_cannot_run_more_code(bot_with: OpenBot) -> None:
    async with bot_with("code_lab") as bot:
        chat = bot.chat()
        said = await chat.ask(
            "run it",
            code="try:\n    run_inside('print(1)')\nexcept Exception as e:\n"
            "    send_channel_message(str(e))",
        )
        assert "one piece of code at a time" in said[0]
        parsed = await chat.say("/parse Here: ```python\nprint(1)\n```\nbye")
        assert parsed == ["code: 'print(1)\\n'"]


async def test_the_pages_of_a_plugin_know_that_the_operator_is_logged_in(bot_with: OpenBot) -> None:
    async with bot_with("admin_panel") as bot, visitor(bot.app.operator.pages) as visits:
        own = "/keeper.admin_panel"
        assert (await visits.get(f"{own}/")).json() == {"page": "panel"}
        assert (await visits.get(f"{own}/api/me")).json() == {"id": 1, "name": "admin"}
        changed = await visits.post(f"{own}/api/things/7", json={"title": "tea"})
        assert changed.json() == {"number": 7, "title": "tea"}
        assert (await visits.post(f"{own}/api/things/x", json={})).status_code == 422
        state = await visits.get(f"{own}/api/state")
        assert state.json() == {"code": 200, "msg": "ok", "data": {"limit": 3}}
        assert (await visits.get(f"{own}/api/forgotten")).status_code == 403
        assert (await visits.get(f"{own}/guarded")).json() == {"ok": True}


async def test_nobody_is_logged_in_at_a_web_server_that_a_plugin_itself_runs(
    bot_with: OpenBot,
) -> None:
    async with bot_with("admin_panel") as bot:
        server = FastAPI()
        server.include_router(bot.module.build_router())
        async with visitor(server) as visits:
            assert (await visits.get("/")).json() == {"page": "panel"}
            for path in ("/api/me", "/guarded"):
                refused = await visits.get(path)
                assert refused.status_code == 401
                assert "mount_router" in refused.json()["detail"]
            assert (await visits.get("/guarded?key=secret")).json() == {"ok": True}


async def test_a_plugin_changes_its_settings_by_its_key(bot_with: OpenBot) -> None:
    async with bot_with("admin_panel") as bot:
        chat = bot.chat()
        (said,) = await chat.say("/panel_set MODEL large")
        assert said.startswith(
            "True large 3 False MODEL: a plugin can only read the bot's settings"
        )
        assert (await chat.say("/panel_set LIMIT 9"))[0].startswith("True large 9 False ")
        assert "LIMIT: 9" in (bot.plugin.get_plugin_data_dir() / "config.yaml").read_text()
        (refused,) = await chat.say("/panel_set LIMIT 0")
        assert refused.startswith("失败: LIMIT: '0' is not allowed")
        (refused,) = await chat.say("/panel_set SIZE 1")
        assert refused == "失败: there is no setting 'SIZE'; there are MODEL, LIMIT"
        assert bot.module.config.LIMIT == 9


async def test_a_picture_is_compressed_to_a_given_number_of_bytes(bot_with: OpenBot) -> None:
    async with bot_with("admin_panel") as bot:
        noise = random.Random(1).randbytes(3 * 300 * 300)
        picture = io.BytesIO()
        Image.frombytes("RGB", (300, 300), noise).save(picture, "PNG")
        large = f"data:image/png;base64,{base64.b64encode(picture.getvalue()).decode()}"
        with bot.plugin.acting():
            small = await bot.module.smaller(large, 60_000)
            assert await bot.module.smaller(small, 60_000) == small
            with pytest.raises(ValueError, match="expected data:image"):
                await bot.module.smaller("https://a.example/x.png", 60_000)
            with pytest.raises(ValueError, match="no usable picture"):
                await bot.module.smaller("data:image/png;base64,AAAA", 1)
        head, _, data = small.partition(",")
        assert head in {"data:image/png;base64", "data:image/jpeg;base64"}
        assert len(base64.b64decode(data)) <= 60_000


async def test_a_task_of_a_plugin_can_send_only_files_of_the_plugin(bot_with: OpenBot) -> None:
    async with bot_with("herald") as bot:
        chat, data = bot.chat(), bot.plugin.get_plugin_data_dir()
        for name in ("note.txt", "config.yaml"):
            (data / name).write_text(name)
        with bot.plugin.acting():
            await bot.module.send_later(str(chat.key), str(data / "note.txt"))
            for path in (data / "config.yaml", data.parents[1] / "nekro.sqlite3", "/etc/passwd"):
                with pytest.raises(ToolFailure):
                    await bot.module.send_later(str(chat.key), str(path))
        (sent,) = chat.sent
        assert isinstance(sent.segments[0], File)
        assert sent.segments[0].media.name == "note.txt"
