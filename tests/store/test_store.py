"""What is kept and how it is asked for."""

import asyncio
import sqlite3
import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nekro_core.chat import (
    Author,
    ChatKey,
    ChatKeyError,
    DeliveryState,
    Image,
    Media,
    Notice,
    Record,
    Text,
)
from nekro_core.store import (
    Conflict,
    DeliveryRow,
    Step,
    Store,
    StoreError,
    StoreSettings,
    StoreUnavailable,
    ToolCall,
    TurnRunning,
    Usage,
    ValueTooLarge,
)
from nekro_core.store.messages import unique_id_of

from .conftest import GROUP, OTHER, Clock, record, say

# ---- messages


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


async def test_a_platform_id_is_stored_once_in_an_instance(store: Store) -> None:
    first, again = record(store, message_id="7"), record(store, message_id="7")
    results = await asyncio.gather(
        store.messages.add(first, unique_id="7"), store.messages.add(again, unique_id="7")
    )
    assert [bool(result[-1]) for result in results] == [True, False]
    elsewhere = record(store, key=OTHER, message_id="7")
    assert (await store.messages.add(elsewhere, unique_id="7"))[-1]


async def test_numbers_are_never_given_again(sqlite_url: str, tmp_path: Path) -> None:
    async with Store.open(sqlite_url) as store:
        last = [await say(store) for _ in range(5)][-1]
    with closing(sqlite3.connect(tmp_path / "nekro.sqlite3")) as database, database:
        database.execute("DELETE FROM messages")
    async with Store.open(sqlite_url) as store:
        assert store.messages.reserve() > last.seq


async def test_those_who_listen_hear_in_the_order_of_the_calls(store: Store) -> None:
    heard: list[Record] = []
    records = [record(store, str(number)) for number in range(500)]
    async with anyio.create_task_group() as tasks:
        for each in records:
            tasks.start_soon(_add, store, each, heard)
    assert heard == records


async def _add(store: Store, each: Record, heard: list[Record]) -> None:
    await store.messages.add(each, unique_id=None, stored=heard.append)


async def test_a_cancelled_writer_is_stored_and_heard_all_the_same(store: Store) -> None:
    heard: list[Record] = []
    with anyio.CancelScope() as scope:
        scope.cancel()
        await store.messages.add(record(store), unique_id=None, stored=heard.append)
    await say(store)
    assert len(heard) == 1
    assert len(await store.messages.newest(GROUP, 10)) == 2


async def test_recall_marks_once(store: Store) -> None:
    await say(store, message_id="m1")
    found = await store.messages.recall(GROUP, "m1")
    assert found is not None
    assert found.recalled
    assert await store.messages.recall(GROUP, "m1") is None
    assert await store.messages.recall(GROUP, "never") is None
    assert await store.messages.recall(GROUP, "") is None


async def test_an_id_longer_than_any_column_is_known_again(store: Store) -> None:
    long = "x" * 5000
    said = record(store, message_id=long)
    await store.messages.add(said, unique_id=unique_id_of(long))
    assert await store.messages.by_message_id(GROUP, long) == said


@given(text=st.text(st.characters(exclude_categories=()), max_size=50))
@settings(
    max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
async def test_any_text_can_be_kept(store: Store, text: str) -> None:
    await store.plugin_data.set("p", text, store_key="k")
    kept = await store.plugin_data.get("p", store_key="k")
    if store.plugin_data._database.dialect == "postgres":
        text = text.replace("\0", "\ufffd")  # It knows no such character.
    assert kept == text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


# ---- chats, accounts, users


async def test_chats_by_newest_activity(store: Store, clock: Clock) -> None:
    third = ChatKey.parse("onebot_v11-group_4")
    await say(store, time=5.0)
    await say(store, key=third, time=6.0)
    await say(store, key=OTHER)
    await say(store, time=7.0)
    await say(store, time=99.0, author=Author.BOT)
    assert await store.chats.of_instance("onebot_v11") == [GROUP, third]
    assert await store.chats.all() == [GROUP, OTHER, third]
    assert await store.chats.newest_times("onebot_v11") == {GROUP: 7.0, third: 6.0}


async def test_an_account_is_bound_once_and_never_moves(url: str) -> None:
    async with Store.open(url) as store:
        bind = store.accounts.bind
        assert await bind("onebot_v11", "20001") == "onebot_v11"
        assert await bind("onebot_v11", "20002") == "onebot_v11.20002"
        assert await bind("matrix", "@bot:local host") == "matrix"
        second = await bind("matrix", "@bot:other")
        assert second.startswith("matrix._bot_other.")
        assert await bind("matrix", "@bot:other") == second
    async with Store.open(url) as store:
        assert await store.accounts.bind("onebot_v11", "20002") == "onebot_v11.20002"
        assert await store.accounts.bind("onebot_v11", "20001") == "onebot_v11"
        found = store.accounts.of("onebot_v11.20002")
        assert found is not None
        assert found.account == "20002"
        assert store.accounts.of("nobody") is None
        assert store.accounts.own("onebot_v11") == {"20001", "20002"}
        assert store.accounts.own("nobody") == frozenset()


async def test_two_connections_at_once_get_one_instance(store: Store) -> None:
    got = await asyncio.gather(*(store.accounts.bind("onebot_v11", "20001") for _ in range(10)))
    assert set(got) == {"onebot_v11"}


async def test_an_operators_name_for_an_account(store: Store) -> None:
    assert await store.accounts.bind("onebot_v11", "20001", name="work") == "work"
    with pytest.raises(Conflict, match="20001"):
        await store.accounts.bind("onebot_v11", "20002", name="work")
    with pytest.raises(ChatKeyError):
        await store.accounts.bind("onebot_v11", "20003", name="my-work")
    with pytest.raises(ValueTooLarge):
        await store.accounts.bind("onebot_v11", "2" * 256)


# ---- turns


async def test_a_chat_has_one_running_turn(store: Store, clock: Clock) -> None:
    trigger = await say(store)
    turn = await store.turns.begin(GROUP, trigger_seq=trigger.seq, through_seq=trigger.seq)
    assert turn.running
    with pytest.raises(TurnRunning):
        await store.turns.begin(GROUP, trigger_seq=2, through_seq=2)
    await store.turns.begin(OTHER, trigger_seq=2, through_seq=2)
    clock.now = 1_005.0
    await store.turns.end(turn.turn_id, stop="done")
    ended = await store.turns.get(turn.turn_id)
    assert ended is not None
    assert (ended.running, ended.stop, ended.ended) == (False, "done", 1_005.0)
    await store.turns.begin(GROUP, trigger_seq=3, through_seq=3)
    assert len(await store.turns.latest(GROUP)) == 2
    assert await store.turns.get(999) is None


async def test_a_turn_of_a_dead_process_is_found_and_taken_up(url: str) -> None:
    async with Store.open(url) as store:
        said = await say(store)
        turn = await store.turns.begin(GROUP, trigger_seq=said.seq, through_seq=said.seq)
    async with Store.open(url) as store:
        assert await store.turns.interrupted() == [turn]
        assert await store.turns.unanswered(since=0) == []
        assert (await store.turns.resume(turn.turn_id)).attempts == 2
        await store.turns.end(turn.turn_id, stop="done")
        assert await store.turns.interrupted() == []
        with pytest.raises(StoreError, match="nothing to resume"):
            await store.turns.resume(turn.turn_id)


async def test_what_nobody_answered_is_found(store: Store) -> None:
    old = await say(store, "old", time=10.0)
    first = await say(store, "first")
    turn = await store.turns.begin(GROUP, trigger_seq=first.seq, through_seq=first.seq)
    during = await say(store, "during")
    late = await say(store, "late")
    await say(store, "own", author=Author.BOT)
    taken_back = await say(store, "no", message_id="no")
    await store.messages.recall(GROUP, "no")
    elsewhere = await say(store, "elsewhere", key=OTHER)
    await store.turns.seen(turn.turn_id, during.seq)
    await store.turns.seen(turn.turn_id, first.seq)  # Never goes back.
    await store.turns.end(turn.turn_id, stop="done")
    assert old.seq < first.seq < during.seq < late.seq < taken_back.seq

    found = {each.chat_key: each for each in await store.turns.unanswered(since=500.0)}
    assert found[GROUP].records == (late,)
    assert found[GROUP].handled_seq == during.seq
    assert found[OTHER].records == (elsewhere,)

    await store.chats.mark_handled(OTHER, elsewhere.seq)
    await store.chats.mark_handled(OTHER, 0)
    assert [each.chat_key for each in await store.turns.unanswered(since=500.0)] == [GROUP]


async def test_the_newest_of_many_unanswered(store: Store) -> None:
    said = [await say(store, str(number)) for number in range(10)]
    (found,) = await store.turns.unanswered(since=0, limit_per_chat=3)
    assert found.records == tuple(said[-3:])


async def test_steps_and_what_they_cost(store: Store) -> None:
    turn = await store.turns.begin(GROUP, trigger_seq=1, through_seq=1, user_id="10001")
    one = Step(
        position=0,
        reply="print(1)\nmore",
        tail="more",
        model="small",
        prompt_tokens=100,
        cached_tokens=90,
        completion_tokens=10,
        cost=0.5,
        started=50.0,
        seconds=0.25,
    )
    two = Step(position=1, reply="", prompt_tokens=1, estimated=True, started=60.0)
    await store.turns.add_step(turn.turn_id, one)
    await store.turns.add_step(turn.turn_id, two)
    assert await store.turns.steps(turn.turn_id) == [one, two]
    with pytest.raises(Conflict):
        await store.turns.add_step(turn.turn_id, two)
    everything = Usage(turns=1, steps=2, prompt_tokens=101, completion_tokens=10, cost=0.5)
    assert await store.turns.usage(since=0) == everything
    assert await store.turns.usage(since=0, chat_key=GROUP, user_id="10001") == everything
    assert await store.turns.usage(since=0, chat_key=OTHER) == Usage()
    instance = {GROUP.instance}
    assert await store.turns.usage(since=0, user_id="10001", instances=instance) == everything
    assert await store.turns.usage(since=0, user_id="10001", instances={"other"}) == Usage()
    assert await store.turns.usage(since=55.0) == Usage(turns=1, steps=1, prompt_tokens=1)


# ---- runs


async def test_the_code_behind_an_answer(store: Store) -> None:
    turn = await store.turns.begin(GROUP, trigger_seq=1, through_seq=1)
    await store.runs.begin("r1", GROUP, turn_id=turn.turn_id, code="pri")
    with pytest.raises(Conflict):
        await store.runs.begin("r1", GROUP, code="")
    running = await store.runs.get("r1")
    assert running is not None
    assert running.stop == ""
    await store.runs.end("r1", output="1\n", stop="end", seconds=0.5, code="print(1)")
    await store.runs.begin("r2", GROUP, turn_id=turn.turn_id, step=1, code="x")
    await store.runs.end("r2", output="", stop="error", error="NameError: x", seconds=0.1)
    done = await store.runs.get("r1")
    assert done is not None
    assert (done.code, done.output, done.stop, done.seconds) == ("print(1)", "1\n", "end", 0.5)
    assert [run.run_id for run in await store.runs.of_turn(turn.turn_id)] == ["r1", "r2"]
    await store.runs.begin("of no turn", GROUP, code="")
    await store.runs.begin("nor this", GROUP, code="")
    assert [run.run_id for run in await store.runs.beside("r2")] == ["r1", "r2"]
    assert [run.run_id for run in await store.runs.beside("nor this")] == ["nor this"]
    assert await store.runs.beside("none") == []
    assert await store.runs.get("none") is None
    call = ToolCall(
        position=0, name="send", arguments='{"a":1}', outcome="ok", started=1.0, seconds=0.1
    )
    await store.runs.add_calls("r1", [replace(call, outcome="", seconds=0.0)])
    await store.runs.add_calls("r1", [call])
    assert await store.runs.calls("r1") == [call]
    huge = ToolCall(
        position=1, name="send", arguments="x" * 100_000, outcome="ok", started=1.0, seconds=0.1
    )
    await store.runs.add_calls("r1", [huge])
    kept = (await store.runs.calls("r1"))[1].arguments
    assert len(kept) < 20_000
    assert "100000 characters" in kept


# ---- deliveries


async def test_an_echo_that_was_faster_than_the_answer_shows_once(store: Store) -> None:
    shown = record(store, "hi", author=Author.BOT, run_id="r1", state=DeliveryState.SENDING)
    row = _row(store, shown)
    await store.deliveries.add([row], [shown])
    await say(store, "hi", author=Author.BOT, message_id="77")
    await store.deliveries.mark(row, DeliveryState.SENT, message_id="77")
    ours, echo = await store.messages.newest(GROUP, 10)
    assert (ours.message_id, ours.recalled, echo.recalled) == ("77", False, True)
    assert await store.messages.by_message_id(GROUP, "77") == ours
    later = record(store, "hi", author=Author.BOT, message_id="77")
    assert not (await store.messages.add(later, unique_id="77"))[-1]


async def test_a_platform_that_gives_an_id_twice_undoes_nothing(store: Store) -> None:
    rows = []
    for _ in range(2):
        shown = record(store, author=Author.BOT, run_id="r1", state=DeliveryState.SENDING)
        rows.append(_row(store, shown))
        await store.deliveries.add([rows[-1]], [shown])
        await store.deliveries.mark(rows[-1], DeliveryState.SENT, message_id="1")
    assert [row.state for row in await store.deliveries.of_run("r1")] == [DeliveryState.SENT] * 2
    assert [r.message_id for r in await store.messages.newest(GROUP, 10)] == ["1", "1"]


def _row(store: Store, shown: Record) -> DeliveryRow:
    return DeliveryRow(
        delivery_id=f"d{shown.seq}",
        chat_key=shown.chat_key,
        run_id="r1",
        position=0,
        segments=shown.segments,
        state=DeliveryState.SENDING,
        message_id="",
        reason="",
        record_seq=shown.seq,
        created=1.0,
        changed=1.0,
    )


# ---- plugin data


async def test_plugin_data_is_kept_apart_by_every_key(store: Store) -> None:
    data = store.plugin_data
    keys = [
        {"plugin": plugin, "chat_key": chat, "user_key": user, "store_key": key}
        for plugin in ("a", "b")
        for chat in ("", "web-group_1")
        for user in ("", "u")
        for key in ("", "k")
    ]
    for number, key in enumerate(keys):
        assert await data.set(value=str(number), **key) == 0
    for number, key in enumerate(keys):
        assert await data.get(**key) == str(number)
    assert await data.set(value="new", **keys[0]) == 1
    assert await data.delete(**keys[0]) == 0
    assert await data.delete(**keys[0]) == 1
    assert await data.get(**keys[0]) is None
    with pytest.raises(ValueTooLarge, match="store_key of 300"):
        await data.set("a", "", store_key="k" * 300)


async def test_racing_writers_are_each_told_the_truth(store: Store) -> None:
    told = await asyncio.gather(*(store.plugin_data.set("a", str(n)) for n in range(20)))
    assert sorted(told) == [0] + [1] * 19
    assert await store.plugin_data.get("a") == "19"


# ---- the database itself


async def test_stores_in_one_process_do_not_meet(tmp_path: Path) -> None:
    async with (
        Store.open(f"sqlite://{tmp_path}/a.sqlite3") as a,
        Store.open(f"sqlite://{tmp_path}/b.sqlite3") as b,
    ):
        await asyncio.gather(*(a.plugin_data.set("p", "a") for _ in range(5)))
        await b.plugin_data.set("p", "b")
        assert (await a.plugin_data.get("p"), await b.plugin_data.get("p")) == ("a", "b")


async def test_a_bad_write_does_not_cost_its_neighbours(store: Store) -> None:
    turn = await store.turns.begin(GROUP, trigger_seq=1, through_seq=1)
    step = Step(position=0, reply="")
    results = await asyncio.gather(
        store.plugin_data.set("p", "1", store_key="1"),
        store.turns.add_step(turn.turn_id, step),
        store.turns.add_step(turn.turn_id, step),
        store.plugin_data.set("p", "2", store_key="2"),
        return_exceptions=True,
    )
    assert [type(result) for result in results] == [int, type(None), Conflict, int]
    assert await store.plugin_data.get("p", store_key="2") == "2"


async def test_a_locked_database_is_said_and_nothing_half_written(
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


async def test_a_full_disk_is_said_and_goes_on_when_there_is_room(
    sqlite_url: str, tmp_path: Path
) -> None:
    async with Store.open(sqlite_url) as store:
        await say(store)
        full = "PRAGMA max_page_count = 1"  # SQLite's own way to run out of room.
        await store.plugin_data._database.read(full)
        with pytest.raises(StoreUnavailable, match="free space on the disk"):
            await store.plugin_data.set("p", "x" * 1_000_000)
        await store.plugin_data._database.read("PRAGMA max_page_count = 1000000")
        assert await store.plugin_data.get("p") is None
        assert await store.plugin_data.set("p", "x" * 1_000_000) == 0


async def test_what_is_in_line_is_written_at_the_end(url: str) -> None:
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


async def test_an_error_of_the_body_comes_out_as_itself(url: str) -> None:
    with pytest.raises(KeyError):
        async with Store.open(url):
            raise KeyError("mine")


async def test_last_words_are_written_though_the_owner_is_cancelled(url: str) -> None:
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


async def test_a_cancelled_opening_leaves_nothing_open(sqlite_url: str) -> None:
    """A connection that is not closed keeps its thread, and so the process, alive."""
    before = connection_threads()
    with anyio.CancelScope() as scope:
        scope.cancel()
        async with Store.open(sqlite_url):
            raise AssertionError("it was opened")
    assert scope.cancelled_caught
    # A closed connection's thread is about to end, and nobody waits for it.
    left = connection_threads() - before
    for thread in left:
        thread.join(10)
    assert not [thread for thread in left if thread.is_alive()]


def connection_threads() -> set[threading.Thread]:
    return {each for each in threading.enumerate() if "connection_worker" in each.name}
