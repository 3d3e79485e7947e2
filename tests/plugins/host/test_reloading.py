"""After a hundred reloads of a plugin the process has no more objects than before.

If a test has plugins in another folder, add that folder to `FOLDERS`.
"""

import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from nekro_core.chat import ChatKey, ChatMessage, Sender, Text
from nekro_core.plugins.host.builtin import builtin_folder, items_in
from nekro_core.plugins.host.links import link_plugin
from nekro_core.plugins.host.registry import PluginRegistry
from nekro_core.plugins.host.tool_calls import call_tool
from nekro_core.sandbox.settings import SandboxSettings
from nekro_core.testing import Bot
from nekro_core.tools.outcome import Observation, ToolReturn
from tests.plugins.host.reloading import LONG, bytes_kept, grown_by_reloads
from tests.plugins.world import GROUP, World

TESTS = Path(__file__).parents[2]
EVERYTHING = TESTS / "plugins" / "everything"
FOLDERS = (TESTS / "compat" / "nekro_agent" / "plugins", TESTS / "compat" / "maibot" / "plugins")
"""Folders of other tests' plugins. Each file or folder in them is a plugin."""
WRITTEN = [
    each
    for folder in FOLDERS
    for each in sorted(folder.glob("[!_.]*"))
    if each.is_dir() or each.suffix == ".py"
]
OTHER = ChatKey.parse("web-private_lin")
QUIET = {"nekro_sandbox": SandboxSettings(pool_size=0)}
"""No boxes are made in advance during the test."""
MESSAGE = ChatMessage(
    chat_key=GROUP,
    message_id="1",
    sender=Sender("10001"),
    segments=(Text("hello"),),
    time=1.0,
    account="20002",
)


def use(registry: PluginRegistry, world: World) -> Callable[[], Awaitable[None]]:
    """A function that uses the plugin `tests.plugins.everything` as a chat would."""

    async def talk() -> None:
        ctx = registry.context_for(GROUP)
        tools = await registry.tools_in(ctx)
        look, think, hidden = (tools.resolve(name) for name in ("look", "think", "hidden"))
        assert look
        assert think
        assert hidden
        seen = await call_tool(look, ctx, ({"city": "Nara"}, [{"held": 2}]))
        assert seen == ToolReturn("Nara: 2")
        assert isinstance(await call_tool(think, ctx), Observation)
        assert await call_tool(hidden, ctx, ({"number": 3},)) == ToolReturn("number=3")
        assert await registry.prompt_injections(ctx)
        await registry.on_user_message(ctx, MESSAGE)
        await ctx.push_system("line")
        await registry.on_channel_reset(ctx)
        assert len((await registry.tools_in(registry.context_for(OTHER))).named) == 1
        world.outgoing.sent.clear()
        world.journal.notes.clear()

    return talk


@pytest.mark.parametrize(
    ("first", "last"),
    [pytest.param(*LONG, marks=[pytest.mark.long, pytest.mark.slow, pytest.mark.timeout(600)])],
)
async def test_reloads_of_a_plugin_with_everything_leave_no_objects(
    world: World, first: int, last: int
) -> None:
    shutil.copytree(EVERYTHING, world.data_dir / "plugins" / "everything")
    async with world.bot() as registry:
        grown = await grown_by_reloads(
            registry, "local/everything", first=first, last=last, use=use(registry, world)
        )
    assert grown == {}


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(600)
async def test_reloads_of_a_plugin_leave_no_memory(world: World) -> None:
    shutil.copytree(EVERYTHING, world.data_dir / "plugins" / "everything")
    async with world.bot() as registry:
        talk = use(registry, world)

        async def reload() -> None:
            await registry.enable("local/everything")
            await talk()

        kept = await bytes_kept(reload, 10, 50)
    # The limit is 50 kB for 20 reloads, and each reload makes 300 kB of modules and classes.
    assert kept < 50_000


@pytest.mark.long
@pytest.mark.reloads
@pytest.mark.timeout(600)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # MaiBot's SDK warns about its @Action
@pytest.mark.parametrize(
    "plugin",
    [EVERYTHING, *(pytest.param(path, marks=pytest.mark.slow) for path in WRITTEN)],
    ids=lambda path: path.name,
)
async def test_reloads_of_a_plugin_in_a_whole_bot_leave_no_objects(
    tmp_path: Path, plugin: Path
) -> None:
    for other in WRITTEN:  # a plugin may need another one
        if other.parent == plugin.parent and other != plugin:
            link_plugin(other, tmp_path)
    async with Bot.open(tmp_path, plugin, settings=QUIET) as bot:
        grown = await grown_by_reloads(
            bot.app.plugins, bot.info.item, first=LONG[0], last=LONG[1], use=heard(bot)
        )
    assert grown == {}


@pytest.mark.long
@pytest.mark.reloads
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name == "chat" else pytest.mark.slow)
        for name in items_in(builtin_folder("plugins"))
    ],
)
async def test_reloads_of_a_built_in_plugin_leave_no_objects(tmp_path: Path, name: str) -> None:
    async with Bot.open(tmp_path, settings=QUIET) as bot:
        grown = await grown_by_reloads(
            bot.app.plugins, f"builtin/{name}", first=LONG[0], last=LONG[1], use=heard(bot)
        )
    assert grown == {}


def heard(bot: Bot) -> Callable[[], Awaitable[None]]:
    """A function that calls every hook of every plugin once."""
    plugins = bot.app.plugins

    async def talk() -> None:
        ctx = plugins.context_for(OTHER, user_id="10001")
        await plugins.tools_in(ctx)
        await plugins.prompt_injections(ctx)
        await plugins.on_user_message(ctx, MESSAGE)
        await plugins.on_channel_reset(ctx)

    return talk
