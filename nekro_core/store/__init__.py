"""What the bot remembers: Tortoise models, migrations, and one small repository for each kind."""

from nekro_core.store.database import Statement
from nekro_core.store.errors import (
    Conflict,
    DatabaseInUse,
    DatabaseTooNew,
    DataFolderInUse,
    MigrationFailed,
    StoreError,
    StoreUnavailable,
    TurnRunning,
    ValueTooLarge,
)
from nekro_core.store.lock import DataFolderLock, data_folder_in_use
from nekro_core.store.person import Person
from nekro_core.store.settings import KeepSettings, StoreSettings
from nekro_core.store.store import Store
from nekro_core.store.traces import Traces
from nekro_core.store.values import (
    Account,
    DeliveryRow,
    LoggedTurn,
    ModelUse,
    Step,
    TimerRow,
    ToolCall,
    Turn,
    Unanswered,
    Usage,
    WaitingRow,
)

__all__ = [
    "Account",
    "Conflict",
    "DataFolderInUse",
    "DataFolderLock",
    "DatabaseInUse",
    "DatabaseTooNew",
    "DeliveryRow",
    "KeepSettings",
    "LoggedTurn",
    "MigrationFailed",
    "ModelUse",
    "Person",
    "Statement",
    "Step",
    "Store",
    "StoreError",
    "StoreSettings",
    "StoreUnavailable",
    "TimerRow",
    "ToolCall",
    "Traces",
    "Turn",
    "TurnRunning",
    "Unanswered",
    "Usage",
    "ValueTooLarge",
    "WaitingRow",
    "data_folder_in_use",
]
