"""Nine plugins act in chats of one bot. Their author had not seen the code of
`nekro_core.compat`."""

import ast
import io
import shutil
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from types import ModuleType

import httpx
import PIL
import pytest
from PIL import Image as Pillow

from nekro_core.chat import File, Image
from nekro_core.plugins.host.listing import PluginState
from nekro_core.testing import Bot
from nekro_core.tools.outcome import ToolFailure
from tests.peers.scripted_model import ScriptedModelServer

pytestmark = [pytest.mark.jail, pytest.mark.long]
PLUGINS = Path(__file__).parent / "plugins"


@pytest.fixture
async def bot(tmp_path: Path) -> AsyncIterator[Bot]:
    data = tmp_path / "data"
    shutil.copytree(PLUGINS, data / "plugins", ignore=shutil.ignore_patterns("__pycache__"))
    replies = ["good day"] * 4
    async with ScriptedModelServer(replies) as server:
        group = {"base_url": server.base_url, "model": "small", "api_key": "k"}
        async with Bot.open(data, settings={"nekro_models": {"translate": group}}) as running:
            yield running


async def test_plugins_act_in_a_chat(bot: Bot) -> None:
    ours = [each for each in bot.app.plugins.plugins() if each.item.startswith("local/")]
    assert len(ours) == 9
    assert all(each.state is PluginState.LOADED for each in ours), ours
    await _collects_stickers(bot)
    await _translates(bot)
    await _builds_in_the_background(bot)


@pytest.mark.long
async def test_the_other_plugins_act_in_a_chat(bot: Bot) -> None:
    await _tells_of_weather(bot)
    await _handles_files(bot)
    await _counts_who_speaks(bot)
    await _asks_a_quiz(bot)
    await _remembers_in_vectors(bot)
    await _pokes_nobody_here(bot)
    await _shows_builds_and_hears_of_them(bot)
    assert await bot.chat().say("/reset", quiet_s=0.15)
    assert await module(bot, "group_stats").plugin.store.get(
        chat_key=str(bot.chat().key), store_key="reset_at"
    )


def module(bot: Bot, name: str) -> ModuleType:
    """The module of a plugin that consists of one file."""
    place = str(bot.app.host.data_dir / "plugins" / f"{name}.py")
    (found,) = {each for each in [*sys.modules.values()] if getattr(each, "__file__", "") == place}
    return found


async def _collects_stickers(bot: Bot) -> None:
    chat = bot.chat()
    buffer = io.BytesIO()
    Pillow.new("RGB", (8, 8), "red").save(buffer, "PNG")
    code = (
        f"open('/app/shared/cat.png', 'wb').write({buffer.getvalue()!r})\n"
        "assert add_sticker('/app/shared/cat.png', 'cat') == 1\n"
        "add_sticker('cat.png')\n"
        "path = show_book()\n"
        "assert open(path, 'rb').read(4) == b'\\x89PNG', path"
    )
    await chat.ask("collect these", code=code)
    (sheet,) = chat.sent
    assert isinstance(sheet.segments[0], Image)
    with Pillow.open(io.BytesIO(sheet.files[0])) as drawn:
        assert drawn.size == (64, 44)
    look = ["look_at_book()", "send_channel_message('nice')"]
    assert await chat.ask("look", code=look) == ["nice"]
    assert "tags: 1=cat by lin, 2=none by lin" in bot.prompt
    assert await chat.say("/book list", quiet_s=0.15) == ["#1 cat\n#2 none"]
    assert await chat.say("/book.list cat", quiet_s=0.15) == ["#1 cat"]
    await chat.call("add_sticker", "cat.png")
    with pytest.raises(ToolFailure, match="add_sticker failed with ValueError"):
        await chat.call("add_sticker", "cat.png")
    with pytest.raises(ToolFailure, match=r"no '\.\.'"):
        await chat.call("add_sticker", "../../etc/passwd")


async def _tells_of_weather(bot: Bot) -> None:
    chat = bot.chat()
    report = "weather_report(['魔都'])"
    read = "send_channel_message(open('/home/user/report.txt').read())"
    (said,) = await chat.ask("weather", code=[report, read])
    assert said.startswith(
        "魔都: error 查询 上海"
    )  # the plugin knows the alias, but no server answers
    assert await chat.call("block_city", "Atlantis") == "Atlantis 已屏蔽"
    kept = bot.app.host.data_dir / "plugin_data" / "zhuque.city_weather" / "config.yaml"
    assert "Atlantis" in kept.read_text(encoding="utf-8")
    with pytest.raises(ToolFailure, match="查询天气 failed with Exception"):
        await chat.call("查询天气", "魔都")


async def _handles_files(bot: Bot) -> None:
    chat = bot.chat()
    code = (
        "path = make_note_file('hello')\n"
        "assert digest_file(path)['size'] == 5\n"
        "open('/app/shared/x.bin', 'wb').write(b'12345')\n"
        "send_channel_message(digest_file('/app/shared/x.bin')['md5'])\n"
        "send_channel_message(str(similar('abc', 'abd')))"
    )
    said = await chat.ask("files", code=code)
    assert said[1:] == ["827ccb0eea8a706c4c34a16891f84e7b", "0.67"]
    note = chat.sent[-3]
    assert isinstance(note.segments[0], File)
    assert note.files == (b"hello",)
    # The plugin's hook returns 2, the number of `MsgSignal.BLOCK_ALL`.
    assert await chat.say("some spam", quiet_s=0.15) == []


async def _counts_who_speaks(bot: Bot) -> None:
    chat = bot.chat()
    (ranking,) = await chat.say("/rank 2 style:fancy", quiet_s=0.15)
    assert ranking.startswith("🏆 Lin: ")
    (refused,) = await chat.say("/排行 top:99", quiet_s=0.15)
    assert "99" in refused
    code = ["speaking_rank()", "send_channel_message(str(whois('lin')))"]
    (known,) = await chat.ask("who speaks most?", code=code)
    assert "(test) total" in bot.prompt
    assert "Messages so far here: " in bot.prompt
    assert ast.literal_eval(known) | {"last": ""} == {
        "name": "Lin",
        "last": "",
        "at": "2026",
        "asked_by": "Lin",
        "channel": "test-private_lin",
    }
    assert await chat.call("whois", "nobody") is None


async def _asks_a_quiz(bot: Bot) -> None:
    chat = bot.chat()
    assert await chat.say("/quiz", quiet_s=0.15) == ["Question: 2+2?"]
    assert await chat.say("4", quiet_s=0.15) == ["Right!", "Lin has 1"]
    assert await chat.say("/问答 hard", quiet_s=0.15) == ["Question: capital of France?"]
    hint = "send_channel_message(quiz_hint())"
    await chat.call("quiz_hint")
    assert await chat.say("London", quiet_s=0.15) == ["Wrong: paris"]
    assert await chat.ask("a hint?", code=hint) == ["hint: it starts with p"]
    assert await chat.say("/points_card", quiet_s=0.15) == ["Card of Lin"]
    (refused,) = await chat.say("/quiz_admin", quiet_s=0.15)
    assert "secret" not in refused
    with pytest.raises(LookupError, match="no tool 'quiz_stats'"):
        await chat.call("quiz_stats")
    stats = "send_channel_message(quiz_stats(4))"
    assert await bot.chat("group_30003").ask("stats", code=stats) == ["stats 4"]


async def _remembers_in_vectors(bot: Bot) -> None:
    code = (
        "remember('cats like fish')\nremember('dogs like bones', kind='fact')\n"
        "assert recall('cats') == ['cats like fish']\n"
        "assert recall('dogs', kind='fact') == ['dogs like bones']\n"
        "send_channel_message(str(forget_all()))"
    )
    assert await bot.chat().ask("remember", code=code) == ["2"]


async def _translates(bot: Bot) -> None:
    chat = bot.chat()
    expected = len(chat.sent) + 1
    await chat.say("tr: bonjour", quiet_s=0.15)
    assert (await chat.gets(expected))[-1] == "Lin: good day"
    assert await chat.call("translate", "a|b", target_lang="German") == "good day|good day"
    assert await chat.ask("tell them", code="announce('servus')") == ["servus"]
    assert "system: [polyglot] servus" in await chat.record()


async def _builds_in_the_background(bot: Bot) -> None:
    chat = bot.chat()
    watch = module(bot, "build_watch")
    assert watch.beats > 0  # a task that the plugin itself started runs
    start = "start_build('core')\nsend_channel_message(start_build('core'))"
    assert await chat.ask("build it", code=start) == ["already running"]
    bot.foresee(code="send_channel_message('built')")
    expected = len(chat.sent) + 1
    assert await chat.call("approve_build", "core") is True
    assert (await chat.gets(expected))[-1] == "built"
    assert "build of core finished, approved=yes" in bot.prompt
    nightly = await chat.call("nightly")
    assert (nightly["n"], nightly["timers"]) == ("1", "1")
    assert "nightly" in nightly["summary"]


async def _pokes_nobody_here(bot: Bot) -> None:
    chat = bot.chat()
    assert await chat.call("poke", "123") == "cannot poke here: ToolFailure"
    assert await chat.call("pil_version") == PIL.__version__


async def _shows_builds_and_hears_of_them(bot: Bot) -> None:
    chat = bot.chat()
    page, hook = module(bot, "build_watch").plugin.addresses
    pages, hooks = (
        httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://bot")
        for app in (bot.app.operator.pages, bot.app.operator.webhooks)
    )
    async with pages, hooks:
        own = page.removeprefix("/plugins")
        build = {"repo": "core", "ok": True}
        added = await pages.post(f"{own}builds?notify=true", json=build)
        assert added.json() == {"count": 1, "notify": True}
        assert (await pages.post(f"{own}builds", json={"repo": ""})).status_code == 400
        assert (await pages.get(own)).text == "<h1>1 builds</h1>"
        body = {"chat_key": str(chat.key), "repo": "core", "status": "failed"}
        assert (await hooks.post("/ci", json=body)).status_code == 404
        assert (await hooks.post(hook.removeprefix("/api/webhook"), json=body)).is_success
    assert "system: build of core failed" in await chat.record()
