"""An operator's NoneBot plugins work beside the bot: they receive events and make calls."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import anyio
import pytest
from nonebot import message as message_module
from nonebot.adapters.onebot.v11 import ActionFailed, ApiNotAvailable, MessageEvent, NetworkError
from nonebot.adapters.onebot.v11 import Bot as NoneBot
from nonebot.exception import IgnoredException
from nonebot.matcher import Matcher, matchers
from nonebot.rule import startswith

from nekro_core.plugins.host import matcher_dispatch
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


@contextmanager
def matcher(handler: Callable[..., Any], **options: Any) -> Iterator[None]:
    made = Matcher.new("message", startswith("/r"), handlers=[handler], **options)
    try:
        yield
    finally:
        made.destroy()


async def answered_elsewhere(bot: Bot, peer: OneBotPeer) -> list[bool]:
    """Send two messages, of which a matcher handles the first. Return for each message whether the
    bot left it to the matcher."""
    await peer.say_in_group(30003, 10001, "/r 3d6", at_me=True)
    await peer.say_in_group(30003, 10001, "hello", at_me=True)
    return [message.answered_elsewhere for message in await bot.host.received(2)]


async def test_while_a_blocking_matcher_works_its_message_is_already_kept_from_the_bot(
    bot: Bot, peer: OneBotPeer
) -> None:
    rolled = anyio.Event()

    async def roll(bot: NoneBot, event: MessageEvent) -> None:
        await rolled.wait()
        await bot.send(event, "11")

    with matcher(roll, block=True):
        assert await answered_elsewhere(bot, peer) == [True, False]
        rolled.set()
        assert (await peer.next_send()).text == "11"


async def test_a_matcher_that_stops_the_propagation_keeps_its_message_from_the_bot(
    bot: Bot, peer: OneBotPeer
) -> None:
    async def roll(matcher: Matcher) -> None:
        matcher.stop_propagation()

    with matcher(roll, block=False):
        assert await answered_elsewhere(bot, peer) == [True, False]


async def test_an_event_that_a_preprocessor_ignores_is_kept_from_the_bot(
    bot: Bot, peer: OneBotPeer, echo: list[str]
) -> None:
    async def ignore(event: MessageEvent) -> None:
        if event.get_plaintext().startswith("/r"):
            raise IgnoredException("not for us")

    message_module.event_preprocessor(ignore)
    try:
        assert await answered_elsewhere(bot, peer) == [True, False]
    finally:
        for each in [*message_module._event_preprocessors]:
            if each.call is ignore:
                message_module._event_preprocessors.discard(each)
    assert echo == ["hello"]


async def test_a_matcher_that_does_not_block_leaves_the_message_to_the_bot(
    bot: Bot, peer: OneBotPeer
) -> None:
    async def count() -> None:
        raise ValueError("a plugin's own fault")

    with matcher(count, block=False):
        assert await answered_elsewhere(bot, peer) == [False, False]


async def test_the_bot_does_not_wait_long_for_slow_matchers(
    bot: Bot, peer: OneBotPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matcher_dispatch, "DECISION_S", 0.1)
    recorded = anyio.Event()
    with matcher(recorded.wait, block=False):
        assert await answered_elsewhere(bot, peer) == [False, False]
        recorded.set()


async def test_the_wait_for_slow_matchers_counts_from_the_arrival_of_an_event(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If each message had its own wait, the messages of one chat would wait one after another."""
    monkeypatch.setattr(matcher_dispatch, "DECISION_S", 0.01)
    decision = matcher_dispatch.MatcherDecision()
    monkeypatch.setattr(matcher_dispatch, "DECISION_S", 3600)
    with anyio.fail_after(30):
        assert not await decision.blocked()


async def test_without_matchers_nothing_is_dispatched(bot: Bot, peer: OneBotPeer) -> None:
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
