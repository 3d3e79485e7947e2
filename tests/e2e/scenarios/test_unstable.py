"""What differs between two runs is replaced in a stored reply, so that the reply fits a new run of
its conversation."""

import pytest

from tests.e2e.scenarios.replies import ModelReply, changed, read_replies, write_replies
from tests.e2e.scenarios.unstable import MarkUnknown, from_stored, to_stored

OLD = """#7 Bob (10003)
> hello
#9 Lin (10001) → you NEW mentioned
+ file /app/uploads/b09dbe6e0c752e6acd327be969a50f8b.csv "sales.csv" (8 kB)
> 29
[now] 2026-11-28 23:10 Saturday"""
NEW = """#312 Bob (10003)
> hello
#340 Lin (10001) → you NEW mentioned
+ file /app/uploads/0123456789abcdef0123456789abcdef.csv "sales.csv" (8 kB)
> 14
[now] 2027-02-01 22:30 Monday"""


@pytest.mark.parametrize(
    ("reply", "stored", "again"),
    [
        ('reply_to="#9"', 'reply_to="#⟨message 1⟩"', 'reply_to="#340"'),
        ("reply_to='7'", "reply_to='⟨message 0⟩'", "reply_to='312'"),
        (
            "open('/app/uploads/b09dbe6e0c752e6acd327be969a50f8b.csv')",
            "open('/app/uploads/⟨upload 0⟩')",
            "open('/app/uploads/0123456789abcdef0123456789abcdef.csv')",
        ),
        ("The sum is 29.", "The sum is ⟨number 0⟩.", "The sum is 14."),
        ("since 2026-11-28", "since ⟨day 0⟩", "since 2027-02-01"),
        (
            "at 2026-11-29 01:10, so at 01:10",
            "at ⟨time +120⟩, so at ⟨clock +120⟩",
            "at 2027-02-02 00:30, so at 00:30",
        ),
        ("#5 of 2024-02-29 at 09:30: 129, 2.29", None, "#5 of 2024-02-29 at 09:30: 129, 2.29"),
    ],
)
def test_what_differs_between_two_runs_is_replaced(
    reply: str, stored: str | None, again: str
) -> None:
    assert to_stored(reply, OLD) == (stored or reply)
    assert from_stored(to_stored(reply, OLD), NEW) == again


def test_words_may_name_a_time_whose_date_is_in_a_call() -> None:
    assert to_stored("At 01:10.", OLD, "At 01:10. 2026-11-29 01:10") == "At ⟨clock +120⟩."


def test_a_stored_reply_is_refused_if_the_new_request_lacks_a_value_that_it_refers_to() -> None:
    with pytest.raises(MarkUnknown, match="has 2 of them"):
        from_stored("#⟨message 2⟩", NEW)
    with pytest.raises(MarkUnknown, match="what time it is"):
        from_stored("⟨clock +5⟩", "#1 Lin")


def test_replies_are_stored_unchanged(tmp_path) -> None:
    texts = [
        "plain",
        "'''",
        "a\n  b\\n\n",
        'quote"""',
        "tab\there\nand 'end'",
        "ends with '",
        "你好",
    ]
    replies = {
        (n, "a"): [ModelReply(text, ({"name": "f", "args": {"t": text}},), "length")]
        for n, text in enumerate(texts)
    }
    write_replies("some", replies, tmp_path)
    assert read_replies("some", tmp_path) == replies
    assert changed(replies[0, "a"][0], str.upper).text == "PLAIN"
