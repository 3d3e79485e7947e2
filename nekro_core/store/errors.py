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
    """The store cannot do what was asked."""


class DataFolderInUse(StoreError):
    """Another process owns the data folder. Says which (``pid``) and since when."""

    def __init__(self, message: str, *, pid: int | None, since: float | None) -> None:
        super().__init__(message)
        self.pid = pid
        self.since = since


class DatabaseInUse(StoreError):
    """Another bot owns the database on the server. Says which, from where and since when."""


class DatabaseTooNew(StoreError):
    """The database holds migrations that this version does not know."""


class MigrationFailed(StoreError):
    """The tables could not be brought up to date; the text says where the earlier copy is."""


class StoreUnavailable(StoreError):
    """The database cannot be reached or written now. Nothing of the refused work was stored."""


class UniqueConflict(StoreError):
    """A unique key is taken already: another writer was first."""


class TurnRunning(StoreError):
    """The chat has a running turn already; end or resume that one."""


class ValueTooLarge(StoreError):
    """A value is longer than its column allows. Says which, how long and the limit."""
