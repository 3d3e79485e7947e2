"""Streams and consumers of NATS are deleted while people write: each question is answered once and
in order, and no process is started again."""

from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest

from nekro_core.cluster.cluster_url import read_cluster_url
from nekro_core.cluster.nats_connection import JetStreamRefused, NatsConnection
from nekro_core.cluster.nats_partition import consumer_of
from nekro_core.cluster.partition_log import DEFAULT_PARTITIONS, partition_of
from nekro_core.cluster.subjects import (
    LEASE_STREAM,
    OBJECT_STREAM,
    PARTITION_STREAM,
    PRESENCE_STREAM,
)
from tests.e2e.test_cluster import LONG_S, Cluster, running_cluster
from tests.peers.postgres import PostgresServer

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

GROUPS = range(42001, 42009)
_DELETED = (
    [PARTITION_STREAM],
    [PRESENCE_STREAM, LEASE_STREAM],
    [PARTITION_STREAM, PRESENCE_STREAM, LEASE_STREAM, OBJECT_STREAM],
)


async def test_each_question_is_answered_once_and_in_order_while_streams_are_deleted(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    async with running_cluster(tmp_path, postgres) as cluster:
        url = read_cluster_url(cluster.nats.url)
        async with NatsConnection.open(url, name="operator", role="gateway") as operator:
            await streams_are_deleted(cluster, operator)


async def streams_are_deleted(cluster: Cluster, operator: NatsConnection) -> None:
    await cluster.ask_in(GROUPS)
    over = False

    async def ask(group: int) -> None:
        """Ask one question after another, the last one after all streams were deleted."""
        asked_after = False
        while not asked_after:
            asked_after = over
            await cluster.ask(group, slow=cluster.questions[group] % 3 == 0)

    async with anyio.create_task_group() as tasks:
        for group in GROUPS:
            tasks.start_soon(ask, group)
        for streams in _DELETED:
            for stream in streams:
                await operator.api(f"STREAM.DELETE.{stream}")
            await there(operator, streams)
            await answered(cluster)
        for group in GROUPS[:4]:
            partition = partition_of(await cluster.chat_key(group), DEFAULT_PARTITIONS)
            await operator.api(f"CONSUMER.DELETE.{PARTITION_STREAM}.{consumer_of(partition)}")
        await there(operator, [PARTITION_STREAM])
        over = True

    await cluster.shared_out("ada", "bob", "eva")
    for group in GROUPS:
        await cluster.ask(group)
        expected = [f"answer-{number}" for number in range(1, cluster.questions[group] + 1)]
        assert cluster.said(group) == expected
    states = await cluster.states()
    # A turn that is cut off before its message was sent drops it. It is sent by the resumed turn.
    assert {*states} <= {"sent", "unknown", "dropped"}, states
    said = "".join(each.log for each in cluster.gateways)
    assert f"NATS has lost the stream {PARTITION_STREAM}" in said


async def there(operator: NatsConnection, streams: Sequence[str]) -> None:
    """Wait until the gateways have made these streams again, with their consumers."""
    with anyio.fail_after(LONG_S):
        for stream in streams:
            while not await complete(operator, stream):
                await anyio.sleep(0.05)


async def complete(operator: NatsConnection, stream: str) -> bool:
    """Return whether a stream exists and has its consumers."""
    try:
        info = await operator.api(f"STREAM.INFO.{stream}")
    except JetStreamRefused:
        return False
    return stream != PARTITION_STREAM or info["state"]["consumer_count"] == DEFAULT_PARTITIONS


async def answered(cluster: Cluster) -> None:
    """Wait until each group has got an answer since this call."""
    before = {group: len(cluster.said(group)) for group in GROUPS}
    with anyio.fail_after(LONG_S):
        while not all(len(cluster.said(group)) > before[group] for group in GROUPS):
            await anyio.sleep(0.05)
