"""With `nekro chat`, a person talks to the bot in a terminal or through a pipe, as on the web
page."""

import io
import os
import re
from pathlib import Path
from urllib.parse import urlsplit

import anyio
import pytest

from nekro_core.app.instance import instance_file
from nekro_core.app.settings import Settings
from nekro_core.cli.chat import talk
from nekro_core.store import DataFolderLock
from tests.cli.nekro import nekro, nekro_meanwhile
from tests.e2e.bot_process import BotProcess, running_bot
from tests.peers.scripted_model import Asked, ScriptedModelServer

pytestmark = [pytest.mark.jail, pytest.mark.long]
NOBODY = "http://127.0.0.1:9/v1"


def echo(asked: Asked) -> str:
    """Answer with the last word that a user asked the model to say."""
    word = re.findall(r"say (\w+)", asked.last_user_text)[-1]
    return f'```python\nsend_channel_message("you said {word}")\n```'


async def test_lines_of_a_pipe_start_a_bot_and_are_answered_one_by_one(
    folder: Path, write_env
) -> None:
    async with ScriptedModelServer(echo) as model:
        write_env(
            NEKRO_LLM__BASE_URL=model.base_url,
            NEKRO_LLM__MODEL="m",
            NEKRO_TRIGGER__DEBOUNCE_S="0.05",
        )
        ended = await nekro_meanwhile(folder, "chat", typed="say one\n\nsay two\n")
    assert ended.status == 0, ended.out + ended.err
    assert ended.out.splitlines() == [
        "starting a bot for this conversation; its log is data/chat.log",
        "bot: you said one",
        "bot: you said two",
    ]
    assert ended.err == ""
    assert not (folder / "data" / "running.json").exists()
    with DataFolderLock(folder / "data"):
        pass  # the lock is free: the bot of the command has ended too


async def test_chat_uses_the_running_bot_and_starts_no_second_one(folder: Path, write_env) -> None:
    async with ScriptedModelServer(echo) as model:
        write_env(
            NEKRO_LLM__BASE_URL=model.base_url,
            NEKRO_LLM__MODEL="m",
            NEKRO_TRIGGER__DEBOUNCE_S="0.05",
        )
        async with running_bot(folder) as bot:
            settings = Settings.load()
            hello = folder / "hello.txt"
            hello.write_text("say hello")  # the last line has no line end
            out = io.StringIO()
            with hello.open() as lines:
                status = await talk(settings, room="lobby", speaker="lin", lines=lines, out=out)
            assert (status, out.getvalue()) == (0, "bot: you said hello\n")

            # An impossible room name is refused with a reason.
            out = io.StringIO()
            with hello.open() as lines:
                status = await talk(settings, room="a/b", speaker="lin", lines=lines, out=out)
            assert status == 1
            assert out.getvalue().startswith("the conversation ends: ")

            second = await nekro_meanwhile(folder, "run")
            assert second.status == 1
            assert f"in use by process {bot.process.pid}" in second.err

            # The bot ends while the person has not typed the next line yet.
            reading, writing = os.pipe()
            out = io.StringIO()
            with os.fdopen(reading) as lines, os.fdopen(writing, "w"):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(leave, bot)
                    status = await talk(settings, room="", speaker="lin", lines=lines, out=out)
            assert status == 1
            assert out.getvalue().startswith("the conversation ends: ")


async def leave(bot: BotProcess) -> None:
    """End the bot once a client is connected."""
    port = f":{urlsplit(bot.address).port:04X}"

    def connected() -> bool:
        lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
        return any(line.split()[1].endswith(port) and line.split()[3] == "01" for line in lines)

    with anyio.fail_after(30):
        while not connected():
            await anyio.sleep(0.02)
    await anyio.sleep(0.5)  # in this time the client's first request is answered
    await bot.stop()


async def test_the_file_of_a_killed_bot_is_ignored_and_a_failed_start_is_reported(
    folder: Path, write_env
) -> None:
    write_env(NEKRO_DATABASE_URL="nonsense", NEKRO_LLM__BASE_URL=NOBODY, NEKRO_LLM__MODEL="m")
    (folder / "data").mkdir()
    with instance_file(folder / "data", "127.0.0.1", 9, ""):
        ended = nekro(folder, "chat", typed="hello\n")
    assert ended.status == 1
    assert "the bot did not start; the end of data/chat.log says why" in ended.out
    assert "NEKRO_DATABASE_URL 'nonsense'" in (folder / "data" / "chat.log").read_text()
