"""Remembers which records of a partition the sessions have got, so that none is given twice.

If several processes share the work, records reach the owner of a chat in two ways: the log of the
chat's partition names each of them, and an owner reads the unanswered ones from the database when
it begins. A record can come in both ways, and after a crash the log may name it once more.
"""

from nekro_core.agent.session.record_takes import RecordTakes


class GivenRecords:
    """The numbers of the records that were given to sessions during one ownership. ``takes`` keeps
    rows in the database that say which of them this owner has in hand, that is, has taken up and
    not finished."""

    def __init__(self, takes: RecordTakes | None = None) -> None:
        self.takes = takes
        self._through = 0
        self._newer: set[int] = set()

    def __len__(self) -> int:
        """The number of records that are remembered one by one."""
        return len(self._newer)

    def __contains__(self, seq: int) -> bool:
        return seq <= self._through or seq in self._newer

    def add(self, seq: int) -> bool:
        """Remember a record. Returns False if it was given already."""
        if seq in self:
            return False
        self._newer.add(seq)
        return True

    def all_through(self, seq: int) -> None:
        """Remember that all records up to this number were given, or need no answer. Call this
        after the unanswered records were read from the database and given to sessions. ``seq`` is
        the number of the newest record before that reading."""
        if seq > self._through:
            self._through = seq
            self._newer = {each for each in self._newer if each > seq}
