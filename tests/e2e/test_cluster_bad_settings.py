"""One worker of a cluster has no key of the model: it says so in its chats, and the chats of the
other workers are answered."""

from pathlib import Path

import anyio
import pytest

from tests.e2e.test_bad_model import NO_KEY
from tests.e2e.test_cluster import Cluster, reply, running_cluster
from tests.e2e.whole_bot import LONG_S
from tests.peers.postgres import PostgresServer
from tests.peers.scripted_model import Answer, Asked, Reply

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]


def needs_a_key(asked: Asked) -> Reply:
    """The reply of a provider that knows one key."""
    if asked.headers.get("authorization") != "Bearer right":
        return Answer(status=401, error={"message": "Incorrect API key provided"})
    return reply(asked)


def key_of(name: str) -> dict[str, str]:
    return {} if name == "bob" else {"NEKRO_LLM__API_KEY": "right"}


@pytest.mark.slow
async def test_a_worker_without_a_model_key_says_so_and_the_others_answer(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    async with running_cluster(tmp_path, postgres, needs_a_key, key_of) as cluster:
        await one_worker_has_no_key(cluster)


async def one_worker_has_no_key(cluster: Cluster) -> None:
    await cluster.shared_out("ada", "bob", "eva")
    groups = range(42001, 42009)
    for group in groups:
        await cluster.begin_to_ask(group)
    for group in groups:
        await cluster.answers(group, 1)
    owners = {group: await cluster.owner(group) for group in groups}
    assert "bob" in owners.values()
    assert len({*owners.values()}) > 1
    for group, owner in owners.items():
        assert cluster.said(group) == [NO_KEY if owner == "bob" else "answer-1"]
    assert "Check api_key" in cluster.workers["bob"].log

    # After bob has ended, the other workers answer in its chats.
    await cluster.workers["bob"].stop()
    (group, *_) = (each for each, owner in owners.items() if owner == "bob")
    await cluster.begin_to_ask(group)
    with anyio.fail_after(LONG_S):
        assert await cluster.answers(group, 2) == [NO_KEY, "answer-2"]
