"""Seven MaiBot plugins act in a chat of one bot. Their author had not seen the code of
`nekro_core.compat`."""

import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from nekro_core.api.plugin import ToolFailure
from nekro_core.chat import Image
from nekro_core.plugins.host.listing import PluginState
from nekro_core.testing import Bot

pytestmark = [pytest.mark.jail, pytest.mark.long]
PLUGINS = Path(__file__).parent / "plugins"


@pytest.fixture
async def bot(tmp_path: Path) -> AsyncIterator[Bot]:
    data = tmp_path / "data"
    shutil.copytree(PLUGINS, data / "plugins", ignore=shutil.ignore_patterns("__pycache__"))
    async with Bot.open(data) as running:
        yield running


def instance(bot: Bot, name: str) -> Any:
    (kind,) = bot.app.plugins._kinds
    return kind.plugins.find(name).instance


async def test_seven_plugins_act_in_a_chat(bot: Bot) -> None:
    ours = [each for each in bot.app.plugins.plugins() if each.item.startswith("local/")]
    assert len(ours) == 7
    assert all(each.state is PluginState.LOADED for each in ours), ours
    await _paints(bot)
    await _knows_streams_and_people(bot)
    await _exchanges_money_over_apis(bot)
    await _reads_skills_that_no_decorator_declares(bot)
    await _digests(bot)
    await _guards_words(bot)
    await _is_connected_from_on_load_on(bot)


async def _paints(bot: Bot) -> None:
    chat = bot.chat("group_7")
    paint = "print(paint_colour('red', times='2', tags=['a'], place={'x': 1}))"
    await chat.ask("paint", code=[paint, "send_channel_message('look')"])
    assert "painted red x2 for lin" in bot.prompt
    assert ':2" type="image" mime="image/png" name="p.png"' in bot.prompt
    assert "Parameter details:" in bot.prompt
    # The prompt shows a deferred tool in one line, without a stub.
    assert "gallery: Post the gallery of all paintings" in bot.prompt
    with pytest.raises(ToolFailure, match="argument 'colour': expected"):
        await chat.call("paint_colour", "blue")
    with pytest.raises(ToolFailure, match="x: Field required"):
        await chat.call("paint_colour", "red", place={"y": 1})
    with pytest.raises(LookupError, match="no tool 'erase_everything'"):
        await chat.call("erase_everything")
    found = "print(tool_search('gallery'))\nsend_channel_message(str(gallery('T', big=True)))"
    assert await chat.ask("the gallery?", code=found) == ["T: 1 BIG"]
    assert instance(bot, "painter").size == 9
    wave = "wave_hand(who='Ann')"
    assert await chat.ask("hi", code=wave) == ["o/ Ann ['who']"]


async def _knows_streams_and_people(bot: Bot) -> None:
    chat = bot.chat("group_7")
    posted = await chat.call("post_everywhere", "7")
    assert posted == {"ok": True, "ok2": True, "sent": True, "group": "7", "own": True}
    assert chat.texts[-3:] == ["one [image]", "two", "three"]
    with pytest.raises(ToolFailure, match="no group 8"):
        await chat.call("post_everywhere", "8")
    assert (await chat.call("know_person"))["content"] == "True Lin True True"


async def _exchanges_money_over_apis(bot: Bot) -> None:
    chat = bot.chat("group_7")
    answer = await chat.call("exchange", 10)
    names = answer.pop("names")
    assert [name for name in names if not name.startswith("adapter.")] == ["convert", "live"]
    assert answer == {
        "two": {"amount": 11.0, "v": 2},
        "one_v": 1,
        "live": True,
        "hidden": True,
        "models": True,
        "vec": True,
    }
    assert await chat.say("/fx 3 EUR", quiet_s=0.15) == ["/fx 3 EUR by lin"]
    assert await chat.say("/fx 3 USD", quiet_s=0.15) == []


async def _reads_skills_that_no_decorator_declares(bot: Bot) -> None:
    chat = bot.chat("group_7")
    tea = "send_channel_message(skill_tea(minutes=5)['content'])"
    assert await chat.ask("tea", code=tea) == ["Boil water, add leaves, wait 5 minutes."]
    assert (await chat.call("skill_coffee"))["content"] == "Grind beans."


async def _digests(bot: Bot) -> None:
    chat = bot.chat("group_7")
    bot.foresee(reply="They talked.")
    assert await chat.say("/总结 5", quiet_s=0.15) == ["They talked."]
    assert bot.prompt.startswith("Summarise in one line:\n")
    assert "Lin: tea" in bot.prompt
    assert await chat.say("/digest purge", quiet_s=0.15) == []  # only operators may call it


async def _guards_words(bot: Bot) -> None:
    chat = bot.chat("group_7")
    guard = instance(bot, "word_guard")
    assert await chat.say("this is forbidden", quiet_s=0.15) == []
    assert await chat.ask("darn it", reply="a secret") == ["a ******"]
    assert ("start", None) in guard.heard
    assert ("event", "d**n it") in guard.heard
    assert ("event", "this is forbidden") not in guard.heard
    assert "after" in [what for what, _ in guard.heard]


async def _is_connected_from_on_load_on(bot: Bot) -> None:
    bridge = instance(bot, "irc_bridge")
    bot.foresee(reply="hello irc")
    assert await bridge.heard("bob", "hello mai") is True
    with anyio.fail_after(30):
        while not bridge.out:
            await anyio.sleep(0.02)
    message, route = bridge.out[0]
    assert message["processed_plain_text"] == "hello irc"
    assert route == {"platform": "irc", "account_id": "maibot", "scope": "libera"}


@pytest.mark.long
async def test_a_plugin_can_send_a_page_as_a_picture(bot: Bot) -> None:
    chat = bot.chat("group_7")
    bot.foresee(reply="They <b>talked</b>.")
    told = await chat.call("chat_digest", as_image=True)
    assert told == {"success": True, "content": "They <b>talked</b>.", "asked_by": "lin"}
    (picture,) = chat.sent
    assert isinstance(picture.segments[0], Image)
    assert picture.files[0].startswith(b"\x89PNG")
