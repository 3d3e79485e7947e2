"""An operator reads what the bot did today and what did not arrive."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from nekro_core.app import App
from nekro_core.app.settings import Settings
from nekro_core.chat import ChatKey, DeliveryState, Text
from nekro_core.llm.scripted import ScriptedModel
from nekro_core.operator.errors import InvalidParameters
from nekro_core.operator.roles import AccessRole, Actor, RequestOrigin
from nekro_core.store import DeliveryRow, ModelUse, Period

GROUP = ChatKey.parse("onebot_v11-group_30003")
VERA = Actor(name="vera", role=AccessRole.VIEWER, origin=RequestOrigin.PAGE)
NOW = datetime(2026, 11, 23, 12, 30, tzinfo=UTC).timestamp()

pytestmark = pytest.mark.jail


@pytest.fixture
async def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[App]:
    monkeypatch.setenv("TZ", "Asia/Shanghai")
    settings = Settings(nekro_data_dir=tmp_path, _env_file=None)  # type: ignore[call-arg]
    model = ScriptedModel(lambda _: "hi")
    async with App.open(settings, {}, model=model, wall=lambda: NOW) as running:
        yield running


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


async def test_a_day_begins_where_the_bot_is(app: App) -> None:
    # It is half past eight in the evening in Shanghai, where the day began at 16:00 UTC.
    await app.store.model_uses.add(use(NOW - 20 * 3600, 1.0))
    await app.store.model_uses.add(use(NOW - 21 * 3600, 2.0))
    while await app.store.statistics_counter.count_slice():
        pass
    today = await app.operations.statistics.today(VERA)
    assert datetime.fromtimestamp(today.since, UTC).isoformat() == "2026-11-22T16:00:00+00:00"
    assert (today.sums.cost, today.ever.cost) == (1.0, 3.0)
    days = await app.operations.statistics.series(
        VERA, period=Period.DAY, since=NOW - 2 * 86_400, until=NOW, timezone="local"
    )
    assert [day.cost for day in days] == [2.0, 1.0]


async def test_a_wrong_time_zone_is_named(app: App) -> None:
    with pytest.raises(InvalidParameters, match="'Mars/Base' is no time zone"):
        await app.operations.statistics.series(
            VERA, period=Period.DAY, since=0, until=NOW, timezone="Mars/Base"
        )


async def test_only_messages_that_did_not_arrive_are_counted(app: App) -> None:
    states = (DeliveryState.SENT, DeliveryState.REJECTED, DeliveryState.UNKNOWN)
    rows = [delivery(number, state) for number, state in enumerate(states)]
    await app.store.deliveries.add(rows, [])
    assert await app.operations.undelivered.count(VERA) == 2
    assert await app.store.deliveries.count(*states, most=1) == 1
