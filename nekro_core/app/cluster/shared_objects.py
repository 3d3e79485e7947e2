"""Opens the object store of a cluster for a backup or a restore, beside the processes of the
cluster or while none runs."""

import os
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from nekro_core.app.cluster.object_place import check_place
from nekro_core.app.object_files import ClusterObjectFiles
from nekro_core.app.settings import Settings
from nekro_core.backup.errors import BackupRefused
from nekro_core.cluster.errors import ClusterError
from nekro_core.cluster.object_copies import ObjectCopies
from nekro_core.cluster.objects import ObjectStore
from nekro_core.cluster.s3_address import NATS_OBJECTS, S3Address
from nekro_core.store.documents import DatabaseDocuments
from nekro_core.store.engines import is_postgres
from nekro_core.store.file_rows import open_file_rows
from nekro_core.system.documents import DocumentError


@asynccontextmanager
async def open_cluster_objects(settings: Settings) -> AsyncIterator[ObjectStore | None]:
    """Connect to the object store that the settings name, until the block ends. Yields None if they
    name no cluster. Raises `BackupRefused`."""
    url = settings.nekro_cluster_url.get_secret_value()
    if not url or not is_postgres(settings.database_url):
        yield None
        return
    try:
        from nekro_core.app.cluster.link import open_objects  # noqa: PLC0415 (needs NATS's client)
    except ModuleNotFoundError as error:
        raise BackupRefused(
            f"NEKRO_CLUSTER_URL is set, and {error.name} is not installed: "
            "pip install 'nekro-core[cluster]'"
        ) from None
    failure: Exception | None = None
    try:
        async with open_objects(settings) as objects:
            try:
                yield objects
            except Exception as error:  # noqa: BLE001 (raised again below, and not wrapped)
                failure = error
    except ClusterError as error:
        raise BackupRefused(f"the object store of the cluster cannot be used: {error}") from error
    if failure is not None:
        raise failure


@asynccontextmanager
async def open_object_files(settings: Settings) -> AsyncIterator[ClusterObjectFiles | None]:
    """Open the files in the object store for a backup. Yields None if the settings name no cluster.
    Raises `BackupRefused`, also if the files are elsewhere than the settings say, and
    `StoreError`."""
    async with open_cluster_objects(settings) as objects:
        if objects is None:
            yield None
            return
        node = f"backup-{os.getpid()}-{secrets.token_hex(4)}"  # no other process has this name
        async with open_file_rows(settings.database_url, node) as rows:
            await check_place_of(settings, rows.documents)
            copies = ObjectCopies(rows.media, rows.boxes, objects)
            yield ClusterObjectFiles(copies, settings.nekro_data_dir.absolute())


async def check_place_of(settings: Settings, documents: DatabaseDocuments) -> None:
    """Make sure that the files of the cluster are where the settings say. Otherwise a backup would
    find none of them, and would be made without them. Raises `BackupRefused`."""
    try:
        bucket = S3Address.read(settings.nekro_cluster_objects, settings.nekro_s3, os.environ)
        await check_place(bucket.place if bucket else NATS_OBJECTS, documents)
    except (ClusterError, DocumentError) as error:
        raise BackupRefused(f"the object store of the cluster cannot be used: {error}") from error
