"""Finds the marks of the records that a prompt shows. Marks say how a record's lines are written.

For example, the lines of a record are different if the record is the first of its day, the first of
its author, a question to answer, or a reply to another record in the prompt. All marks of a record
are packed into one number, which is stored with the prompt. The lines can be written again from the
record and this number.

A record's marks depend only on the records that the prompt shows before it, and on whether the turn
answers the record. So the beginning of a prompt stays the same when records are added at its end.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta, tzinfo

from nekro_core.chat import Author, Mention, Record, Reply
from nekro_core.store.decisions import DecisionReason

ANSWER = 1
"""`LineMarks.task` of a record that the turn answers."""
ANSWER_LATER = 2
"""`LineMarks.task` of a record that another turn will answer."""

WHY: Mapping[str, int] = {
    DecisionReason.ADDRESSED: 1,
    DecisionReason.NAMED: 2,
    DecisionReason.POKED: 3,
    DecisionReason.FORCED: 4,
    DecisionReason.WOKEN: 5,
}
"""The number, 1 to 31, that is stored for each reason for an answer. Never change a number. A
reason without a number is not shown. The words that are shown for the numbers are in
`nekro_core.agent.prompt.transcript`."""

_TASK, _NAMED, _DATED, _PEOPLE, _TIMED = 0b11, 1 << 2, 1 << 3, 1 << 4, 1 << 5
_WHY_BIT, _WHY_MASK = 6, 31
_REPLY_BIT = 11
_SAME_TIME_S = 180.0
"""Seconds. A record's time is left out if less than this has passed since the last time that was
shown: a time costs four tokens, a third of a header, and three minutes matter little."""
_MOST_BACK = 1 << 40
"""Upper limit of `LineMarks.replies_to`, so that all marks fit into 53 bits. Real distances are far
smaller. A reply to a record that is further back is not shown as a reply."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineMarks:
    """The marks of one record's lines.

    Attributes:
        task: `ANSWER`, `ANSWER_LATER` or 0.
        why: The number of the reason for the answer (`WHY`); 0 for none.
        introduced: Whether the author's id and role are shown.
        dated: Whether a line with the date comes before the record.
        timed: Whether the time is shown. It is left out if another time was shown shortly before.
        people: Whether the ids of mentioned people are shown.
        replies_to: The distance to the record to which this record replies: the difference of their
            sequence numbers. 0 if the prompt shows no such record.
    """

    task: int = 0
    why: int = 0
    introduced: bool = False
    dated: bool = False
    timed: bool = False
    people: bool = False
    replies_to: int = 0

    def number(self) -> int:
        """Return the marks as one number, which is below 2 ** 53."""
        flags = self.introduced * _NAMED | self.dated * _DATED | self.people * _PEOPLE
        return (
            self.task
            | flags
            | self.timed * _TIMED
            | self.why << _WHY_BIT
            | self.replies_to << _REPLY_BIT
        )

    @classmethod
    def of_number(cls, number: int) -> "LineMarks":
        """Return the marks that `number` has packed into a number."""
        return cls(
            task=task_of(number),
            why=number >> _WHY_BIT & _WHY_MASK,
            introduced=bool(number & _NAMED),
            dated=bool(number & _DATED),
            timed=bool(number & _TIMED),
            people=bool(number & _PEOPLE),
            replies_to=number >> _REPLY_BIT,
        )


def task_of(number: int) -> int:
    """Return `LineMarks.task` of a stored number. All forms of lines store ``task`` alike."""
    return number & _TASK


def window_marks(
    records: Sequence[Record],
    *,
    zone: tzinfo | None,
    own: Collection[str],
    unanswered: Collection[int] = (),
    waiting: Collection[int] = (),
    reasons: Mapping[int, str] | None = None,
    before: Sequence[Record] = (),
) -> list[int]:
    """Return the marks of each record of a window.

    Args:
        records: The records in the order in which they are shown.
        zone: The zone in which days begin.
        own: The platform's ids of the bot's accounts.
        unanswered: The sequence numbers of the records to answer.
        waiting: The sequence numbers of records that other turns will answer.
        reasons: Maps sequence numbers to the reason why the record is answered (a value of
            `DecisionReason`).
        before: Records that the prompt shows before ``records``.
    """
    seen = _Seen(zone, frozenset(own))
    for record in before:
        seen.number_of(record)
    marks = []
    for record in records:
        task = ANSWER if record.seq in unanswered else ANSWER_LATER * (record.seq in waiting)
        why = WHY.get((reasons or {}).get(record.seq, ""), 0) if task == ANSWER else 0
        marks.append(seen.number_of(record) | task | why << _WHY_BIT)
    return marks


class _Seen:
    """What the records of a window have shown so far."""

    def __init__(self, zone: tzinfo | None, own: frozenset[str]) -> None:
        self._zone = zone
        self._own = own
        self._dated: date | None = None
        self._day_ends = 0.0
        """The end of the day ``_dated``, in seconds since 1970. If summer time begins or ends on
        this day, the value may be an hour wrong. Then the next date is shown up to an hour late."""
        self._shown_time = 0.0
        self._people: set[tuple[str, ...]] = set()
        self._ids_of: defaultdict[str, set[str]] = defaultdict(set)
        self._known: set[str] = set()
        self._seqs: dict[str, int] = {}

    def number_of(self, record: Record) -> int:
        """Return the number of the next record's marks, without ``task`` and ``why``. For speed, no
        `LineMarks` is made: a prompt has hundreds of records."""
        shown = self._time_flags(record)
        if record.author is Author.PERSON and self._introduces(record):
            shown |= _NAMED
        if any(isinstance(part, Mention | Reply) for part in record.segments):
            shown |= self._names_strangers(record) * _PEOPLE
            shown |= self._distance(record) << _REPLY_BIT
        if record.message_id:
            self._seqs[record.message_id] = record.seq
        return shown

    def _time_flags(self, record: Record) -> int:
        soon = self._dated and 0 <= record.time - self._shown_time < _SAME_TIME_S
        if soon and record.time < self._day_ends:
            return 0
        day = datetime.fromtimestamp(record.time, self._zone)
        dated = day.date() != self._dated
        self._dated, self._shown_time = day.date(), record.time
        left = timedelta(days=1) - timedelta(
            hours=day.hour, minutes=day.minute, seconds=day.second, microseconds=day.microsecond
        )
        self._day_ends = record.time + left.total_seconds()
        return _TIMED | dated * _DATED

    def _introduces(self, record: Record) -> bool:
        sender = record.sender
        person = (sender.user_id, sender.name, sender.role.value)
        same_name = self._ids_of[sender.name]
        same_name.add(sender.user_id)
        fresh = person not in self._people
        self._people.add(person)
        self._known.add(sender.user_id)
        return fresh or len(same_name) > 1

    def _names_strangers(self, record: Record) -> bool:
        strangers = {
            part.user_id
            for part in record.segments
            if isinstance(part, Mention) and part.name and part.user_id not in self._own
        } - self._known
        self._known |= strangers
        return bool(strangers)

    def _distance(self, record: Record) -> int:
        reply = next((part for part in record.segments if isinstance(part, Reply)), None)
        seq = self._seqs.get(reply.message_id, record.seq) if reply else record.seq
        distance = record.seq - seq
        return distance if 0 < distance < _MOST_BACK else 0
