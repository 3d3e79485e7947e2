"""Measures how fast the operator's console is with a database of 1,000,000 messages: its lists in
the store and over HTTP, its pages in Chromium, and how soon an open page shows a new message.

It also measures how much more a turn costs while a console is open, or while prompts are recorded.
"""

import os
import shutil
import tempfile
import time
from pathlib import Path

from bench.console_answers import answer_figures
from bench.console_lists import list_figures
from bench.console_live import live_figures
from bench.console_pages import page_figures
from bench.console_recording import recording_figures
from bench.figure import Figure
from bench.large_database import Size, fill_database
from nekro_core.memory.search.indexer import SearchIndexer
from nekro_core.store import Store

YEAR = Size(audited=20_000, timers=200)
SMALL = Size(messages=20_000, turns=4_000, chats=500, audited=500, timers=20)
_SLICE = 100
"""The statistics are computed in slices that are this many times as large as in the bot."""


async def figures(*, small: bool = False) -> list[Figure]:
    """Return all figures. With ``small``, the database has 20,000 messages and each thing is
    measured only a few times, which takes two minutes."""
    folder = Path(tempfile.mkdtemp(prefix="nekro-bench-"))
    try:
        (folder / "data").mkdir()
        await fill(folder / "data" / "nekro.sqlite3", SMALL if small else YEAR)
        return await figures_of(folder, few=small)
    finally:
        shutil.rmtree(folder)


async def fill(path: Path, size: Size) -> None:
    """Make the database with its statistics and its search index, as a bot has them that ran for
    a year. Otherwise the bot would index all messages while it is measured."""
    print(f"filled in {await fill_database(path, size):.0f} s", flush=True)
    async with Store.open(f"sqlite://{path}") as store:
        begun = time.perf_counter()
        await SearchIndexer(store).index_all()
        print(f"indexed in {time.perf_counter() - begun:.0f} s", flush=True)
        begun = time.perf_counter()
        while await store.statistics_counter.count_slice(times=_SLICE):
            pass
        print(f"statistics filled in {time.perf_counter() - begun:.0f} s", flush=True)


async def figures_of(folder: Path, *, few: bool) -> list[Figure]:
    """The figures of a filled database, ``folder / "data" / "nekro.sqlite3"``. With ``few``, each
    thing is measured a few times."""
    async with Store.open(f"sqlite://{folder}/data/nekro.sqlite3") as store:
        found = _measured("lists", await list_figures(store))
    found += _measured("answers", await answer_figures(folder, few=few))
    found += _measured("pages", await page_figures(folder, few=few))
    found += _measured("open pages", await live_figures(folder, few=few))
    found += _measured("recorded prompts", await recording_figures(few=few))
    return found


def _measured(name: str, found: list[Figure]) -> list[Figure]:
    """Print that a part is done, how busy the machine is, and which figures miss their target."""
    short = ", ".join(each.name for each in found if each.reached is False) or "none"
    print(f"{name}: load of the machine {os.getloadavg()[0]:.1f}, short: {short}", flush=True)
    return found
