"""A plugin's declarations for other rooms are in effect from its loading until it is unloaded."""

from dataclasses import dataclass, field

import anyio
import pytest

from nekro_core.plugins.authoring.plugin import NekroPlugin
from nekro_core.plugins.host.kinds import DeclarationRefused
from nekro_core.plugins.host.listing import PluginState
from nekro_core.plugins.host.registry import PluginRegistry
from tests.plugins.world import GROUP, World, plugin_source
from tests.tools.make import tool_of

DECLARES = """
plugin.declare("at import")

@plugin.mount_init_method()
async def init():
    plugin.declare("in init")
"""


@dataclass
class Board:
    """A registrar of another room: it stores what plugins declare."""

    held: dict[str, str] = field(default_factory=dict)

    def put(self, plugin: NekroPlugin, text: str) -> None:
        if text in self.held:
            raise DeclarationRefused(f"{text!r} is {self.held[text]}'s", remedy="take another")
        self.held[text] = plugin.key
        plugin.effects.add(text, lambda: self.held.pop(text))


@pytest.fixture
def board() -> Board:
    return Board()


async def test_declarations_are_in_effect_while_the_plugin_is_loaded(
    world: World, board: Board
) -> None:
    world.write("a.py", plugin_source("a", more=DECLARES))
    async with world.bot(registrars={str: board.put}) as registry:
        assert board.held == {"at import": "ann.a", "in init": "ann.a"}
        await registry.disable("ann.a")
        assert board.held == {}
        await registry.enable("ann.a")
        assert list(board.held) == ["at import", "in init"]
    assert board.held == {}


async def test_of_two_equal_declarations_the_second_is_reported(world: World, board: Board) -> None:
    world.write("a.py", plugin_source("a", more=DECLARES))
    world.write("b.py", plugin_source("b", "f", more='plugin.declare("at import")\n'))
    async with world.bot(registrars={str: board.put}) as registry:
        a, b = registry.plugins()
        assert (a.problems, b.state, len(b.tools)) == ((), PluginState.LOADED, 1)
        assert str(b.problems[0]) == "'at import' is ann.a's (take another)"
        await registry.disable("ann.a")
        await registry.enable("ann.b")
        assert board.held == {"at import": "ann.b"}


async def test_declarations_of_a_plugin_that_fails_to_start_are_undone(
    world: World, board: Board
) -> None:
    fails = "\n    raise ValueError\n"
    world.write("a.py", plugin_source("a", more=DECLARES.rstrip() + fails))
    async with world.bot(registrars={str: board.put}):
        assert board.held == {}


async def test_declarations_beyond_the_limit_are_reported_once_and_left_out(
    world: World, board: Board
) -> None:
    more = "for number in range(500):\n    plugin.declare(str(number))\n"
    world.write("a.py", plugin_source("a", "f", more=more))
    async with world.bot(registrars={str: board.put}, most_tools=20) as registry:
        (info,) = registry.plugins()
        assert len(board.held) == 20
        assert len(info.tools) == 1
        assert "it declares more than 20 commands and the like" in str(info.problems[0])
        assert len(info.problems) == 1
    assert board.held == {}


async def test_declarations_are_undone_in_reverse_order_even_if_a_step_fails(world: World) -> None:
    world.write("a.py", plugin_source("a", more='plugin.declare("x")\n'))
    said: list[str] = []

    async def late() -> None:
        await anyio.sleep(0)
        said.append("late")

    def fail() -> None:
        raise KeyError

    def put(plugin: NekroPlugin, text: str) -> None:
        plugin.effects.add("first", lambda: said.append("first"))
        plugin.effects.add("fails", fail)
        plugin.effects.add("hangs", lambda: anyio.sleep(60))
        plugin.effects.add("late", late)
        plugin.effects.add("forgotten", fail)()

    async with world.bot(registrars={str: put}, cleanup_s=1):
        pass
    assert said == ["late", "first"]


async def test_tools_without_a_plugin_can_be_offered_and_withdrawn(world: World) -> None:
    async def search(_ctx: object, text: str) -> str:
        """Search."""
        return text

    def names(registry: PluginRegistry) -> list[str]:
        return [named.name for named in registry.tools_for(GROUP).named]

    async with world.bot() as registry:
        before = registry.offer("mcp.web", [tool_of(search)])
        assert names(registry) == ["search"]
        again = registry.offer("mcp.web", [])
        assert names(registry) == []
        before()
        again()


TASKS = """
import asyncio

async def forever():
    await asyncio.sleep(3600)

async def fails():
    raise ValueError("in a task")

@plugin.mount_init_method()
async def init():
    plugin.tasks.start(forever, name="forever")
    plugin.tasks.start(fails)
"""


async def test_the_tasks_of_a_plugin_end_when_it_is_unloaded(world: World) -> None:
    world.write("a.py", plugin_source("a", more=TASKS))
    async with world.bot() as registry:
        assert _named("forever") == 1
        await registry.disable("ann.a")
        assert _named("forever") == 0


def _named(name: str) -> int:
    return sum(task.name == name for task in anyio.get_running_tasks())
