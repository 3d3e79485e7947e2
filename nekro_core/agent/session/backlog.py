"""Holds the records of a chat that have not been answered yet."""

from collections import Counter
from collections.abc import Callable, Sequence

from nekro_core.agent.participation.verdict import FollowVerdict
from nekro_core.agent.session.trigger import PendingMessage
from nekro_core.agent.turn.context import HistoryMarks
from nekro_core.chat import Record

MAX_PENDING = 1000
"""Maximum number of records held in memory between turns. A record that is dropped from memory
stays in the store and in the history."""


def _make_room(messages: list[PendingMessage]) -> list[Record]:
    """If there are too many messages, drop the oldest message of the person who wrote the most
    messages. So a flood of messages by one person does not displace the questions of others.
    Returns the dropped records."""
    dropped: list[Record] = []
    while len(messages) > MAX_PENDING:
        ((most, _),) = Counter(each.record.sender.user_id for each in messages).most_common(1)
        oldest = next(i for i, each in enumerate(messages) if each.record.sender.user_id == most)
        dropped.append(messages.pop(oldest).record)
    return dropped


class Backlog:
    """The unanswered records of one chat. ``asks`` says whether a record asks for an answer."""

    def __init__(self, asks: Callable[[Record], bool]) -> None:
        self._asks = asks
        self.fresh: list[PendingMessage] = []
        """Messages that were not passed to the plugins' hooks yet."""
        self.pending: list[PendingMessage] = []
        """Messages that the plugins' hooks let through, oldest first."""
        self.forced: dict[int, str] = {}
        """Maps the sequence numbers of records that a plugin wants to be answered to the plugin's
        key."""
        self.followed: dict[int, FollowVerdict] = {}
        """For groups in which the bot follows the talk: maps the sequence numbers of records to the
        verdict whether the record goes on talking to the bot."""
        self.handled: set[int] = set()
        """Sequence numbers of records that need no answer, such as commands."""
        self.hidden: set[int] = set()
        """Sequence numbers of records that a plugin hides from all prompts."""
        self._recalled: set[int] = set()
        """Sequence numbers of records that were recalled since the chat was last idle."""

    def __bool__(self) -> bool:
        return bool(self.fresh or self.pending)

    def on_record(self, message: PendingMessage) -> list[Record]:
        """Add a message that has arrived. Returns the messages that were dropped because too many
        wait."""
        if message.record.seq in self._recalled:
            return []
        self.fresh.append(message)
        return _make_room(self.fresh)

    def next_fresh(self) -> PendingMessage | None:
        """Remove and return the oldest message that was not passed to the plugins' hooks yet; None
        if there is none."""
        return self.fresh.pop(0) if self.fresh else None

    def arrival(self, record: Record) -> float | None:
        """Return when a pending record arrived, on the session's clock; None if it is not
        pending."""
        return next((each.at for each in self.pending if each.record.seq == record.seq), None)

    def add_pending(self, message: PendingMessage) -> list[Record]:
        """Add a message that the plugins' hooks let through. Returns the same as `on_record`."""
        if message.record.seq in self._recalled:
            return []
        self.pending.append(message)
        return _make_room(self.pending)

    def on_recall(self, seq: int) -> None:
        """Drop a recalled record, even if the record arrives after its recall."""
        self._recalled.add(seq)
        self.fresh = [each for each in self.fresh if each.record.seq != seq]
        self.pending = [each for each in self.pending if each.record.seq != seq]

    def clear_pending(self) -> None:
        """Drop all messages that the plugins' hooks let through. They will not be answered."""
        self.pending.clear()
        self.forced.clear()
        self.followed.clear()
        self.handled.clear()
        self._recalled.clear()

    def clear_before(self, seq: int) -> list[Record]:
        """Drop the messages before this record. Returns the dropped messages that asked for an
        answer."""
        dropped = [record for record in self.waiting() if record.seq < seq]
        self.pending = [each for each in self.pending if each.record.seq >= seq]
        self.fresh = [each for each in self.fresh if each.record.seq >= seq]
        return [record for record in dropped if self._asks(record)]

    def newest(self) -> int:
        """Return the highest sequence number in the backlog; 0 if it is empty."""
        return max((record.seq for record in self.waiting()), default=0)

    def marks(self, records: Sequence[Record], trigger_record: Record) -> HistoryMarks:
        """Return sets of sequence numbers that say how a turn that ``trigger_record`` woke must
        treat each of these records."""
        asker = trigger_record.sender.user_id
        others = {each.seq for each in self.waiting() if each.sender.user_id != asker}
        return HistoryMarks(
            unanswered=frozenset(
                each.seq
                for each in records
                if each.seq >= trigger_record.seq
                and each.sender.user_id == asker
                and self._asks(each)
            ),
            waiting=frozenset(
                each.seq for each in records if each.seq in others and self._asks(each)
            )
            if others
            else frozenset(),
            hidden=frozenset(each.seq for each in records if each.seq in self.hidden)
            if self.hidden
            else frozenset(),
            unheard=frozenset(each.record.seq for each in self.fresh),
        )

    def oldest_waiting(self, asker: str) -> int | None:
        """Return the sequence number of the oldest record of another person than ``asker`` that
        waits for an answer; None if there is none. Messages that were not passed to the plugins'
        hooks yet count too. After a restart, the questions from this record on are answered."""
        questions = (each.record for each in self.pending if self._asks(each.record))
        unseen = (each.record for each in self.fresh)
        others = (each.seq for each in (*questions, *unseen) if each.sender.user_id != asker)
        return min(others, default=None)

    def drop_answered(self, asker: str, through: int, *, stopped_at: int = 0) -> list[Record]:
        """Drop the records that an ended turn for this person has handled. These are, up to record
        ``through``: all records of the person, and the pending records of other people that asked
        for no answer. If the turn was stopped, also drop all records up to ``stopped_at``. Returns
        the dropped records."""

        def is_over(record: Record) -> bool:
            answered = record.sender.user_id == asker and record.seq <= through
            return answered or record.seq <= stopped_at

        before = self.waiting()
        self.pending = [
            each
            for each in self.pending
            if not is_over(each.record) and (each.record.seq > through or self._asks(each.record))
        ]
        self.fresh = [each for each in self.fresh if not is_over(each.record)]
        oldest = min((record.seq for record in self.waiting()), default=through + 1)
        self.forced = {seq: by for seq, by in self.forced.items() if seq >= oldest}
        self.followed = {seq: each for seq, each in self.followed.items() if seq >= oldest}
        self.handled = {seq for seq in self.handled if seq >= oldest}
        left = {record.seq for record in self.waiting()}
        return [record for record in before if record.seq not in left]

    def is_open(self, seq: int) -> bool:
        """Return whether this record waits for an answer. The plugins' hooks must have let it
        through, and it must not be marked as handled (a command is marked so)."""
        waits = any(each.record.seq == seq for each in self.pending)
        return waits and seq not in self.handled

    def forget_person(self, user_id: str) -> None:
        """Drop a person's records."""
        self.fresh = [each for each in self.fresh if each.record.sender.user_id != user_id]
        self.pending = [each for each in self.pending if each.record.sender.user_id != user_id]

    def waiting(self) -> Sequence[Record]:
        """Return all records. Those that the plugins' hooks have let through come first."""
        return [each.record for each in (*self.pending, *self.fresh)]
