"""Notes are stored once, corrected, found by their words, and limited in number."""

import json

import pytest

from nekro_core.memory.keeper import MemoryKeeper
from nekro_core.memory.notes.book import MAX_NOTES, NewNote, NoSuchNote, NoteRefused
from nekro_core.memory.notes.json_lines import import_lines
from nekro_core.store import NoteRow, Store
from tests.memory.conftest import GROUP, OTHER_GROUP, Clock


def about_lin(text: str, **fields: object) -> NewNote:
    return NewNote(text=text, about_id="10001", about_name="Lin", **fields)  # type: ignore[arg-type]


async def kept(memory: MemoryKeeper, new: NewNote) -> NoteRow:
    found = await memory.notes.keep(GROUP, new)
    assert found is not None
    return found.note


async def texts(memory: MemoryKeeper) -> list[str]:
    return [each.text for each in await memory.notes.listed(GROUP)]


async def test_the_same_note_is_stored_once(memory: MemoryKeeper) -> None:
    first = await memory.notes.keep(GROUP, about_lin("Likes green tea."))
    again = await memory.notes.keep(GROUP, about_lin("likes  green tea"))
    assert first is not None
    assert again is not None
    assert (again.existed, again.note.note_id) == (True, first.note.note_id)
    # The same note about another person is a separate note.
    await memory.notes.keep(GROUP, NewNote(text="Likes green tea.", about_id="20002"))
    assert await texts(memory) == ["Likes green tea.", "Likes green tea."]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("likes green tea", "likes drinking green tea"),
        ("喜欢喝绿茶", "很喜欢喝绿茶"),
        ("緑茶が好きです", "緑茶が大好きです"),
    ],
)
async def test_a_similar_new_note_replaces_the_old_note_and_gets_the_old_notes_date(
    memory: MemoryKeeper, clock: Clock, before: str, after: str
) -> None:
    old = await kept(memory, about_lin(before))
    clock.now += 500
    new = await kept(memory, about_lin(after))
    assert await texts(memory) == [after]
    assert new.since == old.since
    ended = await memory.notes.get(GROUP, old.note_id)
    assert (ended.holds, ended.replaced_by) == (False, new.note_id)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("the meeting is on 3 May", "the meeting is on 10 May"),
        ("likes green tea", "does not like green tea"),
        ("会议在5月3日举行", "会议在5月10日举行"),
    ],
)
async def test_a_correction_has_the_date_on_which_it_was_said(
    memory: MemoryKeeper, clock: Clock, before: str, after: str
) -> None:
    old = await kept(memory, about_lin(before))
    clock.now += 500
    new = await kept(memory, about_lin(after))
    assert await texts(memory) == [after]
    assert (new.since, old.since) == (clock.now, clock.now - 500)


async def test_fifteen_notes_are_ended_at_once_and_their_time_of_change_is_now(
    memory: MemoryKeeper, clock: Clock
) -> None:
    numbers = [
        (
            await kept(memory, NewNote(text=f"member {number} likes tea", about_id=str(number)))
        ).note_id
        for number in range(15)
    ]
    clock.now += 500
    await memory.notes.end(GROUP, numbers)
    assert await texts(memory) == []
    changed = {each.changed for each in await memory.notes.listed(GROUP, ended=True)}
    assert changed == {clock.now}


async def test_a_note_that_contradicts_ten_others_ends_them_but_they_can_be_read(
    memory: MemoryKeeper,
) -> None:
    towns = ("Kiel", "Bonn", "Ulm", "Jena", "Halle", "Trier", "Hof", "Worms", "Suhl", "Celle")
    old = [await kept(memory, about_lin(f"on trip {town} was her town")) for town in towns]
    numbers = [each.note_id for each in old]
    await kept(memory, about_lin("never left home at all", replaces=numbers))
    assert await texts(memory) == ["never left home at all"]
    history = await memory.notes.listed(GROUP, ended=True)
    assert len(history) == 11


async def test_notes_that_share_words_but_say_different_things_are_not_merged(
    memory: MemoryKeeper,
) -> None:
    for text in ("likes tea", "likes dogs", "wants a bicycle", "wants a dog"):
        await kept(memory, about_lin(text))
    assert len(await texts(memory)) == 4


async def test_notes_are_found_by_their_words(memory: MemoryKeeper) -> None:
    for text in (
        "allergic to walnuts",
        "works in a hospital in Bremen",
        "她对花生过敏",
        "the train to Bremen leaves at 9:14",
        "来週の金曜日に引っ越します",
    ):
        await kept(memory, about_lin(text))

    async def found(words: str, **fields: object) -> list[str]:
        notes = await memory.notes.find(GROUP, words, **fields)  # type: ignore[arg-type]
        return [each.text for each in notes]

    assert await found("allergy walnut") == ["allergic to walnuts"]
    assert (await found("花生"))[0] == "她对花生过敏"
    assert (await found("金曜日"))[0] == "来週の金曜日に引っ越します"
    assert set(await found("Bremen")) == {
        "works in a hospital in Bremen",
        "the train to Bremen leaves at 9:14",
    }
    assert await found("train Bremen", limit=1) == ["the train to Bremen leaves at 9:14"]
    assert await found("zeppelin") == []
    assert await found("Bremen", about="20002") == []
    assert len(await found("")) == 5


async def test_empty_and_long_notes_are_refused_and_the_error_says_what_to_do(
    memory: MemoryKeeper,
) -> None:
    with pytest.raises(NoteRefused, match="empty"):
        await memory.notes.keep(GROUP, NewNote(text=" \u200b\n"))
    with pytest.raises(NoteRefused, match="500 characters: write it shorter"):
        await memory.notes.keep(GROUP, NewNote(text="x" * 501))
    with pytest.raises(NoteRefused, match="500 characters"):
        await memory.notes.keep(GROUP, NewNote(text="y " * 5_000_000))
    await memory.notes.keep(GROUP, NewNote(text="z" * 500))


async def test_above_the_maximum_ended_notes_are_deleted_first_and_then_the_oldest(
    memory: MemoryKeeper, store: Store
) -> None:
    ended = await store.notes.add(
        NoteRow(chat_key=GROUP, text="ended", since=1.0, until=2.0, changed=2.0)
    )
    for number in range(MAX_NOTES - 1):
        await store.notes.add(NoteRow(chat_key=GROUP, text=f"w{number}", since=1.0, changed=1.0))
    await kept(memory, NewNote(text="one more"))
    assert await store.notes.count(GROUP) == MAX_NOTES
    assert await store.notes.get(ended, [GROUP]) is None
    await kept(memory, NewNote(text="and another one"))
    notes = await texts(memory)
    assert (notes[0], notes[-1], len(notes)) == ("and another one", "w1", MAX_NOTES)


async def test_a_note_is_changed_and_deleted_only_from_chats_that_may_read_it(
    memory: MemoryKeeper,
) -> None:
    note = await kept(memory, about_lin("likes green tea"))
    with pytest.raises(NoSuchNote, match=f"no note {note.note_id} here"):
        await memory.notes.delete(OTHER_GROUP, note.note_id)
    with pytest.raises(NoSuchNote):
        await memory.notes.rewrite(OTHER_GROUP, note.note_id, "changed")
    before = await memory.notes.rewrite(GROUP, note.note_id, "likes black tea")
    assert (before.text, await texts(memory)) == ("likes green tea", ["likes black tea"])
    gone = await memory.notes.delete(GROUP, note.note_id)
    assert await texts(memory) == []
    await memory.notes.put_back(gone)
    assert await texts(memory) == ["likes black tea"]


async def test_nothing_is_stored_about_a_person_who_has_switched_notes_off(
    memory: MemoryKeeper,
) -> None:
    await kept(memory, about_lin("likes green tea"))
    assert await memory.switch_off(GROUP, "10001") == 1
    assert await texts(memory) == []
    with pytest.raises(NoteRefused, match="wants nothing to be remembered"):
        await memory.notes.keep(GROUP, about_lin("likes black tea"))
    with pytest.raises(NoteRefused):
        await memory.notes.keep(GROUP, NewNote(text="the cinema is closed", said_by="10001"))
    await memory.notes.keep(GROUP, NewNote(text="the cinema is closed", said_by="20002"))
    await memory.scope.set_off(GROUP, "10001", off=False)
    await memory.notes.keep(GROUP, about_lin("likes black tea"))


async def test_a_line_of_an_import_ends_only_at_a_line_feed(memory: MemoryKeeper) -> None:
    """JSON may contain the other characters that end a line for Python."""
    lines = "".join(
        json.dumps({"text": f"likes{end}tea {number}"}, ensure_ascii=False) + "\r\n"
        for number, end in enumerate(("\u2028", "\u2029", "\x85"))
    )
    done = await import_lines(memory.notes, lines, chat_key=GROUP)
    assert (done.kept, done.refused_count) == (3, 0)
