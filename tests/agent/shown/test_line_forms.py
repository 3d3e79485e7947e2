"""Lines of stored prompts are written today as they were written when the prompts were sent."""

from datetime import UTC

import pytest

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
    Sender,
    Text,
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
"""Records, their marks, and their lines in form 1. Do not change a line: prompts that are stored
show it. Add a form instead (`nekro_core.agent.prompt.lines`)."""


@pytest.mark.parametrize(("record", "mark", "line"), FIRST)
def test_form_1_never_changes(record: Record, mark: int, line: str) -> None:
    assert LINE_FORMS[1](record, UTC, 200, mark, frozenset({"bot"})) == line


def test_the_present_form_is_known() -> None:
    assert max(LINE_FORMS) == LINE_FORM
