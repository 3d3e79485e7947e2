"""MaiBot plugins of the kinds that people publish act in conversations with a whole bot."""

from pathlib import Path

import anyio
import pytest

from nekro_core.chat import Image, Mention, Voice
from nekro_core.llm.model import ImagePart
from nekro_core.plugins.host.listing import PluginState
from nekro_core.plugins.host.settings import PluginSettings
from nekro_core.system.atomic_files import write_whole
from nekro_core.testing import Bot
from nekro_core.tools.outcome import ToolFailure
from nekro_core.tools.tool import Visibility
from tests.agent.native import TOOLS_MODE, call, calls, say
from tests.compat.maibot.plant import bot_with, info_of


async def until(check, within_s: float = 30) -> None:
    with anyio.fail_after(within_s):
        while not check():
            await anyio.sleep(0.02)


def instance(bot: Bot, name: str):
    """The plugin object inside the bot."""
    (kind,) = bot.app.plugins._kinds
    found = kind.plugins.find(name)
    assert found is not None
    return found.instance


async def test_tools_commands_and_apis_work_in_a_chat(tmp_path: Path) -> None:
    async with bot_with(
        tmp_path, "tts-voice", "number-game", "fortune-teller", "fortune-api"
    ) as bot:
        await _speaks_and_follows_its_configuration(bot, tmp_path)
        await _plays_a_game_of_commands(bot)
        before = await _calls_an_api(bot)
    elsewhere = PluginSettings(may_send_elsewhere={"kei.fortune_teller"})
    async with Bot.open(tmp_path, settings={"nekro_plugin": elsewhere}) as bot:
        group = bot.chat("group_7")
        assert await bot.chat().call("elsewhere", where=str(group.key)) == {"sent": True}
        assert group.texts == ["hello over there"]
        assert before > 0


async def _speaks_and_follows_its_configuration(bot: Bot, tmp_path: Path) -> None:
    chat = bot.chat("group_7")
    info = info_of(bot, "tts-voice")
    assert info.state is PluginState.LOADED, info.problems
    assert info.key == "haru.tts_voice"
    await chat.ask("say hi", code="speak_aloud('hi', speed='2')")
    assert any(isinstance(part, Voice) for part in chat.sent[0].segments)
    assert chat.sent[0].files[0].startswith(b"RIFF")
    told = await chat.call("speak_aloud", "hi")
    assert told["content"] == "said 2 characters at 440"
    with pytest.raises(ToolFailure, match="没有文字"):
        await chat.call("speak_aloud", " ")
    with pytest.raises(ToolFailure, match="expected float"):
        await chat.call("speak_aloud", "hi", "fast")
    path = tmp_path / "plugins" / "tts-voice" / "config.toml"
    written = path.read_text("utf-8")
    assert "pitch = 440" in written
    write_whole(path, f"# louder\n{written.replace('440', '880')}".encode())
    plugin = instance(bot, "tts-voice")
    await until(lambda: plugin.changes)
    assert plugin.changes == [("self", 880, "1.0.0")]
    # the new value is not valid, so the old value stays
    write_whole(path, written.replace("440", '"high"').encode())
    await anyio.sleep(1.3)
    assert plugin.config.voice.pitch == 880
    (kind,) = bot.app.plugins._kinds
    schema = kind.plugins.find("haru.tts-voice").config_schema()
    assert schema["sections"]["voice"]["fields"]["pitch"]["label"] == "音高"


async def test_a_model_sees_a_tools_picture_and_calls_an_older_action(tmp_path: Path) -> None:
    with pytest.warns(DeprecationWarning, match="Action"):
        await _pictures(tmp_path)


async def _pictures(tmp_path: Path) -> None:
    async with bot_with(tmp_path, "picture-maker", "tts-voice", nekro_agent=TOOLS_MODE) as bot:
        chat = bot.chat("private_mei")
        await chat.ask("say hi", reply=[calls(call("speak_aloud", text="hi"))])
        # The tool ended the turn, so there is only one request.
        assert len(bot.model.requests) == len(chat.sent) == 1
        bot.model.requests.clear()
        chat = bot.chat()
        made = calls(call("make_picture", "call_1", prompt="tea", color="blue"))
        await chat.ask("draw tea", reply=[made, say("look")])
        answer, shown = bot.model.requests[1].messages[-2:]
        # The picture has number 2, because item 1 of the tool's result is a text.
        assert 'msg_id="tool_result:call_1:2"' in answer.parts[0].text
        assert answer.parts[0].text.startswith("> A blue picture of tea has been made.")
        assert "a blue square" in "".join(getattr(part, "text", "") for part in shown.parts)
        assert sum(isinstance(part, ImagePart) for part in shown.parts) == 1
        with pytest.raises(ToolFailure, match="'red', 'green', 'blue'"):
            await chat.call("make_picture", "tea", "pink")
        tools = {tool.name: tool for tool in info_of(bot, "picture-maker").tools}
        tags = next(each for each in tools["make_picture"].parameters if each.name == "tags")
        assert tags.schema["items"] == {}  # without items_schema any item is valid
        meme = tools["send_meme"]
        assert meme.visibility is Visibility.DEFERRED
        assert "激活关键词：哈哈" in meme.summary
        assert "参数说明" not in meme.summary
        assert await chat.call("send_meme", mood="glad") == "meme for glad"
        assert isinstance(chat.sent[-1].segments[0], Image)
        assert "system: [meme] sent a meme: glad" in await chat.record()


async def _plays_a_game_of_commands(bot: Bot) -> None:
    chat, other = bot.chat("group_17"), bot.chat("group_18")
    assert await chat.say("/guess 5") == ["还没有开始"]
    assert await chat.say("/猜数字 start 8") == ["1 到 8，开始！"]
    wanted = instance(bot, "number-game").games[str(chat.key)]
    assert await chat.say(f"/guess {wanted - 1}") == ["小了"]
    assert await other.say(f"/guess {wanted}") == ["还没有开始"]
    (won,) = await chat.say(f"/guess {wanted}", by="Mei")
    assert won.endswith("猜中了！共 1 分")
    assert chat.sent[-1].segments[0] == Mention("mei", "Mei")
    (told,) = await chat.say("/记录")
    assert "/guess" in told
    assert await chat.say("/reset_scores") == []  # only operators may call it
    # A message that matches no command wakes the agent as usual.
    assert await chat.ask("/guess nothing", reply="hm") == ["hm"]


async def test_hooks_change_received_messages_prompts_and_replies(tmp_path: Path) -> None:
    async with bot_with(tmp_path, "house-rules", "quiet-hours") as bot:
        chat, rules = bot.chat("group_7"), instance(bot, "house-rules")
        await until(rules.started.is_set)
        assert await chat.say("buy spam now") == []
        assert await chat.say("zzz") == []
        assert await chat.ask("brb", reply="see you, damn friend") == ["see you, dear friend ♪"]
        assert "HOUSE RULE: be kind." in bot.prompt
        assert "be right back" in bot.prompt
        assert "brb" not in bot.prompt
        assert "spam" not in bot.prompt
        await until(lambda: len(rules.sent) == 1)
        assert rules.sent == [("see you, dear friend ♪", True)]
        assert rules.seen == ["zzz", "be right back"]
        with pytest.raises(ToolFailure, match="dropped"):
            await chat.call("send_channel_message", "a secret")
        await bot.app.plugins.disable("local/house-rules")
        ticks = rules.ticks
        await anyio.sleep(0.15)
        assert rules.ticks == ticks
        assert await chat.ask("hello spam", reply="damn") == ["damn"]


async def _calls_an_api(bot: Bot) -> int:
    chat, group = bot.chat(), bot.chat("group_7")
    assert info_of(bot, "fortune-teller").state is PluginState.LOADED
    bot.script.foresee(["great luck\n"])
    assert await chat.call("tell_fortune", "Mei") == {"asked_by": "lin", "count": 1}
    assert chat.texts == ["☯ great luck"]
    with pytest.raises(ToolFailure, match="not public"):
        await chat.call("try_to_rig")
    await group.ask("hi", reply="hello")
    told = await chat.call("groups")
    assert set(told["groups"]) == {"7", "17", "18"}
    assert "replyer" in told["models"]
    assert told["own"]["style"] == {"prefix": "☯ "}
    assert (
        told["others"].get("success") is False
    )  # this is refused, because the settings of another plugin may contain API keys
    with pytest.raises(ToolFailure, match="CapabilityDenied"):
        await chat.call("whisper")
    assert await chat.call("elsewhere", where=str(group.key)) == {"sent": False}
    return len(group.texts)
