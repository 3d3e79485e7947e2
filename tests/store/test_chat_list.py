"""Tests of the lists that an operator sees: chats, their members, and their history, which can be
searched."""

from pathlib import Path

import pytest

from nekro_core.chat import ChatKey, Image, Media, Role, Sender, Text
from nekro_core.store import (
    ChatsPage,
    DecisionReason,
    FoundMessages,
    MessageDecision,
    Person,
    Store,
)

from .conftest import GROUP, Clock, record, say
from .test_statistics import count, turn

LIN = ChatKey.parse("onebot_v11-private_10001")
MEI = ChatKey.parse("telegram-private_77")


async def group(store: Store, number: int, name: str = "") -> ChatKey:
    """Store a group with one message. Return the key of the group."""
    key = ChatKey.parse(f"onebot_v11-group_{number}")
    said = record(store, key=key)
    await store.messages.add(said, unique_id=None, before=store.chats.seen(key, name))
    return key


def keys(page: ChatsPage) -> list[ChatKey]:
    return [chat.chat_key for chat in page.chats]


async def test_chats_are_listed_page_by_page_and_the_most_recent_comes_first(store: Store) -> None:
    groups = [await group(store, number) for number in range(7)]
    listed, before = [], 0
    while True:
        page = await store.chat_list.page(before=before, limit=3)
        listed += keys(page)
        if not (before := page.before):
            break
        assert len(page.chats) == 3
    assert listed == groups[::-1]
    await say(store, "again", key=groups[2])
    page = await store.chat_list.page(limit=2)
    assert keys(page) == [groups[2], groups[6]]
    assert page.chats[0].newest is not None
    assert page.chats[0].newest.segments == (Text("again"),)


async def test_chats_are_found_by_each_kind_of_filter(store: Store) -> None:
    await store.accounts.bind("onebot_v11", "20002")
    await store.accounts.bind("telegram", "7")
    library = await group(store, 1, "图书馆 Library")
    other = await group(store, 2, "kitchen")
    await store.messages.add(
        record(store, key=MEI),
        unique_id=None,
        before=(*store.chats.seen(MEI), *store.users.seen("telegram", Sender("77", "梅 Mei"))),
    )
    for found, wanted in (
        ({"text": "图书"}, [library]),
        ({"text": "LIBRARY"}, [library]),
        ({"text": "group_2"}, [other]),
        ({"text": "mei"}, [MEI]),
        ({"text": "100%"}, []),
        ({"adapter": "telegram"}, [MEI]),
        ({"instance": "onebot_v11"}, [other, library]),
        ({"where": lambda key: key != other}, [MEI, library]),
    ):
        assert keys(await store.chat_list.page(**found)) == wanted, found  # type: ignore[arg-type]
    (shown,) = (await store.chat_list.page(adapter="telegram")).chats
    assert (shown.name, shown.adapter, shown.account) == ("梅 Mei", "telegram", "7")


async def test_a_chat_shows_its_use_of_models(store: Store, clock: Clock) -> None:
    await say(store, time=clock.now)
    await turn(store, clock)
    await count(store, clock)
    chat = await store.chat_list.one(GROUP)
    assert chat is not None
    assert (chat.messages, chat.used.turns, chat.used.tokens) == (1, 1, 1_050)
    assert await store.chat_list.one(LIN) is None


async def test_the_private_chat_of_an_erased_person_is_removed_from_the_list(store: Store) -> None:
    await say(store, key=LIN, sender=Sender("10001", "Lin"))
    await say(store)
    await say(store, "bye", sender=Sender("10002", "Mei"))
    await say(store, "mine", sender=Sender("10001", "Lin"))
    assert len((await store.chat_list.page()).chats) == 2
    person = Person(adapter="onebot_v11", user_id="10001", instances=("onebot_v11",))
    await store.erasing.erase(person, await store.erasing.look(person))
    (left,) = (await store.chat_list.page()).chats
    assert left.chat_key == GROUP
    assert left.newest is not None
    assert left.newest.segments == (Text("bye"),)


async def test_members_are_listed_with_their_role_and_their_use_of_models(
    store: Store, clock: Clock
) -> None:
    lin, admin = Sender("10001", "Lin"), Sender("10002", "Mei", Role.ADMIN)
    for sender in (lin, admin):
        await store.messages.add(
            record(store, sender=sender, time=clock.now),
            unique_id=None,
            before=store.users.seen("onebot_v11", sender),
        )
    await turn(store, clock, user="10002")
    clock.now += 100_000
    await turn(store, clock, user="10002")
    await count(store, clock)
    found = {each.user_id: each for each in await store.chat_list.members(GROUP)}
    assert found["10001"].role is Role.MEMBER
    mei = found["10002"]
    assert (mei.name, mei.role, mei.messages) == ("Mei", Role.ADMIN, 1)
    assert (mei.day.turns, mei.day.tokens) == (1, 1_050)
    assert (mei.ever.turns, mei.ever.cost) == (2, pytest.approx(0.04))


async def test_a_history_is_read_in_both_directions_and_shows_the_decision_about_each_message(
    store: Store,
) -> None:
    said = [await say(store, f"message {number}") for number in range(10)]
    store.decisions.note(said[9].seq, MessageDecision(reason=DecisionReason.NOT_ADDRESSED))
    await say(store, key=LIN)
    newest = await store.chat_list.history(GROUP, limit=3)
    assert [line.record.seq for line in newest] == [each.seq for each in said[-3:]]
    assert [line.decision for line in newest] == [
        None,
        None,
        MessageDecision(reason=DecisionReason.NOT_ADDRESSED),
    ]
    older = await store.chat_list.history(GROUP, before=said[7].seq, limit=3)
    assert [line.record.seq for line in older] == [each.seq for each in said[4:7]]
    newer = await store.chat_list.history(GROUP, after=said[2].seq, limit=3)
    assert [line.record.seq for line in newer] == [each.seq for each in said[3:6]]


def texts(found: FoundMessages) -> list[str]:
    return [
        "".join(part.text for part in line.record.segments if isinstance(part, Text))
        for line in found.lines
    ]


async def test_a_search_finds_words_of_any_script_in_one_chat_or_in_all_chats(store: Store) -> None:
    await say(store, "图书馆几点关门")
    await say(store, "図書館へ行く", key=LIN)
    await say(store, 'the "Library" closes at 100% sure_')
    await say(store, "nothing", key=LIN)
    store_of = store.search.find
    assert texts(await store_of("几点")) == ["图书馆几点关门"]
    assert texts(await store_of("図")) == ["図書館へ行く"]
    assert texts(await store_of("图", chat_key=LIN)) == []
    for words in ("library", '"Library"', "100%", "sure_"):
        assert len((await store_of(words)).lines) == 1, words
    assert texts(await store_of("1_0")) == []
    assert texts(await store_of("text")) == [], "the search must ignore the JSON around the words"
    with pytest.raises(ValueError, match="nothing to search"):
        await store_of("  ")


async def test_a_search_continues_where_the_previous_page_ended(store: Store) -> None:
    for number in range(50):
        await say(store, f"tea {number}" if number % 2 else "coffee")
    found, before, calls = [], 0, 0
    while True:
        part = await store.search.find("tea", before=before, limit=7)
        found += texts(part)
        calls += 1
        if not (before := part.before):
            break
    assert found == [f"tea {number}" for number in range(49, 0, -2)]
    assert calls == 4


async def test_recalled_and_erased_words_are_not_found(store: Store) -> None:
    await say(store, "a secret", message_id="m1")
    await say(store, "a second secret", sender=Sender("10002", "Mei"))
    picture = Image(Media(path="/secret.png", name="secret.png"))
    await say(store, "", segments=(picture,), sender=Sender("10003", "Bo"))
    await store.messages.recall(GROUP, "m1")
    assert texts(await store.search.find("secret")) == ["a second secret"]
    person = Person(adapter="onebot_v11", user_id="10002", instances=("onebot_v11",))
    await store.erasing.erase(person, await store.erasing.look(person))
    assert texts(await store.search.find("secret")) == []


async def test_a_reopened_store_keeps_the_order_of_the_chats(tmp_path: Path, clock: Clock) -> None:
    url = f"sqlite://{tmp_path}/nekro.sqlite3"
    async with Store.open(url, clock=clock) as store:
        groups = [await group(store, number) for number in range(3)]
    async with Store.open(url, clock=clock) as store:
        await say(store, key=groups[0])
        assert keys(await store.chat_list.page()) == [groups[0], groups[2], groups[1]]
