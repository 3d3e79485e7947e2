"""Messages are searched in conversations: people write, and later somebody asks what was said."""

import time
from datetime import UTC, datetime

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nekro_core.chat import (
    CONVERSATION_RESET,
    ChatKey,
    File,
    Forward,
    ForwardedMessage,
    Image,
    Media,
    Notice,
    Reply,
    Text,
    Voice,
)
from nekro_core.memory.search.finder import BadSearch, MessageFinder, MessageQuery, unseen_line
from nekro_core.store import Store
from nekro_core.store.search_blocks import BLOCK, IndexedMessage
from nekro_core.store.search_index import SearchSegment
from tests.memory.search.conftest import NOW, Talk


@pytest.fixture(params=["new", "indexed"])
async def kiln(request: pytest.FixtureRequest, talk: Talk) -> Talk:
    """A conversation. Each test runs once while its messages are not in the index yet, and once
    when all of them are."""
    await talk.say("Mei", "The kiln was too hot again, both bowls cracked.")
    await talk.say("Tom", "What a pity! I baked a loaf of rye bread.")
    await talk.say("小雨", "我养了一只橘猫，名字叫馒头")
    await talk.say("さくら", "来月、本栖湖でキャンプをします")
    await talk.say("bot", "I can remind you of the camping trip.")
    if request.param == "indexed":
        await talk.chatter(200)
        await talk.index()
        assert await talk.store.search_index.segments(talk.key)
    return talk


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ("Why did the bowl crack?", "The kiln was too hot again, both bowls cracked."),
        ("who bakes bread", "What a pity! I baked a loaf of rye bread."),
        ("小雨的猫叫什么名字？", "我养了一只橘猫，名字叫馒头"),
        ("貓", "我养了一只橘猫，名字叫馒头"),
        ("キャンプはどこ？", "来月、本栖湖でキャンプをします"),
    ],
)
async def test_a_question_finds_its_answer(kiln: Talk, words: str, answer: str) -> None:
    assert (await kiln.find(words, limit=3))[0] == answer


async def test_the_question_before_an_answer_helps_to_find_it(talk: Talk) -> None:
    await talk.chatter(200)
    await talk.say("Mei", "Which instrument does your brother play?")
    await talk.say("Tom", "The cello, since he was six.")
    await talk.chatter(200)
    await talk.index()
    assert "The cello, since he was six." in await talk.find("instrument of the brother", limit=3)


async def test_words_that_nobody_used_find_nothing(kiln: Talk) -> None:
    assert await kiln.find("parliament") == []
    assert await kiln.find("议会") == []


async def test_a_question_of_which_only_one_word_was_said_gives_three_messages_marked_as_weak(
    talk: Talk,
) -> None:
    for number in range(8):
        await talk.say("Mei", f"The kiln was too hot for bowl {number}.")
    await talk.chatter(300)
    await talk.index()
    finder = MessageFinder(talk.store, wall=lambda: NOW)
    other = "Did parliament vote on the railway bill before the minister resigned over the kiln?"
    found = await finder.find(talk.key, MessageQuery(words=other))
    assert found.weak
    assert len(found.records) == 3
    for words in ("kiln", "Why was the kiln too hot?", "Which bowl cracked in the hot kiln?"):
        found = await finder.find(talk.key, MessageQuery(words=words))
        assert not found.weak
        assert len(found.records) == 10
    nothing = await finder.find(talk.key, MessageQuery(words="parliament"))
    assert (nothing.records, nothing.weak) == ((), False)
    newest = await finder.find(talk.key, MessageQuery())
    assert not newest.weak


async def test_messages_of_a_person_are_found_by_name_and_by_id(kiln: Talk) -> None:
    bread = "What a pity! I baked a loaf of rye bread."
    assert await kiln.find("bread", who="tom") == [bread]
    assert await kiln.find("bread", who="@Tom") == [bread]
    assert await kiln.find("bread", who="10002") == [bread]
    assert await kiln.find("馒头", who="小雨") == ["我养了一只橘猫，名字叫馒头"]
    assert bread not in await kiln.find("bread", who="Mei")
    assert await kiln.find(who="you") == ["I can remind you of the camping trip."]


async def test_an_unknown_person_is_refused_and_the_known_people_are_listed(kiln: Talk) -> None:
    with pytest.raises(BadSearch, match=r"who='Zaphod': nobody of this chat .*Mei \(10001\)"):
        await kiln.find("bread", who="Zaphod")


async def test_dates_limit_a_search(talk: Talk) -> None:
    talk.now = 1_672_531_200.0  # 1 January 2023, UTC
    await talk.say("Mei", "bread in winter")
    talk.now = 1_688_169_600.0  # 1 July 2023
    await talk.say("Mei", "bread in summer")
    assert await talk.find("bread", since="2023-06-01") == ["bread in summer"]
    assert await talk.find("bread", until="2023-06-01") == ["bread in winter"]
    assert await talk.find(since="2023-06-01", until="2023-08-01") == ["bread in summer"]
    assert (await talk.find("What of the bread in July?"))[0] == "bread in summer"
    assert await talk.find("in July") == ["bread in summer"]
    talk.now = NOW - 86_400.0
    await talk.say("Mei", "porridge")
    assert await talk.find("What did we talk about yesterday?") == ["porridge"]
    assert await talk.find("昨天说了什么？") == ["porridge"]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"since": "last week"}, r"since='last week' is no date: write 2025-03-08"),
        ({"until": "8.3."}, r"until='8\.3\.' is no date: write 2025-03-08"),
        ({"since": "2023-06-02", "until": "2023-06-01"}, "is not before until="),
        ({"kind": "smell"}, r"kind='smell': expected one of image, voice, video, file"),
    ],
)
async def test_a_bad_argument_says_what_was_expected(
    kiln: Talk, query: dict[str, str], said: str
) -> None:
    with pytest.raises(BadSearch, match=said):
        await kiln.find("bread", **query)


async def test_messages_of_a_kind_are_found(talk: Talk) -> None:
    await talk.say("Mei", Image(Media(path="/data/cat.png")), "the cat")
    await talk.say("Tom", File(Media(path="/data/1.pdf", name="budget of May.pdf")))
    await talk.say("Tom", Voice(Media(path="/data/1.wav"), "I lost the umbrella"))
    await talk.say("Mei", "see https://example.org for the cat")
    old = ForwardedMessage("9", "Zoe", (Text("the meeting is on Friday"),))
    await talk.say("Mei", Forward((old,)))
    assert await talk.find("cat", kind="image") == ["the cat"]
    assert await talk.find("cat", kind="link") == ["see https://example.org for the cat"]
    assert len(await talk.find("budget", kind="file")) == 1
    assert len(await talk.find("umbrella", kind="voice")) == 1
    assert len(await talk.find("When is the meeting?", kind="forward")) == 1
    assert await talk.find(kind="video") == []


async def test_a_search_without_words_gives_the_newest_messages_first(kiln: Talk) -> None:
    await kiln.say("Mei", "one")
    await kiln.say("Mei", "two")
    assert (await kiln.find(who="Mei", limit=2)) == ["two", "one"]


async def test_a_time_span_begins_and_ends_at_any_message(talk: Talk) -> None:
    await talk.chatter(400)
    await talk.index()
    begun = NOW - 100_000.0

    def date(number: int) -> str:
        return datetime.fromtimestamp(begun + 60.0 * number, UTC).isoformat()

    for first, last in ((1, 10), (60, 70), (64, 65), (65, 129), (100, 128), (120, 140), (350, 390)):
        newest = [f"small talk number {number}, nothing more" for number in range(first, last)]
        found = await talk.find(since=date(first + 1), until=date(last + 1), limit=50)
        assert found == newest[::-1][:50]


async def test_messages_whose_times_are_in_no_order_are_found_by_their_times(talk: Talk) -> None:
    for number in range(400):
        talk.now = NOW - 100_000.0 - 60.0 + 50_000.0 * (number % 2)
        await talk.say("Mei", f"{('early', 'late')[number % 2]} {number}")
    await talk.index()
    until = datetime.fromtimestamp(NOW - 80_000.0, UTC).isoformat()
    found = await talk.find(until=until, limit=50)
    assert found == [f"early {number}" for number in range(398, 298, -2)]


async def test_many_recalled_messages_do_not_make_a_search_read_on_and_on(talk: Talk) -> None:
    oldest = await talk.say("Mei", "the oldest")
    for _ in range(1300):
        recalled = await talk.say("Mei", "said in error")
        await talk.store.messages.recall(talk.key, recalled.message_id)
    await talk.index()
    finder = MessageFinder(talk.store, wall=lambda: NOW)
    nothing = await finder.find(talk.key, MessageQuery())
    assert nothing.records == ()
    assert nothing.incomplete
    found = await finder.find(talk.key, MessageQuery(words="oldest"))
    assert [each.seq for each in found.records] == [oldest.seq]
    assert not found.incomplete


@pytest.mark.long
async def test_a_list_of_the_newest_of_a_million_messages_does_not_read_the_whole_index(
    talk: Talk,
) -> None:
    # A million messages are written into the index alone. Only newer ones, which are said below,
    # are also stored.
    talk.now = NOW - 60.0 * 1_001_000
    index = talk.store.search_index
    for start in range(0, 1_000_000, 40_000):
        messages = [
            IndexedMessage(number + 1, talk.now + 60.0 * number, 5, 0)
            for number in range(start, start + 40_000)
        ]
        segment = SearchSegment(
            id=0,
            level=0,
            start=start,
            count=len(messages),
            terms=5 * len(messages),
            buckets=1,
            first_seq=start + 1,
            last_seq=start + len(messages),
        )
        await index.add_segment(talk.key, segment, {}, messages, changes_until=0)
    while talk.store.messages.reserve() < 1_000_000:
        pass
    talk.now = NOW - 3600.0
    for number in range(20):
        await talk.say("Mei", f"new {number}")
    newest = [f"new {number}" for number in range(19, 9, -1)]
    date = datetime.fromtimestamp(NOW - 60.0 * 1_000_000, UTC).date().isoformat()
    begun = time.process_time()
    await index.block_table(talk.key, range(1_000_000 // BLOCK))
    whole = time.process_time() - begun
    for query in ({}, {"since": date}, {"until": "2100-01-01"}, {"who": "Mei", "since": date}):
        begun = time.process_time()
        assert await talk.find(**query) == newest
        assert time.process_time() - begun < whole / 2, query


async def test_another_chat_is_never_searched(kiln: Talk, store: Store) -> None:
    other = Talk(store, ChatKey.parse("web-group_other"))
    await other.say("Mei", "The kiln of the other chat cracked a bowl.")
    await other.chatter(200)
    await other.index()
    assert "The kiln of the other chat cracked a bowl." not in await kiln.find("kiln", limit=50)
    found = await other.find("kiln", limit=50)
    assert found[0] == "The kiln of the other chat cracked a bowl."
    assert "The kiln was too hot again, both bowls cracked." not in found


async def test_nothing_from_before_a_reset_is_found(kiln: Talk) -> None:
    await kiln.say("system", Notice(CONVERSATION_RESET), "a new conversation")
    assert await kiln.find("kiln") == []
    await kiln.say("Mei", "The kiln works again.")
    assert await kiln.find("kiln") == ["The kiln works again."]
    await kiln.chatter(200)
    await kiln.index()
    assert (await kiln.find("kiln"))[0] == "The kiln works again."
    assert "The kiln was too hot again, both bowls cracked." not in await kiln.find("kiln")


async def test_a_quoted_text_is_found_in_its_message_and_not_in_the_reply(talk: Talk) -> None:
    quoted = await talk.say("Mei", "my secret is the kiln")
    await talk.say("Tom", Reply(quoted.message_id, "10001", "my secret is the kiln"), "I see")
    await talk.store.messages.recall(talk.key, quoted.message_id)
    assert await talk.find("kiln") == []


async def test_answered_by_gives_the_number_of_the_message_that_a_reply_answers(talk: Talk) -> None:
    asked = await talk.say("Mei", "When do we meet?")
    reply = await talk.say("Tom", Reply(asked.message_id), "At eight.")
    finder = MessageFinder(talk.store)
    assert await finder.answered_by(reply) == asked.seq
    assert await finder.answered_by(asked) == 0


async def test_a_search_finds_at_most_its_limit_and_at_most_50_messages(kiln: Talk) -> None:
    await kiln.chatter(60)
    assert len(await kiln.find("small talk", limit=7)) == 7
    assert len(await kiln.find("small talk", limit=999)) == 50


async def test_any_text_can_be_a_query(kiln: Talk) -> None:
    finder = MessageFinder(kiln.store, wall=lambda: NOW)

    for words in ('"', "a AND (b", "NEAR/3 *", "%_!'", "\0", "\ud800", "x" * 100_000, "🐈" * 50):
        await finder.find(kiln.key, MessageQuery(words=words))


@settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(words=st.text(max_size=60), who=st.sampled_from(["", "Mei", "you"]))
async def test_any_random_text_can_be_a_query(kiln: Talk, words: str, who: str) -> None:
    found = await kiln.find(words, who=who)
    assert len(found) <= 10


async def test_count_before_counts_the_messages_that_a_prompt_does_not_show(talk: Talk) -> None:
    await talk.chatter(400)
    newest = await talk.say("Mei", "the newest")
    finder = MessageFinder(talk.store)
    assert await finder.count_before(talk.key, newest.seq) == 400
    await talk.index()
    assert await finder.count_before(talk.key, newest.seq) == 400
    assert await finder.count_before(talk.key, newest.seq - 390) == 10


def test_the_prompt_says_how_many_messages_it_does_not_show() -> None:
    assert unseen_line(0) == ""
    assert unseen_line(1) == "1 earlier message is not shown: find_messages finds them."
    assert unseen_line(1204) == "1,204 earlier messages are not shown: find_messages finds them."
