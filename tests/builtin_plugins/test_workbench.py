"""The workbench plugin has eight tools: Python functions that use the boxes of the chat."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from nekro_core.agent.prompt.functions import function_set, tools_text
from nekro_core.agent.prompt.small_prompt import small_tools
from nekro_core.agent.settings import AgentSettings
from nekro_core.agent.turn.boxes import ChatBoxes
from nekro_core.agent.turn.run_calls import guest_functions
from nekro_core.chat import ChatKey
from nekro_core.plugins.host.builtin import builtin_folder
from nekro_core.plugins.host.tool_calls import call_tool
from nekro_core.sandbox.settings import SandboxSettings
from nekro_core.sandbox.supply import BoxSupply
from nekro_core.sandbox.tools import TOOL_NAMES
from nekro_core.tools.names import NamedTool, tool_set
from nekro_core.tools.outcome import Outcome, ToolCallFailed, ToolReturn
from tests.builtin_plugins.conftest import Call
from tests.plugins.world import GROUP, World

NAMES = (
    "shell",
    "read_file",
    "write_file",
    "glob",
    "browse",
    "sandbox_create",
    "sandbox_list",
    "transfer",
)


async def offered(world: World) -> dict[str, NamedTool]:
    async with world.bot(builtin=builtin_folder("plugins")) as registry:
        return {
            each.tool.python_name: each
            for each in registry.tools_for(GROUP).named
            if each.tool.owner == "nekro.workbench"
        }


async def test_all_eight_tools_have_a_dotted_name(world: World) -> None:
    tools = await offered(world)
    assert tuple(tools) == NAMES
    for name, named in tools.items():
        assert f"workbench.{name}" in named.names
        assert (name in named.names) == (name != "glob"), (
            "a tool must not hide the Python module glob"
        )


async def test_native_calls_use_the_documented_tool_names(world: World) -> None:
    tools = tool_set(each.tool for each in (await offered(world)).values())
    assert tuple(function_set(tools).names) == NAMES == TOOL_NAMES


async def test_a_tool_of_an_installed_plugin_hides_the_built_in_one_of_the_same_name(
    world: World,
) -> None:
    ours = [each.tool for each in (await offered(world)).values()]
    theirs = replace(ours[0], owner="ann.console", module="console")
    tools = tool_set([*ours, theirs], builtin={"nekro.workbench"})
    assert tools.resolve("shell") is theirs
    assert tools.resolve("workbench.shell") is ours[0]


async def test_the_prompt_text_of_the_tools_is_short(world: World) -> None:
    tools = tool_set(each.tool for each in (await offered(world)).values())
    assert len(tools_text(tools)) < 3000
    assert len(guest_functions(tools)) == 8


async def test_a_small_model_is_not_offered_the_workbench_tools(world: World) -> None:
    async with world.bot(builtin=builtin_folder("plugins")) as registry:
        tools = registry.tools_for(GROUP)
        assert {each.tool.owner for each in tools.named} >= {"nekro.workbench", "nekro.dice"}
        assert "nekro.workbench" not in {each.tool.owner for each in small_tools(tools)}


async def test_without_boxes_a_call_says_that_there_are_none(run: Call) -> None:
    failed = await run("workbench.shell", "ls")
    assert isinstance(failed, ToolCallFailed)
    assert "there are no sandboxes here" in failed.message


class Chats:
    """Several chats, each with its own boxes."""

    def __init__(self, world: World, boxes: ChatBoxes) -> None:
        self.world = world
        self.boxes = boxes
        world.services = replace(world.services, pool_of=boxes.pool)

    async def run(self, chat: str, name: str, *args: object, **kwargs: object) -> Outcome:
        async with self.world.bot(builtin=builtin_folder("plugins")) as registry:
            tool = registry.tools_for(GROUP).resolve(name)
            assert tool is not None
            ctx = replace(self.world.ctx(), chat=ChatKey.parse(chat))
            return await call_tool(tool, ctx, args, kwargs)

    async def value(self, chat: str, name: str, *args: object, **kwargs: object) -> object:
        outcome = await self.run(chat, name, *args, **kwargs)
        assert isinstance(outcome, ToolReturn), outcome
        return outcome.value


@pytest.fixture
async def chats(world: World, tmp_path: Path) -> AsyncIterator[Chats]:
    settings = SandboxSettings(pool_size=0)
    async with BoxSupply.open(settings, clock=anyio.current_time, report=pytest.fail) as supply:
        boxes = ChatBoxes(supply, tmp_path / "boxes", AgentSettings(), clock=anyio.current_time)
        yield Chats(world, boxes)
        await boxes.aclose()


@pytest.mark.long
async def test_the_tools_return_python_values_and_use_the_boxes_of_their_chat(chats: Chats) -> None:
    lin, mei = "fake-private_lin", "fake-private_mei"
    done = await chats.value(lin, "workbench.shell", "echo milk >note; cat note; exit 3")
    assert done == {"stdout": "milk\n", "stderr": "", "exit_code": 3}
    assert await chats.value(lin, "workbench.read_file", "note") == {"content": "milk\n", "size": 5}
    assert await chats.value(lin, "workbench.write_file", "note", "tea", append=True) == {
        "ok": True,
        "size": 8,
    }
    assert await chats.value(lin, "workbench.glob", "*") == {"files": ["note"]}
    # A call cannot reach another chat's boxes, whatever box name it gives.
    failed = await chats.run(mei, "workbench.read_file", "note")
    assert isinstance(failed, ToolCallFailed)
    assert "not_found" in failed.message
    escaped = await chats.run(mei, "workbench.read_file", "note", sandbox=f"{lin}:default")
    assert isinstance(escaped, ToolCallFailed)
    assert "invalid_input" in escaped.message
    # When one chat's boxes are destroyed, the other chat's boxes stay.
    await chats.boxes.destroy(ChatKey.parse(lin))
    assert await chats.value(lin, "workbench.sandbox_list") == {"sandboxes": []}
    assert await chats.value(mei, "workbench.sandbox_list") == {
        "sandboxes": [{"name": "default", "image": "python", "status": "running"}]
    }
