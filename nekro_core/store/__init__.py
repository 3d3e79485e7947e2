"""Reads and writes the database. Contains Tortoise models, migrations, and a repository for each
kind of row."""

from nekro_core.store.audit import AuditRow
from nekro_core.store.changes import ChangeFeed, ChangeTopic
from nekro_core.store.chat_list import ChatMember, ChatsPage, ChatSummary, HistoryLine
from nekro_core.store.console_logins import ConsoleSession, ConsoleToken
from nekro_core.store.console_people import ConsolePerson, PersonState
from nekro_core.store.database import SqlStatement
from nekro_core.store.decisions import DecisionReason, MessageDecision
from nekro_core.store.errors import (
    DatabaseInUse,
    DatabaseTooNew,
    DataFolderInUse,
    GuardFailed,
    MigrationFailed,
    OwnershipLost,
    StoreError,
    StoreUnavailable,
    TurnRunning,
    UniqueConflict,
    ValueTooLarge,
)
from nekro_core.store.histogram import LatencySummary
from nekro_core.store.lock import DataFolderLock, data_folder_in_use
from nekro_core.store.memory_chats import MAX_LINKED, MemoryProgress
from nekro_core.store.memory_notes import NoteKind, NoteOrigin, NoteRow, RecordRange
from nekro_core.store.memory_summaries import (
    RECORDS_LEVEL,
    SUMMARIES_LEVEL,
    SummaryRow,
    SummaryState,
)
from nekro_core.store.message_search import FoundMessages
from nekro_core.store.ownership import Ownership, writing_as
from nekro_core.store.partitions import PartitionOwner
from nekro_core.store.pending_seq import final_seq
from nekro_core.store.person import Person
from nekro_core.store.settings import RetentionSettings, StoreSettings
from nekro_core.store.shared_files import BoxFilesRow, MediaFileRow
from nekro_core.store.shared_plugins import PluginReport, SharedPluginRow
from nekro_core.store.statistic_rows import Dimension, LatencyMeasure, Period
from nekro_core.store.statistics import LatencyRow, StatisticsRow
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
    "MAX_LINKED",
    "RECORDS_LEVEL",
    "SUMMARIES_LEVEL",
    "Account",
    "AuditRow",
    "BoxFilesRow",
    "ChangeFeed",
    "ChangeTopic",
    "ChatMember",
    "ChatSummary",
    "ChatsPage",
    "ConsolePerson",
    "ConsoleSession",
    "ConsoleToken",
    "DataFolderInUse",
    "DataFolderLock",
    "DatabaseInUse",
    "DatabaseTooNew",
    "DecisionReason",
    "DeliveryRow",
    "Dimension",
    "FoundMessages",
    "GuardFailed",
    "HistoryLine",
    "LatencyMeasure",
    "LatencyRow",
    "LatencySummary",
    "LoggedTurn",
    "MediaFileRow",
    "MemoryProgress",
    "MessageDecision",
    "MigrationFailed",
    "ModelUse",
    "NoteKind",
    "NoteOrigin",
    "NoteRow",
    "Ownership",
    "OwnershipLost",
    "PartitionOwner",
    "Period",
    "Person",
    "PersonState",
    "PersonTraces",
    "PluginReport",
    "RecordRange",
    "RetentionSettings",
    "SharedPluginRow",
    "SqlStatement",
    "StatisticsRow",
    "Step",
    "Store",
    "StoreError",
    "StoreSettings",
    "StoreUnavailable",
    "SummaryRow",
    "SummaryState",
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
    "final_seq",
    "writing_as",
]
