"""Reads the rows of media, the rows of boxes, and the documents in a cluster's database, without
opening the whole store."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from nekro_core.store.database import Database
from nekro_core.store.documents import DatabaseDocuments
from nekro_core.store.errors import StoreUnavailable
from nekro_core.store.shared_files import BoxFilesRepository, MediaFileRepository

_PATIENCE_S = 5.0
"""Maximum wait in seconds for a server that is starting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRows:
    """The rows of the files in the object store, and the documents. One of the documents says where
    the object store is."""

    media: MediaFileRepository
    boxes: BoxFilesRepository
    documents: DatabaseDocuments


@asynccontextmanager
async def open_file_rows(url: str, node: str) -> AsyncIterator[FileRows]:
    """Open a PostgreSQL database that the processes of a cluster use or may use. The tables are not
    migrated, and the rows can only be read. ``node`` is the name of this process, which no other
    process may have. Raises `StoreUnavailable` and `DatabaseInUse`."""
    try:
        from tortoise.backends.base.config_generator import expand_db_url  # noqa: PLC0415 - 0.2 s

        from nekro_core.store.postgres import PostgresEngine  # noqa: PLC0415 (asyncpg is an extra)
    except ModuleNotFoundError as error:
        raise StoreUnavailable(
            f"{error.name} is missing: pip install 'nekro-core[postgres]'"
        ) from None
    credentials = expand_db_url(url)["credentials"]
    async with PostgresEngine.open(credentials, patience_s=_PATIENCE_S, node=node) as engine:
        database = Database(engine, batch=1)
        yield FileRows(
            media=MediaFileRepository(database, clock=time.time),
            boxes=BoxFilesRepository(database, clock=time.time),
            documents=DatabaseDocuments(database, clock=time.time),
        )
