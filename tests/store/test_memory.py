"""Notes and summaries are stored, read only within their chats, ended, and erased with their
people."""

from collections.abc import Awaitable

import anyio

from nekro_core.chat import ChatKey, Sender
from nekro_core.store import (
    MemoryProgress,
    NoteRow,
    Person,
    RecordRange,
    Store,
    SummaryRow,
    SummaryState,
)

from .conftest import GROUP, OTHER, Clock, record, say

MIA = Sender("20002", "Mia")


def note(text: str, *, key: ChatKey = GROUP, **fields: object) -> NoteRow:
    values: dict[str, object] = {"chat_key": key, "text": text, "since": 900.0, "changed": 900.0}
    return NoteRow(**{**values, **fields})  # type: ignore[arg-type]


def summary(first: int, last: int, text: str, **fields: object) -> SummaryRow:
    values: dict[str, object] = {
        "chat_key": GROUP,
        "level": 1,
        "from_seq": first,
        "through_seq": last,
        "records": last - first + 1,
        "text": text,
        "begun": 1.0,
        "ended": 2.0,
        "made": 3.0,
    }
    return SummaryRow(**{**values, **fields})  # type: ignore[arg-type]


async def texts(found: Awaitable[list[NoteRow]]) -> list[str]:
    return [each.text for each in await found]


async def test_a_table_is_not_taken_for_empty_after_a_write(store: Store) -> None:
    assert await store.summaries.may_exist() is store.messages.shared
    assert await store.notes.of_chats([GROUP]) == []
    await store.summaries.put(summary(1, 3, "They spoke of tea."))
    assert await store.summaries.may_exist()
    assert await store.notes.of_chats([GROUP]) == []
    await store.notes.add(note("likes tea"))
    assert await texts(store.notes.of_chats([GROUP])) == ["likes tea"]


async def test_rows_of_an_earlier_process_are_found(url: str) -> None:
    async with Store.open(url) as store:
        await store.summaries.put(summary(1, 3, "They spoke of tea."))
        await store.notes.add(note("likes tea"))
    async with Store.open(url) as store:
        assert await store.summaries.may_exist()
        assert await texts(store.notes.of_chats([GROUP])) == ["likes tea"]


async def test_notes_are_read_only_from_the_requested_chats(store: Store) -> None:
    await store.notes.add(note("the meeting is on Friday"))
    await store.notes.add(note("likes tea", about_id="10001"))
    await store.notes.add(note("has a secret", key=OTHER, about_id="10001"))
    of = store.notes.of_chats
    assert await texts(of([GROUP])) == ["likes tea", "the meeting is on Friday"]
    assert await texts(of([GROUP], about=["10001"])) == ["likes tea"]
    assert await texts(of([GROUP], about=[""])) == ["the meeting is on Friday"]
    assert await texts(of([GROUP, OTHER], about=["10001"])) == ["has a secret", "likes tea"]
    assert await of([]) == await of([GROUP], about=[]) == []
    (secret,) = await of([OTHER])
    assert await store.notes.get(secret.note_id, [GROUP]) is None
    assert await store.notes.get(secret.note_id, [OTHER]) == secret


async def test_a_correction_ends_the_note_that_it_corrects(store: Store) -> None:
    old = await store.notes.add(note("lives in Bremen", about_id="10001"))
    other = await store.notes.add(note("lives in Bonn", key=OTHER, about_id="10001"))
    new = await store.notes.add(
        note("lives in Kiel", about_id="10001", since=950.0, changed=990.0), replaces=[old, other]
    )
    assert await texts(store.notes.of_chats([GROUP])) == ["lives in Kiel"]
    ended = await store.notes.get(old, [GROUP])
    assert ended is not None
    assert (ended.until, ended.replaced_by, ended.holds) == (950.0, new, False)
    # The note says when it ended and, for the retention, when its row was changed.
    assert ended.changed == 990.0
    # A message of this chat does not end a note of another chat.
    assert await texts(store.notes.of_chats([OTHER])) == ["lives in Bonn"]


async def test_a_note_and_the_end_of_those_that_it_corrects_are_stored_together(
    store: Store,
) -> None:
    said = await say(store, "one", message_id="m1")
    old = await store.notes.add(note("lives in Bremen"))
    changes = store.notes.changes()
    read = RecordRange(chat_key=GROUP, seqs=(said.seq,))
    with anyio.CancelScope() as scope:
        scope.cancel()  # The write is queued, and nothing after it happens.
        await store.notes.add(note("lives in Kiel"), replaces=[old], read=read)
    await store.notes.add(note("likes tea"))
    assert store.notes.changes() > changes
    assert await texts(store.notes.of_chats([GROUP])) == ["likes tea", "lives in Kiel"]

    await store.messages.recall(GROUP, "m1")
    kiel = (await store.notes.of_chats([GROUP]))[1]
    assert not await store.notes.add(note("lives in Bonn"), replaces=[kiel.note_id], read=read)
    assert await texts(store.notes.of_chats([GROUP])) == ["likes tea", "lives in Kiel"]


async def test_notes_and_summaries_made_from_a_record_that_was_recalled_meanwhile_are_not_stored(
    store: Store,
) -> None:
    first, second = await say(store, "one"), await say(store, "two", message_id="m2")
    read = RecordRange(chat_key=GROUP, seqs=(first.seq, second.seq))
    assert await store.notes.add(note("kept"), read=read)
    assert await store.summaries.put(summary(first.seq, second.seq, "kept"), read=read)
    await store.messages.recall(GROUP, "m2")
    assert await store.notes.add(note("lost"), read=read) == 0
    assert not await store.summaries.put(summary(first.seq, second.seq, "lost"), read=read)
    assert await texts(store.notes.of_chats([GROUP])) == ["kept"]
    assert [each.text for each in await store.summaries.of_chat(GROUP, level=1)] == ["kept"]


async def test_a_summary_of_a_recalled_record_is_made_again(store: Store) -> None:
    first, second = await say(store, "one"), await say(store, "two", message_id="m2")
    put = store.summaries.put
    await put(summary(first.seq, second.seq, "one and two"))
    await put(summary(first.seq, second.seq, "all", level=2))
    await put(summary(second.seq + 1, second.seq + 9, "later"))
    await store.summaries.mark_recalled_stale(GROUP)
    assert {each.state for each in await store.summaries.of_chat(GROUP, level=1)} == {
        SummaryState.MADE
    }
    await store.notes.add(note("two", source_seq=second.seq))
    await store.messages.recall(GROUP, "m2")
    await store.summaries.mark_recalled_stale(GROUP)
    assert await store.notes.delete_recalled(GROUP) == 1
    stale, made = await store.summaries.of_chat(GROUP, level=1)
    assert (stale.state, stale.text, made.state) == (SummaryState.STALE, "", SummaryState.MADE)
    assert await store.summaries.of_chat(GROUP, level=2) == []


async def test_the_progress_the_links_and_the_people_who_switched_memory_off_are_stored(
    store: Store,
) -> None:
    chats = store.memory_chats
    assert await chats.begin(17) == 17
    assert await chats.begin(99) == 17
    await chats.set_drawn(GROUP, 20)
    await chats.set_link(GROUP, "club")
    await chats.set_drawn(GROUP, 30)
    await chats.set_drawn(GROUP, 25)
    kept = MemoryProgress(drawn_through=30, link="club")
    assert await chats.all() == {GROUP: kept}
    assert await chats.get(GROUP) == kept
    assert await chats.get(OTHER) is None
    await chats.set_off("d1", off=True, now=1.0)
    await chats.set_off("d1", off=True, now=2.0)
    await chats.set_off("d2", off=True, now=2.0)
    await chats.set_off("d2", off=False, now=3.0)
    assert await chats.off() == {"d1"}


async def test_ended_notes_are_deleted_first_and_then_old_notes(store: Store, clock: Clock) -> None:
    first = await store.notes.add(note("old and holds", changed=100.0))
    second = await store.notes.add(note("ended", until=800.0, changed=800.0))
    third = await store.notes.add(note("new", changed=900.0))
    assert await store.notes.oldest(GROUP, 2) == [second, first]
    assert await store.notes.delete_older(500.0) == 1
    assert await store.notes.count(GROUP) == 2
    assert third
    await store.summaries.put(summary(1, 5, "old", ended=100.0))
    await store.summaries.put(summary(6, 9, "new", ended=900.0))
    await store.summaries.delete_older(500.0)
    assert [each.text for each in await store.summaries.of_chat(GROUP, level=1)] == ["new"]


async def test_an_erased_person_is_in_no_note_and_in_no_summary(store: Store) -> None:
    mine = record(store, "my cat is called Momo and bites", key=GROUP)
    known = (*store.chats.seen(GROUP), *store.users.seen("onebot_v11", mine.sender))
    await store.messages.add(mine, unique_id=None, before=known)
    theirs = await say(store, "the cinema opens at eight", key=GROUP, sender=MIA)
    private = ChatKey.parse("onebot_v11-private_10001")
    await say(store, "a secret", key=private)
    add = store.notes.add
    await add(note("bites", about_id="10001", said_by="20002"))
    await add(note("the cat bites", said_by="10001"))
    await add(note("drawn from the message", source_seq=mine.seq))
    await add(note("Momo: my cat is called Momo"))
    await add(note("Lin wants to come along", said_by="20002"))
    await add(note("user 10001 is away"))
    await add(note("Linux is installed on the machine", said_by="20002"))
    await add(note("cinema at eight", said_by="20002", about_id="20002", source_seq=theirs.seq))
    await add(note("a secret of the private chat", key=private))
    put = store.summaries.put
    await put(summary(mine.seq, mine.seq, "somebody told of a cat"))
    await put(summary(theirs.seq, theirs.seq, "the cinema"))
    await put(summary(theirs.seq + 10, theirs.seq + 20, "Lin was praised"))
    await put(summary(theirs.seq + 21, theirs.seq + 30, "the weather"))
    await put(summary(mine.seq, theirs.seq + 20, "all of it", level=2))
    await put(summary(1, 2, "private", chat_key=private))
    await store.memory_chats.set_drawn(private, 3)

    eraser = store.erasing
    person = Person(adapter="onebot_v11", user_id="10001", instances=("onebot_v11",))
    await eraser.erase(person, await eraser.look(person))

    left = await texts(store.notes.of_chats([GROUP, private], ended=True))
    assert left == ["cinema at eight", "Linux is installed on the machine"]
    summaries = await store.summaries.of_chat(GROUP, level=1)
    assert [(each.state.value, each.text) for each in summaries] == [
        ("stale", ""),
        ("made", "the cinema"),
        ("stale", ""),
        ("made", "the weather"),
    ]
    assert await store.summaries.of_chat(GROUP, level=2) == []
    assert await store.summaries.of_chat(private, level=1) == []
    assert await store.memory_chats.all() == {}
