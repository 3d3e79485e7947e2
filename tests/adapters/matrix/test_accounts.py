"""An operator manages Matrix accounts while the bot runs, against a real homeserver."""

from pathlib import Path

import anyio
import pytest

from nekro_core.api.adapter import AccountState, ConnectionProblem, InvalidAccountSettings
from tests.adapters.matrix.running import people, running
from tests.peers.recording_proxy import RecordingProxy
from tests.peers.synapse import Synapse

pytestmark = pytest.mark.long


async def test_a_second_account_is_added_while_the_bot_runs_and_the_first_one_keeps_working(
    tmp_path: Path, server: Synapse, proxy: RecordingProxy
) -> None:
    lin, account, second = await people(server, "lin", "bot", "second")
    room, other = await lin.make_room(account), await lin.make_room(second)
    await account.join(room)
    await second.join(other)
    async with running(tmp_path, proxy, account) as bot:
        await bot.connected()
        accounts = bot.adapter.managed_accounts
        values = {"user_id": second.user_id, "homeserver": proxy.address}
        await accounts.add({**values, "access_token": second.token})
        status = await accounts.wait_until_seen(second.user_id, limit_s=30)
        assert (status.state, status.locked) == (AccountState.ONLINE, "")
        await lin.say(other, "to the second one")
        (received,) = await bot.host.received(1, limit_s=30)
        assert (received.text, received.account) == ("to the second one", second.user_id)

        await accounts.pause(second.user_id)
        await lin.say(other, "nobody hears this now")
        await lin.say(room, "to the first one")
        assert (await bot.host.received(2, limit_s=30))[-1].text == "to the first one"
        await accounts.resume(second.user_id)
        assert (await bot.host.received(3, limit_s=30))[-1].text == "nobody hears this now"
        await accounts.remove(second.user_id)
        assert [each.locked for each in accounts.listed()] == ["MATRIX_BOTS"]


async def test_a_connection_test_says_what_fails(
    tmp_path: Path, server: Synapse, proxy: RecordingProxy
) -> None:
    account, second = await people(server, "bot", "second")
    async with running(tmp_path, proxy, account) as bot:
        accounts = bot.adapter.managed_accounts
        good = {
            "user_id": second.user_id,
            "homeserver": proxy.address,
            "access_token": second.token,
        }
        assert (await accounts.test(good)).ok
        wrong = await accounts.test({**good, "access_token": "hunter2"})
        assert wrong.problem is ConnectionProblem.REFUSED
        other = await accounts.test({**good, "access_token": account.token})
        assert account.user_id in other.text
        gone = await accounts.test({**good, "homeserver": "http://127.0.0.1:1"})
        assert gone.problem is ConnectionProblem.UNREACHABLE
        with pytest.raises(InvalidAccountSettings, match="one of them is needed"):
            await accounts.test({**good, "access_token": ""})

        await accounts.add({**good, "access_token": "hunter2"})
        with anyio.fail_after(30):
            while accounts.listed()[-1].state is not AccountState.FAILED:
                await anyio.sleep(0.05)
        assert "refuses the login" in accounts.listed()[-1].last_error
        await accounts.change(second.user_id, {"access_token": second.token})
        seen = await accounts.wait_until_seen(second.user_id, limit_s=30)
        assert seen.state is AccountState.ONLINE
