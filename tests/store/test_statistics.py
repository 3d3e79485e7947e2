"""Messages, turns and requests are each counted once. The counts can be read by hour, day and
month."""

from collections import Counter
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nekro_core.chat import ChatKey, DeliveryState, Sender, Text
from nekro_core.store import (
    DeliveryRow,
    Dimension,
    LatencyMeasure,
    LatencySummary,
    ModelUse,
    Period,
    Person,
    StatisticsRow,
    Step,
    Store,
    ToolCall,
)
from nekro_core.store.histogram import bucket_of, summary_of
from nekro_core.store.statistic_rows import period_start
from nekro_core.store.statistics import spans

from .conftest import GROUP, OTHER, Clock, say

NOW = datetime(2026, 11, 23, 12, 30, tzinfo=UTC).timestamp()
HOUR = 3_600.0
DAY = 24 * HOUR
LIN = ChatKey.parse("onebot_v11-private_10001")


@pytest.fixture
def clock() -> Clock:
    return Clock(NOW)


async def count(store: Store, clock: Clock) -> None:
    """Count all rows that are stored now."""
    # A message is counted only when its number is a few seconds old, and in a shared database a
    # request to a model only when it is at least ten seconds old. Each look notes what the next
    # one may count.
    for _ in range(3):
        clock.now += 11
        while await store.statistics_counter.count_slice():
            pass


async def turn(
    store: Store,
    clock: Clock,
    *,
    chat: ChatKey = GROUP,
    user: str = "10001",
    stop: str = "finished",
    seconds: float = 4.0,
) -> int:
    """A turn of one step, which makes one call and sends one message after half its time."""
    started = clock.now
    row = await store.turns.begin(chat, trigger_seq=1, through_seq=1, user_id=user)
    run = f"run{row.turn_id}"
    await store.runs.begin(run, chat, code="x", turn_id=row.turn_id)
    call = ToolCall(
        position=0, name="dice", arguments="{}", outcome="ok", started=started, seconds=0.25
    )
    await store.runs.add_calls(run, [call])
    clock.now += seconds / 2
    await store.deliveries.add([delivery(run, chat, clock.now)], [])
    step = Step(
        position=0,
        reply="x",
        model="large",
        prompt_tokens=1_000,
        cached_tokens=600,
        completion_tokens=50,
        cost=0.02,
        started=started,
        seconds=1.5,
    )
    await store.turns.add_step(row.turn_id, step)
    clock.now += seconds / 2
    await store.turns.end(row.turn_id, stop=stop)
    return row.turn_id


def delivery(run: str, chat: ChatKey, created: float) -> DeliveryRow:
    return DeliveryRow(
        delivery_id=f"d-{run}",
        chat_key=chat,
        run_id=run,
        position=0,
        segments=(Text("four"),),
        state=DeliveryState.SENT,
        message_id="",
        reason="",
        record_seq=0,
        created=created,
        changed=created,
    )


async def test_messages_turns_and_requests_are_counted_by_chat_person_model_and_tool(
    store: Store, clock: Clock
) -> None:
    await say(store, time=clock.now)
    await say(store, time=clock.now, sender=Sender("10002", "Mei"))
    await turn(store, clock)
    await turn(store, clock, stop="model_rejected", seconds=40.0)
    await store.model_uses.add(
        ModelUse(
            plugin="a.draw",
            model="small",
            prompt_tokens=10,
            completion_tokens=5,
            cost=0.5,
            chat_key=str(GROUP),
            user_id="10002",
            started=clock.now,
        )
    )
    await count(store, clock)
    span = {"since": NOW - HOUR, "until": clock.now + HOUR}
    whole = await store.statistics.totals(**span)
    assert whole == StatisticsRow(
        messages=2,
        turns=2,
        errors=1,
        requests=3,
        prompt_tokens=2_010,
        cached_tokens=1_200,
        completion_tokens=105,
        cost=pytest.approx(0.54),
        calls=2,
    )
    assert await store.statistics.totals(dimension=Dimension.CHAT, name=str(GROUP), **span) == (
        StatisticsRow(**{**fields(whole), "name": str(GROUP)})
    )
    people = await store.statistics.ranking(Dimension.PERSON, order="tokens", **span)
    assert [(each.name, each.tokens, each.messages) for each in people] == [
        ("onebot_v11:10001", 2_100, 1),
        ("onebot_v11:10002", 15, 1),
    ]
    models = await store.statistics.ranking(Dimension.MODEL, **span)
    assert [(each.name, each.cost) for each in models] == [
        ("small", pytest.approx(0.5)),
        ("large", pytest.approx(0.04)),
    ]
    (plugin,) = await store.statistics.ranking(Dimension.PLUGIN, **span)
    assert (plugin.name, plugin.prompt_tokens) == ("a.draw", 10)
    (tool,) = await store.statistics.ranking(Dimension.TOOL, order="calls", **span)
    assert (tool.name, tool.calls, tool.call_errors) == ("dice", 2, 0)


def fields(row: StatisticsRow) -> dict[str, object]:
    return {name: getattr(row, name) for name in StatisticsRow.__slots__}


async def test_latencies_are_right_within_ten_percent(store: Store, clock: Clock) -> None:
    for _ in range(19):
        await turn(store, clock, seconds=4.0)
    await turn(store, clock, seconds=60.0)
    await count(store, clock)
    span = {"since": NOW - DAY, "until": clock.now + DAY}
    whole = await store.statistics.latency(LatencyMeasure.TURN, **span)
    assert (whole.number, whole.p50, whole.p95) == (
        20,
        pytest.approx(4.0, rel=0.1),
        pytest.approx(4.0, rel=0.1),
    )
    words = await store.statistics.latency(LatencyMeasure.FIRST_WORDS, **span)
    assert words.p50 == pytest.approx(2.0, rel=0.1)
    of_model = await store.statistics.latency(
        LatencyMeasure.REQUEST, dimension=Dimension.MODEL, name="large", **span
    )
    assert of_model.p95 == pytest.approx(1.5, rel=0.1)
    (hour,) = await store.statistics.latency_series(LatencyMeasure.CALL, Period.HOUR, **span)
    assert (hour.start, hour.latency.number) == (NOW - 1_800, 20)
    day, *_ = await store.statistics.latency_series(LatencyMeasure.TURN, Period.DAY, **span)
    assert day.latency == whole
    nothing = await store.statistics.latency(LatencyMeasure.CALL, since=0, until=DAY)
    assert nothing == LatencySummary()


async def test_rows_are_counted_only_once_and_old_rows_are_counted_after_a_restart(
    tmp_path: Path, clock: Clock
) -> None:
    url = f"sqlite://{tmp_path}/nekro.sqlite3"
    async with Store.open(url, clock=clock) as store:
        for number in range(700):
            await say(store, f"message {number}", time=clock.now)
        for _ in range(90):
            await turn(store, clock)
    for _ in range(2):  # each process counts only some slices
        async with Store.open(url, clock=clock) as store:
            assert await store.statistics_counter.count_slice()
    async with Store.open(url, clock=clock) as store:
        assert await store.statistics_counter.backlog() == 310
        await count(store, clock)
        assert await store.statistics_counter.backlog() == 0
        await say(store, "one more", time=clock.now)
        await turn(store, clock)
        await count(store, clock)
        await count(store, clock)
        whole = await store.statistics.totals(since=0, until=clock.now + DAY)
        assert (whole.messages, whole.turns, whole.requests) == (701, 91, 91)


async def test_a_running_turn_is_counted_when_it_has_ended(store: Store, clock: Clock) -> None:
    row = await store.turns.begin(GROUP, trigger_seq=1, through_seq=1, user_id="10001")
    await turn(store, clock, chat=LIN)
    await count(store, clock)
    span = {"since": NOW - DAY, "until": NOW + DAY}
    assert (await store.statistics.totals(**span)).turns == 1
    await store.turns.end(row.turn_id, stop="finished")
    await count(store, clock)
    assert (await store.statistics.totals(**span)).turns == 2


async def test_days_begin_at_midnight_in_the_operators_time_zone(
    store: Store, clock: Clock
) -> None:
    shanghai = ZoneInfo("Asia/Shanghai")
    for hour in (15, 17):  # in Shanghai it is 23:00 and 01:00
        await say(store, time=datetime(2026, 11, 22, hour, tzinfo=UTC).timestamp())
    await count(store, clock)
    span = {"since": NOW - 7 * DAY, "until": NOW}
    assert [day.messages for day in await store.statistics.series(Period.DAY, **span)] == [2]
    there = await store.statistics.series(Period.DAY, timezone=shanghai, **span)
    assert [(datetime.fromtimestamp(day.start, shanghai).day, day.messages) for day in there] == [
        (22, 1),
        (23, 1),
    ]


async def test_counts_of_chats_by_hour_are_deleted_after_a_time_and_counts_by_day_stay(
    store: Store, clock: Clock
) -> None:
    old = NOW - 401 * DAY
    await say(store, time=old)
    await count(store, clock)
    span = {"since": old, "until": old + 1, "dimension": Dimension.CHAT, "name": str(GROUP)}
    assert (await store.statistics.totals(**span)).messages == 1
    assert await store.statistics.series(Period.HOUR, **span) == []
    assert await store.statistics.series(Period.DAY, **span) == []
    assert len(await store.statistics.series(Period.HOUR, since=old, until=old + HOUR)) == 1
    await say(store, time=NOW)
    await count(store, clock)
    recent = {"since": NOW, "until": NOW + 1, "dimension": Dimension.CHAT, "name": str(GROUP)}
    assert len(await store.statistics.series(Period.HOUR, **recent)) == 1
    at = await store.retention.statistics(before=NOW + 33 * DAY)
    while at:
        at = await store.retention.statistics(before=NOW + 33 * DAY, after=at)
    assert await store.statistics.series(Period.HOUR, **recent) == []
    assert len(await store.statistics.series(Period.DAY, **recent)) == 1


async def test_erasing_a_person_removes_their_name_and_keeps_the_sums(
    store: Store, clock: Clock
) -> None:
    await store.accounts.bind("onebot_v11", "20002")
    await say(store, time=clock.now)
    await say(store, time=clock.now, key=LIN)
    await say(store, time=clock.now, sender=Sender("10002", "Mei"))
    await turn(store, clock)
    await turn(store, clock, chat=LIN)
    await turn(store, clock, user="10003")
    await count(store, clock)
    span = {"since": NOW - DAY, "until": NOW + DAY}
    before = await store.statistics.totals(**span)
    for user in ("10001", "10003"):
        person = Person(adapter="onebot_v11", user_id=user, instances=("onebot_v11",))
        await store.erasing.erase(person, await store.erasing.look(person))
    people = await store.statistics.ranking(Dimension.PERSON, order="turns", **span)
    assert [(each.name, each.messages, each.turns) for each in people] == [
        ("", 2, 3),
        ("onebot_v11:10002", 1, 0),
    ]
    chats = await store.statistics.ranking(Dimension.CHAT, order="turns", **span)
    assert {each.name: (each.messages, each.turns) for each in chats} == {
        "": (1, 1),
        str(GROUP): (2, 2),
    }
    assert await store.statistics.totals(**span) == before
    rows = await store.queries._database.read("SELECT name, member FROM statistics")
    assert not [row for row in rows if "10001" in row["name"] or row["member"] == "10001"]


async def test_the_ranking_of_a_long_span_uses_the_counts_of_its_months(
    store: Store, clock: Clock
) -> None:
    """The ranking first tries the chats with the most messages of all time. Here each chat has
    four, but only the chat 777 has all of them in the span."""
    for number in range(230):
        key = ChatKey.parse(f"onebot_v11-group_{number}")
        for _ in range(1 + number % 3):
            await say(store, time=NOW - 100 * DAY, key=key)
        for _ in range(3 - number % 3):
            await say(store, time=NOW - 800 * DAY, key=key)
    winner = ChatKey.parse("onebot_v11-group_777")
    for number in range(4):
        await say(store, time=NOW - (number % 2 + 1) * 40 * DAY, key=winner)
    await count(store, clock)
    found = await store.statistics.ranking(
        Dimension.CHAT, since=NOW - 365 * DAY, until=NOW, order="messages", limit=60
    )
    assert found[0].name == str(winner)
    assert [row.messages for row in found] == [4, *[3] * 59]


@pytest.mark.parametrize(
    ("since_days", "until_days"), [(3, 0), (21, 0), (30, 0), (40, 8), (61, 20)]
)
async def test_a_span_that_begins_late_in_a_month_has_only_the_rows_of_the_span(
    store: Store, clock: Clock, since_days: int, until_days: int
) -> None:
    midnight = NOW - NOW % DAY
    since, until = midnight - since_days * DAY, midnight - until_days * DAY + DAY * (not until_days)
    expected: Counter[ChatKey] = Counter()
    for number in range(180):
        chat = (GROUP, LIN, OTHER)[number % 7 % 3]
        at = midnight - 75 * DAY + number * 10 * HOUR
        await say(store, key=chat, time=at)
        if since <= at < until:
            expected[chat] += 1
    await count(store, clock)
    totals = await store.statistics.totals(since=since, until=until)
    assert totals.messages == expected.total()
    ranked = await store.statistics.ranking(
        Dimension.CHAT, since=since, until=until, order="messages"
    )
    assert {row.name: row.messages for row in ranked} == {str(k): n for k, n in expected.items()}


async def test_a_person_who_was_active_only_before_the_span_is_not_ranked(
    store: Store, clock: Clock
) -> None:
    await say(store, key=GROUP, time=datetime(2026, 10, 3, tzinfo=UTC).timestamp())
    await say(store, key=LIN, time=datetime(2026, 10, 28, tzinfo=UTC).timestamp())
    await count(store, clock)
    since = datetime(2026, 10, 20, tzinfo=UTC).timestamp()
    ranked = await store.statistics.ranking(
        Dimension.CHAT, since=since, until=NOW, order="messages"
    )
    assert [(row.name, row.messages) for row in ranked] == [(str(LIN), 1)]


async def test_a_ranking_by_an_unknown_figure_is_refused(store: Store) -> None:
    with pytest.raises(ValueError, match="'; DROP TABLE turns'"):
        await store.statistics.ranking(Dimension.CHAT, since=0, until=1, order="; DROP TABLE turns")


_times = st.floats(min_value=0, max_value=4e9, allow_nan=False)


@given(
    since=_times,
    length=st.floats(min_value=0, max_value=4e8),
    finest=st.sampled_from([Period.HOUR, Period.DAY, Period.MONTH]),
)
def test_a_span_is_cut_into_parts_without_gaps(
    since: float, length: float, *, finest: Period
) -> None:
    until = since + length
    parts = [*spans(since, until, finest=finest)]
    length_s = {Period.HOUR: HOUR, Period.DAY: DAY, Period.MONTH: 31 * DAY}[finest]
    assert since - length_s < parts[0][1] <= since
    assert until <= parts[-1][2] <= until + length_s
    for (_, _, end), (_, begin, _) in pairwise(parts):
        assert end == begin
    assert len(parts) <= 5


@given(st.lists(st.floats(min_value=0.002, max_value=50_000), min_size=1, max_size=300))
def test_the_median_of_a_histogram_is_right_within_ten_percent(latencies: list[float]) -> None:
    buckets: dict[int, int] = {}
    for seconds in latencies:
        buckets[bucket_of(seconds)] = buckets.get(bucket_of(seconds), 0) + 1
    found = summary_of(buckets)
    median = sorted(latencies)[(len(latencies) - 1) // 2]
    assert found.number == len(latencies)
    assert found.p50 == pytest.approx(median, rel=0.1)


async def test_costs_with_published_prices_and_requests_without_a_price_are_counted_separately(
    store: Store, clock: Clock
) -> None:
    row = await store.turns.begin(GROUP, trigger_seq=1, through_seq=1, user_id="10001")
    for position, (source, cost) in enumerate(
        [("operator", 1.0), ("published", 0.25), ("unknown", 0.0), ("free", 0.0), ("", 0.0)]
    ):
        await store.turns.add_step(
            row.turn_id,
            Step(
                position=position,
                reply="x",
                model="m",
                prompt_tokens=1,
                cost=cost,
                price_source=source,
                started=clock.now,
            ),
        )
    await store.turns.end(row.turn_id, stop="finished")
    await store.model_uses.add(
        ModelUse(
            plugin="a.draw",
            model="m",
            prompt_tokens=1,
            completion_tokens=1,
            cost=0.5,
            price_source="published",
            chat_key=str(GROUP),
            user_id="10001",
            started=clock.now,
        )
    )
    (logged,) = (await store.turn_log.one(row.turn_id) or [None])[:1]
    assert logged is not None
    assert (logged.usage.cost, logged.usage.published_cost, logged.usage.unpriced) == (
        1.25,
        0.25,
        1,
    )
    used = await store.turns.usage(since=0.0, chat_key=GROUP)
    assert (used.cost, used.published_cost, used.unpriced) == (1.75, 0.75, 1)
    of_plugin = await store.model_uses.usage(since=0.0, plugin="a.draw")
    assert (of_plugin.published_cost, of_plugin.unpriced) == (0.5, 0)
    assert [step.price_source for step in await store.turns.steps(row.turn_id)] == [
        "operator",
        "published",
        "unknown",
        "free",
        "",
    ]
    await count(store, clock)
    whole = await store.statistics.totals(since=NOW - HOUR, until=clock.now + HOUR)
    assert (whole.cost, whole.published_cost, whole.unpriced) == (1.75, 0.75, 1)


async def test_turns_of_a_chat_and_of_a_person_have_exact_latencies(
    store: Store, clock: Clock
) -> None:
    for seconds in (2.0, 4.0, 6.0):
        await turn(store, clock, seconds=seconds)
    await turn(store, clock, chat=LIN, user="10001", seconds=100.0)
    await turn(store, clock, user="10002", seconds=50.0)
    elsewhere = ChatKey.parse("telegram-private_10001")
    await turn(store, clock, chat=elsewhere, user="10001", seconds=9.0)
    # this turn is still running
    await store.turns.begin(GROUP, trigger_seq=9, through_seq=9, user_id="10001")
    await count(store, clock)
    span = {"since": NOW - DAY, "until": clock.now + DAY}
    chat = {"dimension": Dimension.CHAT, "name": str(GROUP), **span}
    person = {"dimension": Dimension.PERSON, "name": "onebot_v11:10001", **span}
    statistics = store.statistics
    assert await statistics.latency(LatencyMeasure.TURN, **chat) == LatencySummary(
        number=4, p50=pytest.approx(4.0), p95=pytest.approx(50.0)
    )
    assert await statistics.latency(LatencyMeasure.FIRST_WORDS, **chat) == LatencySummary(
        number=4, p50=pytest.approx(2.0), p95=pytest.approx(25.0)
    )
    assert await statistics.latency(LatencyMeasure.TURN, **person) == LatencySummary(
        number=4, p50=pytest.approx(4.0), p95=pytest.approx(100.0)
    )
    (day,) = await statistics.latency_series(LatencyMeasure.TURN, Period.DAY, **person)
    assert (day.start, day.latency.number) == (period_start(Period.DAY, NOW), 4)
    before = {**chat, "until": NOW}
    assert await statistics.latency(LatencyMeasure.TURN, **before) == LatencySummary()
    assert await statistics.latency_series(LatencyMeasure.TURN, Period.DAY, **before) == []


async def test_a_plugin_has_the_latencies_of_its_requests(store: Store, clock: Clock) -> None:
    for seconds in (1.0, 3.0):
        await store.model_uses.add(
            ModelUse(
                plugin="acme.draw",
                model="small",
                prompt_tokens=1,
                completion_tokens=1,
                cost=0.0,
                chat_key="",
                user_id="",
                started=NOW,
                seconds=seconds,
            )
        )
    await count(store, clock)
    found = await store.statistics.latency(
        LatencyMeasure.REQUEST,
        since=NOW - DAY,
        until=NOW + DAY,
        dimension=Dimension.PLUGIN,
        name="acme.draw",
    )
    assert (found.number, found.p95) == (2, pytest.approx(3.0, rel=0.1))
