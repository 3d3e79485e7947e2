"""What people wrote in a chat and nobody has answered yet."""

from collections import Counter
from collections.abc import Callable, Sequence

from nekro_core.agent.session.trigger import PendingMessage
from nekro_core.agent.turn.context import HistoryMarks
from nekro_core.chat import Record

MAX_PENDING = 1000
"""Records kept in memory between turns. A longer flood is still in the store and the history."""


def _make_room(messages: list[PendingMessage]) -> None:
    """If there are too many, drop the oldest of the person who wrote most. A flood is one person's,
    and drops nobody else's question."""
    while len(messages) > MAX_PENDING:
        ((most, _),) = Counter(each.record.sender.user_id for each in messages).most_common(1)
        oldest = next(i for i, each in enumerate(messages) if each.record.sender.user_id == most)
        del messages[oldest]


class Backlog:
    """The backlog of one chat. ``asks`` tells of a record whether it wants an answer."""

    def __init__(self, asks: Callable[[Record], bool]) -> None:
        self._asks = asks
        self.fresh: list[PendingMessage] = []
        """Messages that no plugin has looked at."""
        self.pending: list[PendingMessage] = []
        """The others, oldest first."""
        self.forced: set[int] = set()
        """Records that plugins want answered, whatever they are."""
        self.handled: set[int] = set()
        """Records that are no questions, such as commands."""
        self.hidden: set[int] = set()
        """Records that plugins let into no prompt."""
        self._recalled: set[int] = set()
        """Records that were recalled since the chat was last idle."""

    def __bool__(self) -> bool:
        return bool(self.fresh or self.pending)

    def on_record(self, message: PendingMessage) -> None:
        """Take a message that arrived."""
        if message.record.seq in self._recalled:
            return
        self.fresh.append(message)
        _make_room(self.fresh)

    def take_fresh(self) -> list[PendingMessage]:
        """What plugins are to look at now."""
        fresh, self.fresh = self.fresh, []
        return fresh

    def add_pending(self, message: PendingMessage) -> None:
        """Take a message that plugins let through: it may want an answer."""
        if message.record.seq in self._recalled:
            return
        self.pending.append(message)
        _make_room(self.pending)

    def on_recall(self, seq: int) -> None:
        """Drop a record that somebody recalled, also if it is yet to come."""
        self._recalled.add(seq)
        self.fresh = [each for each in self.fresh if each.record.seq != seq]
        self.pending = [each for each in self.pending if each.record.seq != seq]

    def clear_pending(self) -> None:
        """Forget all that plugins let through: none of it will be answered."""
        self.pending.clear()
        self.forced.clear()
        self.handled.clear()
        self._recalled.clear()

    def clear_before(self, seq: int) -> bool:
        """Drop what was pending before this record. Whether any of it asked for an answer."""
        dropped = [each for each in self.pending if each.record.seq < seq]
        self.pending = [each for each in self.pending if each.record.seq >= seq]
        return any(self._asks(each.record) for each in dropped)

    def newest(self) -> int:
        """The highest number in it, 0 if it is empty."""
        return max((record.seq for record in self._records()), default=0)

    def marks(self, records: Sequence[Record], trigger_record: Record) -> HistoryMarks:
        """What these records are to a turn that this record woke."""
        asker = trigger_record.sender.user_id
        others = {each.seq for each in self._records() if each.sender.user_id != asker}
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
            ),
            hidden=frozenset(each.seq for each in records if each.seq in self.hidden),
        )

    def oldest_waiting(self, asker: str) -> int | None:
        """From which record on a restart has to look for what others than the asker wait for. What
        no plugin has looked at may be among it."""
        questions = (each.record for each in self.pending if self._asks(each.record))
        unseen = (each.record for each in self.fresh)
        others = (each.seq for each in (*questions, *unseen) if each.sender.user_id != asker)
        return min(others, default=None)

    def drop_answered(self, asker: str, through: int, *, stopped_at: int = 0) -> None:
        """A turn of this person has seen all records through ``through``. Drop what they wrote, and
        what others wrote without asking. If the turn was stopped, drop all that was asked before
        ``stopped_at``."""

        def is_over(record: Record) -> bool:
            answered = record.sender.user_id == asker and record.seq <= through
            return answered or record.seq <= stopped_at

        self.pending = [
            each
            for each in self.pending
            if not is_over(each.record) and (each.record.seq > through or self._asks(each.record))
        ]
        self.fresh = [each for each in self.fresh if not is_over(each.record)]
        oldest = min((record.seq for record in self._records()), default=through + 1)
        self.forced = {seq for seq in self.forced if seq >= oldest}
        self.handled = {seq for seq in self.handled if seq >= oldest}

    def forget_person(self, user_id: str) -> None:
        """Drop what a person wrote."""
        self.fresh = [each for each in self.fresh if each.record.sender.user_id != user_id]
        self.pending = [each for each in self.pending if each.record.sender.user_id != user_id]

    def _records(self) -> Sequence[Record]:
        return [each.record for each in (*self.pending, *self.fresh)]
