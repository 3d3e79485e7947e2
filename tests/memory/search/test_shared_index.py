"""Two processes on one database index the messages of their own chats at the same time."""

import anyio
import pytest

from nekro_core.chat import ChatKey
from nekro_core.memory.search.indexer import NEWEST, SearchIndexer
from nekro_core.memory.search.segments import SMALLEST
from nekro_core.store import Store, StoreSettings
from tests.peers.postgres import PostgresServer

from .conftest import ROOM, Talk

pytestmark = [pytest.mark.long]
OTHER = ChatKey.parse("web-group_other")


async def test_each_process_indexes_its_chats_and_both_find_all(postgres: PostgresServer) -> None:
    url = await postgres.database()
    async with (
        Store.open(url, StoreSettings(node="one")) as one,
        Store.open(url, StoreSettings(node="two")) as two,
    ):
        talks = Talk(one, ROOM), Talk(two, OTHER)
        for talk in talks:
            await talk.say("Mei", f"the heron stands in {talk.key.native_id}")
            await talk.chatter(2 * SMALLEST + NEWEST)
        async with anyio.create_task_group() as tasks:
            for talk in talks:
                indexer = SearchIndexer(talk.store, chats=lambda key, own=talk.key: key == own)  # type: ignore[misc]
                tasks.start_soon(indexer.index_all)
        for store in (one, two):
            for key in (ROOM, OTHER):
                found = await Talk(store, key).find("heron")
                assert f"the heron stands in {key.native_id}" in found
                segments = await store.search_index.segments(key)
                assert sum(each.count for each in segments) >= 2 * SMALLEST
        ids = [each.id for key in (ROOM, OTHER) for each in await one.search_index.segments(key)]
        assert len(ids) == len(set(ids))
        # A process that starts deletes what a crash has left in the index of its own chats. It
        # deletes nothing from the index of the chats of other processes.
        await SearchIndexer(one, chats=lambda key: key == ROOM).index_all()
        assert "the heron stands in other" in await Talk(two, OTHER).find("heron")
