"""Measures how fast the queries are that the lists of the console make."""

import time
from collections.abc import Awaitable, Callable, Iterator

from bench.figure import Figure, p50_and_p95
from nekro_core.chat import ChatKey
from nekro_core.delivery.outbound.admin import OPEN_STATES
from nekro_core.store import Dimension, LatencyMeasure, Period, Store, TurnFilter

_ROUNDS = 30
_WARM_UP = 2
_TARGET_MS = 100.0
_DAY_S = 86_400.0
_YEAR_S = 365 * _DAY_S
_QUIET = 4_998
"""The number of the quietest Telegram group in a database of 5,000 chats. Chat 0 is the busiest."""

Question = Callable[[Store], Awaitable[object]]


async def list_figures(store: Store) -> list[Figure]:
    """The p50 and p95 of each query. The baseline is a query that reads nothing."""
    floor = p50_and_p95(await _samples(store, lambda s: s.messages.get(0)))[1]
    found = []
    newest = store.messages.last_seq
    for name, question in _questions(time.time(), newest, await _newest_turn(store)):
        p50, p95 = p50_and_p95(await _samples(store, question))
        found.append(
            Figure(
                name=name, unit="ms", p50=p50, p95=p95, floor=floor,
                floor_name="a query that reads nothing, p95", target=_TARGET_MS,
            )
        )  # fmt: skip
    return found


async def _newest_turn(store: Store) -> int:
    newest = await store.turn_log.newest(limit=1)
    return newest[0].turn.turn_id if newest else 1


def _questions(now: float, newest: int, turn: int) -> Iterator[tuple[str, Question]]:
    yield from _of_chats(newest)
    yield from _of_turns(now, turn)
    yield from _of_statistics(now)
    middle = f"d{turn // 2 // 1000 * 1000}"
    yield "undelivered: newest", lambda s: s.deliveries.newest(*OPEN_STATES)
    yield (
        "undelivered: page in the middle",
        lambda s: s.deliveries.newest(*OPEN_STATES, before=middle),
    )
    yield "undelivered: number", lambda s: s.deliveries.count(*OPEN_STATES)
    yield "audit: newest", lambda s: s.audit.newest()
    yield "audit: page in the middle", lambda s: s.audit.newest(before=10_000)
    yield "audit: of an area", lambda s: s.audit.newest(area="plugins")
    yield "audit: an area without changes", lambda s: s.audit.newest(area="people")
    yield "audit: of a person", lambda s: s.audit.newest(actor="Lin")
    yield "timers: all", lambda s: s.timers.all()


def _of_chats(newest: int) -> Iterator[tuple[str, Question]]:
    busy, quiet = ChatKey.parse("telegram-group_10000"), ChatKey.parse("telegram-group_10003")
    still = ChatKey.parse(f"telegram-group_{10_000 + _QUIET}")
    yield "chats: newest", lambda s: s.chat_list.page()
    yield "chats: page in the middle", lambda s: s.chat_list.page(before=newest - newest // 500)
    yield "chats: last page", lambda s: s.chat_list.page(before=newest - newest // 10)
    yield "chats: by name", lambda s: s.chat_list.page(text="library")
    yield "chats: by a name that nobody has", lambda s: s.chat_list.page(text="zzz")
    yield "chats: by platform", lambda s: s.chat_list.page(adapter="telegram")
    yield (
        "chats: all filters",
        lambda s: s.chat_list.page(adapter="telegram", instance="telegram", text="library"),
    )
    yield "chat: newest history", lambda s: s.chat_list.history(busy)
    yield "chat: history in the middle", lambda s: s.chat_list.history(busy, before=newest // 2)
    yield "chat: first history", lambda s: s.chat_list.history(busy, before=newest // 500)
    yield "chat: members", lambda s: s.chat_list.members(busy)
    yield "search: a frequent word", lambda s: s.search.find("图书馆")
    yield "search: a rare word", lambda s: s.search.find("字典")
    yield "search: a rare word, in the middle", lambda s: s.search.find("字典", before=newest // 2)
    yield "search: in the busiest chat", lambda s: s.search.find("字典", chat_key=busy)
    yield "search: in a busy chat", lambda s: s.search.find("字典", chat_key=quiet)
    yield "search: in a quiet chat", lambda s: s.search.find("字典", chat_key=still)


def _of_turns(now: float, turn: int) -> Iterator[tuple[str, Question]]:
    busy, half = ChatKey.parse("telegram-group_10000"), now - _YEAR_S / 2
    filters = {
        "of a chat": TurnFilter(chat_key=busy),
        "of a person": TurnFilter(user_id="10000"),
        "of a model": TurnFilter(model="small"),
        "failed": TurnFilter(failed=True),
        "with one ending": TurnFilter(stop="limit_steps"),
        "of a week": TurnFilter(since=half, until=half + 7 * _DAY_S),
        "of a chat, with one ending": TurnFilter(chat_key=busy, stop="limit_steps"),
        "of a person and a model, failed": TurnFilter(user_id="10000", model="small", failed=True),
        "all filters": TurnFilter(
            chat_key=busy, user_id="10000", model="small", stop="limit_steps", failed=True,
            since=half, until=now,
        ),
        "all filters, none found": TurnFilter(
            chat_key=busy, user_id="29999", model="vision", stop="limit_time", failed=True,
        ),
    }  # fmt: skip
    yield "turns: newest", lambda s: s.turn_log.newest()
    yield "turns: page in the middle", lambda s: s.turn_log.newest(before=turn // 2)
    yield "turns: last page", lambda s: s.turn_log.newest(before=51)
    for name, wanted in filters.items():
        yield f"turns: {name}", lambda s, wanted=wanted: s.turn_log.listed(wanted)
    yield (
        "turns: failed, in the middle",
        lambda s: s.turn_log.listed(TurnFilter(failed=True), before=turn // 2),
    )
    yield "turns: one with its steps", lambda s: s.turn_log.one(turn // 2)
    yield "turns: models to choose", lambda s: s.turn_log.different("model")
    yield "turns: endings to choose", lambda s: s.turn_log.different("stop")


def _of_statistics(now: float) -> Iterator[tuple[str, Question]]:
    year, day = {"since": now - _YEAR_S, "until": now}, {"since": now - _DAY_S, "until": now}
    month = {"since": now - 30 * _DAY_S, "until": now}
    chat = {"dimension": Dimension.CHAT, "name": "telegram-group_10000"}
    first = LatencyMeasure.FIRST_WORDS
    yield "statistics: sums of a year", lambda s: s.statistics.totals(**year)
    yield "statistics: a day by hour", lambda s: s.statistics.series(Period.HOUR, **day)
    yield "statistics: a year by day", lambda s: s.statistics.series(Period.DAY, **year)
    yield "statistics: a year of a chat", lambda s: s.statistics.series(Period.DAY, **year, **chat)
    for dimension in (Dimension.CHAT, Dimension.PERSON, Dimension.MODEL, Dimension.TOOL):
        for name, span in {"year": year, "month": month, "day": day}.items():
            order = "calls" if dimension is Dimension.TOOL else "cost"
            yield (
                f"statistics: a {name} by {dimension}",
                lambda s, dimension=dimension, span=span, order=order: s.statistics.ranking(
                    dimension, **span, order=order
                ),
            )
    yield (
        "statistics: a year by person, by messages",
        lambda s: s.statistics.ranking(Dimension.PERSON, **year, order="messages"),
    )
    yield "statistics: latencies of a year", lambda s: s.statistics.latency(first, **year)
    yield (
        "statistics: a year's latencies of the busiest chat",
        lambda s: s.statistics.latency(first, **year, **chat),
    )
    yield (
        "statistics: a year's latencies by day",
        lambda s: s.statistics.latency_series(first, Period.DAY, **year),
    )


async def _samples(store: Store, question: Question) -> list[float]:
    for _ in range(_WARM_UP):
        await question(store)
    samples = []
    for _ in range(_ROUNDS):
        begun = time.perf_counter()
        await question(store)
        samples.append((time.perf_counter() - begun) * 1e3)
    return samples
