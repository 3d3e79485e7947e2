"""The plugins that the guide and the README print run as the pages say."""

import re
from pathlib import Path

import pytest

from nekro_core.plugins.host.listing import PluginState
from nekro_core.plugins.host.tool_calls import call_tool
from nekro_core.tools.outcome import BehaviorReturn, ToolReturn
from tests.plugins.world import GROUP, World

ROOT = Path(__file__).parents[2]
PAGES = [*ROOT.glob("README*.md"), *(ROOT / "docs").glob("plugins*.md")]
_BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


def blocks(page: Path) -> list[str]:
    return _BLOCK.findall(page.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
async def test_every_plugin_on_the_page_loads_without_a_problem(world: World, page: Path) -> None:
    plugins = [block for block in blocks(page) if "NekroPlugin(" in block]
    assert plugins
    for number, source in enumerate(plugins):
        world.write(f"p{number}.py", source)
    async with world.bot() as registry:
        for info in registry.plugins():
            assert info.state is PluginState.LOADED, info.problems
            assert info.problems == ()
            assert info.tools


async def test_the_guides_plugins_work_as_it_says(world: World) -> None:
    dice, _test, greeter = blocks(ROOT / "docs" / "plugins.md")
    world.write("dice_cup.py", dice)
    world.write("greeter.py", greeter)
    async with world.bot() as registry:
        tools = registry.tools_for(GROUP)
        shake, greet = tools.resolve("shake"), tools.resolve("greet")
        assert shake is not None
        assert greet is not None
        rolled = await call_tool(shake, world.ctx(), (), {"sides": "20", "count": 2})
        assert isinstance(rolled, ToolReturn)
        assert len(rolled.value) == 2
        assert await call_tool(greet, world.ctx(), ("Lin",)) == BehaviorReturn(
            "Greeted Lin; greetings so far: 1"
        )
        assert await call_tool(greet, world.ctx(), ("Lin",)) == BehaviorReturn(
            "Greeted Lin; greetings so far: 2"
        )
        assert world.outgoing.texts[1:] == ["Hello, Lin!"] * 2
        assert [example.language for example in shake.examples] == ["en", "zh"]
