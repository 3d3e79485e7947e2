"""MaiBot plugins send messages, and their hooks change messages that are about to be sent."""

import io
import wave
from pathlib import Path

import pytest
from loguru import logger

from nekro_core.chat import File, Image, Reply, Text, Voice
from nekro_core.testing import Bot
from nekro_core.tools.outcome import ToolFailure
from tests.compat.maibot.plant import plant
from tests.compat.maibot.test_capabilities import png

CENSOR = """
from maibot_sdk import HookHandler, MaiBotPlugin, Tool

class Censor(MaiBotPlugin):
    async def on_load(self): pass
    async def on_unload(self): pass
    async def on_config_update(self, scope, config_data, version): pass

    @HookHandler("send_service.before_send", name="a_text_for_memory")
    async def for_memory(self, message=None, **kwargs):
        changed = {**message, "processed_plain_text": ""}
        return {"modified_kwargs": {**kwargs, "message": changed, "processed_plain_text": ""}}

    @HookHandler("send_service.before_send", name="b_in_place")
    async def in_place(self, message=None, **kwargs):
        message["raw_message"].clear()

    @HookHandler("send_service.before_send", name="c_words")
    async def words(self, message=None, **kwargs):
        raw = []
        for each in message["raw_message"]:
            if each["type"] == "text":
                each = {**each, "data": each["data"].replace("damn", "dear")}
            raw.append(each)
        return {"modified_kwargs": {"message": {**message, "raw_message": raw}}}

    @HookHandler("send_service.after_build_message", name="d_all")
    async def everything(self, message=None, **kwargs):
        if "secret" in message["processed_plain_text"]:
            return {"modified_kwargs": {"message": {**message, "raw_message": []}}}

    @HookHandler("send_service.after_build_message", name="e_reply")
    async def reply(self, message=None, **kwargs):
        if "answer" in message["processed_plain_text"]:
            kwargs |= {"set_reply": True, "reply_message_id": "m7"}
            return {"modified_kwargs": kwargs}

    @Tool("show", core_tool=True, parameters={"text": {"type": "string"}})
    async def show(self, text, stream_id, **kwargs):
        picture = {"type": "image", "data": PNG}
        sent = await self.ctx.send.hybrid([{"type": "text", "data": text}, picture], stream_id)
        return {"sent": sent}

def create_plugin():
    return Censor()
"""


async def test_a_message_that_a_hook_leaves_unchanged_is_sent_unchanged(tmp_path: Path) -> None:
    plant(tmp_path, CENSOR.replace("PNG", repr(png())), plugin_id="ann.censor")
    async with Bot.open(tmp_path) as bot:
        chat = bot.chat()
        assert await chat.call("show", "damn cat") == {"sent": True}
        words, picture = chat.sent[-1].segments
        assert words == Text("dear cat")
        assert isinstance(picture, Image)
        assert chat.sent[-1].files[0].startswith(b"\x89PNG")
        assert await chat.call("show", "my secret") == {"sent": False}
        with pytest.raises(ToolFailure, match="dropped"):
            await chat.call("send_channel_message", "a secret")
        await chat.call("send_channel_message", "an answer")
        assert chat.sent[-1].segments == (Reply("m7"), Text("an answer"))


SPLITTER = """
from maibot_sdk import HookHandler, MaiBotPlugin, Tool

class Splitter(MaiBotPlugin):
    async def on_load(self): pass
    async def on_unload(self): pass
    async def on_config_update(self, scope, config_data, version): pass

    @HookHandler("send_service.after_build_message", timeout_ms=5000)
    async def split(self, message, stream_id, **kwargs):
        raw = message.get("raw_message") or []
        words = [each for each in raw if each["type"] == "text"]
        pictures = [each for each in raw if each["type"] == "image"]
        if not words or not pictures:
            return {"action": "continue"}
        for each in pictures:
            if data := each.get("binary_data_base64"):
                await self.ctx.send.image(data, stream_id)
        kept = {**message, "raw_message": words, "is_picture": False}
        return {"action": "continue", "modified_kwargs": {"message": kept}}

    @Tool("show", core_tool=True, parameters={"text": {"type": "string"}})
    async def show(self, text, stream_id, **kwargs):
        picture = {"type": "image", "content": PNG}
        sent = await self.ctx.send.hybrid([{"type": "text", "content": text}, picture], stream_id)
        return {"sent": sent}

def create_plugin():
    return Splitter()
"""


async def test_a_hook_sends_the_picture_of_a_message_as_a_separate_message(tmp_path: Path) -> None:
    plant(tmp_path, SPLITTER.replace("PNG", repr(png())), plugin_id="ann.splitter")
    async with Bot.open(tmp_path) as bot:
        chat = bot.chat()
        assert await chat.call("show", "a cat") == {"sent": True}
        picture, words = chat.sent
        assert isinstance(picture.segments[0], Image)
        assert picture.files[0].startswith(b"\x89PNG")
        assert words.segments == (Text("a cat"),)


MARKER = """
from maibot_sdk import HookHandler, MaiBotPlugin

class Marker(MaiBotPlugin):
    async def on_load(self): self.seen = []
    async def on_unload(self): pass
    async def on_config_update(self, scope, config_data, version): pass

    def note(self, message):
        config = message["message_info"]["additional_config"]
        self.seen.append((message["timestamp"], config.get("my_mark")))

    @HookHandler("send_service.after_build_message")
    async def built(self, message=None, **kwargs):
        self.note(message)
        message["message_info"]["additional_config"]["my_mark"] = "first"
        return {"modified_kwargs": {**kwargs, "message": message}}

    @HookHandler("send_service.before_send")
    async def before(self, message=None, **kwargs):
        self.note(message)

    @HookHandler("send_service.after_send")
    async def after(self, message=None, **kwargs):
        self.note(message)

def create_plugin():
    return Marker()
"""


async def test_a_plugin_recognizes_its_own_message_in_the_next_hook(tmp_path: Path) -> None:
    plant(tmp_path, MARKER, plugin_id="ann.marker")
    async with Bot.open(tmp_path) as bot:
        await bot.chat().call("send_channel_message", "one")
        await bot.chat().call("send_channel_message", "two")
        (kind,) = bot.app.plugins._kinds
        seen = kind.plugins.find("ann.marker").instance.seen
    assert [mark for _, mark in seen] == [None, "first", "first"] * 2
    assert len({time for time, _ in seen[:3]}) == 1


SINGER = """
from pathlib import Path
from maibot_sdk import MaiBotPlugin, Tool

class Singer(MaiBotPlugin):
    async def on_load(self): pass
    async def on_unload(self): pass
    async def on_config_update(self, scope, config_data, version): pass

    @Tool("sing", core_tool=True, parameters={"kind": {"type": "string"}})
    async def sing(self, kind, stream_id, **kwargs):
        song = Path(self.ctx.paths.data_dir) / "song.wav"
        song.write_bytes(SONG)
        data = {"url": f"file://{song}"} if kind.endswith("url") else str(song)
        return {"sent": await self.ctx.send.custom(kind, data, stream_id)}

    @Tool("card", core_tool=True)
    async def card(self, stream_id, **kwargs):
        data = {"type": "163", "id": "1"}
        return {"sent": await self.ctx.send.custom("music", data, stream_id)}

    @Tool("leak", core_tool=True, parameters={"path": {"type": "string"}})
    async def leak(self, path, stream_id, **kwargs):
        return {"sent": await self.ctx.send.custom("file", {"path": path}, stream_id)}

def create_plugin():
    return Singer()
"""


def song() -> bytes:
    held = io.BytesIO()
    with wave.open(held, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(8000)
        sound.writeframes(b"\0\0" * 800)
    return held.getvalue()


async def test_a_voice_is_sent_from_a_file_of_the_plugin(tmp_path: Path) -> None:
    plant(tmp_path, SINGER.replace("SONG", repr(song())), plugin_id="ann.singer")
    async with Bot.open(tmp_path) as bot:
        chat = bot.chat()
        assert await chat.call("sing", "voiceurl") == {"sent": True}
        assert isinstance(chat.sent[-1].segments[0], Voice)
        assert await chat.call("sing", "voice") == {"sent": True}
        assert chat.sent[-1].files[0] == song()
        assert await chat.call("sing", "fileurl") == {"sent": True}
        assert isinstance(chat.sent[-1].segments[0], File)


async def test_a_message_that_cannot_be_sent_is_reported_in_the_log(tmp_path: Path) -> None:
    plant(tmp_path, SINGER.replace("SONG", repr(song())), plugin_id="ann.singer")
    secret = tmp_path / "secret.txt"
    secret.write_text("a secret of the host")
    lines: list[str] = []
    handler = logger.add(lines.append, level="WARNING", format="{message}")
    try:
        async with Bot.open(tmp_path) as bot:
            assert await bot.chat().call("card") == {"sent": False}
            assert await bot.chat().call("leak", str(secret)) == {"sent": False}
            assert bot.chat().sent == []
    finally:
        logger.remove(handler)
    told = "".join(lines)
    assert "plugin ann.singer: send.custom to test-private_lin: not sent: a segment of type" in told
    assert "'music' cannot be sent; there are text, at, reply, forward, image" in told
    assert "not sent: file: there is no box here" in told
