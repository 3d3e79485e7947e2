"""The store as a whole: opened, used, closed."""

import re
import sqlite3
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

import anyio
from anyio.abc import TaskStatus
from tortoise.backends.base.config_generator import expand_db_url
from tortoise.context import TortoiseContext
from tortoise.exceptions import BaseORMException

from nekro_core.store.database import Database, explain
from nekro_core.store.deliveries import Deliveries
from nekro_core.store.errors import StoreUnavailable
from nekro_core.store.messages import Messages
from nekro_core.store.model_uses import ModelUses
from nekro_core.store.people import Accounts, Chats, Users
from nekro_core.store.plugin_data import PluginData
from nekro_core.store.queries import Queries
from nekro_core.store.runs import Runs
from nekro_core.store.settings import StoreSettings
from nekro_core.store.timers import Timers
from nekro_core.store.turns import Turns
from nekro_core.store.upgrade import configuration, upgrade_file, upgrade_server
from nekro_core.store.values import Account

_PASSWORD = re.compile(r"(?<=:)[^:@/\s]+(?=@)")


class Store:
    """Everything that the bot must not forget, by kind.

    Use `Store.open`. Methods raise `StoreError` and its kind alone.
    """

    def __init__(
        self,
        database: Database,
        *,
        last_seq: int,
        accounts: list[Account],
        clock: Callable[[], float],
    ) -> None:
        self.messages = Messages(database, last_seq=last_seq)
        self.accounts = Accounts(database, accounts=accounts, clock=clock)
        self.chats = Chats(database, clock=clock)
        self.users = Users(database, clock=clock)
        self.turns = Turns(database, clock=clock)
        self.runs = Runs(database, clock=clock)
        self.deliveries = Deliveries(database, self.messages, clock=clock)
        self.plugin_data = PluginData(database)
        self.queries = Queries(database)
        self.timers = Timers(database)
        self.model_uses = ModelUses(database)

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        url: str,
        settings: StoreSettings | None = None,
        *,
        clock: Callable[[], float] = time.time,
    ) -> AsyncIterator[Self]:
        """Open the database at a Tortoise URL (``sqlite:///folder/nekro.sqlite3``), made or
        migrated first where it must be; leaving writes what is in line and closes it.

        Several may be open in one process. Raises `DatabaseTooNew`, `MigrationFailed`,
        `StoreUnavailable`.
        """
        settings = settings or StoreSettings()
        failure: Exception | None = None
        async with anyio.create_task_group() as tasks:
            # What goes wrong here or in the body is raised outside, where no group wraps it.
            try:
                with anyio.CancelScope(shield=True):
                    # A migration or a connection that is half made is made whole first.
                    database = await tasks.start(_keep, url, settings, clock)
                try:
                    yield await cls._load(database, clock)
                finally:
                    database.close()
            except Exception as error:  # noqa: BLE001 (raised again below)
                failure = error
        if failure is not None:
            raise failure

    @classmethod
    async def _load(cls, database: Database, clock: Callable[[], float]) -> Self:
        (newest,) = await database.read("SELECT COALESCE(MAX(seq), 0) AS seq FROM messages")
        last_seq = newest["seq"]
        if database.dialect == "sqlite":
            # Remembers numbers of rows that were deleted, so that none is given again.
            rows = await database.read("SELECT seq FROM sqlite_sequence WHERE name = 'messages'")
            last_seq = max([last_seq, *(row["seq"] for row in rows)])
        rows = await database.read("SELECT adapter, account, instance FROM accounts")
        accounts = [
            Account(adapter=row["adapter"], account=row["account"], instance=row["instance"])
            for row in rows
        ]
        return cls(database, last_seq=last_seq, accounts=accounts, clock=clock)


async def _keep(
    url: str,
    settings: StoreSettings,
    clock: Callable[[], float],
    *,
    task_status: TaskStatus[Database],
) -> None:
    """Own the connection. Tortoise finds it by a context variable, which is set in this task
    alone: so stores do not meet, and the caller's task is left as it was."""
    engine, credentials, path = _parse(url, settings)
    # A cancelled owner still has last words to write; `Database.close` ends this.
    with anyio.CancelScope(shield=True):
        if path is not None:
            await upgrade_file(path, copies=settings.copies, clock=clock)
        async with TortoiseContext() as context:
            try:
                await context.init(configuration(engine, credentials))
                connection = context.db()
                await connection.execute_query("SELECT 1")
            except (BaseORMException, sqlite3.Error, OSError) as error:
                where = url.partition("?")[0]
                raise StoreUnavailable(f"{where}: {explain(str(error))}") from error
            if path is None:
                await upgrade_server(connection)
            database = Database(connection, batch=settings.batch)
            task_status.started(database)
            await database.keep()


def _parse(url: str, settings: StoreSettings) -> tuple[str, dict[str, Any], Path | None]:
    try:
        parsed = expand_db_url(url)
    except (BaseORMException, ValueError) as error:
        said = f"NEKRO_DATABASE_URL {url!r}: {error}; for example sqlite:///path/to/nekro.sqlite3"
        raise StoreUnavailable(_PASSWORD.sub("***", said)) from None
    engine, credentials = parsed["engine"], dict(parsed["credentials"])
    if "sqlite" not in engine:
        return engine, credentials, None
    credentials.setdefault("synchronous", settings.synchronous)
    credentials.setdefault("busy_timeout", int(settings.busy_timeout_s * 1000))
    memory = credentials["file_path"] == ":memory:"
    return engine, credentials, None if memory else Path(credentials["file_path"])
