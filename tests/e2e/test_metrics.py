"""After a conversation, the metrics have every number that the documentation names, and no word of
what was said."""

from pathlib import Path

import anyio
import httpx
from prometheus_client.parser import text_string_to_metric_families

from nekro_core.system.telemetry.names import METRICS, PROCESS_METRICS
from nekro_core.system.telemetry.recorders import MetricKind
from tests.e2e.whole_bot import LONG_S, WholeBot, fence, until, whole_bot

ASKED, ANSWERED = "marzipan", "xylophone"
Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


async def scrape(whole: WholeBot) -> tuple[str, Samples]:
    """Read the metrics as Prometheus on the same machine does, without a token."""
    async with httpx.AsyncClient(trust_env=False, timeout=LONG_S) as prometheus:
        answer = await prometheus.get(f"{whole.bot.address}/metrics")
    assert answer.status_code == 200, answer.text
    samples = {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }
    return answer.text, samples


async def test_each_documented_metric_is_there_after_a_conversation(tmp_path: Path) -> None:
    async with whole_bot(tmp_path) as whole:
        group = whole.group(fence(f"send_channel_message('the word is {ANSWERED}')"))
        assert await whole.ask(group, f"what goes with {ASKED}?") == [f"the word is {ANSWERED}"]
        await until(lambda: whole.stops(group) == ["finished"])
        text, found = await scrape(whole)
        with anyio.fail_after(LONG_S):
            # The bot measures this lag once a second.
            while not found["nekro_event_loop_lag_seconds_count", ()]:
                await anyio.sleep(0.2)
                text, found = await scrape(whole)

        types = {
            line.split()[2]: line.split()[3]
            for line in text.splitlines()
            if line.startswith("# TYPE")
        }
        for metric in METRICS:
            assert types[metric.name] == metric.kind, metric.name
        assert PROCESS_METRICS.keys() <= types.keys()

        def one(name: str, **labels: str) -> float:
            return found[name, tuple(sorted(labels.items()))]

        assert one("nekro_messages_total", platform="onebot_v11", direction="in") == 1
        assert one("nekro_messages_total", platform="onebot_v11", direction="out") == 1
        assert one("nekro_turns_total", end="finished") == 1
        assert one("nekro_steps_total") == 1
        assert one("nekro_tool_calls_total", result="ok") == 1
        assert one("nekro_model_requests_total", model="scripted", result="ok") == 1
        assert one("nekro_model_tokens_total", model="scripted", kind="prompt") > 100
        assert one("nekro_model_tokens_total", model="scripted", kind="completion") > 0
        assert one("nekro_first_words_seconds_count") == 1
        assert one("nekro_turn_seconds_count") == 1
        assert one("nekro_first_words_seconds_sum") <= one("nekro_turn_seconds_sum") < LONG_S
        assert one("nekro_model_first_token_seconds_count", model="scripted") == 1
        assert one("nekro_box_start_seconds_count") == 1
        sends = one("nekro_platform_call_seconds_count", platform="onebot_v11", state="sent")
        assert sends == 1
        assert one("nekro_event_loop_lag_seconds_count") >= 1
        assert one("nekro_accounts", platform="onebot_v11", state="online") == 1
        assert one("nekro_adapter_up", platform="onebot_v11") == 1
        assert one("nekro_boxes", state="running") == 1
        assert one("nekro_outbox_messages", state="unknown") == 0
        assert one("nekro_model_up", model="default") == 1
        assert one("nekro_ready") == one("nekro_scrape_complete") == 1
        assert one("process_resident_memory_bytes") > 50_000_000

        for metric in METRICS:
            suffix = "_count" if metric.kind is MetricKind.HISTOGRAM else ""
            there = [name for name, _ in found if name == metric.name + suffix]
            assert there or metric.name == "nekro_alerts", metric.name
        assert ASKED not in text
        assert ANSWERED not in text
        labels = {value for _, pairs in found for _, value in pairs}
        for person_or_chat in (str(group), "10001", "20002"):
            assert not any(person_or_chat in label for label in labels)


async def test_the_bot_is_alive_and_ready_and_says_so_to_everybody(tmp_path: Path) -> None:
    async with whole_bot(tmp_path) as whole, httpx.AsyncClient(trust_env=False) as client:
        address = whole.bot.address
        assert (await client.get(f"{address}/healthz")).json() == {"alive": True}
        ready = await client.get(f"{address}/readyz")
        assert ready.status_code == 200
        assert ready.json()["checks"] == {
            name: {"ok": True} for name in ("start", "database", "adapters", "model")
        }
        through_proxy = {"X-Forwarded-For": "203.0.113.7"}
        refused = await client.get(f"{address}/metrics", headers=through_proxy)
        assert refused.status_code == 401
        token = {"Authorization": f"Bearer {whole.bot.token}", **through_proxy}
        assert (await client.get(f"{address}/metrics", headers=token)).status_code == 200
