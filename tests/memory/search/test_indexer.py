"""The index stays complete when messages are added or changed, a database is old, or segments are
merged."""

import anyio
import numpy as np
import pytest

from nekro_core.chat import ChatKey, Text
from nekro_core.memory.search.finder import MessageFinder, MessageQuery
from nekro_core.memory.search.indexer import NEWEST, SearchIndexer
from nekro_core.memory.search.open import MessageSearchService
from nekro_core.memory.search.segments import MERGED, SMALLEST, merged_segment
from nekro_core.store import Person, Store
from nekro_core.store.search_blocks import VECTOR_BYTES
from nekro_core.store.search_pages import decode_page
from tests.memory.search.conftest import NOW, Talk


async def levels(talk: Talk) -> list[int]:
    return [each.level for each in await talk.store.search_index.segments(talk.key)]


async def indexed_terms(store: Store) -> set[str]:
    """All terms of all pages."""
    rows = await store.erasing._database.read("SELECT data FROM search_pages")
    return {term for row in rows for term in decode_page(row["data"])}


async def test_the_newest_messages_are_not_in_a_segment_yet(talk: Talk) -> None:
    await talk.chatter(SMALLEST + NEWEST - 1)
    await talk.index()
    assert await levels(talk) == []
    await talk.chatter(1)
    await talk.index()
    (segment,) = await talk.store.search_index.segments(talk.key)
    assert (segment.start, segment.count, segment.level) == (0, SMALLEST, 0)


async def test_eight_segments_are_merged_and_all_messages_can_be_found(talk: Talk) -> None:
    await talk.say("Mei", "the kiln at the beginning")
    await talk.chatter(500)
    await talk.say("Tom", "the kiln in the middle")
    await talk.chatter(SMALLEST * MERGED + SMALLEST + NEWEST - 502)
    await talk.index()
    assert await levels(talk) == [1, 0]
    found = await talk.find("kiln", limit=5)
    assert set(found[:2]) == {"the kiln at the beginning", "the kiln in the middle"}
    first, second = await talk.store.search_index.segments(talk.key)
    assert (first.count, second.start) == (SMALLEST * MERGED, SMALLEST * MERGED)
    assert first.buckets == MERGED


async def test_a_merge_that_a_crash_interrupted_is_done_again(talk: Talk) -> None:
    await talk.say("Mei", "the kiln")
    await talk.chatter(SMALLEST * (MERGED - 1) + NEWEST - 1)
    await talk.index()
    index = talk.store.search_index
    segments = await index.segments(talk.key)
    half = await index.begin_merge(talk.key, merged_segment(segments))
    await index.add_pages(half, {0: b"half written"})
    assert await talk.find("kiln", limit=1) == ["the kiln"], (
        "a search must not read the unfinished segment"
    )
    await talk.chatter(SMALLEST)
    await talk.index()
    assert await levels(talk) == [1]
    assert await talk.find("kiln", limit=1) == ["the kiln"]
    rows = await talk.store.erasing._database.read("SELECT COUNT(*) AS n FROM search_pages")
    assert rows[0]["n"] <= MERGED, (
        "the pages of the unfinished and of the merged segments must be deleted"
    )


async def test_an_old_database_is_indexed_step_by_step_and_continues_after_a_restart(
    url: str,
) -> None:
    async with Store.open(url) as store:
        talk = Talk(store)
        await talk.say("Mei", "the kiln")
        await talk.chatter(1000)
        found = await MessageFinder(store).find(talk.key, MessageQuery(words="kiln"))
        assert found.incomplete, "the oldest messages are neither indexed nor among the newest"
        assert not found.records
    async with Store.open(url) as store, MessageSearchService.open(store, None) as search:
        with anyio.move_on_after(0.05):
            await search.indexer.index_all()  # the restart may interrupt it anywhere
    async with Store.open(url) as store:
        await SearchIndexer(store).index_all()
        found = await MessageFinder(store).find(talk.key, MessageQuery(words="kiln"))
        assert found.records[0].segments == (Text("the kiln"),)
        assert not found.incomplete
        segments = await store.search_index.segments(talk.key)
        assert [each.start for each in segments] == list(range(0, 128 * len(segments), 128))


async def test_messages_are_indexed_in_the_background_while_the_search_service_is_open(
    store: Store,
) -> None:
    talk = Talk(store)
    async with MessageSearchService.open(store, None) as search:
        await talk.chatter(SMALLEST + NEWEST)
        with anyio.fail_after(60):
            while not await levels(talk):
                await anyio.sleep(0.05)
        found = await search.finder.find(talk.key, MessageQuery(words="small talk number 3"))
        assert found.records


@pytest.mark.parametrize("how", ["recall", "hide", "edit", "transcribe", "delete"])
async def test_a_recalled_hidden_changed_or_deleted_text_is_never_found_and_leaves_the_index(
    talk: Talk, how: str
) -> None:
    said = await talk.say("bot" if how == "edit" else "Mei", "the pelican is in the cellar")
    await talk.chatter(250)
    await talk.index()
    assert "pelican" in await indexed_terms(talk.store)
    assert await talk.find("pelican", limit=1) == ["the pelican is in the cellar"]
    messages = talk.store.messages
    match how:
        case "recall":
            await messages.recall(talk.key, said.message_id)
        case "hide":
            await messages.hide(said)
        case "edit":
            await messages.revise(talk.key, said.message_id, (Text("the heron is in the attic"),))
        case "transcribe":
            await messages.reword(said, (Text("the heron is in the attic"),))
        case "delete":
            await talk.store.erasing.forget_record(said.seq)
    assert await talk.find("pelican") == [], (
        "the text must not be found even before the index is changed"
    )
    changed = how in ("edit", "transcribe")
    new = ["the heron is in the attic"] if changed else []
    assert await talk.find("heron", limit=1) == new
    await talk.index()
    assert "pelican" not in await indexed_terms(talk.store)
    assert await talk.find("pelican") == []
    assert await talk.find("heron", limit=1) == new
    assert await talk.store.search_index.changed(talk.key) == []
    assert (await talk.find("small talk number 7,", limit=1)) == [
        "small talk number 7, nothing more"
    ]


async def test_a_recalled_message_does_not_help_to_find_the_messages_beside_it(talk: Talk) -> None:
    await talk.chatter(5)
    said = await talk.say("Mei", "the pelican is in the cellar")
    await talk.chatter(250)
    await talk.index()
    await talk.store.messages.recall(talk.key, said.message_id)
    assert await talk.find("pelican", limit=50) == []


async def test_a_message_that_is_recalled_while_its_segment_is_made_is_not_found(
    talk: Talk,
) -> None:
    said = await talk.say("Mei", "the pelican is in the cellar")
    await talk.chatter(SMALLEST + NEWEST)
    indexer = SearchIndexer(talk.store)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(indexer.index_all)
        await talk.store.messages.recall(talk.key, said.message_id)
    await indexer.index_all()
    assert await talk.find("pelican") == []
    assert "pelican" not in await indexed_terms(talk.store)


async def test_segments_whose_messages_are_all_deleted_are_deleted(talk: Talk) -> None:
    old = await talk.say("Mei", "the pelican")
    await talk.chatter(3 * SMALLEST + NEWEST)
    await talk.index()
    before = await talk.store.search_index.segments(talk.key)
    database = talk.store.erasing._database
    for seq in range(old.seq, before[0].last_seq + 1):
        await talk.store.erasing.forget_record(seq)
    await talk.index()
    after = await talk.store.search_index.segments(talk.key)
    assert [each.start for each in after] == [each.start for each in before[1:]]
    blocks = await database.read("SELECT MIN(number) AS first FROM search_blocks")
    assert blocks[0]["first"] == 2, "the positions of the other messages must not change"
    await talk.chatter(SMALLEST)
    await talk.index()
    last = (await talk.store.search_index.segments(talk.key))[-1]
    assert last.start == before[-1].start + SMALLEST
    assert (await talk.find("small talk number 300,", limit=1)) == [
        "small talk number 300, nothing more"
    ]


async def test_vectors_of_removed_messages_are_deleted(talk: Talk) -> None:
    said = await talk.say("Mei", "the pelican is in the cellar")
    await talk.chatter(SMALLEST + NEWEST)
    await talk.index()
    index = talk.store.search_index
    (block,) = (await index.blocks(talk.key, [0])).values()
    signs = b"\xff" * VECTOR_BYTES * len(block.seqs)
    await index.store_vectors(talk.key, 0, signs, removals=index.removals)
    await talk.store.messages.recall(talk.key, said.message_id)
    await talk.index()
    (block,) = (await index.blocks(talk.key, [0])).values()
    assert not block.vectors[0].any()
    assert np.all(block.vectors[1:] == 255)
    await index.store_vectors(talk.key, 0, signs, removals=index.removals - 1)
    (block,) = (await index.blocks(talk.key, [0])).values()
    assert not block.vectors[0].any(), "vectors of texts from before the removal are refused"


async def test_erasing_a_person_leaves_no_word_in_the_index(talk: Talk, store: Store) -> None:
    await talk.say("小雨", "the pelican 馒头 is in the cellar")
    await talk.say("Mei", "what did you say, 10003?")
    await talk.chatter(250)
    private = Talk(store, ChatKey.parse("web-private_10003"))
    await private.say("小雨", "an albatross too")
    for _ in range(250):
        await private.say("bot", "indeed")
    await talk.index()
    before = await indexed_terms(store)
    assert {"pelican", "馒头", "albatross", "=10003", "@小雨", "10003"} <= before
    person = Person(adapter="web", user_id="10003", instances=("web",))
    await store.erasing.erase(person, await store.erasing.look(person))
    left = await indexed_terms(store)
    assert not {"pelican", "馒头", "albatross", "=10003", "@小雨", "~小雨", "10003"} & left
    assert await store.search_index.segments(private.key) == []
    rows = await store.erasing._database.read("SELECT chat_key FROM search_blocks")
    assert {row["chat_key"] for row in rows} == {str(talk.key)}
    await talk.index()
    assert not {"pelican", "馒头", "10003"} & await indexed_terms(store)
    assert (await talk.find("what did you say", limit=1))[0].startswith("what did you say")


async def test_a_search_during_an_upgrade_says_that_it_is_incomplete(talk: Talk) -> None:
    await talk.chatter(700)
    finder = MessageFinder(talk.store, wall=lambda: NOW)
    query = MessageQuery(words="small talk")
    assert (await finder.find(talk.key, query)).incomplete
    await talk.index()
    assert not (await finder.find(talk.key, query)).incomplete


async def test_an_erasure_removes_the_terms_of_all_changed_messages(talk: Talk) -> None:
    """More messages have changed than are removed from the index in one step, and one of them still
    exists."""
    said = [await talk.say("Mei", f"the pelican number {number}") for number in range(7)]
    await talk.chatter(250)
    await talk.index()
    await talk.store.messages.reword(said[1], (Text("the heron"),))
    for each in (said[0], *said[2:]):
        await talk.store.messages.recall(talk.key, each.message_id)
    await talk.store.search_index.remove_of_erased([], at_once=2)
    assert "pelican" not in await indexed_terms(talk.store)
    await talk.index()
    assert await talk.find("heron", limit=1) == ["the heron"]
