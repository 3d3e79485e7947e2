"""If a plugin replaces functions of other modules, this is reported as a problem of this plugin
only."""

from collections.abc import Iterator

import httpx
import pytest

import nekro_core.plugins.host.tool_calls
from nekro_core.plugins.host.listing import PluginInfo, PluginState
from tests.plugins.world import World, plugin_source

PATCHES = """
import asyncio
import httpx
import nekro_core.plugins.host.tool_calls

_get = httpx.AsyncClient.get

async def get(self, *args, **more):
    return await _get(self, *args, **more)

httpx.AsyncClient.get = get
nekro_core.plugins.host.tool_calls.call_tool = lambda *args: None
httpx.added = 1
"""
BEHAVES = """
import httpx

class Client(httpx.AsyncClient):
    async def get(self, *args, **more):
        return await super().get(*args, **more)
"""


@pytest.fixture(autouse=True)
def as_they_were(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Restore the functions that the plugins of these tests replace."""
    monkeypatch.setattr(httpx.AsyncClient, "get", httpx.AsyncClient.get)
    monkeypatch.setattr(
        nekro_core.plugins.host.tool_calls,
        "call_tool",
        nekro_core.plugins.host.tool_calls.call_tool,
    )
    yield
    monkeypatch.undo()
    vars(httpx).pop("added", None)


async def test_a_plugin_that_patches_others_is_named_at_the_start(world: World) -> None:
    world.write("a.py", plugin_source("a", "f", more=BEHAVES))
    world.write("b.py", plugin_source("b", "g", more=PATCHES))
    world.write("c.py", plugin_source("c", "h", more=BEHAVES))
    async with world.bot() as registry:
        a, b, c = registry.plugins()
        assert (a.problems, c.problems, b.state) == ((), (), PluginState.LOADED)
        (problem,) = told(b)
        assert problem == (
            "it replaces httpx.AsyncClient.get, nekro_core.plugins.host.tool_calls.call_tool "
            "for the whole bot "
            "(leave what is others' as it is; only a restart without ann.b undoes this)"
        )


async def test_a_plugin_that_patches_others_is_named_when_it_is_loaded_later(world: World) -> None:
    world.write("a.py", plugin_source("a", "f"))
    later = plugin_source("a", "f", more="import httpx\nhttpx.AsyncClient.get = None\n")
    async with world.bot() as registry:
        world.write("a.py", later)
        assert "it replaces httpx.AsyncClient.get for" in told(await registry.enable("ann.a"))[0]
        # The function of httpx is already replaced when the plugin is loaded again. So the second
        # load replaces nothing and causes no problem.
        assert (await registry.enable("ann.a")).problems == ()


def told(info: PluginInfo) -> list[str]:
    return [str(problem) for problem in info.problems]
