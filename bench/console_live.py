"""Measures how soon an open page of the console shows a new message, and how much open pages slow
down a turn and how much memory they need."""

import time
from pathlib import Path

import anyio
from playwright.async_api import BrowserContext, Page

from bench.bare_bot import resident_mib
from bench.console_bot import (
    CHAT,
    GROUP,
    MeasuredBot,
    logged_in_browser,
    measured_bot,
    open_until,
)
from bench.figure import Figure, p50_and_p95
from nekro_core.console.view import ROOT

_MESSAGES, _FEW_MESSAGES = 100, 10
_TURNS, _FEW_TURNS = 240, 24
_BLOCKS, _FEW_BLOCKS = 12, 2
_VISITS, _FEW_VISITS = 50, 8
_WARM_TURNS, _FEW_WARM_TURNS = 60, 5
_NEW_MESSAGE_MS, _TURN_PERCENT, _OPEN_MIB, _GROWN_MIB = 300.0, 10.0, 40.0, 5.0
_CLOSED_S = 2.0
"""Seconds until the bot has forgotten a closed page."""
_OPENED = {
    "home": (ROOT, ".nc-tiles"),
    "chat": (f"{ROOT}/chats/{CHAT}", ".nc-chat-line"),
    "turns": (f"{ROOT}/turns", ".nc-list article"),
}
_CHATS = (f"{ROOT}/chats", ".nc-chats-row")
_NOTE_NEWS = """() => {
    window.newsAt = {};
    const look = (node) => {
        for (const [found] of (node.textContent || "").matchAll(/news-\\d+/g))
            newsAt[found] ??= performance.timeOrigin + performance.now();
    };
    new MutationObserver((changes) => {
        for (const change of changes) {
            if (change.type === "characterData") look(change.target);
            change.addedNodes.forEach(look);
        }
    }).observe(document.body, {childList: true, characterData: true, subtree: true});
}"""
"""Records when a text appears in the page, in milliseconds since 1970. The browser and this program
read the same clock."""


async def live_figures(folder: Path, *, few: bool) -> list[Figure]:
    """The figures of a bot whose data are in ``folder / "data"``."""
    async with measured_bot(folder) as bot:
        await bot.turns(_FEW_WARM_TURNS if few else _WARM_TURNS)  # a chat's first turns take longer
        idle = resident_mib(bot.pid)  # Nobody has opened a page yet.
        async with logged_in_browser(bot.process, polite=True) as context:
            found = await _memory(bot, context, idle, _FEW_VISITS if few else _VISITS)
            found += await _turns(
                bot,
                context,
                _FEW_TURNS if few else _TURNS,
                _FEW_BLOCKS if few else _BLOCKS,
            )
            count = _FEW_MESSAGES if few else _MESSAGES
            for name, place in (("the page of its chat", _OPENED["chat"]), ("the list", _CHATS)):
                found.append(await _news(bot, context, name, place, count))
    return found


async def _news(
    bot: MeasuredBot, context: BrowserContext, name: str, place: tuple[str, str], count: int
) -> Figure:
    """Measure the time from the moment when the peer begins to send a message until its text is in
    the page."""
    page = await context.new_page()
    await open_until(page, bot.process.address + place[0], place[1])
    await anyio.sleep(1)
    await page.evaluate(_NOTE_NEWS)
    first = time.time_ns() // 1000
    samples = []
    for number in range(first, first + count):
        begun = time.time() * 1e3
        await bot.peer.say_in_group(GROUP, 10_001, f"news-{number}")
        seen = await page.wait_for_function("text => window.newsAt[text]", arg=f"news-{number}")
        samples.append(float(await seen.json_value()) - begun)
        await anyio.sleep(0.05)
    await page.close()
    p50, p95 = p50_and_p95(samples)
    return Figure(
        name=f"a new message on {name}", unit="ms", p50=p50, p95=p95, target=_NEW_MESSAGE_MS
    )


async def _memory(
    bot: MeasuredBot, context: BrowserContext, idle: float, visits: int
) -> list[Figure]:
    pages = await _open(bot, context)
    await bot.turns(5)
    opened = resident_mib(bot.pid)
    await _close(pages)
    closed = resident_mib(bot.pid)
    first = await _after_visits(bot, context, visits)
    second = await _after_visits(bot, context, visits)
    before = "before anybody opened it"
    return [
        Figure(
            name="memory with an open console", unit="MiB", p50=opened, floor=idle,
            floor_name=before, target=idle + _OPEN_MIB,
        ),
        Figure(
            name="memory after it was closed", unit="MiB", p50=closed, floor=idle,
            floor_name=before,
        ),
        Figure(
            name=f"memory after {visits} opens and closes", unit="MiB", p50=first, floor=idle,
            floor_name=before, target=idle + _OPEN_MIB,
        ),
        Figure(
            name=f"memory after {visits} more", unit="MiB", p50=second, floor=first,
            floor_name="before these", target=first + _GROWN_MIB,
        ),
    ]  # fmt: skip


async def _after_visits(bot: MeasuredBot, context: BrowserContext, visits: int) -> float:
    """Open and close pages. Returns the memory of the bot after that."""
    places = list(_OPENED.values())
    for number in range(visits):
        address, filled = places[number % len(places)]
        page = await context.new_page()
        await open_until(page, bot.process.address + address, filled)
        await page.close()
    await anyio.sleep(_CLOSED_S)
    return resident_mib(bot.pid)


async def _turns(
    bot: MeasuredBot, context: BrowserContext, count: int, blocks: int
) -> list[Figure]:
    """Measure how much longer a turn takes while a console is open. Blocks of turns with and
    without a console alternate, so that a slow moment of the machine affects both."""
    without: list[float] = []
    with_it: list[float] = []
    for _ in range(blocks):
        without += await bot.turns(count // blocks)
        pages = await _open(bot, context)
        with_it += await bot.turns(count // blocks)
        await _close(pages)
    found = []
    for name, was, now in zip(
        ("p50", "p95"), p50_and_p95(without), p50_and_p95(with_it), strict=True
    ):
        found.append(
            Figure(
                name=f"a turn with an open console, {name}", unit="ms", p50=now, floor=was,
                floor_name="the same without it", target=was * (1 + _TURN_PERCENT / 100),
            )
        )  # fmt: skip
    return found


async def _open(bot: MeasuredBot, context: BrowserContext) -> list[Page]:
    """Open the pages that an operator typically leaves open."""
    pages = []
    for address, filled in _OPENED.values():
        pages.append(page := await context.new_page())
        await open_until(page, bot.process.address + address, filled)
    await anyio.sleep(1)
    return pages


async def _close(pages: list[Page]) -> None:
    for page in pages:
        await page.close()
    await anyio.sleep(_CLOSED_S)
