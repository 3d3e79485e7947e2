"""Deferred tools are not shown in full in the prompt. All tools of a plugin with a ``sleep_brief``
are deferred. Hidden tools are not offered at all."""

from nekro_core.plugins.host.registry import PluginRegistry
from nekro_core.tools.tool import Tool, Visibility
from tests.plugins.world import GROUP, World

HEAD = """
from nekro_core.api.plugin import NekroPlugin, SandboxMethodType
from nekro_core.api.schemas import AgentCtx
"""
ONE = '''
plugin = NekroPlugin("One", "one", "Cards.", "1", "ann", "")


@plugin.mount_sandbox_method(SandboxMethodType.TOOL, "draw", visibility="deferred")
async def draw(_ctx: AgentCtx) -> str:
    """Draw a card."""
    return "the moon"


@plugin.mount_sandbox_method(SandboxMethodType.TOOL, "cheat", visibility="hidden")
async def cheat(_ctx: AgentCtx) -> str:
    """Draw the best card."""
    return "the sun"
'''
SLEEPY = '''
plugin = NekroPlugin("Two", "two", "Dice.", "1", "ann", "", allow_sleep=True, sleep_brief="Dice")


@plugin.mount_sandbox_method(SandboxMethodType.TOOL, "roll")
async def roll(_ctx: AgentCtx) -> int:
    """Roll."""
    return 4


@plugin.mount_prompt_inject_method("two")
async def prompt(_ctx: AgentCtx) -> str:
    """What the model is told."""
    return "Dice are fair."
'''


def tool(registry: PluginRegistry, name: str) -> Tool:
    found = registry.tools_for(GROUP).resolve(name)
    assert found is not None
    return found


async def test_a_deferred_tool_can_be_called_and_a_hidden_one_cannot(world: World) -> None:
    world.write("one.py", HEAD + ONE)
    async with world.bot() as registry:
        assert tool(registry, "draw").visibility is Visibility.DEFERRED
        assert registry.tools_for(GROUP).resolve("cheat") is None


async def test_a_plugin_with_only_deferred_tools_adds_only_its_brief_to_prompts(
    world: World,
) -> None:
    world.write("two.py", HEAD + SLEEPY)
    async with world.bot() as registry:
        roll = tool(registry, "roll")
        assert (roll.visibility, roll.sleep_brief) == (Visibility.DEFERRED, "Dice")
        assert await registry.prompt_injections(world.ctx(), {"ann.two"}) == ()
        (awake,) = await registry.prompt_injections(world.ctx())
        assert awake.text == "Dice are fair."
