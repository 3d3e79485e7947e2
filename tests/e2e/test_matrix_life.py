"""The bot on Matrix is killed, and its homeserver disconnects. No message is lost or sent twice."""

import re
import sqlite3
from pathlib import Path

import pytest

from tests.e2e.bot_process import BotProcess, running_bot
from tests.e2e.stages.matrix import MatrixStage, matrix
from tests.e2e.whole_bot import until
from tests.peers.recording_proxy import Silence
from tests.peers.scripted_model import Asked, ScriptedModelServer

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]


def model(asked: Asked) -> str:
    """A model that says how many messages wait for an answer, and names the newest."""
    prompt = "\n".join(str(message["content"]) for message in asked.messages)
    waiting = len(re.findall(r"#\d+ [^#\n]* NEW\b(?! mentioned`)", prompt))
    newest = prompt.rpartition("number ")[2].split("\n")[0].split("\\n")[0]
    return f"```python\nsend_channel_message('{waiting} waiting, to {newest}')\n```"


def _heard(bot: BotProcess, chat_key: str) -> list[str]:
    connection = sqlite3.connect(f"file:{bot.data / 'nekro.sqlite3'}?mode=ro", uri=True)
    query = "SELECT message_id FROM messages WHERE chat_key = ? AND author = 'person' ORDER BY seq"
    try:
        return [found for (found,) in connection.execute(query, (chat_key,))]
    finally:
        connection.close()


async def test_the_bot_goes_on_after_a_kill_and_a_lost_homeserver(tmp_path: Path) -> None:
    async with matrix(tmp_path) as stage, ScriptedModelServer(model) as server:
        assert isinstance(stage, MatrixStage)
        settings = {
            "NEKRO_LLM__BASE_URL": server.base_url,
            "NEKRO_LLM__MODEL": "scripted",
            "NEKRO_TRIGGER__DEBOUNCE_S": "0.05",
            "API_TIMEOUT": "2",
            "NEKRO_DELIVERY__SETTLE_S": "3",
            **stage.settings,
        }
        async with running_bot(tmp_path, **settings) as bot, stage.join(bot):
            said = [await stage.say("number 1", mention=True)]
            assert [seen.text for seen in await stage.seen(1)] == ["1 waiting, to 1"]

            await bot.kill()
            said += [await stage.say(f"number {number}", mention=True) for number in (2, 3)]
            await bot.start()
            answers = await _answered(stage, "to 3")
            assert len(answers) <= 3, "no message may be answered twice"
            assert _heard(bot, stage.chat_key) == said

            await stage.proxy.go_away()
            said += [await stage.say("number 4", mention=True)]
            await stage.proxy.come_back()
            answers = await _answered(stage, "to 4")
            assert len(answers) <= 4
            assert _heard(bot, stage.chat_key) == said

            # The server takes a message but does not answer the call. The bot finds the message on
            # the server and does not send it again.
            stage.proxy.disturb_once("/send/", Silence(done=True))
            said += [await stage.say("number 5", mention=True)]
            await until(lambda: _state(bot, "to 5") == "sent", 60)
            texts = [seen.text for seen in await stage.seen(len(answers) + 1)]
            assert len([text for text in texts if text.endswith("to 5")]) == 1


async def _answered(stage: MatrixStage, ending: str) -> list[str]:
    count = 1
    while True:
        texts = [seen.text for seen in await stage.seen(count)]
        if texts[-1].endswith(ending):
            return texts
        count = len(texts) + 1


def _state(bot: BotProcess, ending: str) -> str:
    """The state of the bot's newest message, if its text ends with ``ending``."""
    connection = sqlite3.connect(f"file:{bot.data / 'nekro.sqlite3'}?mode=ro", uri=True)
    query = "SELECT state, segments FROM messages WHERE author = 'bot' ORDER BY seq DESC LIMIT 1"
    try:
        row = connection.execute(query).fetchone()
    finally:
        connection.close()
    return str(row[0]) if row and ending in row[1] else ""
