"""An operator manages Telegram bots while the bot runs, with fake Bot APIs over real sockets."""

import anyio
import pytest

from nekro_core.api.adapter import (
    AccountLocked,
    AccountState,
    ConnectionProblem,
    InvalidAccountSettings,
)
from nekro_core.api.chat import ChatKey, DeliveryState
from tests.adapters.uniseg.stock import Bench
from tests.adapters.uniseg.telegram.running import GROUP_ID
from tests.peers.telegram import TelegramPeer

LIN = {"id": 10001, "is_bot": False, "first_name": "Lin", "last_name": "Wu"}
SECOND = "20003:another-token-for-tests"
THERE = ChatKey.parse(f"telegram.20003-group_{GROUP_ID}")


async def test_a_second_telegram_bot_is_added_at_run_time_and_the_first_one_keeps_working(
    bot: Bench, peer: TelegramPeer
) -> None:
    accounts = bot.adapter.managed_accounts
    async with TelegramPeer(SECOND) as second:
        second.account.chat(GROUP_ID)
        await accounts.add({"token": SECOND, "api_server": second.address})
        status = await accounts.wait_until_seen("20003", limit_s=30)
        assert (status.state, status.account, status.locked) == ("online", "20003", "")

        await second.say(GROUP_ID, LIN, "hello")
        heard = await bot.host.next_message()
        assert (heard.text, heard.chat_key) == ("hello", THERE)
        assert (await bot.send(THERE, "good evening")).ok
        assert [call.params["text"] for call in second.sends] == ["good evening"]

        await accounts.pause("20003")
        await second.say(GROUP_ID, LIN, "later")
        assert (await bot.send(THERE, "not now")).state is DeliveryState.PENDING
        await peer.say(GROUP_ID, LIN, "to the first one")
        assert (await bot.host.next_message()).text == "to the first one"

        await accounts.resume("20003")
        assert (await bot.host.next_message()).text == "later", (
            "Telegram keeps the message while the account is paused"
        )
        await accounts.remove("20003")
        assert [(each.key, each.locked) for each in accounts.listed()] == [
            ("20002", "TELEGRAM_BOTS")
        ]
        with pytest.raises(AccountLocked):
            await accounts.remove("20002")
    assert peer.sends == []


async def test_a_wrong_token_is_reported_and_can_be_corrected(bot: Bench) -> None:
    accounts = bot.adapter.managed_accounts
    async with TelegramPeer(SECOND) as second:
        wrong = {"token": "20003:hunter2", "api_server": second.address}
        tested = await accounts.test(wrong)
        assert (tested.ok, tested.problem) == (False, ConnectionProblem.REFUSED)
        assert (await accounts.test({**wrong, "token": SECOND})).ok
        await accounts.add(wrong)
        with anyio.fail_after(30):
            while accounts.listed()[-1].state is not AccountState.FAILED:
                await anyio.sleep(0.01)
        assert "token is not known to Telegram" in accounts.listed()[-1].last_error
        await accounts.change("20003", {"token": SECOND})
        assert (await accounts.wait_until_seen("20003", limit_s=30)).state == "online"
    gone = await accounts.test({"token": SECOND, "api_server": second.address})
    assert gone.problem is ConnectionProblem.UNREACHABLE
    assert "another-token" not in gone.text


@pytest.mark.parametrize("token", ["hunter2", "abc:def", "1:", "1:a b"])
async def test_a_text_that_is_not_a_token_is_refused_without_showing_it(
    bot: Bench, token: str
) -> None:
    with pytest.raises(InvalidAccountSettings, match="BotFather") as refused:
        await bot.adapter.managed_accounts.add({"token": token})
    assert token not in str(refused.value).replace("123456:ABC-DEF", "")
