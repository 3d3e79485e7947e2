"""`MessageRepository.window` gives the same records as a read of the database, after any change."""

import random
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nekro_core.chat import Author, ChatKey, DeliveryState, Record, Text
from nekro_core.store import DeliveryRow, Store
from nekro_core.store.decisions import DecisionReason, MessageDecision
from nekro_core.store.person import Person
from nekro_core.store.recent_records import NOTHING_CHANGED, RecentRecords
from tests.store.conftest import GROUP, OTHER, record, say

LIN = Person(adapter="onebot_v11", user_id="10001", instances=("onebot_v11", "web"))
Change = Callable[[Store, random.Random], Awaitable[object]]


async def test_unchanged_records_are_the_same_objects_in_each_window(store: Store) -> None:
    for number in range(5):
        await say(store, f"line {number}", message_id=str(number))
    first = await store.messages.window(GROUP, 10)
    await say(store, "one more")
    await store.messages.recall(GROUP, "4")
    second = await store.messages.window(GROUP, 10)
    assert second == await store.messages.newest(GROUP, 10)
    assert second[4].recalled
    await store.messages.hide(second[3])
    third = await store.messages.window(GROUP, 10)
    same = all(old is new for old, new in zip(second[:3], third[:3], strict=True))
    assert same is not store.messages.shared
    assert third[3].recalled
    assert first[3] == second[3]


async def test_a_window_follows_its_limit_and_its_beginning(store: Store) -> None:
    said = [await say(store, f"line {number}") for number in range(10)]
    assert await store.messages.window(GROUP, 4) == said[-4:]
    assert await store.messages.window(GROUP, 6) == said[-6:]
    assert await store.messages.window(GROUP, 6, since=said[7].seq) == said[7:]
    assert await store.messages.window(GROUP, 6, since=said[5].seq) == said[5:]
    said += [await say(store, f"line {number}") for number in range(10, 14)]
    assert await store.messages.window(GROUP, 6, since=said[5].seq) == said[-6:]


async def test_deleted_records_leave_the_window(store: Store) -> None:
    said = [await say(store, f"line {number}", time=float(number)) for number in range(300)]
    assert await store.messages.window(GROUP, 400) == said
    assert await store.retention.messages(before=500.0)
    assert await store.messages.window(GROUP, 400) == said[-200:]
    await store.erasing.forget_record(said[-1].seq)
    assert await store.messages.window(GROUP, 400) == said[-200:-1]
    await store.erasing.erase(LIN, await store.erasing.look(LIN))
    assert await store.messages.window(GROUP, 400) == []


async def test_it_is_known_that_a_window_shows_a_chat_from_its_beginning(store: Store) -> None:
    begins_at, sure = store.messages.begins_at, not store.messages.shared
    said = [await say(store, f"line {number}") for number in range(3)]
    assert not begins_at(GROUP, said[0].seq), "nothing was read yet"
    await store.messages.window(GROUP, 10)
    assert begins_at(GROUP, said[0].seq) is sure
    assert not begins_at(GROUP, said[1].seq)
    said.append(await say(store, "one more"))
    assert begins_at(GROUP, said[0].seq) is sure
    await store.messages.window(GROUP, 10, since=said[1].seq)
    assert not begins_at(GROUP, said[1].seq), "an older record may exist"


async def test_a_full_window_may_hide_the_beginning_of_its_chat(store: Store) -> None:
    said = [await say(store, f"line {number}") for number in range(4)]
    await store.messages.window(GROUP, 3)
    await store.erasing.forget_record(said[-1].seq)
    await store.messages.window(GROUP, 3)
    assert not store.messages.begins_at(GROUP, said[1].seq)


async def test_the_records_of_the_chats_that_were_read_last_are_kept_in_memory() -> None:
    """The records of all these chats together are more than the memory keeps. Those of the chats
    that were read longest ago must be read from the database again."""
    reads: list[ChatKey] = []

    async def read(chat_key: ChatKey, limit: int, _since: int) -> list[Record]:
        reads.append(chat_key)
        return [_plain(chat_key, seq) for seq in range(1, limit + 1)]

    recent = RecentRecords(read)
    chats = [ChatKey.parse(f"web-private_{number}") for number in range(20)]
    for chat in chats:
        await recent.newest(chat, 1000, 0)
    reads.clear()
    for chat in reversed(chats):
        await recent.newest(chat, 1000, 0)
    assert reads == chats[11::-1]


async def test_a_change_during_a_read_is_read_next_time() -> None:
    answers = [[_plain(GROUP, 1)], [_plain(GROUP, 1), _plain(GROUP, 2)]]
    begun, go = anyio.Event(), anyio.Event()

    async def read(_key: ChatKey, _limit: int, since: int) -> list[Record]:
        found = answers.pop(0)
        begun.set()
        await go.wait()
        return [each for each in found if each.seq >= since]

    recent = RecentRecords(read)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(recent.newest, GROUP, 10, 0)
        await begun.wait()
        recent.note_change(GROUP, 2)
        go.set()
    assert [each.seq for each in await recent.newest(GROUP, 10, 0)] == [1, 2]


async def test_a_read_that_fails_leaves_nothing_behind() -> None:
    answers: list[Exception | list[Record]] = [OSError("the disk"), [_plain(GROUP, 1)]]

    async def read(_key: ChatKey, _limit: int, _since: int) -> list[Record]:
        found = answers.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    recent = RecentRecords(read)
    with pytest.raises(OSError, match="the disk"):
        await recent.newest(GROUP, 10, 0)
    recent.note_change(GROUP, NOTHING_CHANGED)
    assert [each.seq for each in await recent.newest(GROUP, 10, 0)] == [1]
    assert [each.seq for each in await recent.newest(GROUP, 10, 0)] == [1]


# ---- any order of changes


async def _says(store: Store, draw: random.Random) -> None:
    number = str(draw.randrange(10**9))
    key = draw.choice([GROUP, GROUP, OTHER])
    await say(store, f"line {number}", key=key, message_id=number, time=draw.random() * 1e3)


async def _any(store: Store, draw: random.Random) -> Record | None:
    records = await store.messages.newest(GROUP, 30)
    return draw.choice(records) if records else None


async def _recalls(store: Store, draw: random.Random) -> None:
    if found := await _any(store, draw):
        await store.messages.recall(GROUP, found.message_id)


async def _hides(store: Store, draw: random.Random) -> None:
    if found := await _any(store, draw):
        await store.messages.hide(found)


async def _rewords(store: Store, draw: random.Random) -> None:
    if found := await _any(store, draw):
        await store.messages.reword(found, (Text(f"reworded {draw.random()}"),), keep=True)


async def _answers_elsewhere(store: Store, draw: random.Random) -> None:
    if found := await _any(store, draw):
        decision = MessageDecision(reason=DecisionReason.RECALLED)
        await store.messages.mark_answered_elsewhere(found, decision)


async def _sends(store: Store, draw: random.Random) -> None:
    """The bot sends a message. Its state changes, then it is edited."""
    shown = record(store, "hi", author=Author.BOT, run_id="r1", state=DeliveryState.SENDING)
    row = _delivery(shown)
    await store.deliveries.add([row], [shown])
    await store.messages.window(GROUP, 30)
    sent = str(draw.randrange(10**9))
    await store.deliveries.mark(row, DeliveryState.SENT, message_id=sent)
    await store.messages.window(GROUP, 30)
    await store.messages.revise(GROUP, sent, (Text("hi again"),))


async def _fails(store: Store, _: random.Random) -> None:
    """A send has an unknown outcome and is tried again."""
    shown = record(store, "hi", author=Author.BOT, run_id="r1", state=DeliveryState.SENDING)
    row = _delivery(shown)
    await store.deliveries.add([row], [shown])
    await store.deliveries.mark(row, DeliveryState.UNKNOWN, reason="lost")
    await store.messages.window(GROUP, 30)
    await store.deliveries.renew(replace(row, state=DeliveryState.UNKNOWN), "again")


async def _erases(store: Store, _: random.Random) -> None:
    await store.erasing.erase(LIN, await store.erasing.look(LIN))


async def _removes_old(store: Store, draw: random.Random) -> None:
    await store.retention.messages(before=draw.random() * 1e3)


CHANGES: list[Change] = [
    *(_says,) * 4,
    *(_sends, _fails, _recalls, _hides, _rewords, _answers_elsewhere),
    *(_erases, _removes_old),
]


@settings(max_examples=40)
@given(seed=st.integers(0, 2**32))
def test_a_window_is_what_the_database_has(
    seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    draw = random.Random(seed)

    async def change(folder: Path) -> None:
        async with Store.open(f"sqlite://{folder}/nekro.sqlite3") as store:
            begin = 0
            for _ in range(40):
                await draw.choice(CHANGES)(store, draw)
                if draw.random() < 0.1:
                    begin = draw.choice([0, store.messages.last_seq // 2])
                if draw.random() < 0.6:
                    limit = 30 if draw.random() < 0.9 else 7
                    shown = await store.messages.window(GROUP, limit, since=begin)
                    assert shown == await store.messages.newest(GROUP, limit, since=begin)
                first = draw.choice([*await store.messages.newest(GROUP, 30), _plain(GROUP, 1)]).seq
                if store.messages.begins_at(GROUP, first):
                    assert not await store.messages.newest(GROUP, 1, before=first)

    anyio.run(change, tmp_path_factory.mktemp("window"))


def _plain(chat_key: ChatKey, seq: int) -> Record:
    return Record(
        seq=seq, chat_key=chat_key, author=Author.PERSON, segments=(Text("hi"),), time=1.0
    )


def _delivery(shown: Record) -> DeliveryRow:
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
