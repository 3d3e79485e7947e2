"""Represents the number of a record that is not committed yet.

If several processes share a database, the database numbers the records when they are committed.
Until then a record has a `PendingSeq` instead of its number. Statements can contain it as a value,
like a number: the engine replaces it by the final number.
"""


class PendingSeq(int):
    """A placeholder for the number of a record. As an integer it is negative, so it is smaller than
    the number of any record. No other placeholder of the process has the same value."""

    number: int = 0
    """The final number; 0 until the record is committed."""


def final_seq(seq: int) -> int:
    """Return the final number of a record. A placeholder whose record is not committed yet is
    returned as it is."""
    if isinstance(seq, PendingSeq) and seq.number:
        return seq.number
    return seq
