"""The inbox stores each message once and in order, before the sessions get it."""

import asyncio
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from nekro_core.chat import (
    CONVERSATION_RESET,
    Author,
    ChatKey,
    Image,
    Media,
    Mention,
    Notice,
    Record,
    Reply,
    Sender,
    Text,
    Unknown,
)
from nekro_core.delivery.activity import Broadcast, Recorded
from nekro_core.delivery.inbound.inbox import (
    Inbox,
    LeftOutRecords,
    RecalledRecord,
    StoredRecord,
)
from nekro_core.store import SqlStatement, Store, StoreSettings, StoreUnavailable, final_seq
from nekro_core.store.queries import WhereClause
from tests.delivery.conftest import GROUP, OTHER, Clock
from tests.delivery.fakes import message


def stored(inbox: Inbox) -> list[Record]:
    """The new records that the inbox has queued."""
    return [event.record for event in inbox.queued if isinstance(event, StoredRecord)]


async def test_a_message_is_stored_and_then_queued(inbox: Inbox, store: Store) -> None:
    kept = await inbox.accept(inbox.stamp(message(GROUP, "hello", message_id="1", to_bot=True)))
    assert kept is not None
    assert stored(inbox) == [kept] == await store.messages.newest(GROUP, 10)
    assert (kept.author, kept.to_bot, kept.sender.name) == (Author.PERSON, True, "Lin")
    assert await store.users.name("fake", "lin") == "Lin"
    assert await store.chats.all() == [GROUP]


async def test_messages_are_stored_in_the_order_in_which_the_inbox_got_them(
    inbox: Inbox, store: Store
) -> None:
    keys = [ChatKey.parse(f"fake-group_{number}") for number in range(5)]
    said = [(key, f"{key.native_id}-{number}") for number in range(100) for key in keys]
    async with anyio.create_task_group() as tasks:
        for key, message_id in said:
            tasks.start_soon(
                inbox.accept, inbox.stamp(message(key, message_id, message_id=message_id))
            )
    assert [record.message_id for record in stored(inbox)] == [message_id for _, message_id in said]
    for key in keys:
        history = [record.message_id for record in await store.messages.newest(key, 1000)]
        assert history == [message_id for other, message_id in said if other == key]


async def test_a_duplicate_is_stored_and_queued_once(inbox: Inbox, store: Store) -> None:
    same = message(GROUP, message_id="7")
    again = msgspec.structs.replace(same, from_history=True)
    kept = await asyncio.gather(
        inbox.accept(inbox.stamp(same)),
        inbox.accept(inbox.stamp(same)),
        inbox.accept(inbox.stamp(again)),
    )
    assert [record is not None for record in kept] == [True, False, False]
    assert len(stored(inbox)) == len(await store.messages.newest(GROUP, 10)) == 1


async def test_the_same_id_in_two_chats_means_two_messages(inbox: Inbox, store: Store) -> None:
    """NapCat's ids have 31 bits. After 50,000 messages, about half of all accounts have two
    messages with the same id."""
    for key in (GROUP, OTHER, GROUP, OTHER):
        await inbox.accept(inbox.stamp(message(key, message_id="7")))
    assert [record.chat_key for record in stored(inbox)] == [GROUP, OTHER]
    assert await inbox.recall(OTHER, "7") is not None
    (first,), (second,) = [await store.messages.newest(key, 10) for key in (GROUP, OTHER)]
    assert (first.recalled, second.recalled, second.message_id) == (False, True, "7")


async def test_messages_without_an_id_are_never_taken_for_duplicates(inbox: Inbox) -> None:
    assert await inbox.accept(inbox.stamp(message(GROUP, "ha")))
    assert await inbox.accept(inbox.stamp(message(GROUP, "ha")))


@pytest.mark.parametrize(
    ("change", "new"),
    [
        ({}, False),
        ({"time": 1_001.0}, True),
        ({"segments": (Notice("poke", "1", "3"),)}, True),
        ({"segments": (Notice("join", "1", "2"),)}, True),
        ({"segments": (Notice("poke", "2", "1"),)}, True),
        ({"chat_key": OTHER}, True),
    ],
)
async def test_notices_are_duplicates_if_chat_time_kind_and_people_are_equal(
    inbox: Inbox, change: dict[str, object], new: bool
) -> None:
    poke = message(GROUP, segments=(Notice("poke", "1", "2"),))
    assert await inbox.accept(inbox.stamp(poke))
    assert (
        await inbox.accept(inbox.stamp(msgspec.structs.replace(poke, **change))) is not None
    ) is new


async def test_the_bots_own_messages_are_stored_and_never_wake_the_agent(
    inbox: Inbox, store: Store
) -> None:
    await store.accounts.bind("fake", "second")
    for user in ("bot", "second"):
        kept = await inbox.accept(
            inbox.stamp(message(GROUP, user=user, message_id=user, to_bot=True))
        )
        assert kept is not None
        assert (kept.author, kept.to_bot) == (Author.BOT, False)


async def test_a_message_is_stored_once_if_its_acceptance_was_cancelled_and_it_comes_again(
    inbox: Inbox, store: Store
) -> None:
    with anyio.CancelScope() as scope:
        scope.cancel()
        await inbox.accept(inbox.stamp(message(GROUP, message_id="1")))
    assert await inbox.accept(inbox.stamp(message(GROUP, message_id="1"))) is None
    assert len(stored(inbox)) == 1


async def test_lone_surrogates_are_replaced_before_a_message_is_stored(
    inbox: Inbox, store: Store
) -> None:
    kept = await inbox.accept(
        inbox.stamp(message(GROUP, "a\ud83db", message_id="\udc00", user="\ud800"))
    )
    assert kept is not None
    assert kept.segments == (Text("a\ufffdb"),)
    assert await store.messages.newest(GROUP, 1) == [kept]


@pytest.mark.parametrize("time", [float("nan"), float("inf"), -1.0, 1e20, 10**400])
async def test_an_impossible_time_is_replaced_by_a_valid_one(
    inbox: Inbox, store: Store, time: float
) -> None:
    kept = await inbox.accept(inbox.stamp(message(GROUP, message_id="1", time=time)))
    assert kept is not None
    assert [kept] == await store.messages.newest(GROUP, 10)
    datetime.fromtimestamp(kept.time, UTC)


async def test_an_enormous_message_with_ten_thousand_mentions_is_stored(
    inbox: Inbox, store: Store
) -> None:
    huge = message(GROUP, segments=(Text("文" * 1_000_000), *[Mention("1", "Lin")] * 10_000))
    assert await inbox.accept(inbox.stamp(huge)) == (await store.messages.newest(GROUP, 1))[0]


async def test_a_recalled_message_is_marked_and_shown_as_recalled(
    inbox: Inbox, activity: Broadcast
) -> None:
    kept = await inbox.accept(inbox.stamp(message(GROUP, message_id="1")))
    assert kept is not None
    async with activity.watch(GROUP) as stream:
        recalled = await inbox.recall(GROUP, "1")
        assert recalled is not None
        assert recalled.recalled
        assert await anext(stream) == Recorded(recalled)
    assert await inbox.recall(GROUP, "1") is None


async def test_an_edit_by_the_author_changes_the_stored_message(
    inbox: Inbox, activity: Broadcast
) -> None:
    picture = Image(Media(path="/p.png", name="p.png"))
    said = (Reply("7", "2", "which?"), Text("the rde one"), picture)
    kept = await inbox.accept(inbox.stamp(message(GROUP, message_id="1", segments=said)))
    assert kept is not None
    new = (Text("the red one"),)
    assert await inbox.revise(GROUP, "1", "somebody else", new) is None
    assert await inbox.revise(GROUP, "no such message", kept.sender.user_id, new) is None
    async with activity.watch(GROUP) as stream:
        revised = await inbox.revise(GROUP, "1", kept.sender.user_id, new)
        assert revised is not None
        assert revised.segments == (said[0], *new, picture)
        assert await anext(stream) == Recorded(revised)
    await inbox.recall(GROUP, "1")
    assert await inbox.revise(GROUP, "1", kept.sender.user_id, (Text("no"),)) is None


async def test_a_system_line_is_stored_in_order(inbox: Inbox, store: Store) -> None:
    first = await inbox.accept(inbox.stamp(message(GROUP)))
    note = await inbox.note(GROUP, "the dice shows 7", run_id="r1")
    assert await store.messages.newest(GROUP, 10) == [first, note]
    assert (note.author, note.run_id) == (Author.SYSTEM, "r1")


async def test_the_newest_name_of_a_person_is_stored(inbox: Inbox, store: Store) -> None:
    for name in ("Lin", "林", "", "林"):
        said = msgspec.structs.replace(message(GROUP), sender=Sender("1", name))
        await inbox.accept(inbox.stamp(said))
        assert await store.users.name("fake", "1") == (name or "林")


async def test_the_newest_name_of_a_chat_is_stored(inbox: Inbox, store: Store) -> None:
    for name in ("Tea", "", "Tea house", "Tea house"):
        named = msgspec.structs.replace(message(GROUP), chat_name=name)
        await inbox.accept(inbox.stamp(named))
    await inbox.note(GROUP, "a bell rang")
    assert store.chats.name(GROUP) == "Tea house"
    assert store.chats.name(OTHER) == ""
    (row,) = await store.queries.select("chats", WhereClause())
    assert row["name"] == "Tea house"


# ---- watchers


async def test_a_watcher_gets_the_records_of_its_chat_and_the_stream_of_a_slow_watcher_ends(
    inbox: Inbox,
) -> None:
    activity = Broadcast(queue=3)
    watched = Inbox(inbox._store, activity)
    async with activity.watch(GROUP) as here, activity.watch() as all_chats:
        await watched.accept(watched.stamp(message(OTHER, "elsewhere")))
        for number in range(3):
            await watched.accept(watched.stamp(message(GROUP, str(number))))
        # The stream ends when more than 3 activities wait in it.
        seen = [each.record.segments[0].text async for each in all_chats]
        assert seen == ["elsewhere", "0", "1"]
        assert [(await anext(here)).record.segments[0].text for _ in range(3)] == ["0", "1", "2"]
        assert activity.follower_count == 1
    assert activity.follower_count == 0


async def test_a_message_of_too_many_segments_is_shortened(inbox: Inbox, store: Store) -> None:
    pieces = tuple(Mention(str(number), "") for number in range(5_000))
    await inbox.accept(inbox.stamp(message(GROUP, segments=pieces)))
    (line,) = await store.messages.newest(GROUP, 10)
    left_out = Unknown("more", "3000 more pieces")
    assert line.segments == (*pieces[:1_000], left_out, *pieces[4_000:])


# ---- what is queued for the sessions


class Ticking:
    """A clock that a test sets."""

    now = 50.0

    def __call__(self) -> float:
        return self.now


async def test_an_event_has_the_time_at_which_its_message_arrived(
    store: Store, activity: Broadcast, clock: Clock
) -> None:
    ticking = Ticking()
    inbox = Inbox(store, activity, clock=ticking, wall=clock)
    stamped = inbox.stamp(message(GROUP, message_id="1"))
    ticking.now += 0.5
    first = await inbox.accept(stamped)
    assert first is not None
    second = await inbox.note(GROUP, "a line")
    ticking.now += 0.5
    assert inbox.queued == (StoredRecord(first, 50.0), StoredRecord(second, 50.5))


async def test_one_consumer_gets_the_events_in_order(inbox: Inbox) -> None:
    taken: list[str] = []

    async def consume() -> None:
        while len(taken) < 4:
            event = await inbox.next_event()
            taken.append(f"{type(event).__name__} {event.record.message_id}")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(consume)
        for number in ("1", "2"):
            await inbox.accept(inbox.stamp(message(GROUP, message_id=number)))
        await inbox.recall(GROUP, "1")
        await inbox.recall(GROUP, "no such message")
        await inbox.accept(inbox.stamp(message(GROUP, message_id="3")))
    assert taken == ["StoredRecord 1", "StoredRecord 2", "RecalledRecord 1", "StoredRecord 3"]
    assert inbox.queued == ()


async def test_a_bounded_queue_says_of_which_groups_of_chats_it_left_events_out(
    inbox: Inbox,
) -> None:
    other = ChatKey.parse("fake-group_2")
    inbox.bound(2, lambda chat_key: 1 if chat_key == GROUP else 2)
    for number in ("1", "2", "3"):
        await inbox.accept(inbox.stamp(message(GROUP, message_id=number)))
    first = await inbox.next_of_bounded()
    assert isinstance(first, StoredRecord)
    # There is room again, but this message must not overtake the third one.
    await inbox.accept(inbox.stamp(message(other, message_id="4")))
    assert [event.record.message_id for event in inbox.queued] == ["2"]
    await inbox.next_of_bounded()
    assert not inbox.empty
    assert await inbox.next_of_bounded() == LeftOutRecords(frozenset({1, 2}))
    assert inbox.empty
    await inbox.accept(inbox.stamp(message(GROUP, message_id="5")))
    assert [event.record.message_id for event in inbox.queued] == ["5"]


async def test_a_recall_is_queued_with_the_current_record(inbox: Inbox) -> None:
    await inbox.accept(inbox.stamp(message(GROUP, message_id="1")))
    recalled = await inbox.recall(GROUP, "1")
    assert recalled is not None
    assert inbox.queued[1:] == (RecalledRecord(recalled),)


async def test_forget_person_removes_the_persons_records_of_the_chat_from_the_queue(
    inbox: Inbox, store: Store
) -> None:
    for chat, user in ((GROUP, "lin"), (GROUP, "mei"), (OTHER, "lin"), (GROUP, "lin")):
        await inbox.accept(inbox.stamp(message(chat, user=user)))
    inbox.forget_person(GROUP, "lin")
    left = [(record.chat_key, record.sender.user_id) for record in stored(inbox)]
    assert left == [(GROUP, "mei"), (OTHER, "lin")]
    assert len(await store.messages.newest(GROUP, 10)) == 3


async def test_a_message_that_was_stamped_and_never_accepted_is_not_stored(
    inbox: Inbox, store: Store
) -> None:
    stamped = inbox.stamp(message(GROUP, "buy!", user="spam", message_id="1"))
    kept = await inbox.accept(inbox.stamp(message(GROUP, "hello", message_id="2")))
    assert kept is not None
    assert stamped.record.seq < kept.seq
    assert stored(inbox) == [kept] == await store.messages.newest(GROUP, 10)
    assert await store.users.name("fake", "spam") == ""


async def test_a_system_line_is_published_and_may_wake_the_agent(
    inbox: Inbox, store: Store, activity: Broadcast, clock: Clock
) -> None:
    clock.now = 1_234.0
    async with activity.watch(GROUP) as stream:
        plain = await inbox.note(GROUP, "a dice\udc00 fell")
        woken = await inbox.note(GROUP, "it is four", to_bot=True)
        assert [await anext(stream), await anext(stream)] == [Recorded(plain), Recorded(woken)]
    assert stored(inbox) == [plain, woken] == await store.messages.newest(GROUP, 10)
    assert (plain.author, plain.run_id, plain.to_bot, plain.time) == (
        Author.SYSTEM,
        "",
        False,
        1_234.0,
    )
    assert plain.segments == (Text("a dice\ufffd fell"),)
    assert woken.to_bot


async def test_two_lines_with_the_same_unique_id_are_stored_once_and_a_line_may_reset_the_chat(
    inbox: Inbox, store: Store
) -> None:
    first = await inbox.note(GROUP, "timer 7", unique_id="timer:7")
    await inbox.note(GROUP, "timer 7", unique_id="timer:7")
    anew = await inbox.note(GROUP, "from here on", begins_anew=True)
    assert stored(inbox) == [first, anew] == await store.messages.newest(GROUP, 10)
    assert anew.segments == (Notice(CONVERSATION_RESET), Text("from here on"))


async def test_sql_statements_given_with_a_system_line_are_written_with_it(
    inbox: Inbox, store: Store
) -> None:
    seqs: list[int] = []

    def beside(seq: int) -> tuple[SqlStatement, ...]:
        seqs.append(seq)
        values = (f"n{seq}", str(OTHER), 1.0)
        return (
            SqlStatement(
                "INSERT INTO chats (instance, chat_key, first_seen, handled_seq) "
                "VALUES (?, ?, ?, 0)",
                values,
            ),
        )

    note = await inbox.note(GROUP, "a line", beside=beside)
    assert [final_seq(each) for each in seqs] == [note.seq]
    assert set(await store.chats.all()) == {GROUP, OTHER}


async def test_a_message_that_could_not_be_stored_is_accepted_when_it_arrives_again(
    tmp_path: Path, clock: Clock, activity: Broadcast
) -> None:
    """Another program locks the database file, so the first message is not stored. Its chat and its
    person are stored when the message arrives again."""
    path = tmp_path / "nekro.sqlite3"
    settings = StoreSettings(busy_timeout_s=0.05)
    async with Store.open(f"sqlite://{path}", settings, clock=clock) as store:
        inbox = Inbox(store, activity, wall=clock)
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreUnavailable):
                await inbox.accept(inbox.stamp(message(GROUP, message_id="1")))
            with pytest.raises(StoreUnavailable):
                await inbox.note(OTHER, "a line")
            other.execute("ROLLBACK")
        assert await inbox.accept(inbox.stamp(message(GROUP, message_id="1")))
        await inbox.note(OTHER, "a line")
        assert set(await store.chats.all()) == {GROUP, OTHER}
        assert await store.users.name("fake", "lin") == "Lin"


async def test_a_revision_is_tried_again_if_the_message_changed_meanwhile(
    inbox: Inbox, store: Store
) -> None:
    kept = await inbox.accept(inbox.stamp(message(GROUP, "one", message_id="1")))
    assert kept is not None

    class Contended:
        """The store's messages. Another writer changes the row before each of the first
        ``busy`` tries."""

        tries = 0

        def __getattr__(self, name: str) -> Any:
            return getattr(messages, name)

        async def reword(self, record: Record, segments: tuple[Any, ...]) -> Record | None:
            self.tries += 1
            if self.tries <= busy:
                return None
            return await messages.reword(record, segments)

    messages = store.messages
    for busy, changed in ((2, True), (3, False)):
        contended = Contended()
        store.messages = contended  # type: ignore[assignment]
        revised = await inbox.revise(GROUP, "1", "lin", (Text(f"{busy}"),))
        assert (revised is not None) is changed
        assert contended.tries == 3
    store.messages = messages


async def test_a_time_after_the_year_5138_is_replaced_by_the_present_time(
    inbox: Inbox, clock: Clock
) -> None:
    for time, kept_as in ((0.0, 0.0), (1e11, 1e11), (1.1e11, clock.now)):
        kept = await inbox.accept(inbox.stamp(message(GROUP, message_id=str(time), time=time)))
        assert kept is not None
        assert kept.time == kept_as
