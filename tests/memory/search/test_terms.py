"""Texts of three languages are split into terms that can be compared."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nekro_core.memory.search.question import read_question
from nekro_core.memory.search.terms import LONGEST_TEXT, terms_of


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("she went swimming", "going for a swim"),
        ("we BOUGHT three tickets", "buy 3 ticket"),
        ("the children's teeth", "child tooth"),
        ("Café", "cafe"),
        ("ＡＢＣ", "abc"),
        ("圖書館", "图书馆"),
        ("図書館", "图书馆"),
    ],
)
def test_forms_of_a_word_give_the_same_terms(one: str, other: str) -> None:
    assert set(terms_of(one)) & set(terms_of(other)) == set(terms_of(other))


def test_chinese_words_of_one_character_are_found() -> None:
    assert "猫" in terms_of("我养了一只猫")
    assert "猫" in terms_of("猫在哪里")


def test_endings_in_hiragana_are_not_terms() -> None:
    assert set(terms_of("食べました")) == {"食べ", "食"}


def test_words_that_occur_in_every_message_are_not_terms() -> None:
    assert terms_of("What did you do there?") == []


def test_a_long_text_is_read_up_to_a_limit() -> None:
    assert len(terms_of("word " * LONGEST_TEXT)) == LONGEST_TEXT // len("word ")
    assert max(map(len, terms_of("x" * LONGEST_TEXT))) <= 40


@given(st.text())
def test_every_text_gives_terms_that_a_page_can_hold(text: str) -> None:
    for term in terms_of(text):
        assert term
        assert "\n" not in term
        assert term.encode("utf-8", "replace")


@given(st.text(max_size=200), st.floats(allow_nan=True, allow_infinity=True))
def test_every_text_can_be_a_question_at_any_time(text: str, now: float) -> None:
    question = read_question(text, now)
    assert len(question.terms) <= 40
    assert all(begin < end for begin, end in question.spans)


def test_words_such_as_remember_or_who_in_a_question_are_not_searched() -> None:
    assert read_question("你还记得小雨什么时候去的大阪吗", 0.0).terms[-1] != "吗"
    assert "么时" not in read_question("小雨什么时候去的大阪", 0.0).terms
    assert read_question("Can you remember who mentioned Osaka?", 0.0).terms == ("osaka",)


def test_words_such_as_messages_are_searched_if_a_question_has_no_others() -> None:
    assert read_question("messages", 0.0).terms == ("messag",)
