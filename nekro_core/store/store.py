"""Opens the database and provides a repository for each kind of row."""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Self

import anyio
from anyio.abc import TaskStatus

from nekro_core.chat import ChatKey
from nekro_core.store.audit import AuditRepository
from nekro_core.store.changes import ChangeFeed, ChangeTopic
from nekro_core.store.chat_list import ChatListRepository
from nekro_core.store.condition import StoreCondition
from nekro_core.store.console_logins import ConsoleSessionRepository, ConsoleTokenRepository
from nekro_core.store.console_people import ConsolePeopleRepository
from nekro_core.store.database import Database
from nekro_core.store.decisions import DecisionRepository
from nekro_core.store.deliveries import DeliveryRepository
from nekro_core.store.documents import DatabaseDocuments
from nekro_core.store.engines import open_engine
from nekro_core.store.item_takes import ItemTakeRepository
from nekro_core.store.kept import KeptRepository
from nekro_core.store.memory_chats import MemoryChatRepository
from nekro_core.store.memory_eraser import MemoryEraser
from nekro_core.store.memory_notes import NoteRepository
from nekro_core.store.memory_summaries import SummaryRepository
from nekro_core.store.message_search import MessageSearch
from nekro_core.store.messages import MessageRepository
from nekro_core.store.model_uses import ModelUseRepository
from nekro_core.store.partitions import PartitionRepository
from nekro_core.store.pending import WaitingRepository
from nekro_core.store.people import (
    AccountRepository,
    ChatRepository,
    UserRepository,
    accounts_of,
    chat_names,
)
from nekro_core.store.person_eraser import PersonEraser
from nekro_core.store.plugin_data import PluginDataRepository
from nekro_core.store.prompt_eraser import PromptEraser
from nekro_core.store.prompts import PromptRepository
from nekro_core.store.queries import ConditionQueries
from nekro_core.store.restored_rows import RestoredRows
from nekro_core.store.retention import RowRetention
from nekro_core.store.runs import RunRepository
from nekro_core.store.search_index import SearchIndexRepository
from nekro_core.store.settings import StoreSettings
from nekro_core.store.shared_files import BoxFilesRepository, MediaFileRepository
from nekro_core.store.shared_plugins import SharedPluginRepository
from nekro_core.store.statistics import StatisticsRepository
from nekro_core.store.statistics_counter import StatisticsCounter
from nekro_core.store.timers import TimerRepository
from nekro_core.store.transfer_rows import TransferRows
from nekro_core.store.turn_log import TurnLogRepository
from nekro_core.store.turn_trace import TurnTraceRepository
from nekro_core.store.turns import TurnRepository
from nekro_core.store.upgrade_notes import UpgradeNotes
from nekro_core.store.values import Account
from nekro_core.system.background_tasks import background_tasks


class Store:
    """The repositories of an open database.

    Use `Store.open`. All methods raise only `StoreError` and its subclasses.
    """

    def __init__(
        self,
        database: Database,
        *,
        last_seq: int,
        accounts: list[Account],
        chat_names: dict[ChatKey, str],
        clock: Callable[[], float],
    ) -> None:
        self.changes = ChangeFeed(database)
        self.partitions = PartitionRepository(database, clock=clock)
        self.item_takes = ItemTakeRepository(database, clock=clock)
        self.messages = MessageRepository(database, last_seq=last_seq)
        self.decisions = DecisionRepository(database)
        self.accounts = AccountRepository(database, accounts=accounts, clock=clock)
        self.chats = ChatRepository(database, names=chat_names, clock=clock)
        self.users = UserRepository(database, clock=clock)
        self.turns = TurnRepository(database, self.messages, clock=clock)
        self.runs = RunRepository(database, clock=clock)
        self.prompts = PromptRepository(database, clock=clock)
        self.turn_log = TurnLogRepository(database, turns=self.turns, runs=self.runs)
        self.deliveries = DeliveryRepository(database, self.messages, clock=clock)
        self.media_files = MediaFileRepository(database, clock=clock)
        self.box_files = BoxFilesRepository(database, clock=clock)
        self.turn_traces = TurnTraceRepository(
            database, turns=self.turns, runs=self.runs, deliveries=self.deliveries
        )
        self.plugin_data = PluginDataRepository(database)
        self.shared_plugins = SharedPluginRepository(database, self.changes, clock=clock)
        self.queries = ConditionQueries(database)
        self.timers = TimerRepository(database)
        self.model_uses = ModelUseRepository(database)
        self.waiting = WaitingRepository(database)
        self.audit = AuditRepository(database, clock=clock)
        self.documents = DatabaseDocuments(database, clock=clock, changes=self.changes)
        self.retention = RowRetention(database, self.messages)
        self.console_people = ConsolePeopleRepository(database)
        self.console_sessions = ConsoleSessionRepository(database)
        self.console_tokens = ConsoleTokenRepository(database)
        self.restored = RestoredRows(database)
        self.transfer = TransferRows(database, chats=self.chats, messages=self.messages)
        self.statistics = StatisticsRepository(database, clock)
        self.statistics_counter = StatisticsCounter(database, self.messages, clock)
        self.chat_list = ChatListRepository(
            database,
            messages=self.messages,
            chats=self.chats,
            accounts=self.accounts,
            clock=clock,
        )
        self.kept = KeptRepository(database)
        self.condition = StoreCondition(database)
        self.notes = NoteRepository(database)
        self.summaries = SummaryRepository(database)
        self.memory_chats = MemoryChatRepository(database)
        self.upgrade_notes = UpgradeNotes(database)
        self.search = MessageSearch(database, self.messages)
        self.search_index = SearchIndexRepository(database)
        self.erasing = PersonEraser(
            database,
            messages=self.messages,
            chats=self.chats,
            users=self.users,
            pause=self.statistics_counter.pause,
            prompts=PromptEraser(database, self.prompts),
            search=self.search_index,
            memory=MemoryEraser(database),
        )
        listen = self.changes.listen
        listen(ChangeTopic.ACCOUNTS, self.accounts.read_again)
        listen(ChangeTopic.CHATS, self.chats.read_name)
        listen(ChangeTopic.DOCUMENTS, self.documents.forget_listing)
        listen(ChangeTopic.ERASED, self.chats.forget_all)
        listen(ChangeTopic.ERASED, self.messages.forget_newest)
        listen(ChangeTopic.ERASED, self.users.forget_all)
        listen(ChangeTopic.ERASED, self.prompts.forget_stored_elsewhere)

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        url: str,
        settings: StoreSettings | None = None,
        *,
        clock: Callable[[], float] = time.time,
    ) -> AsyncIterator[Self]:
        """Open a database by its URL, in the form of Tortoise ORM. Its tables are created or
        migrated first if needed.

        Examples of URLs are ``sqlite:///folder/nekro.sqlite3`` and
        ``asyncpg://user:password@host:5432/name``. Leaving the block commits the queued writes and
        closes the database. Several stores can be open in one process.

        If the settings have a ``node`` (the name of this process), other nodes can open the
        database at the same time. Then the database must be on a PostgreSQL server.

        Raises `DatabaseTooNew`, `MigrationFailed`, `StoreUnavailable`, and on PostgreSQL
        `DatabaseInUse`. For a SQLite file the caller must hold a `DataFolderLock`.
        """
        settings = settings or StoreSettings()
        failure: Exception | None = None
        async with anyio.create_task_group() as tasks:
            # An error of the block is raised outside the task group, so that it is not wrapped in
            # an exception group.
            try:
                with anyio.CancelScope(shield=True):
                    # If the caller is cancelled, this waits until a migration or connection that
                    # has begun is finished.
                    database = await tasks.start(_keep, url, settings, clock)
                try:
                    store = await cls._load(database, clock)
                    async with background_tasks() as followers:
                        if database.shared:
                            followers.start_soon(store.changes.follow, name="changes of others")
                        yield store
                finally:
                    database.close()
            except Exception as error:  # noqa: BLE001 (raised again below)
                failure = error
        if failure is not None:
            raise failure

    @classmethod
    async def _load(cls, database: Database, clock: Callable[[], float]) -> Self:
        (newest,) = await database.read("SELECT COALESCE(MAX(seq), 0) AS seq FROM messages")
        # SQLite and PostgreSQL remember the highest number even if its row was deleted, so no
        # number is used twice.
        last_seq = max(newest["seq"], await database.newest_seq("messages"))
        return cls(
            database,
            last_seq=last_seq,
            accounts=await accounts_of(database),
            chat_names=await chat_names(database),
            clock=clock,
        )


async def _keep(
    url: str,
    settings: StoreSettings,
    clock: Callable[[], float],
    *,
    task_status: TaskStatus[Database],
) -> None:
    """Keep the connection open, and commit writes until the database is closed. Tortoise finds its
    connection in a context variable, which is set only in this task. So several stores do not
    disturb each other, and the caller's context does not change."""
    # Cancelling this task would lose queued writes. So the task is shielded, and only
    # `Database.close` ends it.
    with anyio.CancelScope(shield=True):
        async with open_engine(url, settings, clock) as engine:
            database = Database(engine, batch=settings.batch, queue=settings.queue)
            task_status.started(database)
            await database.keep()
