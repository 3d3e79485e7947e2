"""Starts the bot and the browser for the benchmarks of the console. The bot runs as a separate
process and has an OneBot account. In Chromium the owner is logged in."""

import asyncio
import itertools
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
import httpx
from playwright.async_api import BrowserContext, Page, async_playwright

from bench.bot_answers import TimedAnswerModel
from tests.e2e.bot_process import ROOT, BotProcess, running_bot
from tests.peers.onebot_v11 import OneBotPeer
from tests.peers.scripted_model import ScriptedModelServer

_CHROMIUM = "/usr/bin/chromium"
_POLITE_CHROMIUM = f"""#!/bin/sh
exec nice -n 19 setpriv --bounding-set=-sys_nice --inh-caps=-sys_nice {_CHROMIUM} "$@"
"""
"""A script that starts Chromium with the lowest priority, so that it takes only processor time that
no other process wants. Chromium that runs as root would raise its own priority above the bot's. So
the script removes the capability that Chromium would need for that."""
_ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
_REST_S = 6.0
"""Seconds to wait after the bot's start. By then the bot has finished the background work of its
start."""
_TOKEN = "bench-token"
_PAUSE_S = 0.1
GROUP = 30_003
CHAT = f"onebot_v11-group_{GROUP}"
_SETTINGS = {
    "NEKRO_LLM__MODEL": "scripted",
    "NEKRO_TRIGGER__DEBOUNCE_S": "0",
    # The bot must not answer the messages whose display is measured. The console's list of chats
    # shows only the newest message of a chat, so an answer would replace the measured message.
    "NEKRO_TRIGGER__PARTICIPATION__MODE": "mentioned",
    "NEKRO_TRIGGER__BURST_TURNS": "0",
    "NEKRO_TRIGGER__HOUR_TURNS": "0",
    "NEKRO_DELIVERY__SENDS_PER_WINDOW": "100000",
    # Deleting old rows would change the database while it is measured.
    "NEKRO_STORE__KEEP__MESSAGES_DAYS": "0",
    "NEKRO_STORE__KEEP__TURNS_DAYS": "0",
    "NEKRO_STORE__KEEP__USES_DAYS": "0",
    "ONEBOT_ACCESS_TOKEN": _TOKEN,
    "LOG_LEVEL": "WARNING",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredBot:
    """A running bot with one OneBot account."""

    process: BotProcess
    peer: OneBotPeer

    @property
    def pid(self) -> int:
        """The id of the bot's process."""
        assert self.process.process is not None
        return self.process.process.pid

    async def turns(self, count: int) -> list[float]:
        """Ask ``count`` questions one after another. Returns the milliseconds from each question to
        its answer."""
        samples = []
        for _ in range(count):
            begun = time.monotonic()
            await self.peer.say_in_group(GROUP, 10_001, "a question", at_me=True)
            samples.append(((await self.peer.next_send()).at - begun) * 1e3)
            await anyio.sleep(_PAUSE_S)
        return samples


@asynccontextmanager
async def measured_bot(
    folder: Path, program: str = "bot.py", *, account: str = "20002"
) -> AsyncIterator[MeasuredBot]:
    """Run a bot whose data are in ``folder / "data"``, and wait until it is idle after its
    start."""
    async with (
        ScriptedModelServer(TimedAnswerModel()) as model,
        running_bot(
            folder,
            (sys.executable, str(ROOT / program)),
            **_SETTINGS,
            NEKRO_LLM__BASE_URL=model.base_url,
        ) as bot,
        OneBotPeer(account, _TOKEN, bot.onebot_url) as peer,
    ):
        # If a bot ran on this database before, this bot must not mistake the new messages for old
        # ones. So the message ids begin at the current time.
        peer.account.ids = itertools.count(int(time.time() * 1000)).__next__
        await peer.wait_connected()
        await anyio.sleep(_REST_S)
        yield MeasuredBot(process=bot, peer=peer)


@asynccontextmanager
async def logged_in_browser(
    bot: BotProcess, *, polite: bool = False
) -> AsyncIterator[BrowserContext]:
    """Start Chromium, and log the owner in.

    Args:
        bot: The bot whose console is opened.
        polite: Take no processor time from the bot. An operator's browser runs on another
            machine, so what it draws must not count as a cost of the bot.
    """
    async with async_playwright() as playwright, anyio.TemporaryDirectory() as folder:
        program = Path(folder) / "chromium"
        program.write_text(_POLITE_CHROMIUM)
        program.chmod(0o700)
        chromium = await playwright.chromium.launch(
            executable_path=program if polite else _CHROMIUM, args=_ARGUMENTS
        )
        try:
            context = await chromium.new_context(locale="en-US")
            context.set_default_timeout(30_000)
            bearer = {"Authorization": f"Bearer {bot.token}"}
            async with httpx.AsyncClient(trust_env=False, headers=bearer) as client:
                link = (await client.post(f"{bot.address}/api/v1/links")).json()["url"]
            page = await context.new_page()
            await page.goto(link)
            await page.close()
            yield context
        finally:
            await asyncio.wait_for(chromium.close(), 30)


async def open_until(page: Page, address: str, filled: str) -> float:
    """Open an address. Returns the milliseconds from the start of the navigation until the selector
    ``filled`` finds an element and the page is connected with the bot. At that moment a person can
    read the page, and each click has an effect. The time is measured with the browser's own
    clock."""
    await page.goto(address, wait_until="commit")
    usable = await page.wait_for_function(
        "filled => document.querySelector(filled) && window.socket?.connected && performance.now()",
        arg=filled,
    )
    return float(await usable.json_value())
