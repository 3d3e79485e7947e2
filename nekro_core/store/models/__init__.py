"""Defines the tables. Tortoise generates the migrations from these classes. The repositories read
and write the tables with their own SQL (see `database`).

There are three rules. Times are seconds since 1970 as floats. There are no foreign keys, because a
migration that rebuilds a table on SQLite would follow them. If two writers could write the same
thing at the same time, a unique key decides which of them succeeds.

Tortoise writes a comment for each table into the DDL: ``table_description``, or else the first line
of the docstring. These comments must stay the same as in the migrations, and must not contain
semicolons, because Tortoise splits the DDL at semicolons.

The classes are in several files because Tortoise reads the whole file of each class to find its
comments: with one file for all classes, the import took 125 ms.
"""

from nekro_core.store.models.chats import (
    AccountTable,
    ChatTable,
    MessageTable,
    MessageVersionTable,
    UserTable,
)
from nekro_core.store.models.console import (
    AuditLogTable,
    ConsoleInvitationTable,
    ConsolePersonTable,
    ConsoleRecoveryCodeTable,
    ConsoleSessionTable,
    ConsoleTokenTable,
    DocumentTable,
)
from nekro_core.store.models.files import BoxFilesTable, MediaFileTable
from nekro_core.store.models.memory import (
    MemoryChatTable,
    MemoryOffTable,
    NoteTable,
    SummaryTable,
)
from nekro_core.store.models.partitions import CommitMarkTable, ItemTakeTable, PartitionOwnerTable
from nekro_core.store.models.plugins import (
    ModelUseTable,
    PluginDataTable,
    PluginReportTable,
    SharedPluginTable,
    TimerTable,
    WaitingTable,
)
from nekro_core.store.models.search import (
    SearchBlockTable,
    SearchChangeTable,
    SearchPageTable,
    SearchSegmentTable,
)
from nekro_core.store.models.statistics import (
    CountedTable,
    LatencyTable,
    StatisticsTable,
)
from nekro_core.store.models.turns import (
    DeliveryTable,
    PromptPartTable,
    PromptTable,
    RunTable,
    StepTable,
    ToolCallTable,
    TurnTable,
)
from nekro_core.store.models.upgrades import UpgradeNoteTable

__all__ = [
    "AccountTable",
    "AuditLogTable",
    "BoxFilesTable",
    "ChatTable",
    "CommitMarkTable",
    "ConsoleInvitationTable",
    "ConsolePersonTable",
    "ConsoleRecoveryCodeTable",
    "ConsoleSessionTable",
    "ConsoleTokenTable",
    "CountedTable",
    "DeliveryTable",
    "DocumentTable",
    "ItemTakeTable",
    "LatencyTable",
    "MediaFileTable",
    "MemoryChatTable",
    "MemoryOffTable",
    "MessageTable",
    "MessageVersionTable",
    "ModelUseTable",
    "NoteTable",
    "PartitionOwnerTable",
    "PluginDataTable",
    "PluginReportTable",
    "PromptPartTable",
    "PromptTable",
    "RunTable",
    "SearchBlockTable",
    "SearchChangeTable",
    "SearchPageTable",
    "SearchSegmentTable",
    "SharedPluginTable",
    "StatisticsTable",
    "StepTable",
    "SummaryTable",
    "TimerTable",
    "ToolCallTable",
    "TurnTable",
    "UpgradeNoteTable",
    "UserTable",
    "WaitingTable",
]
