"""The typing state in private chats and reactions in groups, with implementations that have them
and those that do not."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import anyio
import pytest

from nekro_core.api.adapter import SignRefused
from nekro_core.api.chat import ChatKey
from nekro_core.delivery.outbound.chat_signs import ChatSigns
from nekro_core.delivery.settings import DeliverySettings
from nekro_core.policy.overrides import ChatOverrides
from tests.adapters.onebot_v11.running import FRIEND, GROUP, Bot, bot_with_peer
from tests.peers.onebot_v11 import OneBotPeer

OTHER_FRIEND = ChatKey.parse("onebot_v11-private_10009")


async def until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(30):
        while not condition():
            await anyio.sleep(0.005)
    await anyio.sleep(0.02)


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[tuple[Bot, OneBotPeer]]:
    async with bot_with_peer(tmp_path, "reverse") as (bot, peer):
        yield bot, peer


async def test_a_friend_sees_that_the_bot_is_typing(scene: tuple[Bot, OneBotPeer]) -> None:
    bot, peer = scene
    await peer.say_in_private(10001, "hello")
    await bot.host.next_message()
    assert bot.adapter.capabilities(FRIEND).typing_s is not None
    assert bot.adapter.capabilities(GROUP).typing_s is None
    await bot.adapter.show_typing(FRIEND, typing=True)
    await bot.adapter.show_typing(FRIEND, typing=False)
    assert peer.account.typed_to == ["10001"]


@pytest.mark.parametrize(("emoji", "number"), [("289", "289"), ("👍", "128077"), ("❤️", "10084")])
async def test_a_message_of_a_group_gets_a_face_of_qq_or_an_emoji(
    scene: tuple[Bot, OneBotPeer], emoji: str, number: str
) -> None:
    bot, peer = scene
    await peer.say_in_group(30003, 10001, "hello")
    heard = await bot.host.next_message()
    assert bot.adapter.capabilities(GROUP).reactions
    assert not bot.adapter.capabilities(FRIEND).reactions
    await bot.adapter.react(GROUP, heard.message_id, emoji)
    assert peer.account.reactions == [(int(heard.message_id), number)]


async def test_an_emoji_of_several_characters_is_refused_without_a_call(
    scene: tuple[Bot, OneBotPeer],
) -> None:
    bot, peer = scene
    await peer.say_in_group(30003, 10001, "hello")
    heard = await bot.host.next_message()
    with pytest.raises(SignRefused, match="expected the number of a face"):
        await bot.adapter.react(GROUP, heard.message_id, "👨‍👩‍👧")
    assert peer.account.reactions == []


async def test_an_implementation_without_typing_and_reactions_gets_one_call_for_each(
    scene: tuple[Bot, OneBotPeer],
) -> None:
    bot, peer = scene
    peer.account.has_signs = False
    await peer.say_in_private(10001, "hello")
    await peer.say_in_group(30003, 10001, "hello")
    heard = [await bot.host.next_message() for _ in range(2)]
    settings = DeliverySettings(seen_emoji="👍")
    async with ChatSigns(lambda _: bot.adapter, settings, lambda _: ChatOverrides()) as signs:
        for key in (FRIEND, FRIEND, OTHER_FRIEND):
            state = signs.typing(key)
            state.show()
            await until(lambda: bot.adapter.capabilities(FRIEND).typing_s is None)
            state.end()
        for _ in range(3):
            signs.seen(GROUP, heard[-1].message_id)
            await until(lambda: not bot.adapter.capabilities(GROUP).reactions)
        assert (await bot.send(GROUP, "the bot goes on")).ok
    asked = [each.action for each in peer.calls]
    assert asked.count("set_input_status") == 1
    assert asked.count("set_msg_emoji_like") == 1
    assert bot.adapter.capabilities(OTHER_FRIEND).typing_s is None
    assert not bot.adapter.capabilities(GROUP).reactions


async def test_typing_is_refused_for_a_stranger_and_still_shown_to_a_friend(
    scene: tuple[Bot, OneBotPeer],
) -> None:
    bot, peer = scene
    await peer.say_in_private(10001, "hello")
    await bot.host.next_message()
    with pytest.raises(SignRefused, match="uid is empty"):
        await bot.adapter.show_typing(OTHER_FRIEND, typing=True)
    await bot.adapter.show_typing(FRIEND, typing=True)
    assert peer.account.typed_to == ["10001"]
