"""An operator's NoneBot plugins work beside the bot: they receive events and make calls."""

from collections.abc import Iterator
from typing import Any

import anyio
import pytest
from nonebot.adapters.onebot.v11 import ActionFailed, ApiNotAvailable, MessageEvent, NetworkError
from nonebot.adapters.onebot.v11 import Bot as NoneBot
from nonebot.matcher import Matcher, matchers

from tests.adapters.onebot_v11.running import Bot
from tests.peers.onebot_v11 import Abort, Async, Failed, OneBotPeer


@pytest.fixture
def echo() -> Iterator[list[str]]:
    """A matcher that answers every message, registered as an operator's NoneBot plugin would."""
    heard: list[str] = []

    async def answer(bot: NoneBot, event: MessageEvent) -> None:
        heard.append(event.get_plaintext())
        if event.get_plaintext() == "fail":
            raise ValueError("a plugin's own fault")
        await bot.send(event, f"echo {event.get_plaintext()}")

    matcher = Matcher.new("message", handlers=[answer])
    yield heard
    matcher.destroy()


async def test_a_matcher_receives_messages_and_answers(
    bot: Bot, peer: OneBotPeer, echo: list[str]
) -> None:
    await peer.say_in_group(30003, 10001, "one", at_me=True)
    assert (await peer.next_send()).text == "echo one"
    await peer.say_in_group(30003, 10001, "fail")
    await peer.say_in_group(30003, 10001, "two")
    assert (await peer.next_send()).text == "echo two"
    assert [message.text for message in await bot.host.received(3)] == ["@20002 one", "fail", "two"]
    assert echo == ["one", "fail", "two"]


async def test_messages_are_received_without_any_matcher(bot: Bot, peer: OneBotPeer) -> None:
    assert not any(matchers.values())
    await peer.say_in_group(30003, 10001, "one")
    await bot.host.received(1)


@pytest.mark.parametrize(
    ("answer", "error"),
    [(Failed(), ActionFailed), (Async(), NetworkError), (Abort(), NetworkError)],
)
async def test_a_plugins_call_fails_with_nonebots_errors(
    bot: Bot, peer: OneBotPeer, answer: Any, error: type[Exception]
) -> None:
    account = bot.driver.bots["20002"]
    assert (await account.get_login_info())["user_id"] == 20002
    peer.answer("get_status", answer)
    with pytest.raises(error), anyio.fail_after(30):
        await account.get_status()


async def test_a_disconnected_bot_cannot_be_called(bot: Bot) -> None:
    async with bot.peer(reconnect_s=None) as peer:
        await peer.wait_connected()
        await bot.hear_from()
        account = bot.driver.bots["20002"]
    await bot.gone("20002")
    with pytest.raises(ApiNotAvailable):
        await account.get_status()
