"""Messages that were sent while the bot was not connected are fetched from the history."""

import time
from pathlib import Path

import anyio

from nekro_core.api.chat import ChatMessage
from tests.adapters.onebot_v11.running import FRIEND, GROUP, TOKEN, Bot, bot_with_peer, running
from tests.peers.onebot_v11 import Late, OneBotPeer, Silence


def said_in(bot: Bot, *texts: str) -> list[ChatMessage]:
    return [message for message in bot.host.accepted if message.text in texts]


async def test_missed_messages_are_fetched_in_order(bot: Bot) -> None:
    async with bot.peer(reconnect_s=0.4) as peer:
        await peer.wait_connected()
        await peer.say_in_group(30003, 10001, "before")
        await peer.say_in_private(10001, "before too")
        await bot.host.received(2)
        peer.abort()
        await peer.wait_disconnected()
        missed = [await peer.say_in_group(30003, 10001, f"missed {n}") for n in range(3)]
        await peer.say_in_private(10001, "missed too")
        await peer.say_in_group(30003, peer.self_id, "our own")
        await peer.say_in_group(30099, 10005, "a chat never heard of", at_me=True)
        await peer.wait_connected()
        await peer.say_in_group(30003, 10001, "after")
        await bot.host.until(lambda: said_in(bot, "after") != [])
        await bot.host.until(lambda: len(said_in(bot, "missed too")) == 1)
        await bot.host.until(
            lambda: any(m.chat_key.native_id == "30099" for m in bot.host.accepted)
        )

    there = [m for m in bot.host.accepted if m.chat_key == GROUP]
    # Messages that were written in the same second as the newest stored message are fetched again.
    # In a real bot, the inbox ignores messages with known ids.
    once = list(dict.fromkeys(m.text for m in there))
    assert once == ["before", "missed 0", "missed 1", "missed 2", "after"]
    late = said_in(bot, "missed 0", "missed 1", "missed 2")
    assert [m.message_id for m in late] == [str(n) for n in missed]
    assert all(m.from_history for m in late)
    assert said_in(bot, "missed too")[0].chat_key == FRIEND
    (new,) = (m for m in bot.host.accepted if m.chat_key.native_id == "30099")
    assert new.to_bot
    assert new.from_history


async def test_new_messages_wait_until_an_interrupted_history_is_fetched(bot: Bot) -> None:
    """If the new message were stored before the missed messages, no later start would fetch the
    missed messages."""
    async with bot.peer(reconnect_s=0.2) as peer:
        await peer.wait_connected()
        await peer.say_in_group(30003, 10001, "before")
        await bot.host.received(1)
        peer.abort()
        await peer.wait_disconnected()
        await peer.say_in_group(30003, 10001, "missed")
        peer.answer("get_group_msg_history", Silence())
        await peer.next_call("get_group_msg_history")
        await peer.say_in_group(30003, 10001, "live")
        await peer.notice("group_recall", group_id=30003, user_id=10001, message_id=1)
        await anyio.sleep(0.05)
        peer.abort()
        await bot.host.until(lambda: said_in(bot, "live") != [])
    once = list(dict.fromkeys(m.text for m in bot.host.accepted if m.chat_key == GROUP))
    assert once == ["before", "missed", "live"]


async def test_a_long_history_is_fetched_in_pages(bot: Bot) -> None:
    async with bot.peer(reconnect_s=0.3) as peer:
        await peer.wait_connected()
        now = time.time()
        await peer.say_in_group(30003, 10001, "old and unheard", at_time=now - 2000)
        await bot.host.received(1)
        peer.abort()
        await peer.wait_disconnected()
        for number in range(450):
            await peer.say_in_group(30003, 10001, str(number), at_time=now - 1000 + number)
        await bot.host.until(lambda: bot.host.accepted[-1].text == "449")
        texts = [m.text for m in bot.host.accepted if m.text.isdecimal()]
        assert texts == [str(number) for number in range(450)]
        pages = [call for call in peer.calls if call.action == "get_group_msg_history"]
        assert len(pages) <= 6


async def test_the_history_of_a_new_account_begins_a_minute_before_its_connection(bot: Bot) -> None:
    """An earlier process that was killed during that minute may have received messages without
    storing them."""
    peer = bot.peer()
    now = time.time()
    await peer.say_in_group(30003, 10001, "long ago", at_time=now - 300)
    await peer.say_in_group(30003, 10001, "a moment ago", at_time=now - 10)
    async with peer:
        await peer.wait_connected()
        await peer.say_in_group(30003, 10001, "now")
        await bot.host.until(lambda: said_in(bot, "now") != [])
    first, *_ = bot.host.accepted
    assert (first.text, first.from_history) == ("a moment ago", True)
    assert not said_in(bot, "long ago")


async def test_a_message_that_arrives_live_and_in_the_history_counts_as_new(bot: Bot) -> None:
    """The history is read first and contains the message too. The message must not count as an old
    message of the history, because the bot does not run commands from the history."""
    peer = bot.peer()
    await peer.say_in_group(30003, 10001, "before", at_time=time.time() - 5)
    peer.answer("get_recent_contact", Late(0.3))
    async with peer:
        await peer.wait_connected()
        await peer.say_in_group(30003, 10001, "/help")
        await bot.host.until(lambda: len(said_in(bot, "/help")) == 2)
    assert [each.from_history for each in bot.host.accepted] == [True, False, False]


async def test_a_first_message_that_was_lost_in_a_crash_is_fetched(bot: Bot) -> None:
    """The account was connected before, but no message that it received was stored."""
    peer = bot.peer()
    now = time.time()
    bot.host.since["onebot_v11", peer.self_id] = now - 20
    await peer.say_in_group(30003, 10001, "long before", at_time=now - 900)
    await peer.say_in_group(30003, 10001, "taken", at_time=now - 10)
    async with peer:
        await peer.wait_connected()
        await peer.say_in_group(30003, 10001, "now")
        assert [each.text for each in await bot.host.received(2)] == ["taken", "now"]


async def test_messages_are_received_from_an_implementation_that_has_no_history(bot: Bot) -> None:
    async with bot.peer(has_history=False) as peer:
        await peer.wait_connected()
        await peer.say_in_group(30003, 10001, "before")
        await bot.host.received(1)
        peer.abort()
        await peer.wait_disconnected()
        await peer.wait_connected()
        await peer.say_in_group(30003, 10001, "after")
        assert (await bot.host.received(2))[1].text == "after"
        assert {"get_group_list", "get_friend_list"} <= {call.action for call in peer.calls}


async def test_a_forward_connection_is_restored_and_missed_messages_fetched(tmp_path: Path) -> None:
    async with bot_with_peer(tmp_path, "forward") as (bot, peer):
        await peer.say_in_group(30003, 10001, "before", at_me=True)
        assert (await bot.host.next_message()).chat_key == GROUP
        assert (await bot.send(GROUP, "hello")).ok
        peer.abort()
        await peer.wait_disconnected()
        await peer.say_in_group(30003, 10001, "missed")
        await bot.host.until(lambda: said_in(bot, "missed") != [])


async def test_a_forward_connection_with_a_wrong_token_binds_no_account(tmp_path: Path) -> None:
    async with (
        OneBotPeer(token="another token") as peer,
        running(tmp_path, onebot_v11_ws_urls=[peer.address]) as bot,
    ):
        with anyio.fail_after(30):
            while not peer.refusals:
                await anyio.sleep(0.01)
        assert await bot.adapter.own_accounts(GROUP) == frozenset()


async def test_with_both_directions_an_account_uses_the_reverse_connection(tmp_path: Path) -> None:
    async with (
        OneBotPeer(token=TOKEN) as forward,
        running(tmp_path, onebot_v11_ws_urls=[forward.address]) as bot,
    ):
        await forward.wait_connected()
        await bot.hear_from()
        async with bot.peer() as reverse:  # The newer connection replaces the older one.
            await reverse.wait_connected()
            await forward.wait_disconnected()
            # The bot connects to the peer, and closes this connection again.
            await forward.wait_connected()
            await forward.wait_disconnected()
            assert (await bot.send(GROUP, "hello")).ok
            assert (await reverse.next_send()).text == "hello"
            assert reverse.connected
