"""A tool may declare a parameter with a name that the host fills in, such as ``user_id``."""

from pathlib import Path
from typing import Any

import pytest

from nekro_core.compat.maibot.formats.declared_names import set_by_model
from nekro_core.compat.maibot.formats.schema import object_schema
from nekro_core.plugins.host.settings import PluginSettings
from nekro_core.testing import Bot, Chat
from nekro_core.tools.outcome import ToolFailure
from tests.compat.maibot.plant import info_of, plant

POSTMAN = """
from maibot_sdk import MaiBotPlugin, Tool
from maibot_sdk.types import ToolParameterInfo, ToolParamType

S, I = ToolParamType.STRING, ToolParamType.INTEGER

class Postman(MaiBotPlugin):
    async def on_load(self): pass
    async def on_unload(self): pass
    async def on_config_update(self, scope, config_data, version): pass

    @Tool("open_private_chat", brief_description="Write to a person.", core_tool=True, parameters=[
        ToolParameterInfo(name="user_id", param_type=S, description="目标用户的 QQ 号"),
        ToolParameterInfo(name="message", param_type=S, description="The text."),
    ])
    async def open_private_chat(self, user_id, message, **kwargs):
        stream = await self.ctx.chat.open_session("test", "private", user_id=user_id)
        sent = await self.ctx.send.text(message, stream["stream_id"])
        return {"to": user_id, "sent": sent, "stream": stream["stream_id"]}

    @Tool("mute", core_tool=True, parameters=[
        ToolParameterInfo(name="group_id", param_type=I, description="群号，留空则为当前群"),
        ToolParameterInfo(name="user_id", param_type=I, description="成员 QQ 号"),
    ])
    async def mute(self, group_id=0, user_id=0, **kwargs):
        return {"muted": [group_id, user_id], "types": [type(group_id).__name__]}

    @Tool("my_notes", core_tool=True, parameters=[
        ToolParameterInfo(name="user_id", param_type=S, description="当前用户 ID"),
        ToolParameterInfo(name="stream_id", param_type=S, description="聊天流 ID", required=True),
    ])
    async def my_notes(self, user_id, stream_id, **kwargs):
        return f"notes of {user_id} in {stream_id}"

    @Tool("who", core_tool=True, parameters=[
        ToolParameterInfo(name="message", param_type=ToolParamType.OBJECT, description="触发消息"),
        ToolParameterInfo(name="user_id", param_type=S, description="用户", required=False),
        ToolParameterInfo(name="platform", param_type=S, description="Platform."),
    ])
    async def who(self, message, user_id, platform, **kwargs):
        return [user_id, message["message_info"]["user_info"]["user_id"], platform]

    @Tool("admin", core_tool=True)
    async def admin(self, user_id, **kwargs):
        return "done" if user_id == "boss" else f"{user_id} may not"

def create_plugin():
    return Postman()
"""


async def test_a_model_chooses_the_person_whom_a_tool_acts_on(tmp_path: Path) -> None:
    plant(tmp_path, POSTMAN, plugin_id="ann.postman")
    allowed = PluginSettings(may_send_elsewhere={"ann.postman"})
    async with Bot.open(tmp_path, settings={"nekro_plugin": allowed}) as bot:
        assert not info_of(bot, "postman").problems
        told = await bot.chat("group_7").call("open_private_chat", "mei", "are you there?")
        assert told == {"to": "mei", "sent": True, "stream": "test-private_mei"}
        assert bot.chat("private_mei").texts == ["are you there?"]
        with pytest.raises(ToolFailure, match="user_id"):
            await bot.chat("group_7").call("open_private_chat", message="to whom?")
        muted = await bot.chat("group_7").call("mute", user_id="12", group_id=8)
        assert muted["muted"] == [8, 12]


async def test_a_tool_acts_only_in_the_chat_that_asks(tmp_path: Path) -> None:
    plant(tmp_path, POSTMAN, plugin_id="ann.postman")
    async with Bot.open(tmp_path) as bot:
        group = bot.chat("group_7")
        told = await group.call("open_private_chat", "mei", "are you there?")
        assert told["sent"] is False
        assert bot.chat("private_mei").texts == []
        assert await group.call("mute", 12) == {"muted": [7, 12], "types": ["int"]}
        assert (await group.call("mute", user_id=12, group_id=7))["muted"] == [7, 12]
        with pytest.raises(ToolFailure, match="8 is another chat than test-group_7"):
            await group.call("mute", user_id=12, group_id=8)
        await _keeps_to_its_stream(group)


async def _keeps_to_its_stream(group: Chat) -> None:
    assert await group.call("my_notes") == "notes of lin in test-group_7"
    assert await group.call("my_notes", stream_id="7") == "notes of lin in test-group_7"
    with pytest.raises(ToolFailure, match="expected 'test-group_7', which is this chat"):
        await group.call("my_notes", stream_id="current")
    with pytest.raises(ToolFailure, match="MAY_SEND_ELSEWHERE"):
        await group.call("my_notes", stream_id="test-group_8")


async def test_a_model_cannot_choose_who_asks(tmp_path: Path) -> None:
    plant(tmp_path, POSTMAN, plugin_id="ann.postman")
    async with Bot.open(tmp_path) as bot:
        chat = bot.chat("group_7")
        assert await chat.call("admin") == "lin may not"
        for tool in ("admin", "my_notes"):
            with pytest.raises(ToolFailure, match="user_id"):
                await chat.call(tool, user_id="boss")
        asked = "send_channel_message(str(who(user_id='boss')))"
        assert await chat.ask("who?", code=asked, by="Mei") == ["['boss', 'mei', 'test']"]
        asked = "send_channel_message(str(who()))"
        assert await chat.ask("who?", code=asked, by="Mei") == ["['mei', 'mei', 'test']"]


DESCRIPTIONS: list[tuple[str, str, bool]] = [
    ("user_id", "", True),
    ("user_id", "用户QQ号", True),
    ("user_id", "目标用户 ID，默认为当前用户", True),
    ("user_id", "关联用户,默认当前说话人", True),
    ("user_id", "要戳的成员（留空则为发送者）", True),
    ("user_id", "The person to look up. Leave it empty for the current user.", True),
    ("user_id", "ID of another user than the sender", True),
    ("user_id", "当前群成员的 QQ 号", True),
    ("user_id", "A member of the current group", True),
    ("user_id", "要撤回的消息的发送者", True),
    ("user_id", "当前用户ID", False),
    ("user_id", "发起请求的用户", False),
    ("user_id", "The id of the user who is asking", False),
    ("user_id", "Requester id", False),
    ("group_id", "群号（群聊必填,私聊留空）", True),
    ("group_id", "当前群号", False),
    ("stream_id", "当前聊天流 ID", False),
    ("stream_id", "Current chat stream ID", False),
    ("stream_id", "目标聊天流 ID", True),
    ("chat_id", "聊天 ID", True),
    ("platform", "平台名", True),
    ("message", "要发送的文字", True),
]


@pytest.mark.parametrize(("name", "description", "chosen"), DESCRIPTIONS)
def test_the_description_of_a_parameter_shows_who_sets_it(
    name: str, description: str, chosen: bool
) -> None:
    declared: Any = {name: {"type": "string", "description": description}}
    assert set_by_model(object_schema(declared)) == (frozenset({name}) if chosen else frozenset())


def test_a_parameter_named_message_gets_the_message_that_the_bot_answers() -> None:
    assert not set_by_model(object_schema({"message": {"type": "object"}}))
    assert set_by_model(object_schema({"message": {"type": "array"}})) == {"message"}
