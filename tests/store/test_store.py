"""The tests check what the repositories of the store write, and what their queries return."""

import asyncio
from dataclasses import replace
from typing import Any, cast

import anyio
import pytest

from nekro_core.chat import (
    Author,
    ChatKey,
    ChatKeyError,
    DeliveryState,
    Record,
    Sender,
)
from nekro_core.store import (
    DeliveryRow,
    Step,
    Store,
    StoreError,
    ToolCall,
    TurnRunning,
    UniqueConflict,
    Usage,
    ValueTooLarge,
)
from nekro_core.store.people import AccountRepository

from .conftest import GROUP, OTHER, Clock, record, say

# ---- chats, accounts, users


async def test_chats_are_listed_by_newest_activity(store: Store, clock: Clock) -> None:
    third = ChatKey.parse("onebot_v11-group_4")
    await say(store, time=5.0)
    await say(store, key=third, time=6.0)
    await say(store, key=OTHER)
    await say(store, time=7.0)
    await say(store, time=99.0, author=Author.BOT)
    assert await store.chats.of_instance("onebot_v11") == [GROUP, third]
    assert await store.chats.all() == [GROUP, OTHER, third]
    assert await store.chats.newest_times("onebot_v11") == {GROUP: 7.0, third: 6.0}


async def test_a_chats_name_is_kept_over_a_restart(url: str) -> None:
    async with Store.open(url) as store:
        said = record(store)
        await store.messages.add(said, unique_id="1", before=store.chats.seen(GROUP, "Tea house"))
        assert store.chats.seen(GROUP, "Tea house") == ()
    async with Store.open(url) as store:
        assert (store.chats.name(GROUP), store.chats.name(OTHER)) == ("Tea house", "")
        store.chats.forget(GROUP)
        assert store.chats.seen(GROUP, "Tea house") != ()


async def test_a_name_that_became_known_later_is_kept_over_a_restart(url: str) -> None:
    async with Store.open(url) as store:
        await say(store)
        store.chats.rename(GROUP, "Tea house")
        store.chats.rename(GROUP, "")
        store.chats.rename(OTHER, "not stored yet")
        assert store.chats.name(OTHER) == "not stored yet"
    async with Store.open(url) as store:
        assert (store.chats.name(GROUP), store.chats.name(OTHER)) == ("Tea house", "")
        store.chats.rename(OTHER, "now it is")
        await say(store, key=OTHER)
    async with Store.open(url) as store:
        assert store.chats.name(OTHER) == "now it is"


async def test_an_account_keeps_its_instance_over_restarts(url: str) -> None:
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


async def test_an_account_stays_known_that_is_bound_while_the_accounts_are_read(
    store: Store, clock: Clock
) -> None:
    """A process that shares its database reads the accounts again when another one bound one."""
    begun, go_on, bound = anyio.Event(), anyio.Event(), anyio.Event()

    class LateReads:
        """A database whose rows arrive late."""

        def __getattr__(self, name: str) -> Any:
            return getattr(store.accounts._database, name)

        async def read(self, sql: str, *values: Any) -> Any:
            rows = await store.accounts._database.read(sql, *values)
            begun.set()
            await go_on.wait()
            return rows

    async def bind() -> None:
        await accounts.bind("fake", "late")
        bound.set()

    accounts = AccountRepository(cast("Any", LateReads()), accounts=[], clock=clock)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(accounts.read_again)
        await begun.wait()
        tasks.start_soon(bind)
        with anyio.move_on_after(0.3):  # It may wait until the reading is over.
            await bound.wait()
        go_on.set()
    assert accounts.of("fake") is not None


async def test_an_account_that_is_bound_twice_at_once_gets_one_instance(store: Store) -> None:
    got = await asyncio.gather(*(store.accounts.bind("onebot_v11", "20001") for _ in range(10)))
    assert set(got) == {"onebot_v11"}


async def test_an_operator_can_choose_the_instance_of_an_account(store: Store) -> None:
    assert await store.accounts.bind("onebot_v11", "20001", name="work") == "work"
    with pytest.raises(UniqueConflict, match="20001"):
        await store.accounts.bind("onebot_v11", "20002", name="work")
    with pytest.raises(ChatKeyError):
        await store.accounts.bind("onebot_v11", "20003", name="my-work")
    with pytest.raises(ValueTooLarge):
        await store.accounts.bind("onebot_v11", "2" * 256)


# ---- turns


async def test_a_chat_has_at_most_one_running_turn(store: Store, clock: Clock) -> None:
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


async def test_a_turn_of_a_dead_process_is_found_and_resumed(url: str) -> None:
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


async def test_unanswered_messages_are_found(store: Store) -> None:
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
    await store.turns.seen(turn.turn_id, first.seq)  # a lower number changes nothing
    await store.turns.end(turn.turn_id, stop="done")
    assert old.seq < first.seq < during.seq < late.seq < taken_back.seq

    found = {each.chat_key: each for each in await store.turns.unanswered(since=500.0)}
    assert found[GROUP].records == (late,)
    assert found[GROUP].handled_seq == during.seq
    assert found[OTHER].records == (elsewhere,)

    await store.chats.mark_handled(OTHER, elsewhere.seq)
    await store.chats.mark_handled(OTHER, 0)
    assert [each.chat_key for each in await store.turns.unanswered(since=500.0)] == [GROUP]


async def test_one_list_of_unanswered_messages_serves_several_owners_of_chats(store: Store) -> None:
    """Each owner reads only the messages of its own chats, in slices between which other tasks
    run."""
    mine = [await say(store, f"{number}", sender=Sender(f"{number}")) for number in range(450)]
    taken_back = await say(store, "no", message_id="no")
    elsewhere = await say(store, "elsewhere", key=OTHER)
    listed = await store.turns.list_unanswered(since=0)
    assert {each.chat_key: len(each.seqs) for each in listed} == {GROUP: 451, OTHER: 1}
    await store.messages.recall(GROUP, "no")
    turns = [0]

    async def other_task() -> None:
        while True:
            turns[0] += 1
            await anyio.sleep(0)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(other_task)
        (found,) = await store.turns.read_unanswered(listed, lambda chat: chat == GROUP)
        tasks.cancel_scope.cancel()
    assert found.records == tuple(mine), f"{taken_back.seq} was recalled after the list"
    assert turns[0] >= 3
    (found,) = await store.turns.read_unanswered(listed, lambda chat: chat == OTHER)
    assert found.records == (elsewhere,)


async def test_a_turn_does_not_mark_another_persons_question_as_answered(store: Store) -> None:
    hers = await say(store, "hers", sender=Sender("99999"))
    his = await say(store, "his", sender=Sender("10001"))
    turn = await store.turns.begin(
        GROUP, trigger_seq=hers.seq, through_seq=his.seq, user_id="99999"
    )
    (found,) = await store.turns.unanswered(since=0)
    assert found.records == (his,), "if the bot is killed here, the turn is resumed only for her"
    more = await say(store, "hers too", sender=Sender("99999"))
    await store.turns.seen(turn.turn_id, more.seq)
    await store.turns.end(turn.turn_id, stop="done", waiting_seq=his.seq)
    (found,) = await store.turns.unanswered(since=0)
    assert found.records == (his,), (
        "only her question may be marked as answered, although it came after his"
    )

    turn = await store.turns.begin(
        GROUP, trigger_seq=his.seq, through_seq=more.seq, user_id="10001"
    )
    await store.turns.end(turn.turn_id, stop="done")
    assert await store.turns.unanswered(since=0) == []
    late = await say(store, "late", sender=Sender("10001"))
    (found,) = await store.turns.unanswered(since=0)
    assert (found.records, found.handled_seq) == ((late,), more.seq)


async def test_only_the_newest_of_many_unanswered_messages_are_returned(store: Store) -> None:
    said = [await say(store, str(number)) for number in range(10)]
    (found,) = await store.turns.unanswered(since=0, limit_per_person=3)
    assert found.records == tuple(said[-3:])


async def test_a_turn_whose_question_was_recalled_marks_only_that_question_as_answered(
    store: Store,
) -> None:
    one = await say(store, "one", sender=Sender("10001"), message_id="one")
    two = await say(store, "two", sender=Sender("10001"))
    turn = await store.turns.begin(GROUP, trigger_seq=one.seq, through_seq=two.seq, user_id="10001")
    await store.messages.recall(GROUP, "one")
    await store.turns.end(turn.turn_id, stop="recalled", waiting_seq=two.seq, only_asked=True)
    (found,) = await store.turns.unanswered(since=0)
    assert found.records == (two,), (
        "if the bot is killed here, the other questions are answered after the restart"
    )


async def test_many_messages_of_one_person_do_not_hide_a_question_of_another(store: Store) -> None:
    hers = await say(store, "hers", sender=Sender("99999"))
    flood = [await say(store, str(number), sender=Sender("10001")) for number in range(10)]
    (found,) = await store.turns.unanswered(since=0, limit_per_person=3)
    assert found.records == (hers, *flood[-3:])


async def test_steps_are_stored_with_their_cost(store: Store) -> None:
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
    with pytest.raises(UniqueConflict):
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


async def test_runs_are_stored_and_found_with_their_code_and_calls(store: Store) -> None:
    turn = await store.turns.begin(GROUP, trigger_seq=1, through_seq=1)
    await store.runs.begin("r1", GROUP, turn_id=turn.turn_id, code="pri")
    with pytest.raises(UniqueConflict):
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


async def test_a_message_whose_echo_arrives_before_its_receipt_is_shown_once(store: Store) -> None:
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


async def test_two_deliveries_with_the_same_message_id_both_stay_sent(store: Store) -> None:
    rows = []
    for _ in range(2):
        shown = record(store, author=Author.BOT, run_id="r1", state=DeliveryState.SENDING)
        rows.append(_row(store, shown))
        await store.deliveries.add([rows[-1]], [shown])
        await store.deliveries.mark(rows[-1], DeliveryState.SENT, message_id="1")
    assert [row.state for row in await store.deliveries.of_run("r1")] == [DeliveryState.SENT] * 2
    assert [r.message_id for r in await store.messages.newest(GROUP, 10)] == ["1", "1"]


async def test_a_platform_call_begins_only_for_a_row_of_its_chat_in_an_allowed_state(
    store: Store,
) -> None:
    allowed = {DeliveryState.PENDING, DeliveryState.SENDING}
    shown = record(store, author=Author.BOT, run_id="r1", state=DeliveryState.PENDING)
    row = replace(_row(store, shown), state=DeliveryState.PENDING)
    await store.deliveries.add([row], [shown])
    deliveries = store.deliveries
    other = ChatKey(GROUP.instance, GROUP.kind, "elsewhere")
    assert await deliveries.begin_call(row.delivery_id, other, allowed) is None
    assert await deliveries.begin_call("unknown", GROUP, allowed) is None
    assert await deliveries.begin_call(row.delivery_id, GROUP, {DeliveryState.UNKNOWN}) is None
    assert (await store.messages.newest(GROUP, 1))[0].state is DeliveryState.PENDING

    begun = await deliveries.begin_call(row.delivery_id, GROUP, allowed)
    assert begun is not None
    assert begun.state is DeliveryState.SENDING
    assert begun == await deliveries.get(row.delivery_id)
    assert (await store.messages.newest(GROUP, 1))[0].state is DeliveryState.SENDING

    await deliveries.mark(begun, DeliveryState.SENT, message_id="77")
    assert await deliveries.begin_call(row.delivery_id, GROUP, allowed) is None
    assert (await store.messages.newest(GROUP, 1))[0].state is DeliveryState.SENT


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


async def test_each_part_of_the_key_separates_plugin_data(store: Store) -> None:
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


async def test_concurrent_writers_learn_whether_the_value_existed(store: Store) -> None:
    told = await asyncio.gather(*(store.plugin_data.set("a", str(n)) for n in range(20)))
    assert sorted(told) == [0] + [1] * 19
    assert await store.plugin_data.get("a") == "19"


async def test_newest_lists_no_deliveries_if_no_states_are_given(store: Store) -> None:
    assert await store.deliveries.newest() == []
