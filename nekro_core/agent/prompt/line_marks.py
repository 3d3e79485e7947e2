"""What the lines of a record show besides the record: the marks of a window of the history.

The same record is written differently where it is the first of its day, the first of its author,
the question to answer, or a reply to another record of the window. All this is one number, which is
stored with the prompt, so that the lines can be written again from the record alone.

A record's marks depend only on the records before it in the window, and on whether it is to be
answered now. So the beginning of a prompt stays the same when records are added at its end.
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
"""The numbers under which reasons for an answer are stored; 1 to 31. A number keeps its meaning.
A reason without a number is not shown. `nekro_core.agent.prompt.transcript` has the words."""

_TASK, _NAMED, _DATED, _PEOPLE, _TIMED = 0b11, 1 << 2, 1 << 3, 1 << 4, 1 << 5
_WHY_BIT, _WHY_MASK = 6, 31
_REPLY_BIT = 11
_SAME_TIME_S = 180.0
"""Seconds after a time that was shown, in which none is shown. A time costs four tokens, a third of
a header, and says little if less than three minutes have passed."""
_MOST_BACK = 1 << 40
"""A reply to a record that is further back is not shown as one. Such numbers do not occur."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineMarks:
    """The marks of one record's lines.

    Attributes:
        task: `ANSWER`, `ANSWER_LATER` or 0.
        why: The number of the reason for the answer (`WHY`); 0 for none.
        introduced: Whether the author's id and role are shown.
        dated: Whether a line with the date comes first.
        timed: Whether the time is shown. It is left out shortly after one that was shown.
        people: Whether the ids of mentioned people are shown.
        replies_to: How much smaller the number of the record is to which this one replies; 0 if it
            replies to none of the window.
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
        """Read the number again."""
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
    """Return `LineMarks.task` of a stored number. It is the same in every form of lines."""
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
        unanswered: The numbers of the records to answer.
        waiting: The numbers of records that other turns will answer.
        reasons: Why records are answered (values of `DecisionReason`), by their numbers.
        before: Records that the prompt shows before these.
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
        """The end of that day, in seconds since 1970. On a day on which clocks change it may be an
        hour wrong; then a date comes that much later."""
        self._shown_time = 0.0
        self._people: set[tuple[str, ...]] = set()
        self._ids_of: defaultdict[str, set[str]] = defaultdict(set)
        self._known: set[str] = set()
        self._seqs: dict[str, int] = {}

    def number_of(self, record: Record) -> int:
        """Return the number of the next record's marks, without what it asks. No `LineMarks` is
        made here: a prompt has hundreds of records."""
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
