"""Prompts and their parts are stored. Parts that no turn uses any more are deleted."""

from nekro_core.store import Store, TurnFilter
from nekro_core.store.prompts import USED_WITHIN_S, PromptPart, PromptRow
from tests.store.conftest import GROUP, OTHER, Clock

RULES = PromptPart.of("", "rules " * 200)
NOTE = PromptPart.of(str(GROUP), "a note \0 字")


async def a_turn(
    store: Store, *parts: PromptPart, chat: object = GROUP, failed: bool = False
) -> int:
    turn = await store.turns.begin(chat, trigger_seq=1, through_seq=1, user_id="7", model="m")  # type: ignore[arg-type]
    row = PromptRow(turn_id=turn.turn_id, position=0, chat_key=str(chat), recipe="[]", times="{}")
    await store.prompts.add(row, parts)
    await store.turns.end(turn.turn_id, stop="internal" if failed else "finished", failed=failed)
    return turn.turn_id


async def test_parts_are_read_as_they_were_written(store: Store) -> None:
    turn_id = await a_turn(store, RULES, NOTE)
    found = await store.prompts.parts([RULES.hash, NOTE.hash, "missing"])
    assert found == {RULES.hash: RULES.data, NOTE.hash: NOTE.data}
    (row,) = await store.prompts.of_turn(turn_id)
    assert (row.recipe, row.times, row.error) == ("[]", "{}", "")
    rows = await store.erasing._database.read("SELECT LENGTH(data) AS size FROM prompt_parts")
    assert min(row["size"] for row in rows) < len(RULES.data) / 10


async def test_the_same_text_in_two_chats_is_stored_as_two_parts(store: Store) -> None:
    assert PromptPart.of(str(GROUP), "a").hash != PromptPart.of(str(OTHER), "a").hash
    long = f"matrix-group_{'r' * 80}"
    assert PromptPart.of(f"{long}1", "a").hash != PromptPart.of(f"{long}2", "a").hash


async def test_the_prompt_before_that_of_a_turn_is_the_prompt_of_the_chats_turn_before(
    store: Store,
) -> None:
    first = await a_turn(store, RULES)
    await a_turn(store, RULES, chat=OTHER)
    second = await a_turn(store, RULES)
    before = await store.prompts.before(str(GROUP), second)
    assert before is not None
    assert before.turn_id == first
    assert await store.prompts.before(str(GROUP), first) is None


async def test_retention_deletes_the_parts_that_only_deleted_turns_used(
    store: Store, clock: Clock
) -> None:
    old = await a_turn(store, RULES, NOTE)
    clock.now += 2 * USED_WITHIN_S
    new = await a_turn(store, RULES)
    before = clock.now - 1
    assert await store.retention.turns(before=before) == 0
    assert await store.retention.prompt_parts(before=before) == 0
    assert await store.prompts.of_turn(old) == []
    assert [row.turn_id for row in await store.prompts.of_turn(new)] == [new]
    assert set(await store.prompts.parts([RULES.hash, NOTE.hash])) == {RULES.hash}


async def test_a_part_that_retention_deleted_is_stored_again(store: Store, clock: Clock) -> None:
    await a_turn(store, NOTE)
    clock.now += 2 * USED_WITHIN_S
    await store.retention.prompt_parts(before=clock.now)
    await a_turn(store, NOTE)
    assert set(await store.prompts.parts([NOTE.hash])) == {NOTE.hash}


async def test_turns_are_found_by_each_filter(store: Store, clock: Clock) -> None:
    turns = []
    for number in range(9):
        clock.now = 1000.0 + number
        turns.append(await a_turn(store, chat=OTHER if number % 2 else GROUP, failed=number == 4))

    async def found(**wanted: object) -> list[int]:
        listed = await store.turn_log.listed(TurnFilter(**wanted))  # type: ignore[arg-type]
        return [turns.index(each.turn.turn_id) for each in reversed(listed)]

    assert await found() == [*range(9)]
    assert await found(chat_key=OTHER) == [1, 3, 5, 7]
    assert await found(failed=True) == await found(stop="internal") == [4]
    assert await found(stop="finished", failed=False, chat_key=GROUP) == [0, 2, 6, 8]
    assert await found(user_id="7", model="m", since=1003.0, until=1006.0) == [3, 4, 5]
    assert await found(since=1008.5) == await found(model="n") == await found(until=5.0) == []
    assert await store.turn_log.different("model") == ["m"]
    assert await store.turn_log.different("stop") == ["finished", "internal"]
