"""Errors of the store.

::

    NekroError
    └── StoreError                 whatever the store cannot do
        ├── DataFolderInUse        another process owns the data folder
        ├── DatabaseInUse          another bot owns the database on the server
        ├── DatabaseTooNew         written by a newer version of the bot
        ├── MigrationFailed        the tables could not be brought up to date; a copy was kept
        ├── StoreUnavailable       machinery down: disk full, locked, unreadable; nothing written
        ├── UniqueConflict         a unique key is taken already; another writer was first
        ├── TurnRunning            caller's fault: the chat has a running turn already
        └── ValueTooLarge          caller's fault: longer than the column allows
"""

from nekro_core.system.errors import NekroError


class StoreError(NekroError):
    """The base class of the store's errors."""


class DataFolderInUse(StoreError):
    """Another process owns the data folder. The text names the process (``pid``), and since when it
    owns the folder."""

    def __init__(self, message: str, *, pid: int | None, since: float | None) -> None:
        super().__init__(message)
        self.pid = pid
        self.since = since


class DatabaseInUse(StoreError):
    """Another bot owns the database on the server. The text names the bot's process, its address,
    and since when it is connected."""


class DatabaseTooNew(StoreError):
    """The database has migrations that this version does not know."""


class MigrationFailed(StoreError):
    """The tables could not be brought up to date. The database is unchanged; the text gives the
    cause."""


class StoreUnavailable(StoreError):
    """The database cannot be reached or written now. No part of the refused write was stored."""


class UniqueConflict(StoreError):
    """A row with this unique key exists already, because another writer was first."""


class TurnRunning(StoreError):
    """The chat has a running turn already; end or resume that turn."""


class ValueTooLarge(StoreError):
    """A value is longer than its column allows. The text names the value, its length and the
    limit."""
