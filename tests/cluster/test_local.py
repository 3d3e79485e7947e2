"""Tests of the implementations of `PartitionLog`, `CallCarrier`, `Leases` and `ObjectStore` that
work in one process, and of functions of the cluster that do no I/O."""

from pathlib import Path

import pytest

from nekro_core.chat import ChatKey
from nekro_core.cluster.earlier_objects import ObjectsOfTwoStores
from nekro_core.cluster.errors import ClusterUnavailable, LogFull, ObjectDamaged, ObjectMissing
from nekro_core.cluster.leases import LocalLeases
from nekro_core.cluster.local_calls import LocalCalls
from nekro_core.cluster.local_log import LocalPartitionLog
from nekro_core.cluster.local_objects import LocalObjects
from nekro_core.cluster.objects import OBJECT_BYTES
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


class TestObjectsOfTwoStores(ObjectContract):
    @pytest.fixture
    def objects(self, tmp_path: Path) -> ObjectsOfTwoStores:
        new, earlier = (
            LocalObjects(tmp_path / each, most_bytes=1024 * 1024) for each in ("first", "second")
        )
        return ObjectsOfTwoStores(new, earlier)


async def test_objects_of_an_earlier_store_are_read_replaced_and_deleted(tmp_path: Path) -> None:
    new, earlier = LocalObjects(tmp_path / "new"), LocalObjects(tmp_path / "earlier")
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(b"old")
    for name in ("media/a", "media/b"):
        await earlier.put(name, source)
    both = ObjectsOfTwoStores(new, earlier)
    assert await both.names("media/") == ["media/a", "media/b"]
    await both.fetch("media/a", target)
    assert target.read_bytes() == b"old"

    source.write_bytes(b"new")
    await both.put("media/a", source)
    await both.fetch("media/a", target)
    assert target.read_bytes() == b"new"
    assert await earlier.names() == ["media/b"], "the replaced content is gone"
    assert await both.delete("media/b") is True
    assert await both.delete("media/b") is False
    assert await both.delete("media/a") is True
    with pytest.raises(ObjectMissing):
        await both.fetch("media/a", target)
    assert await new.names() == await earlier.names() == []


class AwayObjects(LocalObjects):
    """An object store that answers nothing but reads."""

    async def delete(self, name: str) -> bool:
        raise ClusterUnavailable(f"{name} cannot be deleted now")


class DamagedObjects(LocalObjects):
    """An object store whose disk is damaged."""

    async def fetch(self, name: str, target: Path, *, most_bytes: int = OBJECT_BYTES) -> int:
        raise ObjectDamaged(f"{name} is not what was stored; {target.name} is unchanged")


async def test_an_object_is_stored_although_the_earlier_one_cannot_be_deleted(
    tmp_path: Path,
) -> None:
    earlier = AwayObjects(tmp_path / "earlier")
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(b"old")
    await earlier.put("media/a", source)
    both = ObjectsOfTwoStores(LocalObjects(tmp_path / "new"), earlier)
    source.write_bytes(b"new")
    await both.put("media/a", source)
    await both.fetch("media/a", target)
    assert target.read_bytes() == b"new"


async def test_a_damaged_object_is_not_replaced_by_an_older_one(tmp_path: Path) -> None:
    earlier, source = LocalObjects(tmp_path / "earlier"), tmp_path / "source"
    source.write_bytes(b"old")
    await earlier.put("media/a", source)
    both = ObjectsOfTwoStores(DamagedObjects(tmp_path / "new"), earlier)
    with pytest.raises(ObjectDamaged):
        await both.fetch("media/a", tmp_path / "target")


def test_a_chat_keeps_its_partition_in_every_version() -> None:
    """The expected numbers were computed once and written down here. If `partition_of` returned
    others, the chats of a running cluster would move to other partitions."""
    chats = ["onebot_v11-group_30003", "web-private_lin", "telegram-group_-100#7"]
    assert [partition_of(ChatKey.parse(each), 64) for each in chats] == [1, 28, 61]


async def test_a_full_partition_log_refuses_items_and_says_why() -> None:
    log = LocalPartitionLog(CountingBook(), 4, most_items=2)
    await log.publish(0, b"", item_id="a")
    await log.publish(1, b"", item_id="b")
    with pytest.raises(LogFull, match="2 items wait"):
        await log.publish(0, b"", item_id="c")


async def test_the_id_of_an_item_is_forgotten_after_two_minutes() -> None:
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
