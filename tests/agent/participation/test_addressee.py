"""Learnt decision trees estimate whether a line is addressed to the bot. They work for any talk and
are fast, and a file with wrong trees is refused."""

import json
import time
from importlib.resources import files

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nekro_core.agent.participation.addressee import GOES, LEARNT, AddresseeModel
from nekro_core.agent.participation.conversation import AimedLine, Conversation, SpokenLine
from nekro_core.agent.participation.facts import collect_facts
from nekro_core.agent.participation.feature_names import PERSON_FEATURES
from nekro_core.agent.participation.features import person_numbers
from nekro_core.agent.participation.line_text import TEXT_FEATURES, read_line
from nekro_core.agent.participation.records import BOT
from nekro_core.agent.participation.trees import BoostedTrees, TreesUnreadable
from nekro_core.agent.participation.verdict import TalkSign, verdict_of

PEOPLE = ("lin", "mei", "tom", BOT)
WORDS = st.sampled_from(
    (
        "what is that?",
        "yes",
        "thanks",
        "",
        "好的",
        "你看过这个吗",
        "はい",
        "それは何ですか",
        "!help",
        "x" * 3000,
    )
)
LINES = st.lists(
    st.tuples(
        st.sampled_from(PEOPLE),
        st.floats(min_value=-10, max_value=4000),
        WORDS | st.text(max_size=40),
        st.frozensets(st.sampled_from(PEOPLE), max_size=2),
    ),
    max_size=30,
)


def line(who: str, at: float, text: str, named: frozenset[str] = frozenset()) -> SpokenLine:
    return SpokenLine(speaker=who, at=at, said=text, named=named - {who})


@settings(deadline=None, max_examples=60)
@given(LINES)
def test_any_talk_gives_probabilities_and_the_same_talk_gives_the_same_ones(
    said: list[tuple[str, float, str, frozenset[str]]],
) -> None:
    model = AddresseeModel.load()
    answers = []
    for _ in range(2):
        conversation, at, likely = Conversation(), 0.0, []
        for who, pause, text, named in said:
            at += pause
            reading = model.add_line(conversation, line(who, at, text, named), BOT)
            likely.append(reading.likely)
            assert all(0 <= each <= 1 for each in (reading.likely, *reading.aims.values()))
            assert who not in reading.aims
        answers.append(likely)
    assert answers[0] == answers[1]


@settings(deadline=None, max_examples=60)
@given(LINES, WORDS)
def test_a_persons_next_line_after_the_bots_question_is_always_for_the_bot(
    before: list[tuple[str, float, str, frozenset[str]]], reply: str
) -> None:
    model, conversation, at = AddresseeModel.load(), Conversation(), 0.0
    for who, pause, text, named in before:
        at += max(0.0, pause)
        model.add_line(conversation, line(who, at, text, named), BOT)
    model.add_line(conversation, line("lin", at + 1, "Nekro, a film?", frozenset({BOT})), BOT)
    asked = line(BOT, at + 5, "Funny or tense?", frozenset({"lin"}))
    model.add_line(conversation, asked, BOT)
    answer = line("lin", at + 20, reply)
    verdict = verdict_of(model.add_line(conversation, answer, BOT), answer, model.threshold)
    assert verdict.goes_on
    assert TalkSign.ANSWERS_QUESTION in verdict.signs


@settings(deadline=None, max_examples=60)
@given(LINES, WORDS)
def test_a_line_that_names_somebody_else_is_never_for_the_bot(
    before: list[tuple[str, float, str, frozenset[str]]], text: str
) -> None:
    model, conversation, at = AddresseeModel.load(), Conversation(), 0.0
    for who, pause, words, named in before:
        at += max(0.0, pause)
        model.add_line(conversation, line(who, at, words, named), BOT)
    said = line("lin", at + 1, text, frozenset({"mei"}))
    assert not verdict_of(model.add_line(conversation, said, BOT), said, model.threshold).goes_on


def test_a_line_takes_a_few_milliseconds_of_the_processor() -> None:
    model, conversation = AddresseeModel.load(), Conversation()
    people = [f"person{number}" for number in range(20)]
    took = []
    for number in range(200):
        who = people[number * 7 % 20] if number % 5 else BOT
        said = line(who, 7.0 * number, f"is the shed number {number} open? I cannot find the key")
        began = time.thread_time()
        model.add_line(conversation, said, BOT)
        took.append(time.thread_time() - began)
    assert sorted(took[100:])[50] < 0.01  # on an idle machine it is 1.4 ms


@pytest.mark.parametrize(
    ("text", "words", "asks"),
    [
        ("Is the shed open?", {"shed", "open"}, True),
        ("你看过这个吗", {"你看", "看过", "过这", "这个", "个吗"}, True),
        ("それは何ですか。", {"それ", "れは", "は何", "何で", "です", "すか"}, True),
        ("真的？", {"真的"}, True),
        ("see https://example.org/?q=1", {"see"}, False),
        ("", set(), False),
    ],
)
def test_words_and_questions_are_found_in_three_languages(
    text: str, words: set[str], asks: bool
) -> None:
    read = read_line(text)
    assert read.words == words
    assert read.asks is asks
    assert len(read.numbers) == len(TEXT_FEATURES)


def test_two_forms_of_a_word_have_the_same_stem_and_a_mark_at_the_beginning_means_a_command() -> (
    None
):
    assert read_line("Which drivers?").stems & read_line("the driver").stems == {"drive~"}
    assert read_line("!driver").commands
    assert not read_line("wow!").commands


def test_facts_say_who_asked_who_was_named_and_how_often_a_person_and_the_speaker_alternated() -> (
    None
):
    conversation = Conversation()
    for said in (
        line("tom", 0, "is the driver in the kernel?"),
        line("lin", 10, "which one?"),
        line("mei", 20, "tom: see the page about drivers", frozenset({"tom"})),
        line("tom", 30, "the one for sound"),
    ):
        conversation.add(AimedLine(said, {"tom": 0.8} if said.speaker == "mei" else {}))
    new = line("lin", 40, "that driver is in it")
    facts = collect_facts(conversation, new)
    tom, mei = facts.people["tom"], facts.people["mei"]
    assert (tom.question_ago, tom.speaker_after_question, mei.question) == (4, 1, None)
    assert (tom.named_by_others, tom.named_by_others_ago) == (1, 2)
    assert tom.from_others == mei.to_others > 0.7
    assert tom.others_after_question == tom.from_others
    assert (tom.turns, mei.turns) == (1, 0)
    assert (mei.namings, tom.namings) == (1, 0)
    shared = dict(
        zip(PERSON_FEATURES, person_numbers(conversation, new, facts)["tom"], strict=True)
    )
    assert shared["shared with last"] == 0
    assert shared["shared with talk"] > 0
    assert shared["stems shared"] > 0


def test_only_the_beginning_of_a_long_text_is_read() -> None:
    began = time.thread_time()
    read = read_line("a" + "\u0301\u0327" * 500_000)
    assert time.thread_time() - began < 0.5
    assert read.characters == 1_000_001


def test_trees_give_the_probabilities_that_follow_from_their_thresholds_and_leaves() -> None:
    trees = BoostedTrees.read([[0, 1.5, [1, 0.0, 1.0, 2.0], 3.0], -1.0], 2)
    rows = [[1.5, 0.0], [1.0, 0.5], [2.0, 0.0]]
    found = trees.probabilities(rows)
    assert [round(each, 4) for each in found] == [0.5, 0.7311, 0.8808]
    assert trees.probabilities([]) == []


@pytest.mark.parametrize(
    "tree", ["x", [2, 1.0, 0.0, 0.0], [0, 1.0, 0.0], None, True, [0, "1", 1, 2]]
)
def test_a_tree_of_another_form_is_refused(tree: object) -> None:
    with pytest.raises(TreesUnreadable, match="make follows"):
        BoostedTrees.read([tree], 2)


def test_a_file_that_was_learnt_with_other_features_is_refused() -> None:
    content = json.loads((files("nekro_core.agent.participation") / LEARNT).read_text("utf-8"))
    assert content["features"] == [*GOES]
    with pytest.raises(TreesUnreadable, match="other features"):
        AddresseeModel.read(content | {"features": ["weather", *GOES[1:]]})
    with pytest.raises(TreesUnreadable, match="threshold"):
        AddresseeModel.read({key: each for key, each in content.items() if key != "threshold"})


def test_the_learnt_file_is_small_and_names_its_source() -> None:
    text = (files("nekro_core.agent.participation") / LEARNT).read_text("utf-8")
    assert len(text) < 300_000
    assert "CC BY 4.0" in text
    assert "irc-disentanglement" in text


def test_words_that_are_counted_late_are_as_rare_as_words_that_are_counted_at_once() -> None:
    at_once, late = Conversation(), Conversation()
    asked = frozenset({"word3", "word5", "tale", "never"})
    for number in range(700):
        said = line("tom", number, f"word{number % 7} tale{number}" if number < 650 else "tale")
        for conversation in (at_once, late):
            conversation.add(AimedLine(said))
        at_once.rarities(asked)
    assert late.rarities(asked) == at_once.rarities(asked)
    assert late.shared(asked, asked) == at_once.shared(asked, asked) > 0


def test_the_words_of_a_line_are_read_once_when_they_are_first_needed() -> None:
    said = line("tom", 0, "which driver?")
    assert "text" not in vars(said)
    assert said.text is said.text
    assert said.text == read_line("which driver?")
