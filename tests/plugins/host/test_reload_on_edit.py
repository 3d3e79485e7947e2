"""A plugin is loaded again when one of its files is saved, if the setting ``watch_files`` is on."""

from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from nekro_core.plugins.host.listing import PluginState
from nekro_core.plugins.host.registry import PluginRegistry
from nekro_core.plugins.host.reload_on_edit import edited_items
from tests.plugins.world import World, plugin_source


async def until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(30):
        while not condition():
            await anyio.sleep(0.02)


def tools(registry: PluginRegistry) -> list[str]:
    return [tool.name for info in registry.plugins() for tool in info.tools]


@pytest.mark.long
async def test_a_saved_file_behind_a_link_is_loaded(tmp_path: Path) -> None:
    world = World(tmp_path / "data")
    at_work = tmp_path / "work" / "cup"
    at_work.mkdir(parents=True)
    (at_work / "__init__.py").write_text(plugin_source("cup", "f"))
    (world.data_dir / "plugins").mkdir(parents=True)
    (world.data_dir / "plugins" / "cup").symlink_to(at_work)
    async with world.bot(watch_files=True, look_s=0.05) as registry:
        assert tools(registry) == ["f"]
        await anyio.sleep(0.3)  # in this time the watch begins
        (at_work / "__init__.py").write_text(plugin_source("cup", "g"))
        await until(lambda: tools(registry) == ["g"])
        (at_work / "__init__.py").write_text("def broken(:")
        await until(lambda: registry.plugins()[0].state is PluginState.BROKEN)
        (at_work / "__init__.py").write_text(plugin_source("cup", "h"))
        await until(lambda: tools(registry) == ["h"])
        await registry.disable("ann.cup")
        (at_work / "__init__.py").write_text(plugin_source("cup", "i"))
        await anyio.sleep(0.5)
        assert registry.plugins()[0].state is PluginState.DISABLED


@pytest.mark.parametrize(
    ("changed", "items"),
    [
        (["/plugins/cup/__init__.py", "/plugins/cup/inner/a.py"], ["local/cup"]),
        (["/plugins/solo.py", "/plugins/cup/words.txt"], ["local/solo", "local/cup"]),
        (["/plugins/cup/tests/test_cup.py", "/plugins/cup/.words.swp"], []),
        (["/plugins/cups/__init__.py", "/elsewhere/x.py"], []),
    ],
)
def test_the_plugin_of_an_edited_file_is_found(changed: list[str], items: list[str]) -> None:
    places = {Path("/plugins/cup"): "local/cup", Path("/plugins/solo.py"): "local/solo"}
    assert edited_items(places, map(Path, changed)) == items
