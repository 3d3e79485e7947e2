"""Tests of the history: the stored fields of a message, the order of messages, and how duplicates
are found."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import anyio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nekro_core.chat import (
    Author,
    Image,
    Media,
    Notice,
    Record,
    Text,
)
from nekro_core.store import (
    Store,
)
from nekro_core.store.messages import unique_id_of, with_final_seq

from .conftest import GROUP, OTHER, record, say


async def test_history_keeps_order_and_every_field(store: Store) -> None:
    said = await say(
        store,
        message_id="m1",
        to_bot=True,
        from_history=True,
        segments=(Text("look"), Image(Media(path="/x", name="猫.png")), Notice("poke", "1", "2")),
    )
    other = await say(store, key=OTHER)
    last = await say(store, "bye")
    assert await store.messages.newest(GROUP, 10) == [said, last]
    assert await store.messages.newest(GROUP, 1) == [last]
    assert await store.messages.newest(GROUP, 1, before=last.seq) == [said]
    assert await store.messages.after(GROUP, said.seq, 10) == [last]
    assert await store.messages.after(None, 0, 10) == [said, other, last]
    assert await store.messages.by_message_id(GROUP, "m1") == said
    assert await store.messages.by_message_id(OTHER, "m1") is None
    assert await store.messages.get(other.seq) == other


async def test_a_message_id_is_stored_only_once_for_each_instance(store: Store) -> None:
    first, again = record(store, message_id="7"), record(store, message_id="7")
    results = await asyncio.gather(
        store.messages.add(first, unique_id="7"), store.messages.add(again, unique_id="7")
    )
    assert [bool(result[-1]) for result in results] == [True, False]
    elsewhere = record(store, key=OTHER, message_id="7")
    assert (await store.messages.add(elsewhere, unique_id="7"))[-1]


async def test_sequence_numbers_are_never_reused(sqlite_url: str, tmp_path: Path) -> None:
    async with Store.open(sqlite_url) as store:
        last = [await say(store) for _ in range(5)][-1]
    with closing(sqlite3.connect(tmp_path / "nekro.sqlite3")) as database, database:
        database.execute("DELETE FROM messages")
    async with Store.open(sqlite_url) as store:
        assert store.messages.reserve() > last.seq


async def test_stored_callbacks_run_in_the_order_in_which_records_were_added(store: Store) -> None:
    received: list[Record] = []
    records = [record(store, str(number)) for number in range(500)]
    async with anyio.create_task_group() as tasks:
        for each in records:
            tasks.start_soon(_add, store, each, received)
    assert received == [with_final_seq(each) for each in records]


async def _add(store: Store, each: Record, received: list[Record]) -> None:
    await store.messages.add(each, unique_id=None, stored=received.append)


async def test_a_record_of_a_cancelled_caller_is_stored_and_its_callback_runs(store: Store) -> None:
    received: list[Record] = []
    with anyio.CancelScope() as scope:
        scope.cancel()
        await store.messages.add(record(store), unique_id=None, stored=received.append)
    await say(store)
    assert len(received) == 1
    assert len(await store.messages.newest(GROUP, 10)) == 2


async def test_recall_marks_a_record_once(store: Store) -> None:
    await say(store, message_id="m1")
    found = await store.messages.recall(GROUP, "m1")
    assert found is not None
    assert found.recalled
    assert await store.messages.recall(GROUP, "m1") is None
    assert await store.messages.recall(GROUP, "never") is None
    assert await store.messages.recall(GROUP, "") is None


async def test_a_record_with_a_very_long_message_id_is_found(store: Store) -> None:
    long = "x" * 5000
    said = record(store, message_id=long)
    await store.messages.add(said, unique_id=unique_id_of(long))
    assert await store.messages.by_message_id(GROUP, long) == with_final_seq(said)


@given(text=st.text(st.characters(exclude_categories=()), max_size=50))
@settings(
    max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
async def test_any_text_can_be_stored(store: Store, text: str) -> None:
    await store.plugin_data.set("p", text, store_key="k")
    kept = await store.plugin_data.get("p", store_key="k")
    if store.plugin_data._database.dialect == "postgres":
        text = text.replace("\0", "\ufffd")  # PostgreSQL cannot store NUL
    assert kept == text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


async def test_comes_next_says_without_a_read_whether_one_record_follows_another_in_its_chat(
    store: Store,
) -> None:
    first, between, other = await say(store), await say(store, key=OTHER), await say(store)
    sent = record(store, author=Author.BOT, run_id="r")
    await store.deliveries.add([], [sent])
    last = await say(store)
    alone = not store.messages.shared
    assert store.messages.comes_next(GROUP, first.seq, other.seq) is alone
    assert store.messages.comes_next(GROUP, sent.seq, last.seq) is alone
    assert not store.messages.comes_next(GROUP, other.seq, last.seq), "the bot spoke between"
    assert not store.messages.comes_next(GROUP, first.seq, between.seq)
    assert not store.messages.comes_next(GROUP, 0, first.seq), "there may be earlier records"


async def test_comes_next_is_false_if_a_record_between_the_two_was_stored_late(
    store: Store,
) -> None:
    first, late, last = (record(store) for _ in range(3))
    for each in (first, last, late):
        await store.messages.add(each, unique_id=None, before=store.chats.seen(GROUP))
    assert not store.messages.comes_next(GROUP, first.seq, last.seq)
