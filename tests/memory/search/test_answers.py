"""A search prefers messages with the traits that the question asks for, such as a time, a place or
an amount of money."""

import pytest

from nekro_core.memory.search.answers import MESSAGE_TRAITS, asked_for, traits_of
from nekro_core.memory.search.features import ranking_weights
from tests.memory import learn_ranking
from tests.memory.search.conftest import Talk


def traits(text: str) -> set[str]:
    bits = traits_of(text)
    return {name for bit, name in enumerate(MESSAGE_TRAITS) if bits >> bit & 1}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("it was £40", {"money", "digit"}),
        ("四十块", {"money", "number_word"}),
        ("see you at half past on Thursday", {"time", "number_word", "place", "name"}),
        ("7.30", {"digit", "time"}),
        ("ok", set()),
        ("and then?", {"question"}),
        ("駅の前", {"place"}),
        ("雨だったから", {"reason", "place"}),
    ],
)
def test_the_traits_of_a_message_are_recognized(text: str, expected: set[str]) -> None:
    assert traits(text) == expected


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("When do we leave?", {"time"}),
        ("How much was the boiler in the end?", {"amount", "money", "later"}),
        ("几点出发？", {"time", "amount"}),
        ("会場はどこ？", {"place"}),
        ("なんで遅れたの？", {"reason"}),
        ("who is Sam", {"person"}),
        ("the boiler", set()),
    ],
)
def test_the_traits_that_a_question_asks_for_are_recognized(
    question: str, expected: set[str]
) -> None:
    assert asked_for(question) == expected


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("When is the dentist?", "the dentist is on Thursday, 7.30"),
        ("How much was the dentist?", "the dentist took £40"),
        ("Why the dentist?", "the dentist again because of that loaf"),
    ],
)
async def test_of_messages_with_the_same_words_the_one_that_answers_is_first(
    talk: Talk, question: str, answer: str
) -> None:
    said = (
        "the dentist is on Thursday, 7.30",
        "the dentist took £40",
        "the dentist again because of that loaf",
        "did you see the dentist?",
        "nobody likes the dentist anyway",
    )
    for each in said:
        await talk.chatter(30)
        await talk.say("Mei", each)
    await talk.index()
    found = await talk.find(question, limit=5)
    assert found[0] == answer


async def test_the_file_of_weights_has_a_weight_for_each_feature(talk: Talk) -> None:
    asked = await learn_ranking.asked_in(learn_ranking.HERE / "development", None)
    assert set(asked[0].names) == set(ranking_weights(meaning=False))
    similar = set(ranking_weights(meaning=True)) - set(ranking_weights(meaning=False))
    assert similar
    assert all(each.startswith("similar_") for each in similar)
    assert all(
        weight >= 0
        for meaning in (False, True)
        for name, weight in ranking_weights(meaning=meaning).items()
        if name.startswith(("words_", "similar_"))
    )
