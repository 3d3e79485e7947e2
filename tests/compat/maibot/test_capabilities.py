"""Each capability of the bot that MaiBot's SDK can call is called through the SDK's own proxies."""

import base64
import io
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from PIL import Image

from nekro_core.chat import Image as ImageSegment
from nekro_core.chat import Reply
from nekro_core.compat.maibot.capabilities.render import _draw_text, html2png
from nekro_core.compat.maibot.capability import CapabilityCall
from nekro_core.memory.notes.book import NewNote
from nekro_core.memory.settings import MemorySettings
from nekro_core.testing import Bot
from nekro_core.tools.outcome import ToolFailure
from tests.compat.maibot.plant import plant
from tests.peers.visited import own_address, visited

ASKER = """
from maibot_sdk import MaiBotPlugin, MessageGateway, Tool

class Asker(MaiBotPlugin):
    async def on_load(self): self.out = []
    async def on_unload(self): pass
    async def on_config_update(self, scope, config_data, version): pass

    @Tool(
        "ask",
        core_tool=True,
        parameters={"way": {"type": "string", "required": True}, "kwargs": {"type": "object"}},
    )
    async def ask(self, way, kwargs=None, stream_id="", **rest):
        target = self.ctx
        for part in way.split("."):
            target = getattr(target, part)
        given = {k: (stream_id if v == "HERE" else v) for k, v in (kwargs or {}).items()}
        return {"answer": await target(**given), "message": rest["message"]}

    @MessageGateway("duplex", name="wire", platform="telex", protocol="v1")
    async def send_out(self, message, route, **kwargs):
        self.out.append((message["processed_plain_text"], route["platform"]))
        return {"success": True, "external_message_id": f"t{len(self.out)}"}

def create_plugin():
    return Asker()
"""


def png(color: str = "red") -> str:
    held = io.BytesIO()
    Image.new("RGB", (4, 4), color).save(held, "PNG")
    return base64.b64encode(held.getvalue()).decode()


class Asking:
    """Calls a capability from a tool of the plugin, inside a chat."""

    def __init__(self, bot: Bot, chat: str = "group_7") -> None:
        self.bot = bot
        self.chat = bot.chat(chat)

    async def __call__(self, way: str, **kwargs: Any) -> Any:
        return (await self.chat.call("ask", way, kwargs))["answer"]


async def test_every_capability_answers_as_the_sdk_expects(tmp_path: Path) -> None:
    plant(tmp_path, ASKER, plugin_id="ann.asker")
    async with Bot.open(tmp_path) as bot:
        ask = Asking(bot)
        await _sends(ask)
        await _remembers(ask)
        await _keeps(ask)
        await _minds(ask)
        await _thinks(ask)
        await _lists(ask)
        await _is_a_platform(bot)


async def test_a_search_of_knowledge_returns_documents_notes_and_messages_of_one_chat(
    tmp_path: Path,
) -> None:
    plant(tmp_path, ASKER, plugin_id="ann.asker")
    async with Bot.open(tmp_path) as bot:
        ask, there = Asking(bot), Asking(bot, "group_8")
        memory, here, other = bot.app.memory, ask.chat.key, there.chat
        assert await ask("knowledge.search", query="vermilion") == ""
        await ask.chat.ask("my vermilion scarf is lost", reply="a pity")
        await other.ask("the vermilion car is sold", reply="good")
        await memory.knowledge.learn(
            None, "door.md", "# 门\nThe door is vermilion.\n苹果树".encode()
        )
        await memory.knowledge.learn(other.key, "boat.md", b"The boat is vermilion.")
        old = await memory.notes.keep(here, NewNote(text="the vermilion room is 3"))
        await memory.notes.keep(here, NewNote(text="paints in vermilion", about_id="lin"))
        await memory.notes.keep(other.key, NewNote(text="a vermilion tent"))
        assert old is not None
        await memory.notes.end(here, [old.note.note_id])
        document = "[door.md, 门] # 门 The door is vermilion. 苹果树"
        found = (await ask("knowledge.search", query="vermilion")).splitlines()
        assert found[:2] == [document, "paints in vermilion"]
        assert len(found) == 3, "what is no longer true, and what others said, is not found"
        assert found[2].endswith("my vermilion scarf is lost")
        assert "Lin" in found[2]
        elsewhere = await there("knowledge.search", query="vermilion")
        assert "tent" in elsewhere
        assert "boat" in elsewhere
        assert "car is sold" in elsewhere
        assert "scarf" not in elsewhere
        assert "paints" not in elsewhere
        assert (await ask("knowledge.search", query="苹果树")).splitlines() == [document]
        assert len((await ask("knowledge.search", query="vermilion", limit=1)).splitlines()) == 3
        assert await ask("knowledge.search", query="zeppelin") == ""
        # What the person does not want to be remembered is not among the notes.
        await memory.switch_off(here, "lin")
        assert "paints" not in await ask("knowledge.search", query="vermilion")


async def test_with_notes_and_documents_switched_off_only_messages_are_searched(
    tmp_path: Path,
) -> None:
    plant(tmp_path, ASKER, plugin_id="ann.asker")
    settings = {"nekro_memory": MemorySettings(notes=False, knowledge=False)}
    async with Bot.open(tmp_path, settings=settings) as bot:
        ask = Asking(bot)
        await bot.app.memory.notes.keep(ask.chat.key, NewNote(text="paints in vermilion"))
        folder = bot.app.memory.knowledge.folder_of(None)
        folder.mkdir(parents=True)
        (folder / "door.txt").write_text("The door is vermilion.")
        await ask.chat.ask("my vermilion scarf is lost", reply="a pity")
        (line,) = (await ask("knowledge.search", query="vermilion")).splitlines()
        assert line.endswith("my vermilion scarf is lost")


async def _sends(ask: Asking) -> None:
    chat = ask.chat
    sent = await ask("send.text", text="hi", stream_id="HERE", return_details=True)
    assert sent == {"sent": True, "message_id": chat.sent[-1].message_id}
    assert await ask("send.text", text="hi", stream_id="HERE", reply_message_id="m1") is True
    assert chat.sent[-1].segments[0] == Reply("m1")
    for way, key in (("send.image", "image_data"), ("send.emoji", "emoji_data")):
        assert await ask(way, **{key: png().rstrip("="), "stream_id": "HERE"}) is True
        assert isinstance(chat.sent[-1].segments[0], ImageSegment)
    assert await ask("send.image", image_data="no picture", stream_id="HERE") is False
    assert await ask("send.text", text="hi", stream_id="nowhere") is False
    nodes = [{"nickname": "Mei", "content": "one"}, {"nickname": "Bo", "content": "two"}]
    assert await ask("send.forward", messages=nodes, stream_id="HERE") is True
    last = chat.sent[-1]
    assert last.text == "Mei:\n> one\nBo:\n> two"
    assert await ask("send.custom", custom_type="dance", data="x", stream_id="HERE") is False
    assert await ask("send.command", command="send_poke", stream_id="HERE") is False


async def _remembers(ask: Asking) -> None:
    chat = ask.chat
    await chat.ask("what about apples?", reply="they are red", by="Mei")
    await chat.ask("苹果好吃吗", reply="好吃")
    recent = await ask("message.get_recent", chat_id="HERE", limit=2)
    assert [each["processed_plain_text"] for each in recent] == ["苹果好吃吗", "好吃"]
    assert recent[0]["message_info"]["user_info"]["user_nickname"] == "Lin"
    by_id = await ask("message.get_by_id", message_id=recent[0]["message_id"])
    assert by_id["processed_plain_text"] == "苹果好吃吗"
    assert await ask("message.get_by_id", message_id="none") is None
    since = str(float(recent[0]["timestamp"]) - 1)
    assert await ask("message.count_new", chat_id="HERE", since=since) >= 2
    window = {"start_time": since, "end_time": str(float(since) + 1e6)}
    in_chat = await ask("message.get_by_time_in_chat", chat_id="HERE", **window)
    assert "苹果好吃吗" in [each["processed_plain_text"] for each in in_chat]
    assert len(await ask("message.get_by_time", **window)) >= len(in_chat)
    text = await ask("message.build_readable", messages=recent)
    assert text.splitlines()[0] == "Lin: 苹果好吃吗"
    found = await ask("knowledge.search", query="苹果怎么样")
    assert "苹果好吃吗" in found
    stream = await ask("chat.get_stream_by_group_id", group_id="7", platform="test")
    assert stream["stream_id"] == str(chat.key)
    assert await ask("chat.get_stream_by_user_id", user_id="nobody") is None
    assert len(await ask("chat.get_all_streams", platform="all")) == 1
    assert await ask("chat.get_private_streams", platform="all") == []
    opened = await ask("chat.open_session", platform="test", chat_type="private", user_id="mei")
    assert opened["stream_id"] == "test-private_mei"
    assert (await ask("chat.get_avatar", platform="test", target_id="1"))["status"] == "unsupported"
    person = await ask("person.get_id_by_name", person_name="Mei")
    assert person == await ask("person.get_id", platform="test", user_id="mei")
    assert await ask("person.get_value", person_id=person, field_name="nickname") == "Mei"
    assert await ask("person.get_value", person_id=person, field_name="shoe_size") is None


async def _keeps(ask: Asking) -> None:
    row = {"model_name": "scores", "key_field": "who"}
    await ask("db.save", **row, data={"who": "mei", "points": 3}, key_value="mei")
    await ask("db.save", **row, data={"points": 4}, key_value="mei")
    await ask("db.query", model_name="scores", query_type="create", data={"who": "bo", "points": 1})
    assert await ask("db.count", model_name="scores") == 2
    best = await ask("db.get", model_name="scores", order_by="-points", limit=1)
    assert [each["who"] for each in best] == ["mei"]
    one = {"model_name": "scores", "single_result": True}
    assert (await ask("db.get", **one, filters={"points__lt": 2}))["who"] == "bo"
    refused = await ask("db.query", model_name="scores", query_type="delete")
    assert "without filters" in refused["error"]
    assert "read" in (await ask("db.save", model_name="Messages", data={"x": 1}))["error"]
    assert await ask("db.delete", model_name="scores", filters={"who": "bo"}) == 1
    said = await ask("db.get", model_name="Messages", filters={"chat_id": "test-group_7"}, limit=1)
    assert said[0]["display_message"]
    assert await ask("config.get", key="bot.nickname") is not None
    assert await ask("config.get", key="no.such.key", default=7) == 7
    assert await ask("config.get_all") == {}


async def _minds(ask: Asking) -> None:
    chat, pieces = ask.chat, [{"type": "text", "data": "a cat walked by"}]
    await ask("maisaka.context.append", stream_id="HERE", segments=pieces, source_kind="cam")
    assert "system: [cam] a cat walked by" in await chat.record()
    ask.bot.script.foresee(["good morning!"])
    before = len(chat.texts)
    await ask("maisaka.proactive.trigger", stream_id="HERE", intent="say good morning")
    assert (await chat.gets(before + 1))[-1] == "good morning!"
    ask.bot.script.foresee([" as Nekro would say it "])
    reply = await ask("maisaka.reply.generate", stream_id="HERE", reference="be short")
    assert reply["text"] == "as Nekro would say it"
    image = await ask("maisaka.context.resolve_image", stream_id="HERE", source_id="0")
    assert "has no message" in image["error"]
    assert await ask("frequency.set_adjust", chat_id="HERE", value=0.5) is True
    assert await ask("frequency.get_adjust", chat_id="HERE") == 0.5
    added = await ask("emoji.register_emoji", emoji_base64=png("blue"))
    assert added["success"] is False  # the call fails because the scripted model has no reply left
    ask.bot.script.clear()
    ask.bot.script.foresee(["A blue square\ncalm, bored"])
    added = await ask("emoji.register_emoji", emoji_base64=png("blue"))
    assert await ask("emoji.get_count") == 1
    assert (await ask("emoji.get_by_description", description="blue"))["base64"] == png("blue")
    assert await ask("emoji.get_emotions") == ["bored", "calm"]
    assert len(await ask("emoji.get_random", count=5)) == len(await ask("emoji.get_all")) == 1
    assert (await ask("emoji.delete_emoji", emoji_hash=added["hash"]))["success"] is True


async def _thinks(ask: Asking) -> None:
    ask.bot.script.foresee(["pong"])
    answer = await ask("llm.generate", prompt=[{"role": "user", "content": "ping"}], model="utils")
    assert (answer["success"], answer["response"], answer["model"]) == (True, "pong", "scripted")
    assert answer["total_tokens"] > 0
    failed = await ask("llm.generate", prompt="ping")
    assert (failed["success"], "no reply" in failed["error"]) == (False, True)
    ask.bot.script.clear()
    one = (await ask("llm.embed", text="tea"))["embedding"]
    several = (await ask("llm.embed", texts=["tea", "coffee"]))["results"]
    assert several[0]["embedding"] == one
    assert math.isclose(sum(each * each for each in one), 1.0, rel_tol=1e-3)
    ask.bot.script.foresee(["hello there"])
    heard = await ask("llm.transcribe_audio", audio=base64.b64encode(b"RIFF0000WAVE").decode())
    assert heard["text"] == "hello there"


async def _lists(ask: Asking) -> None:
    assert list(await ask("component.get_all_plugins")) == ["ann.asker"]
    assert await ask("component.list_loaded_plugins") == ["ann.asker"]
    assert (await ask("component.get_plugin_info", plugin_name="ann.asker"))["version"] == "1.0.0"
    names = {each["name"] for each in await ask("tool.get_definitions")}
    assert {"ask", "send_channel_message"} <= names
    assert "does not have this capability" in (await ask("market.search"))["error"]
    refused = await ask("api.call", api_name="no.such.api")
    assert "there is no API" in refused["error"]
    off = {"name": "ask", "component_type": "TOOL", "scope": "stream", "stream_id": "test-group_8"}
    await ask("component.disable_component", **off)
    with pytest.raises(ToolFailure, match="switched off in this chat"):
        await Asking(ask.bot, "group_8")("emoji.get_count")
    await ask("component.enable_component", **off)
    assert await Asking(ask.bot, "group_8")("emoji.get_count") == 0


async def _keeps_nothing_where_the_bot_is_off(ask: Asking, message: dict[str, Any]) -> None:
    """A gateway's messages pass the same checks as an adapter's messages: in a chat that is
    switched off, none is stored."""
    runtime = ask.bot.app._runtime
    (chat,) = await runtime.services.store.chats.of_instance("telex")
    before = await runtime.services.store.messages.newest(chat, 10)
    await runtime.services.policies.conduct.put(("chats", str(chat)), "state", "off")
    late = {**message, "message_id": "e2"}
    await ask("gateway.route_message", gateway_name="wire", message=late)
    assert await runtime.services.store.messages.newest(chat, 10) == before
    await runtime.services.policies.conduct.put(("chats", str(chat)), "state", "on")


async def _is_a_platform(bot: Bot) -> None:
    ask = Asking(bot)
    (kind,) = bot.app.plugins._kinds
    out = kind.plugins.find("ann.asker").instance.out
    message = {
        "message_id": "e1",
        "message_info": {"user_info": {"user_id": "u1", "user_nickname": "Zoe"}},
        "raw_message": [{"type": "text", "data": "hello bot"}],
    }
    assert await ask("gateway.route_message", gateway_name="wire", message=message) is False
    state = {"gateway_name": "wire", "ready": True, "account_id": "me"}
    assert await ask("gateway.update_state", **state) is True
    bot.script.foresee(["hello Zoe"])
    assert await ask("gateway.route_message", gateway_name="wire", message=message) is True
    with anyio.fail_after(30):
        while not out:
            await anyio.sleep(0.02)
    assert out == [("hello Zoe", "telex")]
    assert await ask("gateway.route_message", gateway_name="wire", message={"no": 1}) is False
    await _keeps_nothing_where_the_bot_is_off(ask, message)
    assert "telex" in bot.app.adapters
    await bot.app.plugins.disable("local/asker")
    assert "telex" not in bot.app.adapters


def test_without_a_browser_the_text_of_a_page_is_drawn() -> None:
    png_bytes, width, height = _draw_text("<h1>你好</h1><script>x</script><p>line two</p>")
    with Image.open(io.BytesIO(png_bytes)) as picture:
        assert picture.size == (width, height)
        assert picture.convert("L").getextrema() == (0, 255)


@pytest.mark.browser
@pytest.mark.long
async def test_a_page_is_drawn_by_the_browser(tmp_path: Path) -> None:
    plant(tmp_path, ASKER, plugin_id="ann.asker")
    page = (
        "<body style='margin:0;background:#00f;width:40px;height:20px'>"
        "<img src='file:///etc/hostname'><img src='http://127.0.0.1:1/x'></body>"
    )
    async with Bot.open(tmp_path) as bot:
        made = await Asking(bot)("render.html2png", html=page, device_scale_factor=1)
    with Image.open(io.BytesIO(base64.b64decode(made["image_base64"]))) as picture:
        assert picture.size == (40, 20)
        assert picture.convert("RGB").getpixel((39, 19)) == (0, 0, 255)


@pytest.mark.browser
@pytest.mark.long
async def test_a_page_cannot_load_anything_from_this_machine(tmp_path: Path) -> None:
    plant(tmp_path, ASKER, plugin_id="ann.asker")
    with visited() as server:
        hosts = (f"127.0.0.1:{server.port}", f"{own_address()}:{server.port}")
        page = "<body style='width:40px;height:20px'>" + "".join(
            f"<img src='http://{host}/img'><link rel=stylesheet href='http://{host}/css'>"
            f"<iframe src='http://{host}/frame'></iframe>"
            f"<script>new WebSocket('ws://{host}/socket'); fetch('http://{host}/fetch')"
            f".catch(() => 0); navigator.sendBeacon('http://{host}/beacon')</script>"
            for host in hosts
        )
        for network in (True, False):
            async with Bot.open(tmp_path) as bot:
                await Asking(bot)(
                    "render.html2png", html=page, allow_network=network, wait_for_timeout_ms=500
                )
        assert server.visits == []


class _Pictures:
    """A network that answers every request with a red picture."""

    async def fetch(self, url: str) -> bytes:
        target = io.BytesIO()
        Image.new("RGB", (8, 8), "red").save(target, "PNG")
        return target.getvalue()


@pytest.mark.browser
@pytest.mark.long
async def test_a_page_shows_pictures_from_the_network() -> None:
    page = (
        "<body style='margin:0;width:40px;height:20px;background:#00f'>"
        "<img src='http://pictures.example/cat' width=40 height=20>"
    )
    bot: Any = SimpleNamespace(
        services=SimpleNamespace(fetcher=_Pictures()), pages=anyio.CapacityLimiter(1)
    )
    unused: Any = None
    call = CapabilityCall(
        name="render.html2png",
        args={"html": page, "allow_network": True},
        bot=bot,
        plugin=unused,
        hooks=unused,
        plugins=unused,
    )
    made = await html2png(call)
    png = base64.b64decode(made["result"]["image_base64"])
    with Image.open(io.BytesIO(png)) as picture:
        x, y = picture.width // 2, picture.height // 2
        assert picture.convert("RGB").getpixel((x, y)) == (255, 0, 0)
