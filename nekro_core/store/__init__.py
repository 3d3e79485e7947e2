"""Reads and writes the database. Contains Tortoise models, migrations, and a repository for each
kind of row."""

from nekro_core.store.audit import AuditRow
from nekro_core.store.database import SqlStatement
from nekro_core.store.errors import (
    DatabaseInUse,
    DatabaseTooNew,
    DataFolderInUse,
    MigrationFailed,
    StoreError,
    StoreUnavailable,
    TurnRunning,
    UniqueConflict,
    ValueTooLarge,
)
from nekro_core.store.lock import DataFolderLock, data_folder_in_use
from nekro_core.store.person import Person
from nekro_core.store.settings import RetentionSettings, StoreSettings
from nekro_core.store.store import Store
from nekro_core.store.traces import PersonTraces
from nekro_core.store.values import (
    Account,
    DeliveryRow,
    LoggedTurn,
    ModelUse,
    Step,
    TimerRow,
    ToolCall,
    TurnFilter,
    TurnRow,
    UnansweredMessages,
    Usage,
    WaitingRow,
)

__all__ = [
    "Account",
    "AuditRow",
    "DataFolderInUse",
    "DataFolderLock",
    "DatabaseInUse",
    "DatabaseTooNew",
    "DeliveryRow",
    "LoggedTurn",
    "MigrationFailed",
    "ModelUse",
    "Person",
    "PersonTraces",
    "RetentionSettings",
    "SqlStatement",
    "Step",
    "Store",
    "StoreError",
    "StoreSettings",
    "StoreUnavailable",
    "TimerRow",
    "ToolCall",
    "TurnFilter",
    "TurnRow",
    "TurnRunning",
    "UnansweredMessages",
    "UniqueConflict",
    "Usage",
    "ValueTooLarge",
    "WaitingRow",
    "data_folder_in_use",
]
