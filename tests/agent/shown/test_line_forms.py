"""When a stored prompt is shown, its lines have the form in which they were sent. Later versions of
the bot keep this form."""

from datetime import UTC

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nekro_core.agent.prompt.line_marks import LineMarks, task_of
from nekro_core.agent.prompt.lines import LINE_FORM, LINE_FORMS
from nekro_core.chat import (
    Author,
    ChatKey,
    DeliveryState,
    Forward,
    ForwardedMessage,
    Image,
    Media,
    Mention,
    Notice,
    Record,
    Reply,
    Role,
    Sender,
    Text,
    Unknown,
    Voice,
)

KEY = ChatKey.parse("fake-group_1")


def said(*segments: object, **more: object) -> Record:
    values: dict[str, object] = {
        "seq": 1,
        "chat_key": KEY,
        "author": Author.PERSON,
        "segments": segments,
        "time": 1_000_000_000.0,
        "message_id": "81",
        "sender": Sender("10001", "Lin"),
    }
    return Record(**{**values, **more})  # type: ignore[arg-type]


PICTURE = Media(path="/x/ab.png", name="a b.png", mime="image/png", size=1234)

FIRST = [
    (
        said(Text("a\nb\u200b"), to_bot=True),
        1,
        (
            '[message 81] from "Lin" (user 10001) at 09-09 01:46:40, to you, unanswered\n'
            "> a\n> b\\u200b"
        ),
    ),
    (
        said(Mention("bot", "Bot"), Mention("7", "Ann"), Text("x"), Image(PICTURE)),
        2,
        (
            '[message 81] from "Lin" (user 10001) at 09-09 01:46:40, not to be answered now\n'
            '> @you @Ann x\n+ @"Bot" is user bot\n+ @"Ann" is user 7\n'
            '+ image /app/uploads/ab.png "a b.png" (image/png, 1 kB)'
        ),
    ),
    (
        said(Reply("80", "7", "why?"), Voice(PICTURE, "heard"), Notice("poke", "7", "bot")),
        0,
        (
            '[message 81] from "Lin" (user 10001) at 09-09 01:46:40\n> heard\n'
            '+ answers message 80 by user 7: "why?"\n'
            '+ voice /app/uploads/ab.png "a b.png" (image/png, 1 kB), in which the words above '
            "were heard\n+ notice poke by user 7 to user bot"
        ),
    ),
    (
        said(Text("y" * 300), author=Author.BOT, state=DeliveryState.UNKNOWN),
        0,
        "[message 81] from you at 09-09 01:46:40, unknown whether it arrived\n> "
        + "y" * 133
        + "\n> [... 100 characters left out ...]\n> "
        + "y" * 67,
    ),
    (
        said(
            Forward((ForwardedMessage("7", "Ann", (Text("old"),)),)),
            author=Author.SYSTEM,
            message_id="",
        ),
        0,
        '[system] at 09-09 01:46:40\n+ 1 forwarded messages\n+   "Ann": "old"',
    ),
]
"""Records, their marks, and their lines in form 1. Do not change a line, because stored prompts use
this form. Add a new form instead (`nekro_core.agent.prompt.lines`)."""


@pytest.mark.parametrize(("record", "mark", "line"), FIRST)
def test_form_1_never_changes(record: Record, mark: int, line: str) -> None:
    assert LINE_FORMS[1](record, UTC, 200, mark, frozenset({"bot"})) == line


SECOND = [
    (
        said(Text("a\nb\u200b"), to_bot=True),
        LineMarks(timed=True),
        "#1 01:46 Lin → you\n> a\n> b\\u200b",
    ),
    (
        said(Mention("bot", "Bot"), Text("x"), to_bot=True),
        LineMarks(timed=True, task=1, why=1, introduced=True, dated=True),
        "[date] 2001-09-09 Sunday\n#1 01:46 Lin (10001) → you NEW mentioned\n> @you x",
    ),
    (
        said(Mention("7", "Ann"), Text("x"), Image(PICTURE), Unknown("face", "grin")),
        LineMarks(timed=True, task=2, people=True),
        (
            '#1 01:46 Lin LATER\n> @Ann x[grin]\n+ @"Ann" is 7\n'
            '+ image /app/uploads/ab.png "a b.png"'
        ),
    ),
    (
        said(
            Reply("80", "7", "why?"),
            Voice(PICTURE, "heard"),
            Notice("poke", "7", "bot"),
            Unknown("json", "a card"),
        ),
        LineMarks(timed=True),
        (
            '#1 01:46 Lin\n> heard\n+ answers an older message of 7: "why?"\n'
            '+ voice /app/uploads/ab.png "a b.png": its words are above\n'
            '+ poke by 7 to you\n+ json: "a card"'
        ),
    ),
    (
        said(Reply("80", "bot"), Voice(msgspec.structs.replace(PICTURE, seconds=7.4)), to_bot=True),
        LineMarks(timed=True, task=1, why=1, replies_to=3),
        (
            "#1 01:46 Lin → you re #-2 NEW answers you\n"
            '+ voice /app/uploads/ab.png "a b.png" (7 s): you cannot hear it'
        ),
    ),
    (
        said(Text("y" * 300), author=Author.BOT, state=DeliveryState.UNKNOWN),
        LineMarks(timed=True),
        "#1 01:46 you (unknown whether it arrived)\n> "
        + "y" * 133
        + "\n> [... 100 characters left out ...]\n> "
        + "y" * 67,
    ),
    (
        said(
            Forward((ForwardedMessage("7", "Ann", (Text("old"),)),)),
            author=Author.SYSTEM,
            message_id="",
            to_bot=True,
        ),
        LineMarks(timed=True, task=1, why=5),
        '#1 01:46 system NEW wakes you\n+ 1 forwarded messages\n+   "Ann": "old"',
    ),
    (
        said(Text("x"), sender=Sender("a b", "you", Role.ADMIN)),
        LineMarks(timed=True, introduced=True),
        '#1 01:46 "you" ("a b", admin)\n> x',
    ),
    (said(Text("x")), LineMarks(), "#1 Lin\n> x"),
    (
        said(Text("x"), chat_key=ChatKey.parse("fake-private_1"), to_bot=True),
        LineMarks(timed=True, task=1),
        "#1 01:46 Lin NEW\n> x",
    ),
]
"""Records, their marks, and their lines in form 2."""


@pytest.mark.parametrize(("record", "marks", "line"), SECOND)
def test_form_2_never_changes(record: Record, marks: LineMarks, line: str) -> None:
    assert LINE_FORMS[2](record, UTC, 200, marks.number(), frozenset({"bot"})) == line


@given(
    st.integers(0, 2), st.integers(0, 31), st.booleans(), st.booleans(), st.booleans(),
    st.booleans(), st.integers(0, 2**40),
)  # fmt: skip
def test_the_marks_of_a_line_are_read_back_unchanged(
    task: int,
    why: int,
    introduced: bool,
    dated: bool,
    timed: bool,
    people: bool,
    replies_to: int,
) -> None:
    marks = LineMarks(
        task=task,
        why=why,
        introduced=introduced,
        dated=dated,
        timed=timed,
        people=people,
        replies_to=replies_to,
    )
    assert LineMarks.of_number(marks.number()) == marks
    assert marks.number() < 2**53, "JSON cannot hold larger whole numbers exactly"
    assert task_of(marks.number()) == task


def test_new_prompts_are_written_in_the_newest_line_form() -> None:
    assert max(LINE_FORMS) == LINE_FORM
