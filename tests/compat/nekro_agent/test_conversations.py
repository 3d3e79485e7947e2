"""Plugins of the kinds that people publish for nekro-agent act in conversations."""

import json
from urllib.parse import parse_qs, urlsplit

import pytest
from anyio.abc import SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

from nekro_core.chat import Image, Mention
from nekro_core.policy.permissions import CommandSettings
from nekro_core.testing.script import words_of
from nekro_core.tools.outcome import ToolFailure
from tests.compat.nekro_agent.conftest import OpenBot, visitor
from tests.peers.listening import LoopbackServer, read_request

PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5E"
    "rkJggg=="
)


async def test_pictures_are_copied_between_box_and_host(bot_with: OpenBot) -> None:
    async with bot_with("picture_lab") as bot:
        chat = bot.chat()
        said = await chat.ask(
            "a grey one please",
            code="red = make_picture('red')\n"
            "blue = make_picture('blue')\n"
            "assert red != blue\n"
            "g = grey(red)\n"
            "from pathlib import Path\n"
            "assert Path(g).read_bytes().startswith(b'\\x89PNG'), g\n"
            "assert Path(leave_behind('note.txt')).read_text() == 'left behind'\n"
            f"send_collage('{chat.key}', [red, g, 'blue.png'])\n"
            "kept = keep_upload()\n"
            "assert Path(kept).read_bytes().startswith(b'\\x89PNG'), kept",
        )
        picture, words, kept = chat.sent
        assert isinstance(picture.segments[0], Image)
        assert isinstance(kept.segments[0], Image)
        assert words.segments[0] == Mention("lin")
        assert said[1].endswith("3 pictures")


@pytest.mark.long
@pytest.mark.parametrize(
    "path", ["/etc/passwd", "../../nekro.sqlite3", "/app/shared/../../etc/passwd", "/proc/self/mem"]
)
async def test_a_path_outside_the_box_is_refused(bot_with: OpenBot, path: str) -> None:
    async with bot_with("picture_lab") as bot:
        with pytest.raises(ToolFailure, match=r"expected a path|no '\.\.'"):
            await bot.call("grey", path)
        with pytest.raises(ToolFailure):
            await bot.call("send_collage", "another-private_lin", [path])


@pytest.mark.long
async def test_a_whitelist_keeps_strangers_from_waking_the_bot(bot_with: OpenBot) -> None:
    async with bot_with("gatekeeper") as bot:
        chat = bot.chat("group_7")
        assert await chat.ask("hello", reply="Hi Lin") == ["Hi Lin"]
        assert await chat.say("hello", by="Eve") == []
        assert await chat.say("spam spam") == []
        kept = await bot.plugin.store.get(chat_key=str(chat.key), store_key="h")
        assert [hit["user"] for hit in json.loads(kept or "")] == ["lin"]
        assert await chat.ask("and now?", reply="fine") == ["fine"]
        assert "spam" not in bot.prompt
        private = bot.chat("private_eve")
        assert await private.ask("wake up!", reply="yes", by="Eve") == ["yes"]


@pytest.mark.long
async def test_an_operators_command_switches_a_chat_off_and_on(bot_with: OpenBot) -> None:
    settings = {"nekro_command": CommandSettings(super_users=frozenset({"test:lin"}))}
    async with bot_with("gatekeeper", settings=settings) as bot:
        chat = bot.chat("group_7")
        assert await chat.say("hello", by="Ann") == []
        assert await chat.say("/gate_add ann") == ["已添加 ann"]
        assert await chat.ask("hello", reply="Hi Ann", by="Ann") == ["Hi Ann"]
        assert await chat.say("/gate_ban ann 5") == ["Ann 已封禁"]
        assert await chat.say("hello?", by="Ann") == []
        (refused,) = await chat.say("/gate_ban lin", by="Ann")
        assert "已封禁" not in refused
        assert await chat.say('/gate_play Pirate "You are a pirate."') == ["Pirate (True)"]
        assert await chat.ask("who are you?", reply="Arr") == ["Arr"]
        assert "You are a pirate." in words_of(bot.model.requests[-1])
        assert await chat.say("/gate_close") == ["7: False"]
        assert await chat.say("still there?") == []
        assert await chat.say("/gate_close open_again:true") == ["7: True"]
        assert await chat.ask("and now?", reply="yes") == ["yes"]
        assert "still there?" not in words_of(bot.model.requests[-1])


@pytest.mark.long
async def test_a_command_can_ask_back_and_read_the_answer(bot_with: OpenBot) -> None:
    async with bot_with("quiz") as bot:
        chat = bot.chat()
        (asked,) = await chat.say("/quiz.start topic:numbers rounds:2")
        assert asked.startswith("[numbers x2] 6 * 7 = ?")
        assert await chat.say("42") == ["right"]
        assert await chat.say("/count-down 2") == ["2", "1", "go"]
        (refused,) = await chat.say("/quiz.start rounds:9")
        assert "rounds" in refused


@pytest.mark.long
async def test_a_plugin_reads_a_persons_messages_from_the_history(bot_with: OpenBot) -> None:
    async with bot_with("personality") as bot:
        chat = bot.chat("group_7")
        for text in ("I love tea", "/nothing", "and cats"):
            await chat.ask(text, reply="ok", by="Ann")
        await chat.ask("hello", reply="hi", by="Bob")
        assert await bot.chat("group_8").ask("I love war", reply="no", by="Ann") == ["no"]
        bot.script.foresee(["She likes tea."])
        found = json.loads(await chat.call("analyse_personality", "ann", focus="taste"))
        assert found == {"user_id": "ann", "name": "Ann", "count": 2, "view": "She likes tea."}
        assert bot.prompt.index("I love tea") < bot.prompt.index("and cats")
        assert "war" not in bot.prompt
        assert "/nothing" not in bot.prompt
        assert "ann" in (await bot.plugin.store.get(user_key="ann", store_key="profile") or "")
        assert "system: profile of Ann stored" in await chat.record()
        assert (await chat.call("speakers"))["Ann"] == 3
        assert "不存在" in await chat.call("analyse_personality", "nobody")


@pytest.mark.long
async def test_a_plugins_timers_wake_the_agent(bot_with: OpenBot) -> None:
    async with bot_with("reminder") as bot:
        chat = bot.chat()
        assert bot.module.events == ["init", "enabled"]
        assert (bot.plugin.get_plugin_data_dir() / "log.txt").read_text() == "init"
        assert "1 pending" in await chat.call("remind", 60, "tea")
        assert (await chat.call("remind_daily", "30 8 * * *", "news")).endswith(": 1")
        with pytest.raises(ToolFailure, match="cron"):
            await chat.call("remind_daily", "nonsense", "news")
        other = bot.chat("group_30003")
        await other.call("remind_daily", "0 9 * * *", "gossip")
        # The model called these tools, so it sees only the jobs of its chat.
        assert await chat.call("all_daily") == "news"
        assert await other.call("all_daily") == "gossip"
        events = bot.module.events
    assert events[-1] == "cleanup"


@pytest.mark.long
async def test_a_plugins_tasks_pages_and_webhooks_work(bot_with: OpenBot) -> None:
    async with bot_with("dashboard") as bot:
        chat = bot.chat()
        assert await chat.call("start_build", "site") == "running: True"
        assert await chat.call("approve_build", "site") == "approved by lin"
        with pytest.raises(ToolFailure, match="approve_build failed with ValueError"):
            await chat.call("approve_build", "nothing")
        page, hook = bot.plugin.addresses
        async with visitor(bot.app.operator.pages) as visits:
            own = page.removeprefix("/plugins")
            assert (await visits.get(own)).json() == {"notes": 1}
            written = await visits.post(f"{own}notes", json={"name": "a", "text": "b"})
            assert written.json() == {"ok": True}
            assert (await visits.get(f"{own}notes/a")).json()["text"] == "b"
            assert (await visits.get(f"{own}notes/z")).status_code == 404
            assert (await visits.post(f"{own}notes", json={"name": 1})).status_code == 422
        async with visitor(bot.app.operator.webhooks) as visits:
            secret = hook.removeprefix("/api/webhook")
            body = {"chat_key": str(chat.key), "version": "1.2"}
            assert (await visits.post("/deploy", json=body)).status_code == 404
            assert (await visits.post(secret, json=body)).is_success
        assert await chat.gets() == ["deployed 1.2"]


@pytest.mark.long
async def test_the_model_reads_the_result_of_a_search(bot_with: OpenBot) -> None:
    async with Engine() as engine, bot_with("web_search") as bot:
        chat = bot.chat()
        assert await chat.call("搜索", "tea") == "[Error] 未配置 API 密钥"
        config = bot.plugin.get_config()
        config.BASE_URL, config.API_KEY = engine.base_url, "sk-1"
        said = await chat.ask(
            "look up tea", code="web_search(keyword='green tea')", reply="It is healthy."
        )
        assert said == ["It is healthy."]
        assert "1. green tea - found" in bot.prompt
        assert engine.asked == ["/v1/search?q=green+tea&key=sk-1"]
        assert "Last keyword: green tea" in bot.prompt
        config.BASE_URL = "http://127.0.0.1:1"
        with pytest.raises(ToolFailure, match="搜索 failed with ValueError"):
            await chat.call("搜索", "tea")


@pytest.mark.long
async def test_stickers_are_found_by_their_descriptions(bot_with: OpenBot) -> None:
    async with bot_with("sticker_store") as bot:
        chat = bot.chat()
        await chat.ask(
            "keep these",
            code=f"import base64\npixel = base64.b64decode('{PIXEL}')\n"
            "for color, words in (('red', 'an angry cat shouts'), ('blue', 'a sad dog cries')):\n"
            "    open(f'{color}.png', 'wb').write(pixel + color.encode())\n"
            "    number = collect_sticker(f'{color}.png', words, [color, 'pet'])\n"
            "send_sticker(number)",
        )
        (sent,) = chat.sent
        assert isinstance(sent.segments[0], Image)
        words, picture, *_ = await chat.call("search_sticker", "angry cat")
        assert words.text == "#1: an angry cat shouts"
        assert picture.mime == "image/png"
        found = await chat.call("search_sticker", "angry cat", tag="blue")
        assert [part.text for part in found if hasattr(part, "text")] == ["#2: a sad dog cries"]
        assert await chat.say("/sticker_stats") == ["2 / 2"]
        await bot.reload()
        await chat.ask(
            "again",
            code="path = get_sticker_path(2)\nassert open(path, 'rb').read(4) == b'\\x89PNG'\n"
            "send_sticker(1)",
        )
        assert "You keep 2 stickers." in words_of(bot.model.requests[-1])
        with pytest.raises(ToolFailure, match="failed with ValueError"):
            await chat.call("get_sticker_path", 9)


class Engine(LoopbackServer):
    """A fake search engine."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    async def serve(self, stream: SocketStream, reader: BufferedByteReceiveStream) -> bool:
        request = await read_request(reader)
        self.asked.append(request.path)
        word = parse_qs(urlsplit(request.path).query)["q"][0]
        body = json.dumps({"items": [{"title": word, "snippet": "found"}]}).encode()
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n"
        await stream.send(head.encode() + body)
        return True
