"""Defines the interface of a database engine, and adds advice to the error texts of drivers."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from nekro_core.store.errors import StoreError

if TYPE_CHECKING:
    from nekro_core.store.guest_queries import GuestQuery

Row = Mapping[str, Any]
Rows = Sequence[Row]
Value = str | int | float | bool | bytes | None
Bound = tuple[str, tuple[Value, ...]]
"""An SQL text with ``?`` for each value, and the values."""


Required = Mapping[int, int]
"""Maps the position of a statement in its transaction, from 0, to the number of rows that the
statement must return."""
NOTHING_REQUIRED: Required = MappingProxyType({})


class WrongRowCount(StoreError):
    """A statement did not return as many rows as required, so the transaction was rolled back.
    ``position`` is the position of the statement in the transaction."""

    def __init__(self, position: int, found: int, expected: int) -> None:
        super().__init__(f"statement {position} returned {found} rows, expected {expected}")
        self.position = position


def check_rows(required: Required, position: int, rows: Rows) -> None:
    """Raise `WrongRowCount` if a statement did not return as many rows as required."""
    expected = required.get(position)
    if expected is not None and len(rows) != expected:
        raise WrongRowCount(position, len(rows), expected)


class DatabaseEngine(Protocol):
    """A connection to one kind of database. Its methods raise only `StoreError` and subclasses."""

    @property
    def dialect(self) -> str:
        """``sqlite`` or ``postgres``."""

    @property
    def takes_nul(self) -> bool:
        """True if a text may contain the character U+0000."""

    @property
    def shared(self) -> bool:
        """True if other processes write to the database at the same time. Then the engine numbers
        the records when it commits them: see `nekro_core.store.pending_seq`."""

    async def read(self, sql: str, values: Sequence[Value]) -> Rows:
        """Run a query and return its rows. Raises `StoreUnavailable`."""

    async def guest_select(self, query: "GuestQuery") -> Rows:
        """Run a SELECT that a plugin wrote. Raises `GuestQueryRefused` and `StoreUnavailable`."""

    async def commit(
        self, statements: Sequence[Bound], required: Required = NOTHING_REQUIRED
    ) -> list[Rows]:
        """Run all statements in one transaction and return the rows of each. Only one call may run
        at a time. If a statement in ``required`` returns another number of rows than it must,
        nothing is stored.

        Raises `UniqueConflict`, `WrongRowCount`, `StoreError` (a value is invalid) and
        `StoreUnavailable`.
        """

    async def listen(self, told: Callable[[str], None], begun: Callable[[], None], /) -> None:
        """Call ``told`` with the text of each `nekro_core.store.changes.announcement`, until the
        connection is lost. ``begun`` is called once, when the connection has begun to listen. Only
        a shared database can be listened to. Raises `StoreUnavailable`."""

    async def newest_seq(self, table: str) -> int:
        """Get the highest number that the database remembers for the column ``seq`` of a table,
        even if the row with this number was deleted; 0 if there was no row. Raises
        `StoreUnavailable`."""

    async def vacuum(self, *, anew: bool) -> None:
        """Remove the data of deleted rows from the database's files, where it stays after the
        commit. With ``anew``, the engine goes through the whole database, which takes longer.
        Raises `StoreUnavailable`."""


def explain(text: str) -> str:
    """Return the error text of a driver, with advice if the bot knows what to do about it."""
    for sign, remedy in _REMEDIES:
        if sign in text:
            return f"{text}: {remedy}"
    return f"the database did not answer: {text}"


_REMEDIES = (
    ("is full", "free space on the disk that holds the data folder; nothing was written"),
    ("No space left", "free space on the disk that holds the database; nothing was written"),
    (
        "is locked",
        "another program holds the database (a backup, a database browser); close it and try again",
    ),
    ("lock timeout", "another session holds a table of the database; end it and try again"),
    ("readonly", "the data folder must be writable for the user that runs the bot"),
    (
        "read-only",
        "the server takes no writes (a replica?); name the primary in NEKRO_DATABASE_URL",
    ),
    ("malformed", "the file is damaged; stop the bot and put back a copy from the data folder"),
    ("not a database", "the file is no SQLite database; stop the bot and put back a copy"),
    ("unable to open", "the data folder must exist and be writable for the user that runs the bot"),
    ("password authentication failed", "check user and password in NEKRO_DATABASE_URL"),
    ("too many clients", "the server has no connection left; raise max_connections there"),
    ("does not exist", "make the database and its user on the server first"),
    ("Connect call failed", "no server answers there; start it, or check NEKRO_DATABASE_URL"),
)

__all__ = [
    "NOTHING_REQUIRED",
    "Bound",
    "DatabaseEngine",
    "Required",
    "Row",
    "Rows",
    "Value",
    "WrongRowCount",
    "check_rows",
    "explain",
]
