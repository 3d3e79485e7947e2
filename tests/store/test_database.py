"""Tests of a database that is locked or full, and of a store whose owner is cancelled."""

import asyncio
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import anyio
import pytest

from nekro_core.store import (
    Step,
    Store,
    StoreSettings,
    StoreUnavailable,
    UniqueConflict,
)

from .conftest import GROUP, say


async def test_stores_in_one_process_share_no_data(tmp_path: Path) -> None:
    async with (
        Store.open(f"sqlite://{tmp_path}/a.sqlite3") as a,
        Store.open(f"sqlite://{tmp_path}/b.sqlite3") as b,
    ):
        await asyncio.gather(*(a.plugin_data.set("p", "a") for _ in range(5)))
        await b.plugin_data.set("p", "b")
        assert (await a.plugin_data.get("p"), await b.plugin_data.get("p")) == ("a", "b")


async def test_a_failing_write_does_not_fail_other_writes_of_its_batch(store: Store) -> None:
    turn = await store.turns.begin(GROUP, trigger_seq=1, through_seq=1)
    step = Step(position=0, reply="")
    results = await asyncio.gather(
        store.plugin_data.set("p", "1", store_key="1"),
        store.turns.add_step(turn.turn_id, step),
        store.turns.add_step(turn.turn_id, step),
        store.plugin_data.set("p", "2", store_key="2"),
        return_exceptions=True,
    )
    assert [type(result) for result in results] == [int, type(None), UniqueConflict, int]
    assert await store.plugin_data.get("p", store_key="2") == "2"


async def test_a_locked_database_is_an_error_and_nothing_is_half_written(
    sqlite_url: str, tmp_path: Path
) -> None:
    quick = StoreSettings(busy_timeout_s=0.05)
    async with Store.open(sqlite_url, quick) as store:
        with closing(sqlite3.connect(tmp_path / "nekro.sqlite3", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreUnavailable, match="another program holds the database"):
                await say(store)
            with pytest.raises(StoreUnavailable):
                await store.plugin_data.set("p", "1")
            other.execute("ROLLBACK")
        assert await store.messages.newest(GROUP, 10) == []
        assert await store.plugin_data.set("p", "2") == 0
        await say(store)
        assert len(await store.messages.newest(GROUP, 10)) == 1


async def test_a_full_disk_is_an_error_until_there_is_space_again(
    sqlite_url: str, tmp_path: Path
) -> None:
    async with Store.open(sqlite_url) as store:
        await say(store)
        full = "PRAGMA max_page_count = 1"  # SQLite then reports a full disk.
        await store.plugin_data._database.read(full)
        with pytest.raises(StoreUnavailable, match="free space on the disk"):
            await store.plugin_data.set("p", "x" * 1_000_000)
        await store.plugin_data._database.read("PRAGMA max_page_count = 1000000")
        assert await store.plugin_data.get("p") is None
        assert await store.plugin_data.set("p", "x" * 1_000_000) == 0


async def test_queued_writes_are_written_when_the_store_closes(url: str) -> None:
    async with Store.open(url) as store:
        for _ in range(100):
            await asyncio.wait({asyncio.ensure_future(_hand_in(store))}, timeout=0)
    async with Store.open(url) as store:
        assert len(await store.messages.newest(GROUP, 200)) == 100
        closed = store
    with pytest.raises(StoreUnavailable, match="closed"):
        await closed.plugin_data.set("p", "1")


async def _hand_in(store: Store) -> None:
    await say(store)


async def test_an_error_in_the_block_is_not_wrapped_in_an_exception_group(url: str) -> None:
    with pytest.raises(KeyError):
        async with Store.open(url):
            raise KeyError("mine")


async def test_a_write_of_a_cancelled_owner_is_stored_before_the_store_closes(url: str) -> None:
    with anyio.CancelScope() as scope:
        async with Store.open(url) as store:
            scope.cancel()
            try:
                await anyio.sleep(10)
            finally:
                with anyio.CancelScope(shield=True):
                    await say(store, "last words")
    assert scope.cancelled_caught
    async with Store.open(url) as store:
        assert len(await store.messages.newest(GROUP, 10)) == 1


async def test_a_cancelled_opening_leaves_no_connection_open(sqlite_url: str) -> None:
    """An open connection has a thread, which would prevent the end of the process."""
    before = connection_threads()
    with anyio.CancelScope() as scope:
        scope.cancel()
        async with Store.open(sqlite_url):
            raise AssertionError("it was opened")
    assert scope.cancelled_caught
    # The thread of a closed connection ends a moment later. Closing does not wait for the thread.
    left = connection_threads() - before
    for thread in left:
        thread.join(10)
    assert not [thread for thread in left if thread.is_alive()]


def connection_threads() -> set[threading.Thread]:
    return {each for each in threading.enumerate() if "connection_worker" in each.name}
