"""Only the current owner of a partition can write for its chats."""

import re

import anyio
import pytest

from nekro_core.chat import plain_text
from nekro_core.store import (
    Ownership,
    OwnershipLost,
    PartitionOwner,
    Store,
    StoreError,
    writing_as,
)
from tests.faults.line import Line
from tests.peers.postgres import PostgresServer

from .conftest import GROUP, OTHER, Clock, node, say


async def test_the_number_of_partitions_never_changes(store: Store) -> None:
    await store.partitions.prepare(4)
    await store.partitions.prepare(4)
    with pytest.raises(StoreError, match=r"8 partitions are set, but .* begun with 4"):
        await store.partitions.prepare(8)
    with pytest.raises(StoreError, match="expected 1 to 4096"):
        await store.partitions.prepare(0)
    assert [each.partition for each in await store.partitions.all()] == [0, 1, 2, 3]
    assert {each.worker for each in await store.partitions.all()} == {""}


async def test_the_epoch_of_a_partition_only_grows(store: Store, clock: Clock) -> None:
    await store.partitions.prepare(2)
    first = await store.partitions.take(1, "worker-1")
    second = await store.partitions.take(1, "worker-2")
    assert [(each.partition, each.epoch) for each in (first, second)] == [(1, 1), (1, 2)]
    assert not await store.partitions.is_current(first)
    assert await store.partitions.is_current(second)
    assert not await store.partitions.release(first), "it is not the owner any more"
    assert await store.partitions.release(second)
    assert not await store.partitions.release(second), "it was given up before"
    third = await store.partitions.take(1, "worker-1")
    assert third.epoch > second.epoch
    assert (await store.partitions.all())[1] == PartitionOwner(
        partition=1, epoch=third.epoch, worker="worker-1", taken=clock.now
    )


async def test_an_ownership_is_valid_only_with_the_token_of_its_owner(store: Store) -> None:
    await store.partitions.prepare(2)
    assert not await store.partitions.is_current(Ownership(1, 0, "0.x")), "nobody owns it"
    first = await store.partitions.take(1, "worker-1")
    assert first.token not in repr(first)
    assert await store.partitions.is_current(first)
    for guess in ("1.", "-", first.token[:-1], "%"):
        assert not await store.partitions.is_current(Ownership(1, first.epoch, guess))
    with writing_as(first):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(say, store, "of the owner")
            # This write is in the same commit.
            with writing_as(Ownership(1, first.epoch, "1.x")), pytest.raises(OwnershipLost):
                await say(store, "of a thief")
    said = [plain_text(each.segments) for each in await store.messages.newest(GROUP, 5)]
    assert said == ["of the owner"]
    second = await store.partitions.take(1, "worker-2")
    assert not await store.partitions.is_current(Ownership(1, second.epoch, first.token))
    assert await store.partitions.is_current(second)
    await store.partitions.release(second)
    assert not await store.partitions.is_current(Ownership(1, second.epoch + 1, second.token))


async def test_an_old_owner_can_store_nothing(store: Store) -> None:
    old = await store.partitions.take(1, "worker-1")
    with writing_as(old):
        await say(store, "mine")
    new = await store.partitions.take(1, "worker-2")
    with writing_as(old), pytest.raises(OwnershipLost, match=r"partition 1 now \(epoch 1 is over"):
        await say(store, "still mine?")
    with writing_as(new):
        await say(store, "mine now")
    assert await store.partitions.release(new)
    with writing_as(new), pytest.raises(OwnershipLost):
        await say(store, "given up")
    assert [each.segments[0].text for each in await store.messages.newest(GROUP, 9)] == [  # type: ignore[union-attr]
        "mine",
        "mine now",
    ]


async def test_writes_that_share_a_commit_with_a_refused_write_of_an_old_owner_are_stored(
    store: Store,
) -> None:
    lost = await store.partitions.take(1, "worker-1")
    owned = await store.partitions.take(2, "worker-1")
    await store.partitions.take(1, "worker-2")
    failed: list[str] = []

    async def write(text: str, ownership: Ownership | None) -> None:
        with writing_as(ownership):
            try:
                await say(store, text)
            except OwnershipLost:
                failed.append(text)

    async with anyio.create_task_group() as tasks:
        for number in range(4):
            tasks.start_soon(write, f"lost {number}", lost)
            tasks.start_soon(write, f"owned {number}", owned)
            tasks.start_soon(write, f"free {number}", None)
    stored = {each.segments[0].text for each in await store.messages.newest(GROUP, 99)}  # type: ignore[union-attr]
    assert stored == {f"{word} {number}" for word in ("owned", "free") for number in range(4)}
    assert sorted(failed) == [f"lost {number}" for number in range(4)]


async def test_tasks_that_an_owner_starts_write_as_the_owner(store: Store) -> None:
    old = await store.partitions.take(1, "worker-1")
    await store.partitions.take(1, "worker-2")
    refused: list[bool] = []

    async def write() -> None:
        with pytest.raises(OwnershipLost):
            await store.turns.begin(OTHER, trigger_seq=1, through_seq=1)
        refused.append(True)

    async with anyio.create_task_group() as tasks:
        with writing_as(old):
            tasks.start_soon(write)
    assert refused == [True]


@pytest.mark.long
async def test_a_new_owner_waits_for_the_commit_of_the_old_owner(
    postgres: PostgresServer, postgres_url: str
) -> None:
    """The old owner's process stops between its statements and their commit, and goes on later. The
    new owner must not begin while such a commit can still happen, and must not wait for long."""
    async with (
        Line(postgres.port) as line,
        Store.open(re.sub(r":\d+/", f":{line.port}/", postgres_url), node("old")) as old,
        Store.open(postgres_url, node("new")) as new,
    ):
        owned = await old.partitions.take(1, "old")
        lost: list[bool] = []

        async def write() -> None:
            with writing_as(owned), pytest.raises(OwnershipLost):
                await say(old, "said by the old owner")
            lost.append(True)

        async with anyio.create_task_group() as tasks:
            line.freezes_before = b"COMMIT;"
            tasks.start_soon(write)
            with anyio.fail_after(10):
                while not line.frozen:
                    await anyio.sleep(0.01)
                with anyio.fail_after(5):
                    taken = await new.partitions.take(1, "new")
                found = await new.messages.newest(GROUP, 9)
                with writing_as(taken):
                    await say(new, "said by the new owner")
                line.thaw()
        assert lost == [True]
        assert found == []
        (said,) = await new.messages.newest(GROUP, 9)
        assert said.segments[0].text == "said by the new owner"  # type: ignore[union-attr]


@pytest.mark.long
async def test_a_process_that_stops_in_a_commit_holds_nobody_up(
    postgres: PostgresServer, postgres_url: str
) -> None:
    """The stopped process holds the lock under which records get their numbers. Another process
    needs this lock to store a record."""
    async with (
        Line(postgres.port) as line,
        Store.open(re.sub(r":\d+/", f":{line.port}/", postgres_url), node("slow")) as slow,
        Store.open(postgres_url, node("other")) as other,
    ):
        async with anyio.create_task_group() as tasks:
            line.freezes_before = b"COMMIT;"
            tasks.start_soon(say, slow, "slow")
            with anyio.fail_after(10):
                while not line.frozen:
                    await anyio.sleep(0.01)
            with anyio.fail_after(5):
                await say(other, "not held up")
            line.thaw()
        found = await other.messages.newest(GROUP, 9)
        assert [each.segments[0].text for each in found] == ["not held up", "slow"]  # type: ignore[union-attr]
