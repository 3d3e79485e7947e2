"""A media server never answers, and the whole bot continues to serve other chats. Code in a box may
not fetch from this server."""

from pathlib import Path

import anyio
import pytest

from tests.e2e.whole_bot import WELL, fence, whole_bot
from tests.peers.onebot_v11 import at, image, text
from tests.peers.silent_files import SilentFiles

pytestmark = pytest.mark.long

SILENT_S = 60
"""The bot waits this many seconds for a server that sends nothing. The test ends this wait."""


@pytest.mark.slow
async def test_only_the_chat_whose_media_never_arrive_waits_and_not_for_each_medium_again(
    tmp_path: Path,
) -> None:
    async with SilentFiles() as files:
        place = files.address.removeprefix("http://")
        private = f'["{place}", "localhost"]'
        settings = {
            "NEKRO_DELIVERY__MEDIA__PRIVATE_HOSTS": private,
            "NEKRO_DELIVERY__MEDIA__SILENT_S": str(SILENT_S),
        }
        async with whole_bot(tmp_path, **settings) as whole:
            await whole.logged('"localhost" names no port')
            reach = f"send_image({files.address + '/cat.png'!r})"
            slow, quick = whole.group(), whole.group()
            curious = whole.group(
                fence(f"try:\n    {reach}\nexcept ToolError as error:\n    print(error)")
            )
            await whole.ask(quick)  # the box and the model are ready after this question
            for number in range(3):
                pictures = [image("x.png", f"{files.address}/{number}-{n}") for n in range(4)]
                await whole.peer.say_in_group(slow, 10001, [text(f"slow {number}"), *pictures])
            await whole.peer.say_in_group(slow, 10001, [at(20002), text("what do you see?")])
            with anyio.fail_after(60):
                while files.waiting < 4:
                    await anyio.sleep(0.005)

            cat = image("cat.png", f"{files.address}/cat.png")
            assert await whole.ask(quick, [text("look"), cat]) == [WELL]
            assert whole.said(slow) == [], "the slow chat still waits"

            files.hangs_up.set()
            assert await whole.answers(slow, 1) == [WELL]
            assert files.most == 4, "four media of a chat are fetched at the same time"
            prompt = whole.prompts(slow)[-1].last_user_text
            places = [prompt.index(word) for word in ("slow 0", "slow 1", "slow 2", "what do you")]
            assert places == sorted(places)
            assert prompt.count("cannot be fetched: Server disconnected") == 12

            # Messages may have media from this server, but code may not fetch from it.
            await whole.peer.say_in_group(curious, 10001, "go", at_me=True)
            await whole.answers(curious, 1)
            assert "no network" in whole.prompts(curious)[1].last_user_text
            (good,) = [s for s in whole.stored(quick)[-1] if s["type"] == "image"]
            assert "problem" not in good["media"]
