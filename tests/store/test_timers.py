"""Timers, their lines for the agent, and the model use of plugins are stored."""

import dataclasses

from nekro_core.chat import Author
from nekro_core.store import ModelUse, Step, Store, TimerRow, Usage

from .conftest import GROUP, OTHER, Clock, record, say

ROW = TimerRow(timer_id="t1", chat_key=GROUP, kind="once", state="active", text="tea", due=60.0)


async def test_a_timer_is_stored_with_every_field(url: str, clock: Clock) -> None:
    full = TimerRow(
        timer_id="t2",
        chat_key=OTHER,
        kind="recurring",
        state="paused",
        text="起床",
        title="morning",
        cron="0 7 * * *",
        timezone="Asia/Tokyo",
        workdays="mon_fri",
        due=7.5,
        told_due=3.5,
        record_seq=4,
        created=1.5,
    )
    async with Store.open(url, clock=clock) as store:
        await store.timers.put(ROW)
        await store.timers.put(full)
        changed = dataclasses.replace(ROW, state="over", due=0.0, told_due=60.0, record_seq=9)
        await store.timers.put(changed)
    async with Store.open(url, clock=clock) as store:
        assert await store.timers.all() == [changed, full]
        await store.timers.delete("t1", "t2", "t3")
        assert await store.timers.all() == []


async def _line(store: Store, text: str, *, to_bot: bool = True, at: float = 1_000.0) -> int:
    line = await say(store, text, author=Author.SYSTEM, to_bot=to_bot, time=at)
    return line.seq


async def test_unanswered_timer_lines_are_found_after_a_restart(store: Store) -> None:
    await _line(store, "it rained", to_bot=False)
    young = await _line(store, "it is four o'clock")
    old = await _line(store, "it was two o'clock", at=10.0)
    told = await _line(store, "the eggs are done", at=10.0)
    await store.timers.put(dataclasses.replace(ROW, state="over", record_seq=told))
    (chat,) = await store.turns.unanswered(since=500.0)
    assert [each.seq for each in chat.records] == [young, told]
    assert old not in [each.seq for each in chat.records]
    await store.chats.mark_handled(GROUP, told)
    assert await store.turns.unanswered(since=500.0) == []


async def test_a_finished_timer_is_deleted_after_the_agent_has_handled_its_line(
    store: Store,
) -> None:
    told = await _line(store, "tea")
    await store.timers.put(dataclasses.replace(ROW, state="over", record_seq=told))
    await store.timers.put(dataclasses.replace(ROW, timer_id="t2"))
    sweep = store.timers.sweep_statement()
    await store.timers._database.write(sweep)
    assert [row.timer_id for row in await store.timers.all()] == ["t1", "t2"]
    await store.chats.mark_handled(GROUP, told)
    await store.timers._database.write(sweep)
    assert [row.timer_id for row in await store.timers.all()] == ["t2"]


async def test_two_lines_with_the_same_unique_id_are_stored_as_one(store: Store) -> None:
    for _ in range(2):
        line = record(store, "tea", author=Author.SYSTEM)
        await store.messages.add(line, unique_id="timer:t1:60")
    assert len(await store.messages.newest(GROUP, 10)) == 1


async def test_requests_of_plugins_to_models_count_in_the_usage_of_chat_and_person(
    store: Store, clock: Clock
) -> None:
    turn = await store.turns.begin(GROUP, trigger_seq=1, through_seq=1, user_id="10001")
    step = Step(position=0, reply="x", prompt_tokens=100, completion_tokens=10, started=clock.now)
    await store.turns.add_step(turn.turn_id, step)
    use = ModelUse(
        plugin="ann.weather",
        model="m",
        prompt_tokens=30,
        completion_tokens=3,
        chat_key=str(GROUP),
        user_id="10001",
        started=clock.now,
    )
    await store.model_uses.add(use)
    await store.model_uses.add(dataclasses.replace(use, chat_key="", user_id="", started=1.0))
    both = Usage(turns=1, steps=1, prompt_tokens=130, completion_tokens=13)
    assert await store.turns.usage(since=500.0) == both
    assert await store.turns.usage(since=500.0, chat_key=GROUP, user_id="10001") == both
    assert await store.turns.usage(since=500.0, chat_key=OTHER) == Usage()
    assert (await store.turns.usage(since=0.0)).prompt_tokens == 160
    mine = await store.model_uses.usage(since=0.0, plugin="ann.weather")
    assert (mine.prompt_tokens, mine.completion_tokens) == (60, 6)
    assert await store.model_uses.usage(since=0.0, plugin="bob.other") == Usage()
