"""A bot runs on a bad machine: the disk is full, another bot uses the folder, the database file has
another format, or a token is wrong.

A start that cannot succeed ends with one sentence that says what to do, and changes nothing.
``tests/cli/test_run_refused.py`` has more such starts.
"""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import httpx
import pytest

from tests.e2e.bot_process import ROOT
from tests.e2e.whole_bot import TOKEN, WELL, WholeBot, until, whole_bot
from tests.peers.onebot_v11 import OneBotPeer
from tests.peers.scripted_model import Answer

pytestmark = pytest.mark.long

NO_MODEL = {"NEKRO_LLM__BASE_URL": "http://127.0.0.1:9/v1", "NEKRO_LLM__MODEL": "none"}


@pytest.fixture(scope="module")
async def whole(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[WholeBot]:
    # The test does not wait for a retry: a waiting message is sent because its account connects.
    never = {"NEKRO_DELIVERY__RETRY_S": "3600"}
    async with whole_bot(tmp_path_factory.mktemp("machine"), **never) as whole:
        yield whole


async def vain_start(folder: Path, data: Path, **settings: str) -> str:
    """Start a bot that cannot run. Return what it printed."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(ROOT / "bot.py"),
        cwd=folder,
        env={**os.environ, **NO_MODEL, "PORT": "0", "NEKRO_DATA_DIR": str(data), **settings},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        said, _ = await asyncio.wait_for(process.communicate(), 60)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 1, said.decode()
    words = said.decode()
    assert "nekro-core cannot start: " in words
    assert "Traceback" not in words, words
    return words


async def test_a_second_start_on_the_same_folder_is_refused(
    whole: WholeBot, tmp_path: Path
) -> None:
    said = await vain_start(tmp_path, whole.bot.data)
    assert whole.bot.process is not None
    assert f"is in use by process {whole.bot.process.pid}, since" in said
    assert "NEKRO_DATA_DIR" in said
    assert (whole.bot.data / "running.json").is_file()
    await whole.others_are_served()


async def test_a_start_on_a_file_that_is_not_a_database_is_refused(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "nekro.sqlite3").write_bytes(b"no database at all" * 100)
    said = await vain_start(tmp_path, data)
    assert "the file is no SQLite database" in said


async def test_a_start_with_a_data_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    said = await vain_start(tmp_path, tmp_path / "file" / "data")
    assert str(tmp_path / "file") in said


async def test_a_wrong_token_is_refused_and_the_right_one_is_not_in_the_log(
    whole: WholeBot,
) -> None:
    async with OneBotPeer("20005", "wrong", whole.bot.onebot_url, reconnect_s=None) as stranger:
        await stranger.until(lambda: bool(stranger.refusals))
        assert "403" in stranger.refusals[0]
        assert not stranger.connected
    await whole.logged("connection refused: wrong or missing access token")
    headers = {"Authorization": "Bearer wrong"}
    async with httpx.AsyncClient(base_url=whole.bot.address, trust_env=False, timeout=60) as web:
        answer = await web.get("/api/v1/rooms", headers=headers)
        assert answer.status_code == 401
        assert "wrong token; the right one lies in secrets/web_access_token" in answer.text
        assert (await web.get("/api/v1/rooms")).status_code == 401
        assert (await web.get("/", params={"token": "wrong"})).status_code in (200, 303, 401)
        assert (await web.get("/ui")).status_code == 401
        answers = [await web.get("/api/v1/rooms", headers=headers) for _ in range(12)]
        assert answers[-1].status_code == 429
    assert (await whole.web.get("/rooms")).status_code in (200, 429)
    await whole.others_are_served()
    assert TOKEN not in whole.bot.log
    assert whole.bot.token not in whole.bot.log


async def test_waiting_messages_are_sent_when_the_account_connects(whole: WholeBot) -> None:
    thinking = Answer(chunks=["```python\n", 1.0, "send_channel_message('late')\n", "```"])
    chat = "onebot_v11.20009-group_49001"
    whole.model.replies[chat].append(thinking)
    async with OneBotPeer("20009", TOKEN, whole.bot.onebot_url) as peer:
        await peer.wait_connected()
        await peer.say_in_group(49001, 10001, "are you there?", at_me=True)
        await until(lambda: bool(whole.model.asked[chat]))
    query = "SELECT state FROM deliveries WHERE chat_key = ?"
    await until(lambda: whole.rows(query, chat) == [("pending",)])
    async with OneBotPeer("20009", TOKEN, whole.bot.onebot_url) as peer:
        assert (await peer.next_send(timeout=30)).text == "late"


async def test_sigterm_ends_the_bot_while_streams_are_open(tmp_path: Path) -> None:
    async with whole_bot(tmp_path) as whole:
        await whole.ask(whole.group())
        streams = 0

        async def follow(room: str) -> None:
            nonlocal streams
            try:
                async with whole.web.stream("GET", f"/rooms/{room}/events") as answer:
                    async for line in answer.aiter_lines():
                        streams += line.startswith("event: working")
            except httpx.HTTPError:
                pass

        async with anyio.create_task_group() as tasks:
            for number in range(5):
                tasks.start_soon(follow, f"group_room{number}")
            await until(lambda: streams == 5)
            took = await whole.bot.stop(signal.SIGTERM)
    assert whole.bot.process is not None
    assert whole.bot.process.returncode == 0
    assert took < 20, "the bot must not wait for open streams"
    assert "Traceback" not in whole.bot.log


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """A separate file system of this size at ``folder``."""
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(disk: Path) -> Path:
    """Fill the disk to its last byte. Returns the file that fills it."""
    path = disk / "ballast"
    with path.open("wb", buffering=0) as file:
        for size in (65_536, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue
    return path


async def test_a_full_disk_is_reported_and_no_message_is_lost(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "24m") as disk:
        async with whole_bot(disk) as whole:
            await whole.others_are_served()
            ballast = fill(disk)
            group = whole.group()
            room = "/rooms/private_lin/messages"
            for number in range(20):
                say = {"speaker": "lin", "text": f"{number} " + "x" * 15_000}
                answer = await whole.web.post(room, json=say)
                if answer.status_code != 200:
                    break
            assert answer.status_code == 503, answer.text
            assert "full" in answer.json()["error"]["message"]
            await whole.peer.say_in_group(group, 10001, "x" * 100_000, at_me=True)
            await until(lambda: whole.peer.connected)
            began = time.monotonic()
            await anyio.sleep(0.5)
            ballast.unlink()
            assert await whole.answers(group) == [WELL]
            assert time.monotonic() - began < 30
            assert len(whole.stored(group)) == 1
            assert (await whole.web.post(room, json={"speaker": "lin", "text": "x"})).is_success
            await whole.others_are_served()


async def test_a_start_on_a_full_disk_is_refused(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "1m") as disk:
        fill(disk)
        said = await vain_start(tmp_path, disk / "data")
    assert "No space left" in said or "full" in said
