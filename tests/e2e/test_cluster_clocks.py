"""The clocks of a cluster's machines may differ by two minutes: chats are answered once and in
order, timers are due when they should be, and a killed worker is replaced."""

import time
from pathlib import Path

import anyio
import pytest

from tests.e2e.test_cluster import Cluster, running_cluster
from tests.peers.postgres import PostgresServer

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

WRONG_CLOCK = Path(__file__).parent / "wrong_clock"
OFFSETS = {"gateway-1": "60", "ada": "-60", "bob": "60"}
"""How many seconds the clocks of some processes are off. Those of the others are right."""


def wrong_clock(name: str) -> dict[str, str]:
    """The environment variables with which `time.time` of the named process is off."""
    if name not in OFFSETS:
        return {}
    return {"PYTHONPATH": str(WRONG_CLOCK), "WRONG_CLOCK_S": OFFSETS[name]}


@pytest.mark.slow
async def test_nothing_is_lost_or_repeated_if_clocks_differ_by_a_minute_or_two(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    async with running_cluster(tmp_path, postgres, environment=wrong_clock) as cluster:
        await clocks_differ(cluster)


async def clocks_differ(cluster: Cluster) -> None:
    groups = range(41001, 41009)
    await cluster.ask_in(groups)

    # A timer is set by a worker whose clock is behind, and by one whose clock is ahead.
    for worker in ("ada", "bob"):
        group = await a_group_of(cluster, worker, 41_100)
        began, before = time.monotonic(), len(cluster.said(group))
        await cluster.say(group, "wake me")
        said = await cluster.answers(group, before + 2)
        assert said[before:] == ["I will", "the tea is ready"]
        assert time.monotonic() - began < 30, "it was to be 3 s"

    # Each of these workers is killed while it answers. Another one, with another clock, goes on.
    for worker in ("ada", "bob"):
        group = await a_group_of(cluster, worker, 41_200 if worker == "ada" else 41_300)
        before = len(cluster.said(group))
        await cluster.begin_to_ask(group, slow=True)
        await anyio.sleep(0.7)
        await cluster.workers[worker].kill()
        said = await cluster.answers(group, before + 1)
        assert said[before:] == [f"answer-{cluster.questions[group]}"]
        await cluster.workers[worker].start()
        await cluster.shared_out("ada", "bob", "eva")
    for group in groups:
        await cluster.ask(group)
        expected = [f"answer-{number}" for number in range(1, cluster.questions[group] + 1)]
        assert cluster.said(group) == expected
    states = await cluster.states()
    assert {*states} <= {"sent", "unknown"}, states


async def a_group_of(cluster: Cluster, worker: str, first: int) -> int:
    """Return a group in which only this function has asked, and which the worker owns. The numbers
    of the tried groups begin with ``first``."""
    for group in range(first, first + 40):
        before = len(cluster.said(group))
        await cluster.say(group, "question-0")
        await cluster.answers(group, before + 1)
        if await cluster.owner(group) == worker:
            return group
    raise AssertionError(f"{worker} owns none of 40 groups")
