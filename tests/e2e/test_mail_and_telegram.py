"""A whole bot uses a mailbox and a Telegram account. During the test with Telegram, it is killed
once."""

import json
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import anyio
import pytest

from tests.e2e.bot_process import BotProcess, running_bot
from tests.peers.mail import PASSWORD, MailServer, missing
from tests.peers.scripted_model import Asked, ScriptedModelServer
from tests.peers.telegram import TOKEN, TelegramPeer

pytestmark = pytest.mark.long

US, ANN = "bot@example.test", "ann@example.test"
GROUP = -1001


def answer(asked: Asked) -> str:
    """The same answer to every request."""
    return "```python\nsend_channel_message('I have read it')\n```"


def model(server: ScriptedModelServer) -> dict[str, str]:
    return {
        "NEKRO_LLM__BASE_URL": server.base_url,
        "NEKRO_LLM__MODEL": "scripted",
        "NEKRO_TRIGGER__DEBOUNCE_S": "0.05",
    }


@pytest.mark.skipif(bool(missing()), reason=missing() or "it is here")
async def test_a_mail_is_answered_in_its_thread(tmp_path: Path) -> None:
    async with MailServer(US, ANN) as server, ScriptedModelServer(answer) as scripted:
        box = {
            "id": US,
            "password": PASSWORD,
            "imap": {"host": "127.0.0.1", "port": server.ports.imap, "tls": False},
            "smtp": {"host": "127.0.0.1", "port": server.ports.smtp, "tls": False},
            "poll_s": 0.1,
        }
        settings = {"NEKRO_PLATFORMS": '["mail"]', "MAIL_BOTS": json.dumps([box])}
        async with running_bot(tmp_path, **model(scripted), **settings) as bot:
            await _told(bot, f"Mail: {US} is read as mail")
            asked = await server.send(f"Ann <{ANN}>", US, "Tea at four?", subject="Tea")
            (answered,) = await server.received(ANN, 1, within=60)
            assert answered["Subject"] == "Re: Tea"
            assert answered["In-Reply-To"] == asked
            assert answered.get_content().strip() == "I have read it"
            # An automatic reply in the same thread is ignored.
            await server.send(
                ANN, US, "I am away", subject="Re: Tea", Auto_Submitted="auto-replied",
                In_Reply_To=str(answered["Message-ID"]),
            )  # fmt: skip
            await _told(bot, "is left alone: Auto-Submitted: auto-replied")
            assert len(server.mails(ANN)) == 1
            assert PASSWORD not in bot.log


async def test_a_kill_on_telegram_loses_no_message_and_sends_none_twice(tmp_path: Path) -> None:
    async with TelegramPeer() as peer, ScriptedModelServer(answer) as scripted:
        peer.account.chat(GROUP)
        bots = [{"token": TOKEN, "api_server": peer.address}]
        settings = {"NEKRO_PLATFORMS": '["telegram"]', "TELEGRAM_BOTS": json.dumps(bots)}
        async with running_bot(tmp_path, **model(scripted), **settings) as bot:
            await peer.until(lambda: bool(peer.polls), 30)
            for number in range(3):
                await peer.say(10001 + number, 10001 + number, f"question {number}")
            await peer.sent(1, 60)
            await bot.stop(signal.SIGKILL)
            await peer.say(10009, 10009, "said while nobody listens")
            await bot.start()
            await peer.until(lambda: 10009 in _chats(peer), 60)
            # A message that was being sent at the kill is not sent again, because Telegram cannot
            # tell whether it arrived.
            with anyio.fail_after(60):
                while {*_chats(peer)} | _in_doubt(bot) != {10001, 10002, 10003, 10009}:
                    await anyio.sleep(0.05)
            assert len(_chats(peer)) == len({*_chats(peer)})
            await peer.until(lambda: not peer.account.updates)
            assert TOKEN not in bot.log


def _chats(peer: TelegramPeer) -> list[int]:
    return [call.params["chat_id"] for call in peer.sends]


def _in_doubt(bot: BotProcess) -> set[int]:
    path = bot.data / "nekro.sqlite3"
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as store:
        rows = store.execute("SELECT chat_key FROM deliveries WHERE state = 'unknown'").fetchall()
    return {int(key.rpartition("_")[2]) for (key,) in rows}


async def _told(bot: BotProcess, words: str) -> None:
    with anyio.fail_after(60):
        while words not in bot.log:
            await anyio.sleep(0.05)
