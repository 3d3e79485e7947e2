"""How fast the lists of the operator's console answer in a database with 1,000,000 messages."""

import shutil
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from bench.console_pages import page_figures
from bench.figure import Figure, table
from bench.large_database import Size, fill_database
from nekro_core.chat import ChatKey
from nekro_core.store import Dimension, LatencyMeasure, Period, Store

_ROUNDS = 20
_SLICE = 100
"""The statistics are filled in slices that are this many times as large as in the bot."""
_YEAR_S = 365 * 86_400.0
_TARGET_MS = 100.0
_WARM_UP = 2

Question = Callable[[Store], Awaitable[object]]


async def figures() -> list[Figure]:
    """The p50 and p95 of each query that a page of the console makes, how long a query takes that
    reads nothing, and the figures of `bench.console_pages`."""
    return await figures_of(Size())


async def figures_of(size: Size) -> list[Figure]:
    """The figures with a database of this size."""
    folder = Path(tempfile.mkdtemp(prefix="nekro-bench-"))
    try:
        path = folder / "data" / "nekro.sqlite3"
        path.parent.mkdir()
        print(f"filled in {await fill_database(path, size):.0f} s", flush=True)
        async with Store.open(f"sqlite://{path}") as store:
            begun = time.perf_counter()
            while await store.statistics_counter.count_slice(times=_SLICE):
                pass
            print(f"statistics filled in {time.perf_counter() - begun:.0f} s", flush=True)
            found = await list_figures(store)
        print(f"\n{table(found)}\n", flush=True)
        return [*found, *await page_figures(folder)]
    finally:
        shutil.rmtree(folder)


async def list_figures(store: Store) -> list[Figure]:
    """The figures of an open store."""
    samples = await _samples(store, lambda s: s.messages.get(0))
    floor = _p95(samples)[0]
    return [
        _figure(name, await _samples(store, question), floor)
        for name, question in _questions().items()
    ]


def _questions() -> dict[str, Question]:
    now = time.time()
    busy, quiet = ChatKey.parse("telegram-group_10000"), ChatKey.parse("telegram-group_14998")
    year, day = {"since": now - _YEAR_S, "until": now}, {"since": now - 86_400, "until": now}
    chat = {"dimension": Dimension.CHAT, "name": str(busy)}
    return {
        "chats: first page": lambda s: s.chat_list.page(),
        "chats: page in the middle": lambda s: s.chat_list.page(before=900_000),
        "chats: by name": lambda s: s.chat_list.page(text="library"),
        "chats: by platform": lambda s: s.chat_list.page(adapter="telegram"),
        "chat: newest history": lambda s: s.chat_list.history(busy),
        "chat: history in the middle": lambda s: s.chat_list.history(busy, before=500_000),
        "chat: members": lambda s: s.chat_list.members(busy),
        "search: a frequent word": lambda s: s.search.find("图书馆"),
        "search: a rare word": lambda s: s.search.find("字典"),
        "search: in a busy chat": lambda s: s.search.find("字典", chat_key=busy),
        "search: in a quiet chat": lambda s: s.search.find("字典", chat_key=quiet),
        "turns: newest": lambda s: s.turn_log.newest(),
        "turns: of a chat": lambda s: s.turn_log.newest(chat_key=busy),
        "statistics: a year": lambda s: s.statistics.totals(**year),
        "statistics: a day by hour": lambda s: s.statistics.series(Period.HOUR, **day),
        "statistics: a year by day": lambda s: s.statistics.series(Period.DAY, **year),
        "statistics: a year of a chat": lambda s: s.statistics.series(Period.DAY, **year, **chat),
        "statistics: a year by chat": lambda s: s.statistics.ranking(Dimension.CHAT, **year),
        "statistics: a year by person": lambda s: s.statistics.ranking(Dimension.PERSON, **year),
        "statistics: a day by person": lambda s: s.statistics.ranking(Dimension.PERSON, **day),
        "statistics: a year by model": lambda s: s.statistics.ranking(Dimension.MODEL, **year),
        "statistics: latencies of a year": lambda s: s.statistics.latency(
            LatencyMeasure.FIRST_WORDS, **year
        ),
        "statistics: latencies by day": lambda s: s.statistics.latency_series(
            LatencyMeasure.FIRST_WORDS, Period.DAY, **year
        ),
    }


async def _samples(store: Store, question: Question) -> list[float]:
    for _ in range(_WARM_UP):
        await question(store)
    samples = []
    for _ in range(_ROUNDS):
        begun = time.perf_counter()
        await question(store)
        samples.append((time.perf_counter() - begun) * 1e3)
    return samples


def _p95(samples: list[float]) -> tuple[float, float]:
    """The p50 and the p95."""
    ordered = sorted(samples)
    return ordered[len(ordered) // 2], ordered[int(len(ordered) * 0.95)]


def _figure(name: str, samples: list[float], floor: float) -> Figure:
    """A figure whose p50 column is the 95th percentile, since that is what the target bounds."""
    _, p95 = _p95(samples)
    return Figure(
        name=f"{name}, p95",
        unit="ms",
        p50=p95,
        floor=floor,
        floor_name="a query that reads nothing, p50",
        target=_TARGET_MS,
    )
