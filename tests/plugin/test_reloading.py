"""A plugin comes and goes a hundred times, and the process is as it was.

Whoever writes plugins for a test adds their folder to `PLUGINS`.
"""

import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from nekro_core.chat import ChatKey, ChatMessage, Sender, Text
from nekro_core.plugin import PluginRegistry, call
from nekro_core.tools.outcome import Observation, Returned
from tests.plugin.reloading import LONG, SHORT, grown_by_reloads
from tests.plugin.world import GROUP, World

EVERYTHING = Path(__file__).parent / "everything"
OTHER = ChatKey.parse("web-private_lin")


def use(registry: PluginRegistry, world: World) -> Callable[[], Awaitable[None]]:
    """What a chat does with the plugin that has everything."""
    message = ChatMessage(
        chat_key=GROUP,
        message_id="1",
        sender=Sender("10001"),
        segments=(Text("hello"),),
        time=1.0,
        account="20002",
    )

    async def talk() -> None:
        ctx = registry.context_for(GROUP)
        tools = await registry.tools_in(ctx)
        look, think, hidden = (tools.resolve(name) for name in ("look", "think", "hidden"))
        assert look
        assert think
        assert hidden
        seen = await call(look, ctx, ({"city": "Nara"}, [{"held": 2}]))
        assert seen == Returned("Nara: 2")
        assert isinstance(await call(think, ctx), Observation)
        assert await call(hidden, ctx, ({"number": 3},)) == Returned("number=3")
        assert await registry.prompt_injections(ctx)
        await registry.on_user_message(ctx, message)
        await ctx.push_system("line")
        await registry.on_channel_reset(ctx)
        assert len((await registry.tools_in(registry.context_for(OTHER))).named) == 1
        world.outgoing.sent.clear()
        world.journal.notes.clear()

    return talk


@pytest.mark.parametrize(("first", "last"), [SHORT, pytest.param(*LONG, marks=pytest.mark.long)])
async def test_a_plugin_with_everything_leaves_nothing(world: World, first: int, last: int) -> None:
    shutil.copytree(EVERYTHING, world.data_dir / "plugins" / "everything")
    async with world.bot() as registry:
        grown = await grown_by_reloads(
            registry, "local/everything", first=first, last=last, use=use(registry, world)
        )
    assert grown == {}
