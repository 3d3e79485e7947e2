"""The backlog of a session: the messages that it has not answered yet. There may be more of them
than it may keep."""

from collections.abc import Callable

import pytest

from nekro_core.agent.session.backlog import MAX_PENDING, Backlog
from nekro_core.agent.session.trigger import PendingMessage
from nekro_core.chat import Author, DeliveryState, Record, Segment, Sender, Text
from tests.agent.bot import GROUP


def said(seq: int, user: str) -> PendingMessage:
    words: tuple[Segment, ...] = (Text(str(seq)),)
    record = Record(
        seq=seq, chat_key=GROUP, message_id=str(seq), author=Author.PERSON,
        sender=Sender(user), segments=words, time=float(seq), to_bot=True,
        state=DeliveryState.SENT,
    )  # fmt: skip
    return PendingMessage(record, float(seq))


@pytest.mark.parametrize("way", [Backlog.on_record, Backlog.add_pending])
def test_a_flood_by_one_person_drops_no_other_persons_question(
    way: Callable[[Backlog, PendingMessage], None],
) -> None:
    backlog = Backlog(lambda record: record.sender.user_id != "10002")
    way(backlog, said(1, "99999"))
    for seq in range(2, 2 * MAX_PENDING):
        way(backlog, said(seq, "10001"))
    kept = [each.record.seq for each in (*backlog.fresh, *backlog.pending)]
    assert len(kept) == MAX_PENDING
    assert kept[0] == 1, "the other person's question still waits"
    assert kept[1:] == [*range(MAX_PENDING + 1, 2 * MAX_PENDING)], (
        "only the newest messages of the flood are kept"
    )


def test_drop_answered_drops_the_answered_records_of_one_person_and_only_their_marks() -> None:
    backlog = Backlog(lambda _: True)
    for seq, user in ((1, "10001"), (2, "10002"), (3, "10001")):
        backlog.add_pending(said(seq, user))
    backlog.forced, backlog.handled = dict.fromkeys((1, 2, 3), "a.plugin"), {1, 2}
    backlog.drop_answered("10001", 3)
    assert [each.record.seq for each in backlog.pending] == [2]
    assert ({*backlog.forced}, backlog.handled) == ({2, 3}, {2})
    backlog.drop_answered("10002", 3)
    assert ({*backlog.forced}, backlog.handled) == (set(), set())
