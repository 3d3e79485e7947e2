"""An operator's NoneBot plugins work beside the bot: they receive events and make calls."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from nonebot.adapters.matrix.bot import Bot as NoneBot
from nonebot.adapters.matrix.event import RoomMessageEvent
from nonebot.adapters.matrix.exception import NetworkError
from nonebot.matcher import Matcher

from tests.adapters.matrix.running import Bot, people, running
from tests.peers.recording_proxy import RecordingProxy
from tests.peers.synapse import Person, Synapse

pytestmark = pytest.mark.long


@pytest.fixture
def echo() -> Iterator[list[str]]:
    """A matcher that answers every message, registered as an operator's NoneBot plugin would."""
    heard: list[str] = []

    async def answer(bot: NoneBot, event: RoomMessageEvent) -> None:
        heard.append(event.get_plaintext())
        if event.get_plaintext() == "fail":
            raise ValueError("a plugin's own fault")
        await bot.send(event, f"echo {event.get_plaintext()}")

    matcher = Matcher.new("message", handlers=[answer])
    yield heard
    matcher.destroy()


@pytest.fixture
async def bot(tmp_path: Path, server: Synapse, proxy: RecordingProxy) -> AsyncIterator[Bot]:
    (account,) = await people(server, "bot")
    async with running(tmp_path, proxy, account) as bot:
        await bot.connected()
        yield bot


@pytest.fixture
async def lin(server: Synapse) -> Person:
    (lin,) = await people(server, "lin")
    return lin


async def test_a_matcher_receives_messages_and_answers(
    bot: Bot, lin: Person, echo: list[str]
) -> None:
    room = await lin.make_room(bot.account)
    await bot.account.join(room)
    for number, text in enumerate(("one", "fail", "two"), 1):
        await lin.say(room, text)
        heard = await bot.host.received(number)
        assert heard[-1].text == text
    answers = await lin.until_said(room, 2, of=bot.account.user_id)
    assert {event["content"]["body"] for event in answers} == {"echo one", "echo two"}
    assert sorted(echo) == ["fail", "one", "two"]


async def test_a_plugin_downloads_media_from_the_current_endpoint(bot: Bot, lin: Person) -> None:
    """The original call of NoneBot's adapter uses an endpoint that this server answers with 404."""
    account = bot.driver.bots[bot.account.user_id]
    where = (await lin.upload(b"bytes", "text/plain")).removeprefix("mxc://")
    server_name, _, media_id = where.partition("/")
    assert await account.download_media(server_name=server_name, media_id=media_id) == b"bytes"
    with pytest.raises(NetworkError):
        await account.download_media(server_name=server_name, media_id="nothing")
    closed = await lin.client.get(
        f"/_matrix/media/v3/download/{where}", headers={"Authorization": f"Bearer {lin.token}"}
    )
    assert closed.status_code == 404


async def test_a_closed_account_is_no_longer_a_nonebot_bot(bot: Bot) -> None:
    account = bot.driver.bots[bot.account.user_id]
    await bot.adapter.aclose()
    assert bot.account.user_id not in bot.driver.bots
    with pytest.raises(NetworkError):
        await account.download_media(server_name="localhost", media_id="x")
