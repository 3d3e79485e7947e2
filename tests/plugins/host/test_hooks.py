"""Plugins have hooks for the prompt and for messages. A hook that fails or is too late has no
effect."""

import msgspec
import pytest

from nekro_core.chat import ChatMessage, Sender, Text
from nekro_core.plugins.authoring.declarations import MsgSignal
from tests.plugins.world import GROUP, World, plugin_source

PROMPT = """
import anyio

@plugin.mount_prompt_inject_method("p")
async def p(_ctx):
    {body}
"""
HOOK = """
import anyio
from nekro_core.api.signal import MsgSignal

@plugin.mount_on_user_message()
async def hook(_ctx, message):
    {body}
"""
MESSAGE = ChatMessage(
    chat_key=GROUP,
    message_id="1",
    sender=Sender("10001"),
    segments=(Text("hello"),),
    time=1.0,
    account="20002",
)


async def test_prompt_texts_are_in_the_order_of_the_plugins(world: World) -> None:
    bodies = {
        "a": "await anyio.sleep(0.05); return f'from a to {_ctx.chat_key} for {_ctx.owner}'",
        "b": "return 'from b'",
        "empty": "return '  '",
        "fails": "raise RuntimeError('no')",
        "hangs": "await anyio.sleep(60)",
        "wrong": "return 5",
    }
    for name, body in bodies.items():
        world.write(f"{name}.py", plugin_source(name, more=PROMPT.format(body=body)))
    async with world.bot(prompt_s=2) as registry:
        found = await registry.prompt_injections(world.ctx())
        assert [(each.plugin, each.text) for each in found] == [
            ("ann.a", "from a to onebot_v11-group_30003 for ann.a"),
            ("ann.b", "from b"),
        ]
        await registry.disable("ann.a")
        found = await registry.prompt_injections(world.ctx())
        assert [each.plugin for each in found] == ["ann.b"]


@pytest.mark.parametrize(
    ("bodies", "signal"),
    [
        ([], MsgSignal.CONTINUE),
        (["return None"], MsgSignal.CONTINUE),
        (["return MsgSignal.BLOCK_TRIGGER", "return None"], MsgSignal.BLOCK_TRIGGER),
        (
            ["return MsgSignal.BLOCK_TRIGGER", "return MsgSignal.FORCE_TRIGGER"],
            MsgSignal.FORCE_TRIGGER,
        ),
        (["return MsgSignal.FORCE_TRIGGER", "return MsgSignal.BLOCK_ALL"], MsgSignal.BLOCK_ALL),
        (["raise ValueError", "return MsgSignal.BLOCK_ALL"], MsgSignal.BLOCK_ALL),
        (["await anyio.sleep(60)", "return MsgSignal.BLOCK_TRIGGER"], MsgSignal.BLOCK_TRIGGER),
        (["return 'yes'"], MsgSignal.CONTINUE),
        (["return 2"], MsgSignal.BLOCK_ALL),
        (["return -1"], MsgSignal.FORCE_TRIGGER),
        (["return True", "return 3"], MsgSignal.CONTINUE),
        (
            ["assert message.text == 'hello'; return MsgSignal.FORCE_TRIGGER"],
            MsgSignal.FORCE_TRIGGER,
        ),
    ],
)
async def test_the_signals_of_all_plugins_are_combined(
    world: World, bodies: list[str], signal: MsgSignal
) -> None:
    for number, body in enumerate(bodies):
        name = f"p{number}"
        world.write(f"{name}.py", plugin_source(name, more=HOOK.format(body=body)))
    async with world.bot(message_s=1 if "sleep" in "".join(bodies) else 30) as registry:
        ctx = registry.context_for(GROUP, user_id="10001")
        assert (await registry.on_user_message(ctx, MESSAGE)).signal is signal


async def test_a_path_in_a_message_is_not_read_on_the_host(world: World) -> None:
    body = """from pathlib import Path
    await _ctx.send_file(Path(message.content_text.split()[-1]))"""
    world.write("a.py", plugin_source("a", more=HOOK.format(body=body)))
    async with world.bot() as registry:
        kept = world.data_dir / "plugin_data" / "ann.a" / "kept.txt"
        kept.parent.mkdir(parents=True)
        kept.write_text("a key of the plugin's")
        asks = msgspec.structs.replace(MESSAGE, segments=(Text(f"show me {kept}"),))
        await registry.on_user_message(world.ctx(), asks)
        assert not world.outgoing.sent
