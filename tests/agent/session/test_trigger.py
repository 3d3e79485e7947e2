"""The trigger decides when the bot answers, waits or stays silent."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nekro_core.agent.session.trigger import (
    PendingMessage,
    StartTurn,
    StaySilent,
    WaitForMore,
    called_name,
    decide,
    judge,
)
from nekro_core.chat import (
    Author,
    ChatKey,
    Image,
    Media,
    Mention,
    Notice,
    Record,
    Segment,
    Sender,
    Text,
    Voice,
)
from nekro_core.policy.settings import TriggerSettings
from nekro_core.store import DecisionReason, MessageDecision

GROUP = ChatKey.parse("onebot_v11-group_30003")
PRIVATE = ChatKey.parse("web-private_lin")
NOW = 1_700_000_000.0
SETTINGS = TriggerSettings()
NAMES = ("Nekro", "喵喵")
NAMED = MessageDecision(reason=DecisionReason.NAMED, detail="Nekro")


def record(*segments: Segment | str, chat: ChatKey = GROUP, by: str = "lin", **more: Any) -> Record:
    parts = tuple(Text(part) if isinstance(part, str) else part for part in segments)
    values: dict[str, Any] = {"author": Author.PERSON, "time": NOW, "seq": 1} | more
    return Record(chat_key=chat, segments=parts, sender=Sender(by), **values)


PICTURE = Image(Media(path="/x.png"))


@pytest.mark.parametrize(
    ("pending", "why"),
    [
        (record("hello"), ""),
        (record("hello", chat=PRIVATE), "private"),
        (record(PICTURE, chat=PRIVATE), "private"),
        (record(Mention("10001"), to_bot=True), "addressed"),
        (record("so?", to_bot=True), "addressed"),
        (record("hello nekro!"), "named"),
        (record(Voice(Media(), text="hello Nekro")), "named"),
        (record("nekromancer"), ""),
        (record("hello", chat=PRIVATE, author=Author.BOT), ""),
        (record("nekro", author=Author.BOT, to_bot=True), ""),
        (record("nekro", author=Author.SYSTEM), ""),
        (record("it is four o'clock", author=Author.SYSTEM, to_bot=True), "woken"),
        (record("no more", author=Author.SYSTEM, to_bot=True, recalled=True), ""),
        (record("nekro", recalled=True), ""),
        (record(Notice("poke"), to_bot=True), "poke"),
        (record(Notice("poke")), ""),
        (record(Notice("join"), to_bot=True), ""),
        (record(Notice("leave"), chat=PRIVATE, to_bot=True), ""),
        (record("nekro", from_history=True, time=NOW - 599), "named"),
        (record("nekro", from_history=True, time=NOW - 600), "named"),
        (record("nekro", from_history=True, time=NOW - 601), ""),
        (record("hi", "nekro"), "named"),
        (record("nek", "ro"), ""),
        (record("nekro", time=NOW - 601), "named"),
        (record(chat=PRIVATE), ""),
    ],
)
def test_which_records_are_answered_and_why(pending: Record, why: str) -> None:
    reason = judge(pending, wall=NOW, settings=SETTINGS, names=NAMES).reason
    assert (reason.value if reason.asks else "") == why


@pytest.mark.parametrize(
    ("words", "is_called"),
    [
        ("Nekro", True),
        ("NEKRO,", True),
        ("ＮＥＫＲＯ", True),
        ("ne\u200bkro", True),
        ("nekro几点了", True),
        ("今天喵喵在吗", True),
        ("nekro_core", False),
        ("nekro2", False),
        ("喵", False),
        ("", False),
    ],
)
def test_the_bots_name_is_recognized_in_any_spelling_except_inside_a_word(
    words: str, is_called: bool
) -> None:
    assert bool(called_name(record(words), NAMES)) is is_called


def test_a_long_message_is_searched_at_both_ends() -> None:
    # The text is so long that normalizing all of it would take minutes.
    marks = "\u0301\u0327" * 500_000
    assert called_name(record(f"Nekro, a{marks}"), NAMES)
    assert called_name(record(f"a{marks} Nekro"), NAMES)
    assert not called_name(record(f"a{marks}"), NAMES)


@pytest.mark.parametrize(("before", "is_called"), [(998, True), (999, False)])
def test_each_searched_end_has_a_thousand_characters(before: int, is_called: bool) -> None:
    """The name is in a script without spaces, so the characters beside it do not matter."""
    words = f"{'一' * before}喵喵{'一' * 2_000}"
    assert bool(called_name(record(words), NAMES)) is is_called
    assert bool(called_name(record(words[::-1]), NAMES)) is is_called
    assert called_name(record(f"{'一' * 999}喵喵{'一' * 999}"), NAMES), (
        "a message of 2,000 characters is searched whole"
    )


def test_the_bots_name_beside_a_picture_is_recognized() -> None:
    assert called_name(record(PICTURE, "nekro, look", PICTURE), NAMES)
    assert not called_name(record(PICTURE, Mention("1", "nekro")), NAMES)


def test_an_empty_name_of_the_bot_is_never_recognized() -> None:
    assert not called_name(record("anything, really"), ["", " ", "\u200b"])


def choose(*pending: PendingMessage, now: float) -> object:
    return decide(pending, now=now, wall=NOW, settings=SETTINGS, names=NAMES)


def test_a_message_is_always_answered_if_a_plugin_demands_an_answer() -> None:
    said = PendingMessage(record("hi", seq=7), 10.0)
    demanded = MessageDecision(reason=DecisionReason.FORCED, detail="a.plugin")
    for seq, decision in ((7, StartTurn(said.record, demanded)), (8, StaySilent())):
        forced = {seq: "a.plugin"}
        assert (
            decide([said], now=99.0, wall=NOW, settings=SETTINGS, names=NAMES, forced=forced)
            == decision
        )


def test_decide_waits_while_the_person_types() -> None:
    first, second = (
        PendingMessage(record("nekro"), 10.0),
        PendingMessage(record("are you there?"), 10.8),
    )
    assert choose(first, now=10.0) == WaitForMore(pytest.approx(0.9), first.record)
    assert choose(first, second, now=10.9) == WaitForMore(pytest.approx(0.8), first.record)
    assert choose(first, second, now=11.75) == StartTurn(first.record, NAMED)


def test_decide_does_not_wait_for_more_text_of_other_people() -> None:
    asked, other = (
        PendingMessage(record("nekro"), 10.0),
        PendingMessage(record("ha", by="mei"), 10.8),
    )
    assert choose(asked, other, now=10.95) == StartTurn(asked.record, NAMED)


def test_a_person_who_never_stops_typing_is_answered_after_the_longest_wait() -> None:
    pending = [
        PendingMessage(record("nekro"), 10.0),
        *(PendingMessage(record("..."), 10 + n / 2) for n in range(13)),
    ]
    assert choose(*pending, now=15.9) == WaitForMore(pytest.approx(0.1), pending[0].record)
    assert choose(*pending, now=16.05) == StartTurn(pending[0].record, NAMED)


def test_talk_among_others_is_not_answered() -> None:
    assert (
        choose(PendingMessage(record("hi"), 1.0), PendingMessage(record("ho"), 2.0), now=9.0)
        == StaySilent()
    )
    assert choose(now=0.0) == StaySilent()


@given(st.lists(st.tuples(st.sampled_from(["nekro", "hm"]), st.floats(0, 5)), max_size=8))
def test_a_wait_always_ends(said: list[tuple[str, float]]) -> None:
    pending = [
        PendingMessage(record(words), at) for words, at in sorted(said, key=lambda pair: pair[1])
    ]
    now = 5.0
    decision = choose(*pending, now=now)
    if isinstance(decision, WaitForMore):
        assert 0 < decision.seconds <= SETTINGS.longest_wait_s
        decision = choose(*pending, now=now + decision.seconds + 1e-6)
    assert not isinstance(decision, WaitForMore)
    assert isinstance(decision, StartTurn) == any(words == "nekro" for words, _ in said)
