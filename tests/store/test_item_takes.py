"""The database counts how often owners of a partition took an item up and ended before they had
finished it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from nekro_core.store import Ownership, OwnershipLost, Store

PARTITION = 1


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with Store.open(f"sqlite://{tmp_path}/nekro.sqlite3") as opened:
        await opened.partitions.prepare(2)
        yield opened


async def owner_that_ends(store: Store, *items: str) -> Ownership:
    """A process takes the partition, takes items of it up, and ends."""
    owned = await store.partitions.take(PARTITION, "ends")
    await store.item_takes.take(owned, items)
    return owned


async def test_each_owner_that_ended_with_an_item_in_hand_counts_once(store: Store) -> None:
    for _ in range(2):
        owned = await owner_that_ends(store, "record.1", "record.2")
        await store.item_takes.take(owned, ["record.1"])
    owned = await owner_that_ends(store, "record.1")
    found = await store.item_takes.unfinished(owned, since=0.0)
    assert found == {"record.1": 2, "record.2": 2}, "its own take does not count"
    elsewhere = await store.partitions.take(0, "another")
    assert await store.item_takes.unfinished(elsewhere, since=0.0) == {}


async def test_a_finished_item_does_not_count(store: Store) -> None:
    await owner_that_ends(store, "record.1")
    owned = await owner_that_ends(store, "record.1", "record.2")
    store.item_takes.finish(owned, "record.1")
    await store.item_takes.take(owned, ["record.3", "record.4"])
    owned = await store.partitions.take(PARTITION, "next")
    found = await store.item_takes.unfinished(owned, since=0.0)
    assert found == {"record.2": 1, "record.3": 1, "record.4": 1}


async def test_an_owner_that_gives_its_partition_up_leaves_only_what_it_keeps(store: Store) -> None:
    owned = await owner_that_ends(store, "record.1", "record.2")
    other = await store.partitions.take(PARTITION, "next")
    await store.item_takes.release(owned, ["record.2"])
    assert await store.item_takes.unfinished(other, since=0.0) == {"record.2": 1}
    await store.item_takes.release(owned, [])
    assert await store.item_takes.unfinished(other, since=0.0) == {}


async def test_an_owner_that_lost_its_partition_can_store_that_it_still_works_on_an_item(
    tmp_path: Path,
) -> None:
    now = 1_000.0
    url = f"sqlite://{tmp_path}/nekro.sqlite3"
    async with Store.open(url, clock=lambda: now) as store:
        await store.partitions.prepare(2)
        owned = await owner_that_ends(store, "record.1", "record.2")
        other = await store.partitions.take(PARTITION, "next")
        assert await store.item_takes.last_taken(other, "record.1") == 1_000.0
        now = 1_010.0
        await store.item_takes.renew(owned, "record.1")
        assert await store.item_takes.last_taken(other, "record.1") == 1_010.0
        assert await store.item_takes.last_taken(other, "record.2") == 1_000.0
        await store.item_takes.release(owned, [])
        await store.item_takes.renew(owned, "record.1")
        assert await store.item_takes.last_taken(other, "record.1") is None


async def test_an_old_owner_takes_nothing_up_and_takes_from_before_a_time_are_deleted(
    store: Store,
) -> None:
    old = await owner_that_ends(store, "record.1")
    owned = await store.partitions.take(PARTITION, "next")
    with pytest.raises(OwnershipLost):
        await store.item_takes.take(old, ["record.2"])
    assert await store.item_takes.unfinished(owned, since=0.0) == {"record.1": 1}
    assert await store.item_takes.unfinished(owned, since=1e12) == {}
    assert await store.item_takes.unfinished(owned, since=0.0) == {}
