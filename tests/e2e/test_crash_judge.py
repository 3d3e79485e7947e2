"""The judge of the crash test accepts some calls with an unknown outcome and reports the others."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import asyncpg
import pytest

from tests.e2e.crash_judge import FIRST_GROUP, Cut, Outcome, judge
from tests.e2e.read_database import StoreLook
from tests.peers.onebot_v11 import OneBotPeer
from tests.peers.postgres import PostgresServer


def cut_peer() -> OneBotPeer:
    """A peer whose second connection was cut at 100, and to which the bot wrote again at 103."""
    peer = OneBotPeer("20002")
    peer.connections = 2
    peer.spoken_to = {1: 50.0, 2: 90.0, 3: 103.0}
    return peer


def row(delivery: str, created: float, chat: int = 0) -> tuple[str, str, float]:
    return delivery, f"onebot_v11-group_{FIRST_GROUP + chat}", created


def test_a_cut_explains_calls_that_began_before_the_bot_noticed_it() -> None:
    peer, other = cut_peer(), OneBotPeer("20003")
    cut = Cut(peer=peer, connection=2, doubted=frozenset({"before"}))
    rows = [
        row("before", 99.0),
        row("on its way", 99.9),
        row("into the dead socket", 100.1),
        row("of the next connection", 103.1),
        row("of another account", 100.1, chat=1),
    ]
    assert cut.explains(rows, {0: peer, 1: other}) == {"on its way", "into the dead socket"}


class _Rows(StoreLook):
    """A store with one answer whose outcome is unknown."""

    def __init__(self) -> None:
        """Open no database."""

    async def rows(self, query: str) -> Sequence[Sequence[Any]]:
        key = row("d1", 0.0)[1]
        if query.startswith("SELECT delivery_id, state"):
            return [("d1", "unknown", key, "connection closed")]
        if query.startswith("SELECT segments FROM deliveries"):
            return [('[["text", "ans0x0y"]]',)]
        if query.startswith("SELECT segments FROM messages"):
            return [('[["text", "ask0x0y"]]',)]
        return []


@pytest.mark.parametrize("in_flight", [{"d1"}, {"d2"}, set[str]()])
async def test_an_unknown_outcome_that_nothing_explains_is_a_fault(in_flight: set[str]) -> None:
    outcome = Outcome(in_flight=in_flight)
    await judge({0: 1}, {0: OneBotPeer("20002", has_history=False)}, _Rows(), outcome)
    assert bool(outcome.faults) is ("d1" not in in_flight), outcome.faults


async def test_settled_waits_for_the_last_write_of_a_killed_process(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    url = (await postgres.empty_database()).replace("asyncpg", "postgresql", 1)
    async with StoreLook(tmp_path, url) as look:
        killed = await asyncpg.connect(url)
        await killed.execute("CREATE TABLE calls (state text)")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(
                killed.execute,
                "BEGIN; INSERT INTO calls VALUES ('sending'); SELECT pg_sleep(0.5); COMMIT",
            )
            await anyio.sleep(0.2)
            tasks.cancel_scope.cancel()
            killed.terminate()
        assert await look.column("SELECT state FROM calls") == []
        await look.settled()
        assert await look.column("SELECT state FROM calls") == ["sending"]
