"""A plugin registers NoneBot matchers while it is loaded, and unloading the plugin removes them."""

from nonebot.matcher import matchers

from nekro_core.compat.nekro_agent.imports import install_facades
from nekro_core.plugins.host.listing import PluginState
from tests.plugins.world import World

SOURCE = """
from nonebot import get_driver, on_command
from nonebot.adapters.onebot.v11 import MessageEvent
from nonebot.matcher import Matcher

from nekro_agent.adapters.onebot_v11.matchers.command import on_command as older
from nekro_agent.services.plugin.base import NekroPlugin

plugin = NekroPlugin("Bare", "bare", "d", "1", "ann", "")
prefix = get_driver().config.command_start


@on_command("bare", aliases={"b"}, priority=5, block=True).handle()
async def handle(matcher: Matcher, event: MessageEvent) -> None:
    await matcher.finish("ok")


older("barer")
"""


async def test_a_plugin_with_matchers_leaves_none_when_unloaded(world: World) -> None:
    world.write("bare.py", SOURCE)
    before = count()
    with install_facades():
        async with world.bot() as registry:
            (info,) = registry.plugins()
            assert info.state is PluginState.LOADED, info.problems
            assert count() == before + 2
            await registry.enable("ann.bare")
            assert count() == before + 2
        assert count() == before


def count() -> int:
    return sum(len(each) for each in matchers.values())
