"""A message of a group has the name of the group. If the event lacks the name, the adapter asks the
implementation for it."""

from nekro_core.chat import ChatKey
from tests.adapters.onebot_v11.running import Bot
from tests.peers.onebot_v11 import Failed, OneBotPeer, Silence

GROUPS = [ChatKey.parse("onebot_v11-group_30003"), ChatKey.parse("onebot_v11-group_30004")]


async def test_the_name_of_a_group_is_requested_once(bot: Bot, peer: OneBotPeer) -> None:
    for number, group in enumerate((30003, 30004), 1):
        await peer.say_in_group(group, 10001, "hello")
        await bot.host.next_message()
        await bot.host.until(lambda count=number: len(bot.host.names) == count)
        await peer.say_in_group(group, 10001, "and again")
        assert (await bot.host.next_message()).chat_name == f"group {group}"
    await peer.say_in_private(10001, "hello")
    assert (await bot.host.next_message()).chat_name == ""
    assert [call.params for call in peer.calls if call.action == "get_group_info"] == [
        {"group_id": 30003},
        {"group_id": 30004},
    ]
    assert bot.host.names == dict(zip(GROUPS, ("group 30003", "group 30004"), strict=True))


async def test_a_message_does_not_wait_for_the_name_of_its_group(
    bot: Bot, peer: OneBotPeer
) -> None:
    peer.answer("get_group_info", Silence())
    await peer.say_in_group(30003, 10001, "hello")
    assert (await bot.host.next_message()).chat_name == ""
    await peer.say_in_group(30003, 10001, "and again")
    assert (await bot.host.next_message()).chat_name == ""
    assert bot.host.names == {}


async def test_a_group_name_that_is_in_the_event_is_not_requested(
    bot: Bot, peer: OneBotPeer
) -> None:
    event = peer.account.message(("group", "30003"), 10001, "hello")
    await peer.emit({**event, "group_name": "茶馆"})
    assert (await bot.host.next_message()).chat_name == "茶馆"
    await peer.say_in_group(30003, 10001, "and again")
    assert (await bot.host.next_message()).chat_name == "茶馆"
    await peer.emit({**peer.account.message(("group", "30003"), 1, "!"), "group_name": "New"})
    assert (await bot.host.next_message()).chat_name == "New"
    assert "get_group_info" not in {call.action for call in peer.calls}


async def test_a_group_has_no_name_if_the_request_for_the_name_fails(
    bot: Bot, peer: OneBotPeer
) -> None:
    peer.answer("get_group_info", Failed())
    for _ in range(2):
        await peer.say_in_group(30003, 10001, "hello")
        assert (await bot.host.next_message()).chat_name == ""
    assert [call.action for call in peer.calls].count("get_group_info") == 1
