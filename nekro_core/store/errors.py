"""Errors of the store.

::

    NekroError
    └── StoreError                 the base class of these errors
        ├── DataFolderInUse        another process owns the data folder
        ├── DatabaseInUse          another bot owns the database on the server
        ├── DatabaseTooNew         a newer version of the bot has written the database
        ├── MigrationFailed        the tables could not be migrated; the database is unchanged
        ├── StoreUnavailable       the disk is full, or the database is locked; nothing was written
        ├── UniqueConflict         another writer has stored the same unique key first
        ├── GuardFailed            the rows are not as the writer expected; nothing was written
        │   └── OwnershipLost      another process owns the chat's partition
        ├── TurnRunning            the chat has a running turn already (a fault of the caller)
        └── ValueTooLarge          a value is longer than its column allows (the caller's fault)
"""

from nekro_core.system.errors import NekroError


class StoreError(NekroError):
    """The base class of the store's errors."""


class DataFolderInUse(StoreError):
    """Another process owns the data folder. The text names the process (``pid``) and says since
    when it owns the folder."""

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


class GuardFailed(StoreError):
    """The rows were not as the writer expected, because another writer has changed them. No part of
    the write was stored."""


class OwnershipLost(GuardFailed):
    """Another process owns the partition of the chat now. No part of the write was stored. This
    process must stop the work on the partition's chats."""


class TurnRunning(StoreError):
    """The chat has a running turn already. The caller must end or resume that turn."""


class ValueTooLarge(StoreError):
    """A value is longer than its column allows. The text names the value, its length and the
    limit."""
