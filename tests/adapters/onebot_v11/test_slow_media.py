"""A media server that does not answer delays only the chat that needs its files, and only once."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from adapters.onebot_v11.lookups import MessageLookups
from nekro_core.api.chat import Image, plain_text
from nekro_core.delivery.media.fetch import Fetcher
from nekro_core.delivery.media.fetch_policy import PlatformFetchPolicy
from nekro_core.delivery.media.settings import MediaSettings
from nekro_core.delivery.media.store import MediaStore
from tests.adapters.onebot_v11.running import GROUP, Bot
from tests.peers.onebot_v11 import OneBotPeer, image, text
from tests.peers.silent_files import SilentFiles

SILENT_S = 2.0
"""The bot waits this many seconds for a server that sends nothing, unless a test says otherwise."""


@pytest.fixture
async def files() -> AsyncIterator[SilentFiles]:
    async with SilentFiles() as serving:
        yield serving


@pytest.fixture
def silent_s() -> float:
    return SILENT_S


@pytest.fixture
async def media(
    bot: Bot, files: SilentFiles, tmp_path: Path, silent_s: float
) -> AsyncIterator[MediaStore]:
    """The bot's media store. Its policy allows fetching from the silent server."""
    settings = MediaSettings(silent_s=silent_s)
    reach = PlatformFetchPolicy(
        [files.address.removeprefix("http://")], is_own_port=lambda _: False
    )
    async with MediaStore(tmp_path / "kept", settings, fetcher=Fetcher(settings, reach)) as store:
        bot.host.media = store  # type: ignore[assignment]
        yield store


@pytest.mark.parametrize("silent_s", [60.0])
async def test_a_silent_media_server_does_not_delay_other_chats(
    bot: Bot, peer: OneBotPeer, files: SilentFiles, media: MediaStore
) -> None:
    for number in range(10):
        slow = image("x.png", f"{files.address}/{number}")
        await peer.say_in_group(30003, 10001, [text(f"slow {number}"), slow])
    await peer.say_in_group(30003, 10001, "last of the slow chat")
    with anyio.fail_after(30):
        while files.waiting < 4:  # of the ten pictures, so many are fetched at the same time
            await anyio.sleep(0.005)
    cat = image("cat.png", f"{files.address}/cat.png")
    await peer.say_in_group(30004, 10002, [text("quick"), cat], at_me=True)
    (quick,) = await bot.host.received(1)
    assert "quick" in plain_text(quick.segments), "it comes while the slow chat waits"
    assert [s.media.problem for s in quick.segments if isinstance(s, Image)] == [""]

    files.hangs_up.set()
    heard = (await bot.host.received(12))[1:]
    assert {each.chat_key for each in heard} == {GROUP}
    words = [plain_text(each.segments).split("[")[0].strip() for each in heard]
    assert words == [*(f"slow {number}" for number in range(10)), "last of the slow chat"]
    problems = [s.media.problem for m in heard for s in m.segments if isinstance(s, Image)]
    assert len(problems) == 10
    assert all(problems)
    assert files.most == 4


async def test_the_pictures_of_one_message_are_fetched_at_the_same_time(
    bot: Bot, peer: OneBotPeer, files: SilentFiles, media: MediaStore
) -> None:
    slow = [image("x.png", f"{files.address}/{number}") for number in range(4)]
    cat = image("cat.png", f"{files.address}/cat.png")
    await peer.say_in_group(30003, 10001, [slow[0], cat, text("between"), *slow[1:]])
    (heard,) = await bot.host.received(1)
    assert files.most == 4, "the waits for the four pictures are at the same time"
    good = [not s.media.problem if isinstance(s, Image) else None for s in heard.segments]
    assert good == [False, True, None, False, False, False]
    problems = [s.media.problem for s in heard.segments if isinstance(s, Image)]
    assert problems.count(f"the server said nothing for {SILENT_S:g} s") == 4


@pytest.mark.parametrize(("missed", "seconds"), [(False, 15), (True, 30)])
async def test_a_medium_that_came_too_late_names_the_time_limit_of_its_message(
    media: MediaStore, missed: bool, seconds: int
) -> None:
    connection: Any = None  # no lookup is made after the deadline
    deadline = anyio.current_time() if missed else None
    lookups = MessageLookups(connection, media, GROUP, deadline=deadline)
    lookups._deadline = anyio.current_time()
    found = await lookups.media("image", {"file": "a.png", "url": "https://example.org/a.png"})
    assert found.problem == f"not fetched within {seconds} s"
