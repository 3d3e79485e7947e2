"""`AgentRuntime` gives each stored record to the sessions once and in order, even after errors."""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from nekro_core.app.agent_runtime import AgentRuntime
from nekro_core.app.app import App
from nekro_core.app.settings import Settings
from nekro_core.chat import ChatKey, Record
from nekro_core.delivery.activity import Broadcast
from nekro_core.delivery.inbound.inbox import Inbox
from nekro_core.llm.scripted import ScriptedModel
from nekro_core.policy.settings import TriggerSettings
from nekro_core.store import Store
from nekro_core.system.background_tasks import background_tasks
from nekro_core.testing.platform import ACCOUNT, NAME, TestPlatform
from tests.delivery.fakes import message

LIN = ChatKey.parse(f"{NAME}-private_lin")


class Sessions:
    """Records each record that it receives, and fails on a record with the message id ``bad``."""

    def __init__(self) -> None:
        self.taken: list[str] = []

    def on_record(self, record: Record, age_s: float) -> None:
        assert age_s >= 0
        self._take("record", record)

    def on_recall(self, record: Record) -> None:
        self._take("recall", record)

    def at_work(self, chat_key: ChatKey) -> bool:
        return False

    def _take(self, what: str, record: Record) -> None:
        self.taken.append(f"{what} {record.message_id}")
        if record.message_id == "bad":
            raise RuntimeError("a fault of the sessions")


@asynccontextmanager
async def opened(folder: Path, clock: Callable[[], float]) -> AsyncIterator[AgentRuntime]:
    async with (
        Store.open(f"sqlite://{folder}/nekro.sqlite3") as store,
        background_tasks() as tasks,
    ):
        inbox = Inbox(store, Broadcast(), clock=clock)
        services: Any = SimpleNamespace(inbox=inbox, clock=clock)
        sessions: Any = Sessions()
        admission: Any = None
        unused: Any = None
        yield AgentRuntime(
            services=services,
            sessions=sessions,
            admission=admission,
            erasure=unused,
            command_actions=unused,
            models=unused,
            personas=unused,
            roles=unused,
            tasks=tasks,
        )


async def test_an_error_on_one_record_does_not_stop_the_next_records(tmp_path: Path) -> None:
    async with opened(tmp_path, anyio.current_time) as runtime:
        runtime.tasks.start_soon(runtime.feed_sessions)
        inbox: Inbox = runtime.services.inbox
        for name in ("good", "bad", "better"):
            await inbox.accept(inbox.stamp(message(LIN, message_id=name)))
        assert await inbox.recall(LIN, "bad") is not None
        assert await inbox.recall(LIN, "good") is not None
        with anyio.fail_after(30):
            while inbox.queued:
                await anyio.sleep(0)
        taken = ["record good", "record bad", "record better", "recall bad", "recall good"]
        assert runtime.sessions.taken == taken  # type: ignore[attr-defined]


async def test_a_chat_with_a_queued_record_counts_as_at_work(tmp_path: Path) -> None:
    other = ChatKey.parse(f"{NAME}-private_mei")
    async with opened(tmp_path, anyio.current_time) as runtime:
        inbox: Inbox = runtime.services.inbox
        assert not runtime.at_work(LIN)
        await inbox.accept(inbox.stamp(message(LIN, message_id="1")))
        assert runtime.at_work(LIN)
        assert not runtime.at_work(other)
        runtime.tasks.start_soon(runtime.feed_sessions)
        with anyio.fail_after(30):
            while runtime.at_work(LIN):
                await anyio.sleep(0)
        assert runtime.sessions.taken == ["record 1"]  # type: ignore[attr-defined]


@pytest.mark.parametrize("text", ["hello", "/status"])
async def test_a_message_that_arrives_before_the_bot_has_started_is_answered_once(
    tmp_path: Path, text: str
) -> None:
    """An adapter of a plugin may hand over messages while the bot starts. The recovery of the
    sessions does not answer these messages, because the inbox's queue will bring them."""
    settings = Settings(
        nekro_data_dir=tmp_path, nekro_trigger=TriggerSettings(debounce_s=0), _env_file=None
    )  # type: ignore[call-arg]
    platform = TestPlatform()
    async with App.open(settings, {}, model=ScriptedModel(lambda _: "hi")) as app:
        app.add_adapter(platform)
        await app.host.instance_of(NAME, ACCOUNT)
        await app.host.accept(message(LIN, text, message_id="early", time=time.time(), to_bot=True))
        await app._runtime.sessions.recover()
        await anyio.sleep(0.3)
        assert app.at_work(LIN), "the record must still be in the queue"
        assert not platform.sent, "the recovery must leave the message to the queue"
        await app.start()
        with anyio.fail_after(60):
            await platform.until(lambda: bool(platform.sent))
            while app.at_work(LIN):
                await anyio.sleep(0.01)
        await anyio.sleep(0.3)
        assert len(platform.sent) == 1
