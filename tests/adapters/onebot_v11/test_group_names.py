"""A message of a group has the name of the group. If the event lacks the name, the adapter asks the
implementation for it."""

from tests.adapters.onebot_v11.running import Bot
from tests.peers.onebot_v11 import Failed, OneBotPeer


async def test_the_name_of_a_group_is_requested_once(bot: Bot, peer: OneBotPeer) -> None:
    for _ in range(2):
        await peer.say_in_group(30003, 10001, "hello")
        assert (await bot.host.next_message()).chat_name == "group 30003"
    await peer.say_in_group(30004, 10001, "hello")
    assert (await bot.host.next_message()).chat_name == "group 30004"
    await peer.say_in_private(10001, "hello")
    assert (await bot.host.next_message()).chat_name == ""
    assert [call.params for call in peer.calls if call.action == "get_group_info"] == [
        {"group_id": 30003},
        {"group_id": 30004},
    ]


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
