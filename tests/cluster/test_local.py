"""The implementations that work in one process, and functions of the cluster that do no I/O."""

from pathlib import Path

import pytest

from nekro_core.chat import ChatKey
from nekro_core.cluster.errors import LogFull
from nekro_core.cluster.leases import LocalLeases
from nekro_core.cluster.local_calls import LocalCalls
from nekro_core.cluster.local_log import LocalPartitionLog
from nekro_core.cluster.local_objects import LocalObjects
from nekro_core.cluster.partition_log import partition_of

from .conformance import CallContract, LeaseContract, ObjectContract, PartitionLogContract
from .conftest import CountingBook


class TestLocalLog(PartitionLogContract):
    @pytest.fixture
    def log(self) -> LocalPartitionLog:
        return LocalPartitionLog(CountingBook(), 8, again_s=0.05)


class TestLocalCalls(CallContract):
    @pytest.fixture
    def calls(self) -> LocalCalls:
        return LocalCalls()


class TestLocalLeases(LeaseContract):
    @pytest.fixture
    def leases(self) -> LocalLeases:
        return LocalLeases()


class TestLocalObjects(ObjectContract):
    @pytest.fixture
    def objects(self, tmp_path: Path) -> LocalObjects:
        return LocalObjects(tmp_path / "objects", most_bytes=1024 * 1024)


def test_a_chat_keeps_its_partition_in_every_version() -> None:
    """The expected numbers were computed once and written down here. If `partition_of` returned
    others, the chats of a running cluster would move to other partitions."""
    chats = ["onebot_v11-group_30003", "web-private_lin", "telegram-group_-100#7"]
    assert [partition_of(ChatKey.parse(each), 64) for each in chats] == [1, 28, 61]


async def test_a_full_log_refuses_items_and_says_why() -> None:
    log = LocalPartitionLog(CountingBook(), 4, most_items=2)
    await log.publish(0, b"", item_id="a")
    await log.publish(1, b"", item_id="b")
    with pytest.raises(LogFull, match="2 items wait"):
        await log.publish(0, b"", item_id="c")


async def test_an_id_is_forgotten_after_two_minutes() -> None:
    now = 0.0
    log = LocalPartitionLog(CountingBook(), 4, most_items=2, clock=lambda: now)
    await log.publish(0, b"", item_id="a")
    await log.publish(0, b"", item_id="a")
    now = 121.0
    await log.publish(0, b"", item_id="a")
    with pytest.raises(LogFull):
        await log.publish(0, b"", item_id="b")


@pytest.mark.parametrize("partitions", [0, -1, 1025])
def test_a_log_needs_a_number_of_partitions(partitions: int) -> None:
    with pytest.raises(ValueError, match="expected 1 to 1024"):
        LocalPartitionLog(CountingBook(), partitions)
