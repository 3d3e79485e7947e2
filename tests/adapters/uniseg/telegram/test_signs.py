"""The typing state and reactions on Telegram."""

import anyio
import pytest

from nekro_core.api.adapter import SignRefused
from nekro_core.api.chat import ChatKey
from tests.adapters.uniseg.stock import Bench
from tests.adapters.uniseg.telegram.running import GROUP, GROUP_ID
from tests.peers.telegram import Failed, TelegramPeer

TOPIC = ChatKey.parse("telegram-group_-1002#7")


async def test_a_group_sees_that_the_bot_is_typing(bot: Bench, peer: TelegramPeer) -> None:
    assert bot.adapter.capabilities(GROUP).typing_s == 5
    await bot.adapter.show_typing(GROUP, typing=True)
    await bot.adapter.show_typing(GROUP, typing=False)  # Telegram ends it by itself
    (call,) = [each for each in peer.calls if each.method == "sendChatAction"]
    assert call.params == {"chat_id": GROUP_ID, "action": "typing"}


async def test_a_topic_of_a_forum_sees_that_the_bot_is_typing_there(
    bot: Bench, peer: TelegramPeer
) -> None:
    peer.account.chat(-1002, is_forum=True)
    await bot.adapter.show_typing(TOPIC, typing=True)
    assert peer.calls[-1].params["message_thread_id"] == 7


async def test_a_message_gets_the_bots_reaction(bot: Bench, peer: TelegramPeer) -> None:
    said = await peer.say(GROUP_ID, 10001, "hello")
    heard = await bot.host.next_message()
    assert bot.adapter.capabilities(GROUP).reactions
    await bot.adapter.react(GROUP, heard.message_id, "👀")
    assert peer.account.reactions == {(GROUP_ID, said): ["👀"]}


async def test_a_reaction_with_an_emoji_that_telegram_does_not_allow_raises_sign_refused(
    bot: Bench, peer: TelegramPeer
) -> None:
    await peer.say(GROUP_ID, 10001, "hello")
    heard = await bot.host.next_message()
    with pytest.raises(SignRefused, match="REACTION_INVALID"):
        await bot.adapter.react(GROUP, heard.message_id, "🦄")
    with pytest.raises(Exception, match="not found") as gone:
        await bot.adapter.react(GROUP, f"99999@{GROUP_ID}", "👀")
    assert not isinstance(gone.value, SignRefused), "the same reaction works on other messages"


async def test_typing_in_a_chat_that_the_bot_has_left_raises_sign_refused(bot: Bench) -> None:
    with pytest.raises(SignRefused, match="chat not found"):
        await bot.adapter.show_typing(ChatKey.parse("telegram-group_-1009"), typing=True)


async def test_during_a_rate_limit_the_typing_state_makes_no_call_and_a_message_waits(
    bot: Bench, peer: TelegramPeer
) -> None:
    limit = Failed(429, "Too Many Requests: retry after 1", {"retry_after": 1})
    peer.answer("sendMessage", limit)
    assert (await bot.send(GROUP, "one")).state == "pending"
    with pytest.raises(Exception, match="Too Many Requests") as refused:
        await bot.adapter.show_typing(GROUP, typing=True)
    assert not isinstance(refused.value, SignRefused)
    assert "sendChatAction" not in [each.method for each in peer.calls]
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(bot.send, GROUP, "two")  # this call waits until the limit is over
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(Exception, match="Too Many Requests"):
            await bot.adapter.show_typing(GROUP, typing=True)
    assert [each.method for each in peer.calls][-2:] == ["sendMessage", "sendMessage"]
    assert peer.calls[-1].text == "two"
    await bot.adapter.show_typing(GROUP, typing=True)
    assert peer.calls[-1].method == "sendChatAction"
