"""The code blocks of MaiBot's page about Tool (tests/compat/maibot/seed.py) run as printed."""

import ast
import base64
import inspect
import io
from pathlib import Path

from maibot_sdk import Tool as SdkTool
from PIL import Image

from nekro_core.llm.model import ImagePart, TextPart
from nekro_core.plugins.host.listing import PluginState
from nekro_core.testing import Bot
from nekro_core.tools.content import ImageContent
from nekro_core.tools.outcome import ToolReturnMedia
from nekro_core.tools.schema import function_schema
from nekro_core.tools.tool import Tool, Visibility
from tests.agent.native import TOOLS_MODE, call, calls, say
from tests.compat.maibot.plant import info_of, plant
from tests.compat.maibot.seed import blocks, wrapped


def png() -> bytes:
    held = io.BytesIO()
    Image.new("RGB", (4, 4), "red").save(held, "PNG")
    return held.getvalue()


SIGNATURE, TTS, LISTED, MAPPED, GREET, DRAW, WITH_URI, COMPLETE = blocks()
HEAD = "from maibot_sdk import MaiBotPlugin, Tool\nfrom maibot_sdk.types import *\n"
FOUND = """
    async def _do_search(self, query, limit):
        return [f"{query} {n}" for n in range(limit)]
"""


def module(block: str, more: str = "", name: str = "Wrapped") -> str:
    """A module with the block and with the names that the page assumes."""
    return "\n".join(
        [
            HEAD,
            f"import base64\nPNG = base64.b64decode({base64.b64encode(png()).decode()!r})",
            wrapped(block),
            f"class Given({name}):{more or chr(10) + '    pass'}",
            "def create_plugin():\n    return Given()",
        ]
    )


def only_tool(bot: Bot, name: str = "seed") -> Tool:
    info = info_of(bot, name)
    assert info.state is PluginState.LOADED, info.problems
    (tool,) = info.tools
    return tool


def test_the_page_prints_the_signature_that_the_sdk_has() -> None:
    text = SIGNATURE.replace("@Tool(", "def Tool(") + ": ..."
    (printed,) = (each for each in ast.parse(text).body if isinstance(each, ast.FunctionDef))
    names = [each.arg for each in printed.args.args]
    defaults = [ast.literal_eval(each) for each in printed.args.defaults]
    ours = inspect.signature(SdkTool).parameters
    taken = [name for name in names if name in ours]
    assert taken == names[:-1]
    # this name is read from the metadata and is not in the signature
    assert names[-1] == "core_tool"
    assert printed.args.kwarg is not None
    assert ours[printed.args.kwarg.arg].kind is inspect.Parameter.VAR_KEYWORD
    for name, default in zip(names[1:], defaults, strict=True):
        if name in ours:
            assert ours[name].default == default
    assert defaults[-1] is False


async def test_every_example_of_the_page_works_in_a_chat(tmp_path: Path) -> None:
    plant(tmp_path, module(TTS), plugin_id="ann.tts")
    plant(tmp_path, module(LISTED, FOUND, "MyPlugin"), plugin_id="ann.listed")
    plant(tmp_path, module(MAPPED, FOUND, "MyPlugin"), plugin_id="ann.mapped")
    plant(tmp_path, module(GREET), plugin_id="ann.greet")
    plant(tmp_path, module(WITH_URI), plugin_id="ann.uri")
    plant(tmp_path, COMPLETE, plugin_id="ann.complete")
    async with Bot.open(tmp_path) as bot:
        await _speaks(bot)
        for name in ("listed", "mapped"):
            await _searches(bot, name)
        await _greets(bot)
        await _shows(bot)
        await _is_complete(bot)


async def _speaks(bot: Bot) -> None:
    assert only_tool(bot, "tts").visibility is Visibility.VISIBLE
    code = "send_tts_voice(text='hi')\nprint('ok')"
    assert await bot.chat().ask("say hi", code=code, reply="said") == ["said"]
    # Two of the page's plugins lack the lifecycle methods. They get empty ones, and a warning.
    assert "on_load, on_unload, on_config_update" in str(info_of(bot, "tts").problems[0])


async def _searches(bot: Bot, name: str) -> None:
    """Call the search tool of the plugin ``name``: its parameters are declared as a list or as a
    schema."""
    chat, listed = bot.chat(), name == "listed"
    assert await chat.call(f"{name}.search", "cats", limit=2) == {"results": ["cats 0", "cats 1"]}
    assert len((await chat.call(f"{name}.search", query="cats"))["results"]) == 5
    code = f"send_channel_message(str(len({name}.search('cats', limit='3')['results'])))"
    assert await chat.ask("look for cats", code=code) == ["3"]
    tool = only_tool(bot, name)
    assert tool.visibility is Visibility.DEFERRED
    function = function_schema(tool)["function"]
    about = "Maximum number of results to return"
    limit = {"type": "integer", "description": about, "default": 5}
    assert function["parameters"]["properties"]["limit"] == limit
    assert function["parameters"]["required"] == (["query"] if listed else [])
    details = (
        "Parameter details:\n"
        f"- query: string, {'required' if listed else 'optional'}. Search keywords\n"
        "- limit: integer, optional. Maximum number of results to return. Default: 5"
    )
    head, _, end = function["description"].rpartition("\n\n")
    assert end == details
    written = "Use a search engine" if listed else "Search the internet for information"
    assert head.startswith(written)
    assert "参数说明" not in function["description"]


async def _greets(bot: Bot) -> None:
    """``stream_id`` is the chat of the call. The model does not pass it."""
    assert await bot.chat().ask("greet me", code="greet()") == ["Hello!"]
    assert only_tool(bot, "greet").parameters == ()
    answer = await bot.chat("group_7").call("greet")
    assert answer == {"success": True, "message": "Replied"}
    assert bot.chat("group_7").texts == ["Hello!"]


async def _shows(bot: Bot) -> None:
    """A handler returns a picture as a data URL; the agent writes code."""
    outcome = await bot.chat().call("example")
    assert isinstance(outcome, ToolReturnMedia)
    assert outcome.media[0].content == ImageContent(data=png(), mime="image/png")
    code = "text = example()\nassert 'tool_result:' in text"
    asked = len(bot.model.requests)
    assert await bot.chat().ask("look", code=code, reply="red") == ["red"]
    parts = [part for each in bot.model.requests[asked + 1].messages for part in each.parts]
    assert [part.data for part in parts if isinstance(part, ImagePart)] == [png()]


async def _is_complete(bot: Bot) -> None:
    info, chat = info_of(bot, "complete"), bot.chat()
    assert info.state is PluginState.LOADED
    assert not info.problems
    assert sorted(tool.name for tool in info.tools) == ["get_weather", "search_web"]
    assert await chat.call("search_web", "cats") == {"results": [], "count": 0}
    assert await chat.call("get_weather", city="Oslo") == {"city": "Oslo", "weather": {}}


async def test_a_picture_follows_a_text_that_refers_to_it(tmp_path: Path) -> None:
    plant(tmp_path, module(DRAW))
    async with Bot.open(tmp_path, settings={"nekro_agent": TOOLS_MODE}) as bot:
        search = calls(call("tool_search", query="draw"))
        replies = [search, calls(call("draw", "call_x", prompt="cat")), say("look")]
        assert only_tool(bot).name == "draw"
        await bot.chat().ask("draw", reply=replies)
        answer, shown = bot.model.requests[2].messages[-2:]
        assert answer.role == "tool"
        (words,) = (part.text for part in answer.parts if isinstance(part, TextPart))
        assert words.startswith("> The image has been generated. Please inspect")
        assert 'msg_id="tool_result:call_x:1"' in words
        assert shown.role == "user"
        said = "".join(part.text for part in shown.parts if isinstance(part, TextPart))
        assert 'msg_id="tool_result:call_x:1"' in said
        assert "Image generated from the prompt" in said
        assert [part.data for part in shown.parts if isinstance(part, ImagePart)] == [png()]
