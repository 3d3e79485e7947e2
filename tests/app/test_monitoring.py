"""A bot reports whether it can answer, and reports its metrics, also when parts of the bot fail."""

import sqlite3
from pathlib import Path

import anyio
import pytest

from nekro_core.app.app import App
from nekro_core.app.settings import Settings
from nekro_core.llm.chain import ModelChain
from nekro_core.llm.model import ChatRequest, KeyRejected, PromptMessage
from nekro_core.llm.roles import ModelRole
from nekro_core.llm.scripted import ScriptedModel
from nekro_core.operator.alerts.settings import AlertSettings
from nekro_core.operator.roles import AccessRole, Actor, RequestOrigin
from nekro_core.system.telemetry.readiness import BotMonitor
from tests.app.broken_adapter import BrokenAdapter

OTTO = Actor(name="otto", role=AccessRole.OPERATOR, origin=RequestOrigin.PAGE)


def monitor_of(app: App) -> BotMonitor:
    assert app.site.monitor is not None
    return app.site.monitor


async def reasons(app: App) -> dict[str, str]:
    """Return why the bot is not ready: the reason of each part of the bot that is not."""
    found = await monitor_of(app).readiness()
    assert found.ready == all(each.ok for each in found.checks)
    assert {each.name for each in found.checks} == {"start", "database", "adapters", "model"}
    return {each.name: each.reason for each in found.checks if not each.ok}


async def numbers(app: App) -> dict[str, float]:
    """Return the number of each metric. The key is the name with the labels, as Prometheus reads
    it."""
    text, content_type = await monitor_of(app).metrics_text()
    assert content_type.startswith("text/plain")
    lines = [each for each in text.decode().splitlines() if not each.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


async def test_a_bot_is_ready_after_its_start_and_until_its_end(tmp_path: Path) -> None:
    settings = Settings(nekro_data_dir=tmp_path)
    async with App.open(settings, {}, model=ScriptedModel([])) as app:
        assert await reasons(app) == {"start": "the bot is starting or ending"}
        await app.start()
        assert await reasons(app) == {}
        assert (await numbers(app))["nekro_ready"] == 1
        await app.close_adapters()
        assert [*await reasons(app)] == ["start"]


async def test_a_bot_whose_only_model_has_a_wrong_key_is_not_ready(tmp_path: Path) -> None:
    model = ScriptedModel([KeyRejected("the key is wrong")])
    async with App.open(Settings(nekro_data_dir=tmp_path), {}, model=model) as app:
        await app.start()
        chain = app.runtime.models.chains.model(ModelRole.CHAT)
        assert isinstance(chain, ModelChain)
        request = ChatRequest(messages=(PromptMessage.of("user", "hi"),))

        async def ask() -> None:
            async with chain.stream(request) as deltas:
                async for _ in deltas:
                    pass

        with pytest.raises(KeyRejected):
            await ask()
        assert await reasons(app) == {"model": "default cools down after a failure (key)"}
        found = await numbers(app)
        assert found["nekro_ready"] == 0
        assert found['nekro_model_up{model="default"}'] == 0
        assert found['nekro_model_requests_total{model="scripted",result="key"}'] == 1


async def test_an_adapter_that_cannot_start_is_named(tmp_path: Path) -> None:
    settings = Settings(nekro_data_dir=tmp_path)
    async with App.open(settings, {}, model=ScriptedModel([])) as app:
        app.add_adapter(BrokenAdapter("chatty", "no network"))
        await app.start()
        (reason,) = (await reasons(app)).items()
        assert reason[0] == "adapters"
        assert "chatty: it could not be started" in reason[1]
        assert "no network" in reason[1]
        assert (await numbers(app))['nekro_adapter_up{platform="chatty"}'] == 0


async def test_while_another_program_locks_the_database_the_bot_is_not_ready_but_gives_metrics(
    tmp_path: Path,
) -> None:
    settings = Settings(nekro_data_dir=tmp_path)
    async with App.open(settings, {}, model=ScriptedModel([])) as app:
        await app.start()
        other = sqlite3.connect(tmp_path / "nekro.sqlite3", isolation_level=None)
        try:
            other.execute("BEGIN IMMEDIATE")
            assert await reasons(app) == {"database": "the database did not answer in time"}
            found = await numbers(app)
            assert found["nekro_ready"] == 0
            assert found["nekro_turns_running"] == 0
            other.execute("ROLLBACK")
        finally:
            other.close()


async def test_the_outbox_is_counted_by_state_at_most_once_in_a_few_seconds(
    tmp_path: Path,
) -> None:
    now = 1000.0
    settings = Settings(nekro_data_dir=tmp_path)
    async with App.open(settings, {}, model=ScriptedModel([]), clock=lambda: now) as app:
        await app.start()
        found = await numbers(app)
        assert found["nekro_scrape_complete"] == 1
        assert found['nekro_outbox_messages{state="unknown"}'] == 0
        assert found['nekro_boxes{state="asleep"}'] == 0
        other = sqlite3.connect(tmp_path / "nekro.sqlite3", isolation_level=None)
        row = "'d', 'web-private_1', 'r', 0, '[]', 'unknown', '', '', 0, 0, 0"
        other.execute(
            "INSERT INTO deliveries (delivery_id, chat_key, run_id, position, segments, state, "
            f"message_id, reason, record_seq, created, changed) VALUES ({row})"
        )
        other.close()
        now += 4
        assert (await numbers(app))['nekro_outbox_messages{state="unknown"}'] == 0
        now += 2
        assert (await numbers(app))['nekro_outbox_messages{state="unknown"}'] == 1


async def test_an_alert_is_in_the_metrics_and_on_the_first_page_until_it_is_over(
    tmp_path: Path,
) -> None:
    alerts = {"disk_free_mb": 10**9, "look_s": 1}
    settings = Settings(nekro_data_dir=tmp_path, nekro_alerts=alerts)  # type: ignore[arg-type]
    async with App.open(settings, {}, model=ScriptedModel([])) as app:
        await app.start()
        with anyio.fail_after(30):
            while not app.alerts.counts():
                await anyio.sleep(0.02)
        assert (await numbers(app))['nekro_alerts{kind="disk"}'] == 1
        (found,) = await app.operations.health.problems(OTTO)
        assert (found.area, found.ok) == ("alert: disk", False)
        assert found.seen.startswith("Alert: only ")
        settings.nekro_alerts.take_over(AlertSettings(disk_free_mb=1, look_s=1))
        with anyio.fail_after(30):
            while app.alerts.counts():
                await anyio.sleep(0.02)
        assert await app.operations.health.problems(OTTO) == ()
