"""Streams and consumers that are deleted while gateways and workers run are made again, with a real
NATS server. What an operator deletes here by mistake can also be lost with the server's disk."""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from loguru import logger

from nekro_core.cluster.cluster_url import read_cluster_url
from nekro_core.cluster.errors import ClusterError, ClusterUnavailable, ObjectMissing
from nekro_core.cluster.nats_connection import JetStreamRefused, NatsConnection
from nekro_core.cluster.nats_leases import NatsLeases
from nekro_core.cluster.nats_log import NatsPartitionLog
from nekro_core.cluster.nats_objects import NatsObjects
from nekro_core.cluster.nats_partition import consumer_of
from nekro_core.cluster.stream_keeper import StreamKeeper
from nekro_core.cluster.subjects import (
    LEASE_STREAM,
    OBJECT_STREAM,
    PARTITION_STREAM,
    PRESENCE_STREAM,
)
from tests.peers.nats import NatsServer

from .conformance import Diary, until, working
from .conftest import CountingBook

pytestmark = pytest.mark.long

PARTITIONS = 4
STREAMS = (PARTITION_STREAM, PRESENCE_STREAM, LEASE_STREAM, OBJECT_STREAM)
_MADE_S = 30.0
"""How long a test waits for something that takes about a second on an idle machine."""


@pytest.fixture
def errors() -> Iterator[list[str]]:
    """The errors in the log."""
    said: list[str] = []
    sink = logger.add(lambda line: said.append(str(line)), level="ERROR")
    yield said
    logger.remove(sink)


@asynccontextmanager
async def gateway(url: str, name: str) -> AsyncIterator[StreamKeeper]:
    """The part of a gateway that keeps the streams, on a connection of its own."""
    async with (
        NatsConnection.open(read_cluster_url(url), name=name, role="gateway") as connection,
        anyio.create_task_group() as tasks,
    ):
        log = await NatsPartitionLog.open(connection, CountingBook(), partitions=PARTITIONS)
        leases = NatsLeases(connection, lasts_s=3.0)
        await leases.prepare()
        keeper = StreamKeeper(connection, log, leases, await NatsObjects.open(connection), name)
        tasks.start_soon(keeper.live)
        yield keeper
        tasks.cancel_scope.cancel()


async def there(connection: NatsConnection, streams: Sequence[str]) -> None:
    """Wait until all these streams, and the consumers of all partitions, exist."""
    with anyio.fail_after(_MADE_S):
        for stream in streams:
            while True:
                try:
                    info = await connection.api(f"STREAM.INFO.{stream}")
                except JetStreamRefused:
                    info = {"state": {"consumer_count": 0}}
                if stream != PARTITION_STREAM and "config" in info:
                    break
                if info["state"]["consumer_count"] == PARTITIONS:
                    break
                await anyio.sleep(0.05)


@pytest.mark.parametrize("stream", STREAMS)
async def test_a_gateway_makes_a_deleted_stream_again_and_says_so_once(
    nats_server: NatsServer, connection: NatsConnection, errors: list[str], stream: str
) -> None:
    async with gateway(nats_server.url, "gate"):
        await connection.api(f"STREAM.DELETE.{stream}")
        await there(connection, STREAMS)
    (said,) = errors
    assert f"gateway gate: NATS has lost the stream {stream}" in said
    assert "makes it again" in said


async def test_two_gateways_make_all_streams_again_when_the_server_begins_with_an_empty_folder(
    nats_server: NatsServer, connection: NatsConnection, errors: list[str]
) -> None:
    async with gateway(nats_server.url, "one"), gateway(nats_server.url, "two"):
        for stream in STREAMS:
            await connection.api(f"STREAM.DELETE.{stream}")
        await there(connection, STREAMS)
    # One of them may see what the other one is making.
    assert all("NATS has lost" in said for said in errors), errors
    assert any(f"NATS has lost the stream {PARTITION_STREAM}" in said for said in errors), errors


async def test_items_are_handled_in_order_after_their_stream_was_deleted(
    nats_server: NatsServer, connection: NatsConnection
) -> None:
    """The numbers of the items begin again at 1 in the new stream. An owner that went on would take
    the first of them for items that it has handled."""
    diary = Diary()
    async with gateway(nats_server.url, "gate"):
        log = await NatsPartitionLog.open(
            connection, CountingBook(), partitions=PARTITIONS, make=False
        )
        async with working(log, "ada", diary):
            for number in range(5):
                await log.publish(2, b"%d" % number, item_id=f"{number}")
            await until(lambda: len(diary.handled) == 5, "the first items are handled")
            await until(lambda: len(diary.of("ada")) == PARTITIONS, "ada owns all partitions")
            owners = {partition: len(epochs) for partition, epochs in diary.epochs.items()}
            await connection.api(f"STREAM.DELETE.{PARTITION_STREAM}")
            await there(connection, [PARTITION_STREAM])
            await until(
                lambda: all(len(diary.epochs[each]) > owners[each] for each in range(PARTITIONS)),
                "all partitions are taken again",
            )
            for number in range(5, 10):
                await log.publish(2, b"%d" % number, item_id=f"{number}")
            await until(lambda: len(diary.handled) == 10, "the next items are handled")
    assert diary.items() == [b"%d" % number for number in range(10)]


async def test_items_that_wait_are_handled_after_their_consumer_was_deleted(
    nats_server: NatsServer, connection: NatsConnection, errors: list[str]
) -> None:
    diary = Diary(hold_on=b"long")
    async with gateway(nats_server.url, "gate"):
        log = await NatsPartitionLog.open(
            connection, CountingBook(), partitions=PARTITIONS, make=False
        )
        async with working(log, "ada", diary):
            await log.publish(1, b"long", item_id="long")
            await until(lambda: diary.items() == [b"long"], "ada has the first item in hand")
            for number in range(3):
                await log.publish(1, b"%d" % number, item_id=f"{number}")
            diary.hold_on = b""
            await connection.api(f"CONSUMER.DELETE.{PARTITION_STREAM}.{consumer_of(1)}")
            await until(lambda: b"2" in diary.items(), "the waiting items are handled")
            await until(lambda: len(diary.of("ada")) == PARTITIONS, "ada owns all partitions")
    assert diary.items() == [b"long", b"long", b"0", b"1", b"2"]
    assert any(f"NATS has lost {consumer_of(1)}" in said for said in errors), errors


async def test_a_worker_says_once_that_the_streams_are_gone_and_goes_on_when_a_gateway_starts(
    nats_server: NatsServer, connection: NatsConnection, errors: list[str]
) -> None:
    diary = Diary()
    log = await NatsPartitionLog.open(connection, CountingBook(), partitions=PARTITIONS)
    async with working(log, "ada", diary):
        await until(lambda: len(diary.of("ada")) == PARTITIONS, "ada owns all partitions")
        await connection.api(f"STREAM.DELETE.{PARTITION_STREAM}")
        await connection.api(f"STREAM.DELETE.{PRESENCE_STREAM}")
        await until(lambda: len(errors) > 0, "the worker says so")
        with pytest.raises(ClusterUnavailable):
            await log.publish(2, b"lost", item_id="lost")
        async with gateway(nats_server.url, "gate"):
            await log.publish(2, b"hello", item_id="hello")
            await until(lambda: b"hello" in diary.items(), "the item is handled")
    (said,) = [each for each in errors if "worker ada" in each]
    assert "NATS has lost the stream" in said
    assert "start a gateway" in said


async def test_an_account_stays_with_its_gateway_after_the_leases_were_deleted(
    nats_server: NatsServer, connection: NatsConnection
) -> None:
    async with gateway(nats_server.url, "gate") as keeper, keeper.leases.hold("account.a", "gate"):
        await connection.api(f"STREAM.DELETE.{LEASE_STREAM}")
        with anyio.fail_after(_MADE_S):
            while not await has_lease(connection):
                await anyio.sleep(0.05)
        await until(lambda: keeper.leases.is_current("account.a"), "the lease is current")


async def has_lease(connection: NatsConnection) -> bool:
    """Return whether the stream of the leases has a message."""
    try:
        info = await connection.api(f"STREAM.INFO.{LEASE_STREAM}")
    except ClusterError:
        return False
    return int(info["state"]["messages"]) > 0


async def test_objects_can_be_stored_after_the_object_store_was_deleted(
    nats_server: NatsServer, connection: NatsConnection, tmp_path: Path
) -> None:
    source, copy = tmp_path / "source", tmp_path / "copy"
    source.write_bytes(b"x" * 300_000)
    async with gateway(nats_server.url, "gate"):
        objects = await NatsObjects.open(connection, make=False)
        await objects.put("media/a", source)
        await connection.api(f"STREAM.DELETE.{OBJECT_STREAM}")
        await there(connection, [OBJECT_STREAM])
        with pytest.raises(ObjectMissing):
            await objects.fetch("media/a", copy)
        await objects.put("media/a", source)
        assert await objects.fetch("media/a", copy) == 300_000
    assert copy.read_bytes() == source.read_bytes()
