"""Measures how fast the pages of the console open in Chromium, if the bot has a large database."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType

import anyio
import httpx
from playwright.async_api import BrowserContext

from bench.console_bot import CHAT, logged_in_browser, measured_bot, open_until
from bench.figure import Figure, p50_and_p95
from nekro_core.console.pages import PAGES
from nekro_core.console.view import ROOT
from tests.e2e.bot_process import ROOT as REPOSITORY
from tests.peers.ports import free_port

_OPENED, _FEW = 20, 5
_BETWEEN_S = 0.3
_TARGET_MS = 1000.0
_CONTENT = ".nc-main > *"
_FILLED = MappingProxyType(
    {
        "statistics": ".nc-chart svg",
        "chats": ".nc-chats-row",
        "turns": ".nc-list article",
        "undelivered": ".nc-list article",
        "timers": ".nc-list article",
        "audit": ".nc-list article",
        "logs": ".nc-log > *",
    }
)
"""Maps some pages to the selector of an element. Such a page is usable when it shows this element.
Every other page is usable when it shows any content."""


async def page_figures(folder: Path, *, few: bool) -> list[Figure]:
    """The p50 and p95 of each page of a bot whose data are in ``folder / "data"``. The baseline is
    an empty page of NiceGUI."""
    opened = _FEW if few else _OPENED
    found = []
    async with measured_bot(folder) as bot, logged_in_browser(bot.process) as context:
        await bot.turns(2)  # so that the pages have a chat and a turn to show
        floor = await _empty_page(context, opened)
        for name, address, filled in _pages():
            load = os.getloadavg()[0]
            samples = await _openings(context, bot.process.address + address, filled, opened)
            p50, p95 = p50_and_p95(samples)
            found.append(
                Figure(
                    name=f"page {name}", unit="ms", p50=p50, p95=p95, floor=floor,
                    floor_name=f"an empty NiceGUI page, p95 [load {load:.1f}]",
                    target=_TARGET_MS,
                )
            )  # fmt: skip
    return found


def _pages() -> list[tuple[str, str, str]]:
    """Name, address and selector of each page."""
    listed = [
        (each.name or "home", each.address, _FILLED.get(each.name, _CONTENT))
        for each in PAGES
        if each.group
    ]
    return [
        *listed,
        ("a new chat", f"{ROOT}/chats/{CHAT}", ".nc-chat-line"),
        ("the busiest chat", f"{ROOT}/chats/telegram-group_10000", ".nc-chat-line"),
        ("a turn", f"{ROOT}/turns/1000", ".nc-main .nc-card"),
    ]


async def _openings(context: BrowserContext, address: str, filled: str, count: int) -> list[float]:
    """The milliseconds of each opening except the first, for which the browser loads the
    scripts."""
    page = await context.new_page()
    samples = []
    for _ in range(count + 1):
        samples.append(await open_until(page, address, filled))
        await anyio.sleep(_BETWEEN_S)
    await page.close()
    return samples[1:]


async def _empty_page(context: BrowserContext, count: int) -> float:
    async with _served_empty_page() as address:
        return p50_and_p95(await _openings(context, address, _CONTENT, count))[1]


@asynccontextmanager
async def _served_empty_page() -> AsyncIterator[str]:
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(REPOSITORY / "bench" / "empty_page.py"),
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
