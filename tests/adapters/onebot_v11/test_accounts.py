"""An operator manages OneBot accounts while the bot runs."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from nekro_core.api.adapter import (
    AccountExists,
    AccountLocked,
    AccountState,
    ConnectionProblem,
    InvalidAccountSettings,
)
from nekro_core.api.chat import ChatKey, DeliveryState
from nekro_core.testing.memory_host import MemoryHost
from tests.adapters.onebot_v11.running import TOKEN, Bot, running
from tests.peers.onebot_v11 import OneBotPeer

SECOND = ChatKey.parse("onebot_v11.20003-group_30003")
OWN = "a token of the second account"


async def seen(bot: Bot, key: str, state: AccountState = AccountState.ONLINE) -> Any:
    """Wait until an account has a state."""
    with anyio.fail_after(30):
        while True:
            found = [each for each in bot.adapter.managed_accounts.listed() if each.key == key]
            if found and found[0].state is state:
                return found[0]
            await anyio.sleep(0.01)


async def test_a_second_account_is_added_while_the_bot_runs_and_answers(
    bot: Bot, peer: OneBotPeer
) -> None:
    added = await bot.adapter.managed_accounts.add({"account": "20003", "access_token": OWN})
    assert (added.state, added.locked) == (AccountState.CONNECTING, "")

    async with bot.peer("20003", token=OWN) as second:
        status = await bot.adapter.managed_accounts.wait_until_seen("20003", limit_s=30)
        assert status.state is AccountState.ONLINE
        await second.say_in_group(30003, 10001, "hello")
        message = await bot.host.next_message()
        assert (message.text, message.account, message.chat_key) == ("hello", "20003", SECOND)
        assert (await bot.send(SECOND, "good evening")).ok
        assert (await second.next_send()).text == "good evening"
    assert peer.sends == []


async def test_a_paused_account_is_silent_and_the_other_account_loses_no_message(
    bot: Bot, peer: OneBotPeer
) -> None:
    accounts = bot.adapter.managed_accounts
    await accounts.add({"account": "20003", "access_token": OWN})
    async with bot.peer("20003", token=OWN, has_history=False) as second:
        await accounts.wait_until_seen("20003", limit_s=30)

        async with anyio.create_task_group() as tasks:

            async def talk() -> None:
                for number in range(40):
                    await peer.say_in_group(30003, 10001, f"line {number}")
                    await anyio.sleep(0.005)

            tasks.start_soon(talk)
            await accounts.pause("20003")
            await second.wait_disconnected()
            await second.say_in_group(30003, 10001, "nobody hears this")
            pending = await bot.send(SECOND, "not now")
            await accounts.resume("20003")
            assert (await accounts.wait_until_seen("20003", limit_s=30)).state == "online"
            await accounts.remove("20003")
            assert [each.key for each in accounts.listed()] == ["20002"]
            with anyio.fail_after(30):
                while not any("403" in each for each in second.refusals):
                    await anyio.sleep(0.01)
        await bot.host.received(40)

    assert pending.state is DeliveryState.PENDING
    assert [each.text for each in bot.host.accepted] == [f"line {n}" for n in range(40)]
    assert peer.connections == 1


async def test_after_a_restart_an_added_account_connects_and_a_paused_account_stays_paused(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as bot:
        await bot.adapter.managed_accounts.add({"account": "20003", "access_token": OWN})
        await bot.adapter.managed_accounts.add({"account": "20004", "access_token": "another"})
        await bot.adapter.managed_accounts.pause("20004")
    file = tmp_path / "platforms" / "onebot_v11.json"
    assert file.stat().st_mode & 0o777 == 0o600

    async with running(tmp_path) as bot, bot.peer("20003", token=OWN):
        await seen(bot, "20003")
        async with bot.peer("20004", token="another", reconnect_s=None) as paused:
            with anyio.fail_after(30):
                while not paused.refusals:
                    await anyio.sleep(0.01)
        await seen(bot, "20004", AccountState.PAUSED)


async def test_a_wrong_token_is_refused_and_reported(bot: Bot) -> None:
    await bot.adapter.managed_accounts.add({"account": "20003", "access_token": OWN})
    # An account with a token of its own refuses the shared token too.
    for wrong in ("nonsense", TOKEN):
        async with bot.peer("20003", token=wrong, reconnect_s=None) as second:
            with anyio.fail_after(30):
                while not second.refusals:
                    await anyio.sleep(0.01)
        status = await seen(bot, "20003", AccountState.CONNECTING)
        assert "wrong or missing access token" in status.last_error


async def test_an_account_with_the_shared_token_is_listed_and_can_only_be_paused(
    bot: Bot, peer: OneBotPeer
) -> None:
    status = await seen(bot, "20002")
    assert status.locked == "ONEBOT_ACCESS_TOKEN"
    with pytest.raises(AccountLocked, match="change it there"):
        await bot.adapter.managed_accounts.remove("20002")
    await bot.adapter.managed_accounts.pause("20002")
    await peer.wait_disconnected()
    await anyio.sleep(0.5)
    assert not peer.connected
    await bot.adapter.managed_accounts.resume("20002")
    await peer.wait_connected()
    await seen(bot, "20002")


async def test_an_account_that_the_bot_connects_to_can_get_another_address(bot: Bot) -> None:
    accounts = bot.adapter.managed_accounts
    async with (
        OneBotPeer("20005", token="theirs") as first,
        OneBotPeer("20006", token="x") as moved,
    ):
        values = {"connection": "forward", "address": first.address, "access_token": "theirs"}
        await accounts.add(values)
        await first.wait_connected()
        assert (await seen(bot, first.address)).account == "20005"
        with pytest.raises(AccountExists):
            await accounts.add(values)

        changed = await accounts.change(first.address, {"address": moved.address})
        assert changed.key == moved.address
        await first.wait_disconnected()
        assert "refused" in (await seen(bot, moved.address, AccountState.FAILED)).last_error
        await accounts.change(moved.address, {"access_token": "x"})
        assert (await seen(bot, moved.address)).account == "20006"
        assert [each.key for each in accounts.listed()] == [moved.address]


async def test_secrets_are_not_shown_again_and_stay_unchanged_when_a_form_leaves_them_out(
    bot: Bot,
) -> None:
    accounts = bot.adapter.managed_accounts
    await accounts.add({"account": "20003", "access_token": OWN})
    shown = accounts.settings_of("20003")
    assert OWN not in str(shown)
    assert shown.secrets == ("access_token",)
    await accounts.change("20003", {**shown.values, "access_token": None})
    async with bot.peer("20003", token=OWN):
        await seen(bot, "20003")


async def test_a_token_is_made_and_is_in_the_settings_that_the_operator_copies(bot: Bot) -> None:
    await bot.adapter.managed_accounts.add({"account": "20003"})
    hint = bot.adapter.managed_accounts.connection_hint("20003", "https://bot.example:8443")
    url, token = hint.fields
    assert (url.value, url.secret) == ("wss://bot.example:8443/onebot/v11/ws", False)
    assert token.secret
    assert len(token.value) >= 32
    napcat, lagrange, go_cqhttp = hint.snippets
    client = json.loads(napcat.text)["network"]["websocketClients"][0]
    assert (client["url"], client["token"]) == (url.value, token.value)
    assert json.loads(lagrange.text)["Implementations"][0]["Port"] == 8443
    assert f"universal: {json.dumps(url.value)}" in go_cqhttp.text
    async with bot.peer("20003", token=token.value):
        await seen(bot, "20003")


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({}, "needs the account's number"),
        ({"account": "1 2"}, "without spaces"),
        ({"connection": "forward"}, "expected an address such as ws://"),
        ({"connection": "forward", "address": "http://127.0.0.1"}, "expected an address"),
        ({"connection": "sideways", "account": "1"}, "connection:"),
        ({"account": "1", "token": "hunter2"}, "token: Extra inputs"),
    ],
)
async def test_impossible_settings_are_refused_with_a_reason(
    bot: Bot, values: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidAccountSettings, match=words) as refused:
        await bot.adapter.managed_accounts.add(values)
    assert "hunter2" not in str(refused.value)
    assert bot.adapter.managed_accounts.listed() == ()


async def test_a_connection_test_says_what_fails(bot: Bot) -> None:
    accounts = bot.adapter.managed_accounts
    async with OneBotPeer("20005", token="theirs") as there:
        values = {"connection": "forward", "address": there.address, "access_token": "theirs"}
        good = await accounts.test(values)
        assert good.ok
        assert "account 20005 answers" in good.text
        wrong = await accounts.test({**values, "access_token": "nonsense"})
        assert (wrong.ok, wrong.problem) == (False, ConnectionProblem.REFUSED)
        other = await accounts.test({**values, "account": "20009"})
        assert other.problem is ConnectionProblem.REFUSED
        encrypted = await accounts.test({**values, "address": there.address.replace("ws", "wss")})
        assert encrypted.problem is ConnectionProblem.TLS
        web = {**values, "address": f"ws://127.0.0.1:{bot.port}/nothing"}
        assert (await accounts.test(web)).problem is not ConnectionProblem.NONE
    gone = await accounts.test(values)
    assert gone.problem is ConnectionProblem.UNREACHABLE
    waiting = await accounts.test({"account": "20003"})
    assert waiting.problem is ConnectionProblem.WAITS_FOR_PEER
    assert accounts.listed() == ()


async def test_a_file_of_accounts_that_cannot_be_read_is_not_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "platforms" / "onebot_v11.json"
    file.parent.mkdir()
    file.write_text('{"form": 1, "accounts": ')
    async with running(tmp_path) as bot, bot.peer() as peer:
        await peer.wait_connected()
        with pytest.raises(ValueError, match="mend this file first"):
            await bot.adapter.managed_accounts.add({"account": "20003"})
    assert file.read_text() == '{"form": 1, "accounts": '


async def test_requests_of_people_are_handed_over_and_answered(bot: Bot, peer: OneBotPeer) -> None:
    for fields in (
        {"request_type": "friend", "flag": "f1", "comment": "it is me"},
        {"request_type": "group", "sub_type": "add", "group_id": 30003, "flag": "g1"},
        {"request_type": "group", "sub_type": "invite", "group_id": 30004, "flag": "g2"},
        {"request_type": "nonsense", "flag": "n1"},
        {"request_type": "friend", "flag": ""},
    ):
        event = {"post_type": "request", "self_id": 20002, "time": 1_800_000_000, "user_id": 10001}
        await peer.emit({**event, **fields})
    await peer.say_in_private(10001, "that was all")
    await bot.host.next_message()
    host: MemoryHost = bot.host
    friend, join, invite = host.requests
    assert (friend.kind, friend.user_id, friend.text) == ("friend", "10001", "it is me")
    assert (join.kind, join.group_id, invite.kind) == ("group_join", "30003", "group_invite")

    peer.calls.clear()
    await bot.adapter.answer_request(friend, approve=True, reason="")
    await bot.adapter.answer_request(join, approve=False, reason="members only")
    asked = [(call.action, call.params) for call in peer.calls]
    assert asked == [
        ("set_friend_add_request", {"flag": "f1", "approve": True}),
        (
            "set_group_add_request",
            {"flag": "g1", "approve": False, "sub_type": "add", "reason": "members only"},
        ),
    ]
