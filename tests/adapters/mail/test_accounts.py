"""An operator manages mailboxes while the bot runs, with real servers."""

from pathlib import Path

import anyio
import pytest

from adapters.mail.adapter import MailAdapter
from nekro_core.api.adapter import AccountLocked, AccountState, ConnectionProblem
from nekro_core.api.chat import DeliveryState
from tests.adapters.mail.running import mailbox, running
from tests.peers.mail import MailServer

pytestmark = pytest.mark.long


async def test_a_second_mailbox_is_added_while_the_bot_runs_and_the_first_one_keeps_working(
    tmp_path: Path, server: MailServer, people: tuple[str, str, str]
) -> None:
    us, ann, second = people
    async with running(tmp_path, mailbox(server, us)) as bot:
        assert isinstance(bot.adapter, MailAdapter)
        accounts = bot.adapter.managed_accounts
        await accounts.add(mailbox(server, second))
        status = await accounts.wait_until_seen(second, limit_s=30)
        assert (status.state, status.locked) == (AccountState.ONLINE, "")
        assert "password" in accounts.settings_of(second).secrets
        assert "password" not in accounts.settings_of(second).values

        await server.send(ann, second, "to the second one")
        (received,) = await bot.host.received(1, limit_s=30)
        assert received.account == second
        assert (await bot.send(received.chat_key, "an answer")).ok

        await accounts.pause(second)
        receipt = await bot.send(received.chat_key, "not now")
        assert receipt.state is DeliveryState.PENDING
        await server.send(ann, us, "to the first one")
        assert (await bot.host.received(2, limit_s=30))[-1].account == us

        await accounts.remove(second)
        assert [each.key for each in accounts.listed()] == [us]
        with pytest.raises(AccountLocked, match="MAIL_BOTS"):
            await accounts.remove(us)


async def test_a_wrong_password_is_reported_and_can_be_corrected(
    tmp_path: Path, server: MailServer, people: tuple[str, str, str]
) -> None:
    us, _, second = people
    async with running(tmp_path, mailbox(server, us)) as bot:
        assert isinstance(bot.adapter, MailAdapter)
        accounts = bot.adapter.managed_accounts
        good = mailbox(server, second)
        await accounts.add({**good, "password": "hunter2"})
        with anyio.fail_after(30):
            while accounts.listed()[-1].state is not AccountState.FAILED:
                await anyio.sleep(0.05)
        assert "refuses the login" in accounts.listed()[-1].last_error
        assert "hunter2" not in accounts.listed()[-1].last_error
        await accounts.change(second, {"password": good["password"]})
        seen = await accounts.wait_until_seen(second, limit_s=30)
        assert seen.state is AccountState.ONLINE


async def test_a_connection_test_says_what_fails(
    tmp_path: Path, server: MailServer, people: tuple[str, str, str]
) -> None:
    us, _, second = people
    async with running(tmp_path, mailbox(server, us)) as bot:
        assert isinstance(bot.adapter, MailAdapter)
        accounts = bot.adapter.managed_accounts
        good = mailbox(server, second)
        assert (await accounts.test(good)).ok
        wrong = await accounts.test({**good, "password": "hunter2"})
        assert wrong.problem is ConnectionProblem.REFUSED
        assert "hunter2" not in wrong.text
        encrypted = await accounts.test({**good, "imap": {**good["imap"], "tls": True}})
        assert encrypted.problem is ConnectionProblem.TLS
        nobody = await accounts.test({**good, "smtp": {**good["smtp"], "port": 1}})
        assert nobody.problem is ConnectionProblem.UNREACHABLE
        assert "SMTP" in nobody.text
