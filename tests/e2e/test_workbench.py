"""In a running bot, a chat uses several boxes of the workbench in one turn, in later turns and
after a kill."""

import re
from pathlib import Path
from urllib.parse import urlsplit

import anyio
import httpx
import pytest

from tests.e2e.whole_bot import LONG_S, WholeBot, fence, until, whole_bot
from tests.peers.onebot_v11 import OneBotPeer

pytestmark = [pytest.mark.jail, pytest.mark.long]

BUILD = """\
open("words", "w").write("milk")
workbench.sandbox_create(sandbox="lab", image="python")
moved = workbench.transfer("default", "words", "lab", "site/words")
built = workbench.shell("printf ' and tea' >>site/words", sandbox="lab")
workbench.transfer("lab", "site", "default", "site", recursive=True)
workbench.shell("python3 -m http.server 8000 --directory site &")
url = workbench.browse(8000)["url"]
send_channel_message(f"{moved['bytes']} {built['exit_code']} {url}")
"""
LOOK = """\
boxes = [(box["name"], box["status"]) for box in workbench.sandbox_list()["sandboxes"]]
first = workbench.shell("cat site/words")
send_channel_message(f"{boxes} {first['stdout']} {first.get('woke')}")
"""
FAIL = """\
try:
    workbench.read_file("words", sandbox="onebot_v11-group_40001:default")
except ToolError as error:
    send_channel_message(str(error))
"""


async def page(whole: WholeBot, url: str) -> httpx.Response:
    """Get a page as a browser does, which resolves every name below ``localhost`` to this
    machine."""
    parts = urlsplit(url)
    assert parts.hostname is not None
    assert re.fullmatch(r"[a-z2-7]{32}\.preview\.localhost", parts.hostname)
    async with httpx.AsyncClient(trust_env=False, timeout=LONG_S) as client:
        return await client.get(f"{whole.bot.address}/words", headers={"Host": parts.netloc})


async def test_a_chat_uses_its_boxes_across_turns_and_a_restart(tmp_path: Path) -> None:
    async with whole_bot(tmp_path) as whole:
        group = whole.group(*map(fence, (BUILD, LOOK, LOOK)))
        (told,) = await whole.ask(group)
        moved, code, url = told.split()
        assert (moved, code) == ("4", "0")
        # The run has ended, but the server that it started still runs.
        assert (await page(whole, url)).text == "milk and tea"
        both = "[('default', 'running'), ('lab', 'running')]"
        assert await whole.ask(group) == [f"{both} milk and tea None"]
        other = whole.group(fence(FAIL))
        assert "invalid_input" in (await whole.ask(other))[0]
        await until(lambda: all(whole.stops(group) + whole.stops(other)))
        await whole.bot.kill()
        await whole.bot.start()
        async with OneBotPeer("20002", "token-of-the-whole-bot", whole.bot.onebot_url) as peer:
            await peer.wait_connected()
            await peer.say_in_group(group, 10001, "hello", at_me=True, message_id=9001)
            with anyio.fail_after(LONG_S):
                while not peer.sends:
                    await anyio.sleep(0.02)
            asleep = "[('default', 'running'), ('lab', 'sleeping')]"
            assert peer.sends[0].text == f"{asleep} milk and tea True"
            assert (await page(whole, url)).status_code == 404
