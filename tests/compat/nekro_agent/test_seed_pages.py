"""The code blocks of a page of nekro-agent's documentation run as printed, in three languages, and
each kind of method works."""

from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path

import pytest

from nekro_core.chat import DeliveryState, Receipt, Text
from nekro_core.compat.nekro_agent.imports import install_facades
from nekro_core.plugins.host.builtin import builtin_folder
from nekro_core.plugins.host.listing import PluginState
from nekro_core.plugins.host.registry import PluginRegistry
from nekro_core.plugins.host.tool_calls import call_tool
from nekro_core.tools.content import ImageContent, TextContent
from nekro_core.tools.names import ToolSet
from nekro_core.tools.outcome import (
    BehaviorReturn,
    Observation,
    RichObservation,
    ToolCallFailed,
    ToolReturn,
)
from nekro_core.tools.problem import ProblemSeverity
from nekro_core.tools.stub import stub
from tests.compat.nekro_agent.pages import SEEDS, code_blocks, page_module
from tests.plugins.world import GROUP, World

PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5E"
    "rkJggg=="
)


@pytest.fixture(params=SEEDS, ids=["en", "zh", "ja"])
def page(request: pytest.FixtureRequest) -> Path:
    return request.param


@pytest.fixture
async def registry(world: World, page: Path) -> AsyncIterator[PluginRegistry]:
    world.write("seed.py", page_module(page))
    with install_facades():
        async with world.bot() as registry:
            yield registry


@pytest.fixture
def tools(registry: PluginRegistry) -> ToolSet:
    return registry.tools_for(GROUP)


def test_the_page_has_six_code_blocks_in_each_language(page: Path) -> None:
    assert len(code_blocks(page.read_text(encoding="utf-8"))) == 6


async def test_the_code_blocks_are_a_plugin_without_errors(registry: PluginRegistry) -> None:
    (info,) = registry.plugins()
    assert info.state is PluginState.LOADED
    assert info.key == "nekro.seed"
    assert [tool.name for tool in info.tools] == [
        "calculate_sum",
        "get_current_time",
        "search_knowledge_base",
        "send_channel_message",
        "generate_image_and_comment",
        "get_user_preference",
    ]
    assert not [each for each in info.problems if each.severity is ProblemSeverity.ERROR]
    # Four methods have no docstring. They are accepted, and a warning names their lines.
    told = [each for each in info.problems if "no docstring" in each.message]
    assert len(told) == 4
    assert all("seed.py:" in each.where and each.remedy for each in told)


async def test_a_tool_is_found_under_each_of_its_names(
    registry: PluginRegistry, tools: ToolSet
) -> None:
    tool = tools.resolve("my_sum_function")
    assert tool is not None
    assert tool is tools.resolve("calculate_sum") is tools.resolve("seed.my_sum_function")
    assert tool.handler.__name__ == "my_sum_function"


@pytest.mark.parametrize(
    ("args", "kwargs"), [((2, 3), {}), ((2,), {"num2": 3}), ((), {"num1": "2", "num2": 3.0})]
)
async def test_a_tool_method_returns_its_value_to_the_calling_code(
    world: World, tools: ToolSet, args: tuple[int, ...], kwargs: dict[str, int]
) -> None:
    assert await call_tool(tools.resolve("calculate_sum"), world.ctx(), args, kwargs) == ToolReturn(
        5
    )


async def test_a_tool_method_can_return_a_text(world: World, tools: ToolSet) -> None:
    outcome = await call_tool(tools.resolve("get_time"), world.ctx())
    assert isinstance(outcome, ToolReturn)
    assert datetime.fromisoformat(outcome.value)


async def test_an_agent_method_returns_an_observation_text(world: World, tools: ToolSet) -> None:
    found = await call_tool(tools.resolve("search_knowledge_base"), world.ctx(), ("tea",))
    missing = await call_tool(tools.resolve("search_kb"), world.ctx(), (), {"query": "nothing"})
    assert isinstance(found, Observation)
    assert "[tea]" in found.text
    assert isinstance(missing, Observation)
    assert "'nothing'" in missing.text


async def test_a_behavior_method_sends_and_returns_a_text(world: World, tools: ToolSet) -> None:
    outcome = await call_tool(tools.resolve("send_channel_message"), world.ctx(), ("Good night",))
    assert isinstance(outcome, BehaviorReturn)
    assert "Good night" in outcome.text
    assert world.outgoing.sent == [(GROUP, (Text("Good night"),), "run-1")]


async def test_a_behavior_method_can_report_why_its_message_was_refused(
    world: World, tools: ToolSet
) -> None:
    world.outgoing.answer = Receipt(state=DeliveryState.REJECTED, reason="muted in this group")
    outcome = await call_tool(tools.resolve("send_chat_message"), world.ctx(), ("hi",))
    assert isinstance(outcome, BehaviorReturn)
    assert "muted in this group" in outcome.text


async def test_the_truncated_picture_that_the_page_prints_is_refused(
    world: World, tools: ToolSet
) -> None:
    outcome = await call_tool(tools.resolve("generate_image_and_comment"), world.ctx(), ("cats",))
    assert isinstance(outcome, ToolCallFailed)
    assert "part 2 of 2" in outcome.message
    assert "base64" in outcome.message
    assert "generate_image_and_comment" in outcome.message


async def test_with_a_complete_picture_the_method_of_the_page_shows_it_to_the_model(
    world: World, page: Path
) -> None:
    source = page_module(page).replace("iVBORw0KGgoAAAANSUhEUgAAAAUA...", PIXEL)
    world.write("seed.py", source)
    with install_facades():
        async with world.bot() as registry:
            tool = registry.tools_for(GROUP).resolve("generate_image_and_comment")
            outcome = await call_tool(tool, world.ctx(), ("cats",))
    assert isinstance(outcome, RichObservation)
    text, picture = outcome.parts
    assert isinstance(text, TextContent)
    assert "'cats'" in text.text
    assert isinstance(picture, ImageContent)
    assert picture.mime == "image/png"


async def test_a_method_can_read_stored_values_of_its_plugin(world: World, tools: ToolSet) -> None:
    tool = tools.resolve("get_user_preference")
    world.plugin_data.kept["nekro.seed", "", "user_123", "theme"] = "dark"
    assert await call_tool(tool, world.ctx(), ("user_123", "theme")) == ToolReturn("dark")
    assert await call_tool(tool, world.ctx(), ("user_123", "language")) == ToolReturn(None)


async def test_the_model_sees_signature_and_documentation(tools: ToolSet) -> None:
    tool = tools.resolve("get_user_preference")
    assert tool is not None
    text = stub(tool)
    compile(text, "stub", "exec")
    assert text.startswith(
        "def get_user_preference(user_id: str, preference_key: str) -> str | None:"
    )
    assert "_ctx" not in text
    for part in ("Args:", "Returns:", "Example:", 'preference_key="theme"'):
        assert part in text


async def test_the_error_for_a_wrong_argument_is_complete(world: World, tools: ToolSet) -> None:
    outcome = await call_tool(tools.resolve("calculate_sum"), world.ctx(), (2, "three"))
    assert isinstance(outcome, ToolCallFailed)
    for part in (
        "'num2'",
        "expected int",
        "str 'three'",
        "Signature: calculate_sum(num1: int, num2: int) -> int",
    ):
        assert part in outcome.message


async def test_a_plugins_tool_replaces_the_built_in_one_of_the_same_name(
    world: World, page: Path
) -> None:
    world.write("seed.py", page_module(page))
    with install_facades():
        async with world.bot(builtin=builtin_folder("plugins")) as registry:
            tools = registry.tools_for(GROUP)
            winner = tools.resolve("send_channel_message")
            builtin = tools.resolve("chat.send_channel_message")
            by_key = {info.key: info for info in registry.plugins()}
    assert winner is not None
    assert winner.owner == "nekro.seed"
    assert builtin is not None
    assert builtin.owner == "nekro.chat"
    for key in ("nekro.seed", "nekro.chat"):
        assert any("'send_channel_message'" in each.message for each in by_key[key].problems)
