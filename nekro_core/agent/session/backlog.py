"""What was heard in a chat and is not dealt with: who waits for an answer, and since when."""

from collections import Counter
from collections.abc import Callable, Sequence

from nekro_core.agent.session.trigger import PendingMessage
from nekro_core.chat import Record

MAX_PENDING = 1000
"""Records kept in mind between turns; a flood beyond it is still in the store and the history."""


def _make_room(heard: list[PendingMessage]) -> None:
    """Where there are too many, drop the oldest of whoever said most: a flood is one person's, and
    drops nobody else's question."""
    while len(heard) > MAX_PENDING:
        ((most, _),) = Counter(each.record.sender.user_id for each in heard).most_common(1)
        place = next(n for n, each in enumerate(heard) if each.record.sender.user_id == most)
        del heard[place]


class Backlog:
    """Of one chat. ``asks`` tells of a record whether it wants an answer."""

    def __init__(self, asks: Callable[[Record], bool]) -> None:
        self._asks = asks
        self.fresh: list[PendingMessage] = []
        """What no plugin has looked at."""
        self.heard: list[PendingMessage] = []
        """The rest, oldest first."""
        self._taken_back: set[int] = set()
        """Since the chat was last at rest."""

    def __bool__(self) -> bool:
        return bool(self.fresh or self.heard)

    def on_record(self, heard: PendingMessage) -> None:
        """A record that came."""
        if heard.record.seq in self._taken_back:
            return
        self.fresh.append(heard)
        _make_room(self.fresh)

    def take_new(self) -> list[PendingMessage]:
        """What is to be looked at now."""
        fresh, self.fresh = self.fresh, []
        return fresh

    def keep(self, heard: PendingMessage) -> None:
        """Plugins have nothing against it: it may want an answer."""
        if heard.record.seq in self._taken_back:
            return
        self.heard.append(heard)
        _make_room(self.heard)

    def on_recall(self, seq: int) -> None:
        """Somebody took this record back: nobody answers it, also where it is yet to come."""
        self._taken_back.add(seq)
        self.fresh = [each for each in self.fresh if each.record.seq != seq]
        self.heard = [each for each in self.heard if each.record.seq != seq]

    def drop_pending(self) -> None:
        """Nothing that was heard asks for an answer, nor will it."""
        self.heard.clear()
        self._taken_back.clear()

    def oldest(self, default: int) -> int:
        """Its lowest number."""
        return min((record.seq for record in self._records()), default=default)

    def newest(self) -> int:
        """Its highest number, 0 where nothing waits."""
        return max((record.seq for record in self._records()), default=0)

    def waiting(self, records: Sequence[Record], asker: str) -> frozenset[int]:
        """Which of these others than the asker wait to have answered."""
        others = {each.seq for each in self._records() if each.sender.user_id != asker}
        return frozenset(each.seq for each in records if each.seq in others and self._asks(each))

    def oldest_waiting(self, asker: str) -> int | None:
        """From where on a restart has to look for what others than the asker wait for. What no
        plugin has looked at may be."""
        asked = (heard.record for heard in self.heard if self._asks(heard.record))
        unseen = (heard.record for heard in self.fresh)
        others = (each.seq for each in (*asked, *unseen) if each.sender.user_id != asker)
        return min(others, default=None)

    def drop(self, asker: str, through: int, *, stopped_at: int = 0) -> None:
        """A turn of this person has seen all through that record: what they said is dealt with, and
        so is what others said without asking. Stopped, it was all that was asked before."""

        def is_over(record: Record) -> bool:
            theirs = record.sender.user_id == asker and record.seq <= through
            return theirs or record.seq <= stopped_at

        self.heard = [
            heard
            for heard in self.heard
            if not is_over(heard.record)
            and (heard.record.seq > through or self._asks(heard.record))
        ]
        self.fresh = [heard for heard in self.fresh if not is_over(heard.record)]

    def forget_person(self, user_id: str) -> None:
        """Drop what a person said."""
        self.fresh = [each for each in self.fresh if each.record.sender.user_id != user_id]
        self.heard = [each for each in self.heard if each.record.sender.user_id != user_id]

    def _records(self) -> Sequence[Record]:
        return [heard.record for heard in (*self.heard, *self.fresh)]
