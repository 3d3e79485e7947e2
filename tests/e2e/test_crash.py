"""The bot is killed and connections are cut while people ask questions: no answer is lost or sent
twice. ``make crash`` runs longer."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.e2e.crash import Load, crash
from tests.e2e.crash_judge import Outcome
from tests.e2e.forked_bots import BotForker, bot_forker
from tests.peers.postgres import PostgresServer


def check(outcome: Outcome) -> None:
    print(outcome)
    assert not outcome.faults, "\n".join([*outcome.faults[:5], outcome.faults[-1]])


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_a_killed_bot_answers_everything_once(tmp_path: Path) -> None:
    load = Load(messages=1000, chats=50, per_second=100, kills=1, histories=(True, True))
    outcome = await crash(load, tmp_path)
    check(outcome)
    assert outcome.heard == 1000


@pytest.fixture(scope="module")
async def bots() -> AsyncIterator[BotForker]:
    async with bot_forker() as bots:
        yield bots


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(300)
async def test_a_bot_killed_twenty_times_answers_everything_once(
    tmp_path: Path, bots: BotForker
) -> None:
    outcome = await crash(Load(kills=20, seed=20), tmp_path, bots=bots)
    check(outcome)
    assert outcome.kills.total() >= 20


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_a_bot_killed_ten_times_on_postgresql_answers_everything_once(
    tmp_path: Path, bots: BotForker, postgres: PostgresServer
) -> None:
    url = await postgres.empty_database()
    outcome = await crash(
        Load(kills=10, seed=21, mode="tools"), tmp_path, bots=bots, database_url=url
    )
    check(outcome)
    assert outcome.kills.total() >= 10


@pytest.mark.timeout(120)
@pytest.mark.parametrize("has_history", [False, True])
async def test_a_call_into_a_dead_connection_may_end_as_unknown(
    tmp_path: Path, bots: BotForker, has_history: bool
) -> None:
    # In the second before the cut, the bot makes calls that nobody reads. On a real network, this
    # time is only as long as a packet travels.
    load = Load(kills=0, cuts=1, dead_s=1.0, histories=(has_history,), seed=7)
    outcome = await crash(load, tmp_path, bots=bots)
    check(outcome)
    log = (tmp_path / "bot.log").read_text()
    assert "outcome unknown: connection closed" in log, "no call was made into the dead connection"
    assert has_history or outcome.answered < outcome.heard
