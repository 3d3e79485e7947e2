"""An operator reads what the bot did today and which messages did not arrive."""

from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from nekro_core.chat import ChatKey, DeliveryState, Text
from nekro_core.delivery.outbound.admin import OPEN_STATES
from nekro_core.operator.audit import AuditLog
from nekro_core.operator.errors import InvalidParameters
from nekro_core.operator.roles import AccessRole, Actor, RequestOrigin
from nekro_core.operator.statistics import Statistics
from nekro_core.store import DeliveryRow, Dimension, ModelUse, Period, Store
from nekro_core.timers.schedule import zone_of

GROUP = ChatKey.parse("onebot_v11-group_30003")
VERA = Actor(name="vera", role=AccessRole.VIEWER, origin=RequestOrigin.PAGE)
NOW = datetime(2026, 11, 23, 12, 30, tzinfo=UTC).timestamp()


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with Store.open(f"sqlite://{tmp_path / 'nekro.sqlite3'}") as opened:
        yield opened


@pytest.fixture
def statistics(store: Store, monkeypatch: pytest.MonkeyPatch) -> Iterator[Statistics]:
    """The statistics of a bot in Shanghai."""
    monkeypatch.setenv("TZ", "Asia/Shanghai")
    zone_of.cache_clear()
    yield Statistics(AuditLog(store.audit), store, lambda: NOW)
    zone_of.cache_clear()


def use(started: float, cost: float) -> ModelUse:
    return ModelUse(
        plugin="acme.draw",
        model="small",
        prompt_tokens=10,
        completion_tokens=5,
        cost=cost,
        chat_key="",
        user_id="",
        started=started,
    )


def delivery(number: int, state: DeliveryState) -> DeliveryRow:
    return DeliveryRow(
        delivery_id=f"d{number}",
        chat_key=GROUP,
        run_id="",
        position=0,
        segments=(Text("hello"),),
        state=state,
        message_id="",
        reason="",
        record_seq=0,
        created=NOW,
        changed=NOW,
    )


async def test_a_day_begins_at_midnight_in_the_time_zone_of_the_bot(
    store: Store, statistics: Statistics
) -> None:
    # In Shanghai it is half past eight in the evening, and the day began at 16:00 UTC.
    await store.model_uses.add(use(NOW - 20 * 3600, 1.0))
    await store.model_uses.add(use(NOW - 21 * 3600, 2.0))
    while await store.statistics_counter.count_slice():
        pass
    today = await statistics.today(VERA)
    assert datetime.fromtimestamp(today.since, UTC).isoformat() == "2026-11-22T16:00:00+00:00"
    assert (today.sums.cost, today.ever.cost) == (1.0, 3.0)
    days = await statistics.series(
        VERA, period=Period.DAY, since=NOW - 2 * 86_400, until=NOW, timezone="local"
    )
    assert [day.cost for day in days] == [2.0, 1.0]


@pytest.mark.parametrize(
    ("days", "offered"),
    [
        (1, ["hour"]),
        (7, ["hour", "day"]),
        (31, ["hour", "day"]),
        (365, ["day", "month"]),
        (3650, ["month"]),
    ],
)
async def test_only_periods_that_suit_the_length_of_the_span_are_offered(
    statistics: Statistics, days: int, offered: list[str]
) -> None:
    found = await statistics.periods(VERA, since=NOW - days * 86_400, until=NOW)
    assert found == offered


async def test_periods_whose_figures_are_no_longer_stored_are_not_offered(
    statistics: Statistics,
) -> None:
    long_ago = NOW - 3000 * 86_400
    span = {"since": long_ago, "until": long_ago + 7 * 86_400}
    assert await statistics.periods(VERA, **span) == ["hour", "day"]
    assert await statistics.periods(VERA, dimension=Dimension.CHAT, **span) == ["month"]


async def test_a_wrong_time_zone_is_named_in_the_error(statistics: Statistics) -> None:
    with pytest.raises(InvalidParameters, match="'Mars/Base' is no time zone"):
        await statistics.series(VERA, period=Period.DAY, since=0, until=NOW, timezone="Mars/Base")


async def test_counting_deliveries_stops_at_the_given_number(store: Store) -> None:
    states = (DeliveryState.SENT, DeliveryState.REJECTED, DeliveryState.UNKNOWN)
    rows = [delivery(number, state) for number, state in enumerate(states)]
    await store.deliveries.add(rows, [])
    assert await store.deliveries.count(*OPEN_STATES) == 2
    assert await store.deliveries.count(*states, most=1) == 1
