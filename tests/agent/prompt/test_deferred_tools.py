"""Deferred tools: the prompt has only one line for each. A search shows the model how to call the
tools that it found. Later prompts of the chat show the found tools too."""

import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from nekro_core.agent.prompt.discovery import (
    ToolDiscovery,
    deferred_functions_text,
    deferred_tools_text,
)
from nekro_core.agent.prompt.functions import tools_text
from nekro_core.agent.turn.tool_service import AgentToolService
from nekro_core.chat import ChatKey
from nekro_core.cli.plugin_kit.check_report import token_counter
from nekro_core.llm.model import ModelProfile
from nekro_core.llm.scripted import ScriptedModel
from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.plugins.host.hooks import PromptInjection
from nekro_core.store import Store
from nekro_core.tools.names import NamedTool, ToolSet, tool_set
from nekro_core.tools.tool import Tool, Visibility
from tests.agent.bot import GROUP, LIN, fence, kind_of, running_bot, text_of, tools_of
from tests.agent.conftest import BoxCache
from tests.agent.native import NOTHING, TOOLS_MODE, call, calls, results_of, say
from tests.tools.discovery.searches import known_tools

DEFERRED = {"visibility": Visibility.DEFERRED}


@kind_of("tool", **DEFERRED)
async def weather_forecast(_ctx: AgentCtx, city: str, days: int = 1) -> str:
    """Tell what the weather will be.

    Args:
        city: Where.
        days: For how long.
    """
    return f"sunny in {city} for {days} days"


@kind_of("tool", **DEFERRED)
async def translate(_ctx: AgentCtx, text: str) -> str:
    """把文本翻译成英文

    Args:
        text: 文本
    """
    return text.upper()


@kind_of("tool", visibility=Visibility.HIDDEN)
async def secret_weather(_ctx: AgentCtx) -> str:
    """Weather for nobody."""
    return ""


TOOLS = [weather_forecast, translate, secret_weather]


async def test_a_deferred_tool_is_found_and_called_in_one_run(
    folder: Path, boxes: BoxCache
) -> None:
    code = "found = tool_search('天气预报')\nsend_channel_message(weather_forecast('Paris'))"
    model = ScriptedModel([fence(f"{code}\nprint('weather_forecast' in found)"), ""])
    async with running_bot(folder, boxes, model, tools=TOOLS) as bot:
        assert await bot.ask("weather in Paris?") == ["sunny in Paris for 1 days"]
        assert (await bot.last_turn()).stop == "finished"
    (request, *_) = model.requests
    prompt = text_of(request)
    assert "weather_forecast: Tell what the weather will be\n" in prompt + "\n"
    assert "translate: 把文本翻译成英文" in prompt
    assert "secret_weather" not in prompt
    assert "\ntool_search(query: str, limit=5)\n" in prompt
    assert "days: For how long." not in prompt


async def test_search_results_that_the_code_ignores_are_shown_to_the_model(
    folder: Path, boxes: BoxCache
) -> None:
    model = ScriptedModel(
        [
            fence("send_channel_message('let me see')\nfound = tool_search('weather')"),
            fence("send_channel_message(weather_forecast('Paris', days=2))"),
        ]
    )
    async with running_bot(folder, boxes, model, tools=TOOLS) as bot:
        assert await bot.ask("weather?") == ["let me see", "sunny in Paris for 2 days"]
    shown = text_of(model.requests[1], from_message=3)
    assert "[result] of tool_search:" in shown
    assert "> def weather_forecast(city: str, days: int = 1) -> str:" in shown
    assert text_of(model.requests[1]).startswith(text_of(model.requests[0]))


async def test_later_turns_of_the_chat_show_the_found_tools(folder: Path, boxes: BoxCache) -> None:
    model = ScriptedModel(
        [fence("print(tool_search('weather'))"), fence("send_channel_message('ok')"), "a", "b", "c"]
    )
    async with running_bot(folder, boxes, model, tools=TOOLS) as bot:
        await bot.ask("weather?")
        await bot.ask("and now?")
        await bot.ask("Nekro, and here?", GROUP)
        await bot.sessions.reset(LIN)
        await bot.ask("weather?")
    assert "Found by tool_search before:" not in text_of(model.requests[1])
    assert "days: For how long." in text_of(model.requests[2])
    assert "days: For how long." not in text_of(model.requests[3])
    assert "days: For how long." not in text_of(model.requests[4])


async def test_a_search_without_a_fitting_tool_says_so(folder: Path, boxes: BoxCache) -> None:
    code = (
        "for query in ('zzqqx', ' '):\n    try:\n        tool_search(query)\n"
        "    except ToolError as error:\n        print(error)"
    )
    model = ScriptedModel([fence(code), "sorry"])
    async with running_bot(folder, boxes, model, tools=TOOLS) as bot:
        assert await bot.ask("hi") == ["sorry"]
    shown = text_of(model.requests[1])
    assert "nothing fits 'zzqqx'; try other words. These have functions: chat" in shown
    assert "query is empty" in shown


async def test_a_search_does_not_block_the_event_loop(folder: Path, boxes: BoxCache) -> None:
    code = (
        "query = 'a' + '\\u0300\\u0316' * 30_000\n"
        "try:\n    print(tool_search(query))\nexcept ToolError as error:\n    print(error)"
    )
    model = ScriptedModel([fence(code), "sorry"])
    async with running_bot(folder, boxes, model, tools=TOOLS) as bot:
        began = time.process_time()
        assert await bot.ask("hi") == ["sorry"]
        assert time.process_time() - began < 3
    assert "a query of 60001 characters: at most 1000" in text_of(model.requests[1])


async def test_without_deferred_tools_there_is_no_search(folder: Path, boxes: BoxCache) -> None:
    model = ScriptedModel(["hi"])
    async with running_bot(folder, boxes, model) as bot:
        await bot.ask("hi")
    assert "tool_search" not in text_of(model.requests[0])


async def test_in_tool_mode_the_next_request_offers_the_found_tools(
    folder: Path, boxes: BoxCache
) -> None:
    model = ScriptedModel(
        [
            calls(call("tool_search", "c1", query="明日の天気", limit=1)),
            calls(call("weather_forecast", "c2", city="Paris")),
            say("sunny"),
            NOTHING,
            "hello",
        ]
    )
    async with running_bot(folder, boxes, model, tools=TOOLS, settings=TOOLS_MODE) as bot:
        assert await bot.ask("weather?") == ["sunny"]
        await bot.ask("hi")
    offered = [[each.name for each in request.functions] for request in model.requests]
    assert offered[0] == ["send_channel_message", "tool_search"]
    assert offered[1] == offered[4] == ["send_channel_message", "tool_search", "weather_forecast"]
    found = results_of(model.requests[1])["c1"].splitlines()[1:]
    (told,) = map(json.loads, found)
    assert told["name"] == "weather_forecast"
    assert told["parameters"]["required"] == ["city"]
    assert results_of(model.requests[2])["c2"] == "sunny in Paris for 1 days"
    assert "\ntranslate: 把文本翻译成英文" in text_of(model.requests[0])


async def test_in_tool_mode_a_deferred_tool_can_be_called_without_a_search(
    folder: Path, boxes: BoxCache
) -> None:
    made = [call("weather_forecast", "c1", town="Paris"), call("secret_weather", "c2")]
    model = ScriptedModel([calls(*made), "done"])
    async with running_bot(folder, boxes, model, tools=TOOLS, settings=TOOLS_MODE) as bot:
        assert await bot.ask("weather?") == ["done"]
    answers = results_of(model.requests[1])
    assert "Signature: weather_forecast(city: str, days: int = 1) -> str" in answers["c1"]
    assert "there is no function 'secret_weather'" in answers["c2"]


async def test_programs_that_use_the_tool_service_can_search_for_tools_in_a_chat(
    folder: Path, boxes: BoxCache
) -> None:
    async with running_bot(folder, boxes, ScriptedModel([]), tools=TOOLS) as bot:
        service = AgentToolService(bot.services)
        before = [tool.name for tool in await service.tools(LIN)]
        assert before[-1] == "tool_search"
        await service.call(LIN, "tool_search", {"query": "translate"})
        assert [tool.name for tool in await service.tools(LIN)] == [*before, "translate"]
        assert "tool_search" not in [tool.name for tool in await service.tools(None)]


# --- a plugin that has only deferred tools --------------------------------------------------------


def sleeping(owner: str = "ann.tarot", count: int = 2) -> list[Tool]:
    tool = tools_of([kind_of("tool", "draw_tarot", **DEFERRED)(_tarot)]).tools[0]
    return [
        replace(
            tool,
            name=f"draw_tarot_{number}",
            python_name=f"draw_tarot_{number}",
            owner=owner,
            module=owner.partition(".")[2],
            sleep_brief="Tarot cards and\nwhat they mean",
        )
        for number in range(count)
    ]


async def _tarot(_ctx: AgentCtx) -> str:
    """Draw a card."""
    return "the moon"


async def test_the_injection_of_a_plugin_is_left_out_until_one_of_its_deferred_tools_is_found(
    folder: Path, boxes: BoxCache
) -> None:
    model = ScriptedModel([fence("print(tool_search('tarot', 1))"), "x", "y"])
    async with running_bot(folder, boxes, model) as bot:
        plugins = bot.plugins
        plugins.tools = tool_set([*plugins.tools.tools, *sleeping()])
        plugins.injections = (PromptInjection("ann.tarot", "Cards are never reversed."),)
        await bot.ask("a card")
        await bot.ask("another")
    first, second, later = map(text_of, model.requests)
    assert "tarot: Tarot cards and what they mean (2 functions)" in first
    assert "draw_tarot" not in first
    assert "Cards are never reversed." not in first
    assert "Cards are never reversed." in second
    assert "Cards are never reversed." in later
    assert "\ndraw_tarot_0(" in later
    assert "\ndraw_tarot_1(" in later


# --- limits on what was found ---------------------------------------------------------------------


def deferred(names: Iterable[str]) -> ToolSet:
    return tool_set(
        replace(tool, name=name, python_name=name, description=name, summary=name)
        for name in names
        for tool in tools_of([weather_forecast]).tools
    )


async def find(discovery: ToolDiscovery, tools: ToolSet, query: str, chat: ChatKey = LIN) -> None:
    search = discovery.with_search_tool(tools).resolve("tool_search")
    assert search is not None
    await search.handler(AgentCtx(services=None, chat=chat), query, 1)


def names_of(found: Iterable[NamedTool]) -> list[str]:
    return [each.name for each in found]


async def test_found_tools_are_dropped_oldest_first() -> None:
    discovery, tools = ToolDiscovery(most_found=2), deferred(["apple", "banana", "cherry"])
    for query in ("apple", "banana", "apple", "cherry"):
        await find(discovery, tools, query)
    assert names_of(discovery.found(LIN, tools)) == ["apple", "cherry"]
    assert names_of(discovery.found(GROUP, tools)) == []
    assert names_of(discovery.found(LIN, deferred(["cherry"]))) == ["cherry"]
    await discovery.forget(LIN)
    assert names_of(discovery.found(LIN, tools)) == []


async def test_the_search_also_compares_meanings() -> None:
    asked: list[tuple[str, tuple[str, ...]]] = []

    class Near:
        async def of(self, query: str, texts: Sequence[str]) -> Sequence[float]:
            asked.append((query, tuple(texts)))
            return [0.1, 0.7]

    tools = deferred(["apple", "banana"])
    discovery = ToolDiscovery(nearness=Near())
    await find(discovery, tools, "曲がった果物")
    assert names_of(discovery.found(LIN, tools)) == ["banana"]
    ((query, texts),) = asked
    assert query == "曲がった果物"
    assert [text.rpartition(": ")[2] for text in texts] == ["apple", "banana"]


async def test_found_tools_survive_a_restart(tmp_path: Path) -> None:
    tools = deferred(["apple", "banana", "cherry"])
    async with Store.open(f"sqlite://{tmp_path}/bot.db") as store:
        before = ToolDiscovery(2, store.plugin_data)
        for query in ("apple", "banana", "cherry"):
            await find(before, tools, query)
        after = ToolDiscovery(2, store.plugin_data)
        await after.recall(LIN, tools)
        await after.recall(GROUP, tools)
        assert names_of(after.found(LIN, tools)) == ["banana", "cherry"]
        assert names_of(after.found(GROUP, tools)) == []
        fewer = ToolDiscovery(1, store.plugin_data)
        # `recall` need not be called before a search, because the search reads the stored tools
        # itself.
        await find(fewer, tools, "apple")
        assert names_of(fewer.found(LIN, tools)) == ["apple"]
        await fewer.forget(LIN)
        await store.plugin_data.set("nekro.discovery", "{", chat_key=str(GROUP), store_key="found")
        for chat in (LIN, GROUP):
            anew = ToolDiscovery(2, store.plugin_data)
            await anew.recall(chat, tools)
            assert names_of(anew.found(chat, tools)) == []


async def test_found_tools_that_do_not_fit_the_prompt_are_left_out() -> None:
    discovery, tools = ToolDiscovery(), deferred(["apple", "banana"])
    long = [replace(tool, details="x" * 50_000) for tool in tools.tools]
    tools = tool_set(long)
    for query in ("apple", "banana"):
        await find(discovery, tools, query)
    assert names_of(discovery.found(LIN, tools)) == ["banana"]


async def test_found_tools_are_remembered_for_at_most_1000_chats() -> None:
    discovery, tools = ToolDiscovery(), deferred(["apple"])
    for number in range(1001):
        await find(discovery, tools, "apple", ChatKey.parse(f"fake-group_{number}"))
    assert names_of(discovery.found(ChatKey.parse("fake-group_0"), tools)) == []
    assert names_of(discovery.found(ChatKey.parse("fake-group_1"), tools)) == ["apple"]


async def test_a_plugin_may_have_a_tool_that_is_also_named_tool_search() -> None:
    tools = tool_set([*deferred(["apple"]).tools, replace(_plain(), name="tool_search")])
    both = ToolDiscovery().with_search_tool(tools)
    assert both.resolve("tool_search").owner == "nekro.chat"
    assert both.resolve("discovery.tool_search").owner == "nekro.discovery"


def _plain() -> Tool:
    return replace(tools_of([weather_forecast]).tools[0], visibility=Visibility.VISIBLE)


# --- what deferred tools cost ---------------------------------------------------------------------


def three_hundred() -> ToolSet:
    return tool_set(
        replace(tool, visibility=Visibility.DEFERRED) for tool in known_tools().tools[:300]
    )


@pytest.mark.parametrize("natively", [False, True])
def test_three_hundred_deferred_tools_cost_less_than_twelve_tokens_each(natively: bool) -> None:
    tools, count = three_hundred(), token_counter().count
    assert len(tools.named) == 300
    offered = ToolDiscovery().with_search_tool(tools, natively=natively)
    if natively:
        (search,) = ToolDiscovery().functions(LIN, offered).offered
        text = deferred_functions_text(offered) + json.dumps(
            [search.name, search.description, search.parameters]
        )
    else:
        text = deferred_tools_text(offered) + tools_text(offered)
    assert count(text) < 12 * 300


async def test_a_small_model_is_shown_plugins_instead_of_deferred_tools(
    folder: Path, boxes: BoxCache
) -> None:
    profile = ModelProfile(name="small", prefers_examples=True, grammar=True)
    model = ScriptedModel(
        ["tool_search(query='weather forecast')", "send_channel_message(text='ok')"],
        profile=profile,
    )
    async with running_bot(folder, boxes, model) as bot:
        bot.plugins.tools = tool_set([*bot.plugins.tools.tools, *three_hundred().tools])
        assert await bot.ask("weather?") == ["ok"]
    first, second = (request.messages[0].parts[0].text for request in model.requests)
    assert "# tool_search finds more, of: weather, earthquake_watch, bilibili" in first
    assert "get_weather_forecast" not in first
    assert "get_weather_forecast()" in second
    assert "send_sticker" not in second
