"""Finds the marks of the records that a prompt shows (the prompt's *window*). Marks say how a
record's lines are written.

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
from operator import is_

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
shown. A time costs four tokens. This is a third of the tokens of all that stands before a message's
text. An inaccuracy of three minutes does not matter."""
_UNSETTLED = 16
"""This many of the newest records of a window are marked anew in each prompt, because these
records may still change: a message that the bot has just sent gets its id and its final state
later. For older records the marks of the previous prompt are used."""
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
        """Unpack a number that the method `LineMarks.number` returned."""
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
    """Return `LineMarks.task` of a stored number. Earlier versions of the bot packed the other
    marks differently, but ``task`` is in the same two bits in all versions."""
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
    numbers = [seen.number_of(record) for record in records]
    return with_tasks(records, numbers, unanswered=unanswered, waiting=waiting, reasons=reasons)


def with_tasks(
    records: Sequence[Record],
    numbers: Sequence[int],
    *,
    unanswered: Collection[int],
    waiting: Collection[int],
    reasons: Mapping[int, str] | None,
) -> list[int]:
    """Add ``task`` and ``why`` to the marks of records. The arguments are those of
    `window_marks`."""
    marks = [*numbers]
    if not unanswered and not waiting:
        return marks
    for place, record in enumerate(records):
        if record.seq in unanswered:
            why = WHY.get((reasons or {}).get(record.seq, ""), 0)
            marks[place] |= ANSWER | why << _WHY_BIT
        elif record.seq in waiting:
            marks[place] |= ANSWER_LATER
    return marks


class MarkedRecords:
    """The marks of a window's records, without ``task`` and ``why``. The marks of the next window
    are found from them: only new records are marked, as long as the windows begin with the same
    records."""

    def __init__(self, zone: tzinfo | None, own: Collection[str]) -> None:
        self.numbers: list[int] = []
        """The marks of each record."""
        self._seen = _Seen(zone, frozenset(own))
        self._settled: Sequence[Record] = ()

    def next(self, records: Sequence[Record]) -> "MarkedRecords":
        """Mark the records of the chat's next window, which has the same zone and accounts."""
        found = MarkedRecords(self._seen.zone, self._seen.own)
        count = len(self._settled)
        if len(records) >= count and all(map(is_, self._settled, records)):
            found._seen = self._seen.copy()
            found.numbers = self.numbers[:count]
        else:
            count = 0
        settled = max(len(records) - _UNSETTLED, count)
        found._settled = records[:settled]
        found.numbers += [found._seen.number_of(each) for each in records[count:settled]]
        newest = found._seen.copy()
        found.numbers += [newest.number_of(each) for each in records[settled:]]
        return found


class _Seen:
    """What the records of a window have shown so far."""

    def __init__(self, zone: tzinfo | None, own: frozenset[str]) -> None:
        self.zone = zone
        self.own = own
        self._dated: date | None = None
        self._day_ends = 0.0
        """The end of the day ``_dated``, in seconds since 1970. If summer time begins or ends on
        this day, the value may be an hour wrong. Then the next date is shown up to an hour late."""
        self._shown_time = 0.0
        self._people: set[tuple[str, ...]] = set()
        self._ids_of: defaultdict[str, set[str]] = defaultdict(set)
        self._known: set[str] = set()
        self._seqs: dict[str, int] = {}

    def copy(self) -> "_Seen":
        """Return a copy, to which records can be added."""
        copy = _Seen(self.zone, self.own)
        copy._dated, copy._day_ends, copy._shown_time = (
            self._dated,
            self._day_ends,
            self._shown_time,
        )
        copy._people, copy._known, copy._seqs = {*self._people}, {*self._known}, {**self._seqs}
        copy._ids_of.update({name: {*ids} for name, ids in self._ids_of.items()})
        return copy

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
        day = datetime.fromtimestamp(record.time, self.zone)
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
            if isinstance(part, Mention) and part.name and part.user_id not in self.own
        } - self._known
        self._known |= strangers
        return bool(strangers)

    def _distance(self, record: Record) -> int:
        reply = next((part for part in record.segments if isinstance(part, Reply)), None)
        seq = self._seqs.get(reply.message_id, record.seq) if reply else record.seq
        distance = record.seq - seq
        return distance if 0 < distance < _MOST_BACK else 0
