"""The memory of one chat never reaches another chat. This is tested for every pair of chats and
every kind of memory.

For each chat, all its memories contain a word that no other chat uses. If a chat shows the word of
another one, there is a leak.
"""

from itertools import permutations

import pytest

from nekro_core.chat import ChatKey
from nekro_core.memory.keeper import MemoryKeeper
from nekro_core.memory.notes.book import NewNote, NoSuchNote
from nekro_core.memory.scope import LinkRefused
from nekro_core.memory.settings import MemorySettings
from nekro_core.store import MAX_LINKED, RECORDS_LEVEL, Store
from tests.memory.conftest import LIN, MIA, Clock, QuickModel, memory_of, say

CHATS = {
    ChatKey.parse(key): word
    for key, word in {
        "onebot_v11-group_30003": "vermilion",
        "onebot_v11-group_40004": "turquoise",
        "onebot_v11-private_10001": "ochre",
        "onebot_v11-private_20002": "magenta",
        "telegram-group_30003": "indigo",
        "telegram-private_10001": "sepia",
        "discord-channel_1": "cyan",
        "discord-channel_1#thread": "umber",
    }.items()
}
PEOPLE = ("10001", "20002")
KINDS = ("summary", "notes", "find", "listed", "about a person", "drawn", "number")


@pytest.fixture
async def filled(store: Store, settings: MemorySettings, clock: Clock) -> MemoryKeeper:
    """A memory in which the same two people have messages, notes and summaries in each chat."""

    def answer(instructions: str, text: str) -> str:
        (word,) = {word for word in CHATS.values() if word in text}
        if "notes of a chat" in instructions:
            source = text.partition("#")[2].partition(" ")[0]
            return f'{{"text": "drawn {word}", "about": "10001", "from": {source}}}'
        return f"They spoke of {word}."

    model = QuickModel(answer)
    memory = await memory_of(store, settings, model, clock)
    for key, word in CHATS.items():
        for n in range(40):
            await say(store, f"{word} {n}", key=key, by=LIN if n % 2 else MIA)
        last = await say(store, f"{word} noted", key=key, by=None)
        for person in PEOPLE:
            new = NewNote(text=f"{person} likes {word}", about_id=person, said_by=person)
            await memory.notes.keep(key, new)
        await memory.notes.keep(key, NewNote(text=f"meets for {word} on Friday"))
        await memory.sections(key, before_seq=last.seq, people=PEOPLE)
    await memory.work()
    assert not memory.waiting()
    return memory


async def seen_in(memory: MemoryKeeper, store: Store, key: ChatKey) -> dict[str, str]:
    """Everything that a chat can see of the memory, by kind."""
    newest = (await store.messages.newest(key, 1))[0].seq
    shown = await memory.sections(key, before_seq=newest, people=PEOPLE)
    book = memory.notes
    own = CHATS[key]
    found = [await book.find(key, word, limit=50) for word in ("likes", "drawn", *CHATS.values())]
    listed = await book.listed(key, ended=True)
    about = [each for person in PEOPLE for each in await book.find(key, "", about=person, limit=50)]
    numbers = []
    for number in range(1, 200):
        try:
            numbers.append((await book.get(key, number)).text)
        except NoSuchNote:
            continue
    assert own in shown.summary
    assert own in shown.notes
    return {
        "summary": shown.summary,
        "notes": shown.notes,
        "find": str(found),
        "listed": str(listed),
        "about a person": str(about),
        "drawn": str([each for each in listed if each.origin == "drawn"]),
        "number": str(numbers),
    }


async def test_no_memory_is_shared_between_any_two_chats(
    filled: MemoryKeeper, store: Store
) -> None:
    seen = {key: await seen_in(filled, store, key) for key in CHATS}
    walked = 0
    for one, other in permutations(CHATS, 2):
        for kind in KINDS:
            assert CHATS[one] in seen[one][kind], (one, kind)
            assert CHATS[other] not in seen[one][kind], (one, other, kind)
            assert str(other) not in seen[one][kind] or str(one).startswith(str(other))
            walked += 1
    assert walked == len(CHATS) * (len(CHATS) - 1) * len(KINDS)


async def test_linked_chats_share_notes_and_nothing_else(
    filled: MemoryKeeper, store: Store
) -> None:
    one, two, *_ = CHATS
    telegram = ChatKey.parse("telegram-private_10001")
    before = await filled.scope.link([one, telegram], "friends")
    assert before == {one: "", telegram: ""}
    seen = {key: await seen_in(filled, store, key) for key in CHATS}
    for kind in ("notes", "find", "listed", "about a person"):
        assert CHATS[telegram] in seen[one][kind], kind
        assert CHATS[one] in seen[telegram][kind], kind
        for key, word in CHATS.items():
            if key not in (one, telegram):
                assert CHATS[one] not in seen[key][kind]
                assert word not in seen[one][kind]
    assert CHATS[telegram] not in seen[one]["summary"]
    assert f"in {telegram}" in seen[one]["notes"], "the model must see in which chat it was said"
    assert CHATS[two] not in str(seen[telegram])
    # The link is kept over a restart. After that it is removed.
    again = await memory_of(store, MemorySettings(), QuickModel(), Clock())
    assert again.scope.readable(one) == {one, telegram}
    await again.scope.link([one], "")
    assert again.scope.readable(telegram) == {telegram}
    assert again.scope.readable(one) == {one}


async def test_the_number_of_linked_chats_is_limited(memory: MemoryKeeper) -> None:
    many = [ChatKey.parse(f"fake-group_{n}") for n in range(MAX_LINKED + 1)]
    with pytest.raises(LinkRefused, match="more than 50 chats"):
        await memory.scope.link(many, "all")
    await memory.scope.link(many[:-1], "all")
    with pytest.raises(LinkRefused):
        await memory.scope.link(many[-1:], "all")


async def test_a_person_who_switches_memory_off_does_so_on_the_whole_platform(
    filled: MemoryKeeper, store: Store
) -> None:
    group, other, *_ = CHATS
    await filled.switch_off(group, "10001")
    for key, word in CHATS.items():
        about = await filled.notes.listed(key, about=["10001"])
        assert bool(about) == (key.instance != "onebot_v11"), key
        others = await filled.notes.listed(key, about=["20002"])
        assert f"20002 likes {word}" in [each.text for each in others]
        summaries = await store.summaries.of_chat(key, level=RECORDS_LEVEL)
        stale = {each.state == "stale" for each in summaries}
        if key.instance == "onebot_v11":
            assert True in stale, key
        else:
            assert stale == {False}, key
    assert filled.scope.is_off(other, "10001")
    assert not filled.scope.is_off(ChatKey.parse("telegram-group_30003"), "10001")
