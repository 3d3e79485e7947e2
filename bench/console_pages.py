"""How fast the pages of the operator's console open in Chromium, and what an open page costs the
bot. The bot runs as a process of its own, on a database that was filled before."""

import asyncio
import itertools
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import httpx
from playwright.async_api import BrowserContext, Page, async_playwright

from bench.bare_bot import resident_mib
from bench.bot_answers import TimedAnswerModel
from bench.figure import Figure, percentiles
from nekro_core.console.frame import ConsolePage
from nekro_core.console.pages import PAGES
from tests.console.process import free_port
from tests.e2e.bot_process import ROOT, BotProcess, running_bot
from tests.peers.onebot_v11 import OneBotPeer
from tests.peers.scripted_model import ScriptedModelServer

_CHROMIUM = "/usr/bin/chromium"
_ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
_OPENED = 12
_TURNS = 40
_BLOCKS = 4
_MESSAGES = 20
_PAUSE_S = 0.15
_REST_S = 6.0
"""Seconds after the start. By then the bot has made its web page."""
_TARGET_MS, _NEW_MESSAGE_MS, _TURN_PERCENT, _OPEN_MIB = 1000.0, 300.0, 10.0, 40.0
_GROUP = 30_003
_CHAT = f"onebot_v11-group_{_GROUP}"
_TOKEN = "bench-token"
_FILLED = "document.querySelector('.nc-main')?.childElementCount > 0"
_SHOWS = "text => document.body.innerText.includes(text)"
_SETTINGS = {
    "NEKRO_LLM__MODEL": "scripted",
    "NEKRO_TRIGGER__DEBOUNCE_S": "0",
    "NEKRO_TRIGGER__BURST_TURNS": "0",
    "NEKRO_TRIGGER__HOUR_TURNS": "0",
    "NEKRO_DELIVERY__SENDS_PER_WINDOW": "100000",
    "ONEBOT_ACCESS_TOKEN": _TOKEN,
    "LOG_LEVEL": "WARNING",
}


async def page_figures(folder: Path) -> list[Figure]:
    """The figures of a bot whose data are in ``folder / "data"``."""
    mind = TimedAnswerModel()
    async with (
        ScriptedModelServer(mind) as model,
        running_bot(folder, **_SETTINGS, NEKRO_LLM__BASE_URL=model.base_url) as bot,
        OneBotPeer("20002", _TOKEN, bot.onebot_url) as peer,
        async_playwright() as playwright,
    ):
        peer.account.ids = itertools.count(int(time.time() * 1000)).__next__
        await peer.wait_connected()
        await anyio.sleep(_REST_S)
        await _turns(peer, _TURNS)  # a new chat's first turns take longer
        assert bot.process is not None
        idle_mib = resident_mib(bot.process.pid)  # nobody has opened a page yet
        chromium = await playwright.chromium.launch(executable_path=_CHROMIUM, args=_ARGUMENTS)
        context = await chromium.new_context(locale="en-US")
        context.set_default_timeout(30_000)
        await _log_in(context, bot)
        found = await _costs(context, bot, peer, idle_mib)
        found += await _opened_pages(context, bot)
        found += await _new_messages(context, bot, peer)
        await chromium.close()
    return found


async def _log_in(context: BrowserContext, bot: BotProcess) -> None:
    bearer = {"Authorization": f"Bearer {bot.token}"}
    async with httpx.AsyncClient(trust_env=False, headers=bearer) as client:
        link = (await client.post(f"{bot.address}/api/v1/links")).json()["url"]
    page = await context.new_page()
    await page.goto(link)
    await page.close()


async def _opened_pages(context: BrowserContext, bot: BotProcess) -> list[Figure]:
    async with _empty_page() as address:
        floor = _p95(await _openings(context, address))
    found = []
    for each in PAGES:
        if each.group:
            samples = await _openings(context, bot.address + each.address)
            found.append(_page_figure(each, _p95(samples), floor))
    return found


def _page_figure(page: ConsolePage, p95: float, floor: float) -> Figure:
    return Figure(
        name=f"page {page.name or 'home'} usable, p95",
        unit="ms",
        p50=p95,
        floor=floor,
        floor_name="an empty NiceGUI page, p95",
        target=_TARGET_MS,
    )


async def _openings(context: BrowserContext, address: str) -> list[float]:
    """The milliseconds until each opened page had its content. The first one, for which the browser
    loads the scripts, is left out."""
    page = await context.new_page()
    samples = []
    for _ in range(_OPENED + 1):
        begun = time.perf_counter()
        await page.goto(address, wait_until="commit")
        await page.wait_for_function(_FILLED)
        samples.append((time.perf_counter() - begun) * 1e3)
    await page.close()
    return samples[1:]


def _p95(samples: list[float]) -> float:
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))]


@asynccontextmanager
async def _empty_page() -> AsyncIterator[str]:
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(ROOT / "bench" / "empty_page.py"),
        str(port),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    address = f"http://127.0.0.1:{port}"
    try:
        async with httpx.AsyncClient(trust_env=False) as client:
            with anyio.fail_after(60):
                while True:
                    try:
                        await client.get(address)
                        break
                    except httpx.TransportError:
                        await anyio.sleep(0.05)
        yield address
    finally:
        process.terminate()
        await process.wait()


async def _new_messages(context: BrowserContext, bot: BotProcess, peer: OneBotPeer) -> list[Figure]:
    """How long a new message takes to an open page of the chat."""
    if not (chats := [each for each in PAGES if each.name == "chats" and each.path]):
        print("no page of a chat is there: new messages are not measured")
        return []
    await peer.say_in_group(_GROUP, 10_001, "the chat begins")
    await anyio.sleep(1)
    page = await context.new_page()
    await page.goto(f"{bot.address}{chats[0].address}/{_CHAT}")
    await page.wait_for_function(_SHOWS, arg="the chat begins")
    samples = []
    for number in range(_MESSAGES):
        text = f"news {number} of {time.time():.0f}"
        begun = time.perf_counter()
        await peer.say_in_group(_GROUP, 10_001, text)
        await page.wait_for_function(_SHOWS, arg=text)
        samples.append((time.perf_counter() - begun) * 1e3)
    await page.close()
    return [
        Figure(
            name="a new message on an open page, p95", unit="ms", p50=_p95(samples),
            floor=0.0, floor_name="", target=_NEW_MESSAGE_MS,
        )
    ]  # fmt: skip


async def _costs(
    context: BrowserContext, bot: BotProcess, peer: OneBotPeer, idle_mib: float
) -> list[Figure]:
    """What an open console costs a turn and the bot. Blocks of turns with and without it alternate,
    so that a slow moment of the machine weighs on both."""
    assert bot.process is not None
    closed_ms: list[float] = []
    open_ms: list[float] = []
    open_mib = idle_mib
    for _ in range(_BLOCKS):
        closed_ms += await _turns(peer, _TURNS // _BLOCKS)
        page = await _open_home(context, bot)
        open_ms += await _turns(peer, _TURNS // _BLOCKS)
        open_mib = max(open_mib, resident_mib(bot.process.pid))
        await page.close()
        await anyio.sleep(1)
    closed, opened = percentiles(closed_ms)[0], percentiles(open_ms)[0]
    return [
        Figure(
            name="a turn with an open console, p50", unit="ms", p50=opened, floor=closed,
            floor_name="the same without it", target=closed * (1 + _TURN_PERCENT / 100),
        ),
        Figure(
            name="memory of the bot with an open console", unit="MiB", p50=open_mib,
            floor=idle_mib, floor_name="before anybody opened it", target=idle_mib + _OPEN_MIB,
        ),
    ]  # fmt: skip


async def _open_home(context: BrowserContext, bot: BotProcess) -> Page:
    page = await context.new_page()
    await page.goto(f"{bot.address}{PAGES[0].address}")
    await page.wait_for_function(_FILLED)
    await anyio.sleep(1)
    return page


async def _turns(peer: OneBotPeer, count: int) -> list[float]:
    """The milliseconds from each question to its answer."""
    samples = []
    for _ in range(count):
        begun = time.monotonic()
        await peer.say_in_group(_GROUP, 10_001, "a question", at_me=True)
        samples.append(((await peer.next_send()).at - begun) * 1e3)
        await anyio.sleep(_PAUSE_S)
    return samples
