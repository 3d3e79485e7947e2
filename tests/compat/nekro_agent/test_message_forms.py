"""The annotation of a message hook's second parameter decides the class of its message.

Without an annotation the message has nekro-agent's class.
"""

import pytest

from nekro_core.chat import ChatMessage, Sender, Text
from nekro_core.compat.nekro_agent.imports import install_facades
from nekro_core.plugins.authoring.declarations import MsgSignal
from tests.plugins.world import GROUP, World, plugin_source

MESSAGE = ChatMessage(
    chat_key=GROUP,
    message_id="1",
    sender=Sender("10001", "Lin"),
    segments=(Text("hello"),),
    time=1.0,
    account="20002",
)
HOOK = """
{imports}
from nekro_core.api.signal import MsgSignal

@plugin.mount_on_user_message()
async def hook(_ctx, message{annotation}):
    assert (type(message).__name__, message.text) == ({name!r}, "hello")
    return MsgSignal.FORCE_TRIGGER
"""
NATIVE, LEGACY = "ChatMessage", "LegacyChatMessage"
OWN = "from nekro_core.api.chat import ChatMessage"
OLD = "from nekro_core.api.message import ChatMessage"


@pytest.mark.parametrize(
    ("imports", "annotation", "name"),
    [
        (OWN, ": ChatMessage", NATIVE),
        (OWN, ': "ChatMessage"', NATIVE),
        ("from nekro_core.api import chat", ': "chat.ChatMessage"', NATIVE),
        (OLD, ": ChatMessage", LEGACY),
        (OLD, ': "ChatMessage"', LEGACY),
        ("from nekro_agent.schemas.chat_message import ChatMessage", ": ChatMessage", LEGACY),
        ("", "", LEGACY),
        ("", ': "NowhereToBeFound"', LEGACY),
        ("from typing import Any", ": Any", LEGACY),
    ],
)
async def test_the_annotation_decides_the_class_of_the_message(
    world: World, imports: str, annotation: str, name: str
) -> None:
    more = HOOK.format(imports=imports, annotation=annotation, name=name)
    world.write("hooked.py", plugin_source("hooked", more=more))
    with install_facades():
        async with world.bot() as registry:
            signal = (await registry.on_user_message(world.ctx(), MESSAGE)).signal
    assert signal is MsgSignal.FORCE_TRIGGER


async def test_the_parameters_of_a_method_are_counted_without_self(world: World) -> None:
    more = """
from nekro_core.api.chat import ChatMessage
from nekro_core.api.signal import MsgSignal

class Hooks:
    async def hook(self, _ctx, message: ChatMessage):
        assert type(message) is ChatMessage
        return MsgSignal.FORCE_TRIGGER

plugin.mount_on_user_message()(Hooks().hook)
"""
    world.write("hooked.py", plugin_source("hooked", more=more))
    async with world.bot() as registry:
        signal = (await registry.on_user_message(world.ctx(), MESSAGE)).signal
    assert signal is MsgSignal.FORCE_TRIGGER
