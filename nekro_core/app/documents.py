"""Chooses where the operator's documents are stored: in files or in the database. Documents are the
settings, policies, personas, plugins' configurations and platforms' accounts."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

import anyio
import anyio.to_thread
from loguru import logger

from nekro_core.app.boxes import NETWORK_RULES
from nekro_core.app.platform_control import FILE_NAME as ENABLED_PLATFORMS
from nekro_core.app.settings import Settings
from nekro_core.app.settings_file import SECRETS, SETTINGS
from nekro_core.delivery.account_settings import DOCUMENTS as PLATFORM_ACCOUNTS
from nekro_core.delivery.accounts import FILE_NAME as ACCOUNT_NAMES
from nekro_core.plugins.configuration.configurations import DOCUMENTS as CONFIGURATIONS
from nekro_core.policy.overrides_file import FILE_NAME as CONDUCT
from nekro_core.policy.personas import DOCUMENTS as PERSONAS
from nekro_core.store import DataFolderLock, Store
from nekro_core.store.documents import DatabaseDocuments
from nekro_core.system.background_tasks import background_tasks
from nekro_core.system.documents import DocumentError, DocumentFolder, FileDocuments
from nekro_core.system.working_copies import WorkingCopies, forget_state
from nekro_core.tools.mcp_client.entries import CONFIG_FILE, SECRETS_FILE

Place = Literal["files", "database"]

SECRET = (SECRETS, SECRETS_FILE, CONFIG_FILE, PLATFORM_ACCOUNTS, *CONFIGURATIONS, PERSONAS)
"""Documents of which no earlier revisions are kept, because they may contain secrets. Personas have
another reason: their library keeps the versions itself."""
PATTERNS = (SETTINGS, CONDUCT, ACCOUNT_NAMES, ENABLED_PLATFORMS, NETWORK_RULES, *SECRET)
"""All documents, in the form of `DocumentStore.listed`."""
OF_ACCOUNTS = (ENABLED_PLATFORMS, PLATFORM_ACCOUNTS)
"""The documents that say which accounts a process connects. In a cluster, each gateway has its own:
if all gateways read the same ones, each would connect all accounts."""
_LAST_S = 1.0
_IN_PLUGINS = tuple(each for each in CONFIGURATIONS if each.startswith("plugins/"))


@asynccontextmanager
async def open_documents(
    place: Place, data: Path, shared: DatabaseDocuments, *, own_accounts: bool = False
) -> AsyncIterator[DocumentFolder]:
    """Open the documents of a data folder, which must be locked. If the documents are in the
    database, changes by other processes are applied while the block runs. With ``own_accounts``,
    the documents `OF_ACCOUNTS` are left out: they stay in the folder.

    Raises `DocumentError` if files and database differ and it is not known which are newer.
    """
    if place == "files":
        # From now on only the files change. Forget what is known about the copies in the database,
        # since this will soon be wrong.
        await anyio.to_thread.run_sync(forget_state, data)
        yield FileDocuments(data, secret=SECRET)
        return
    copies = working_copies(data, shared, own_accounts=own_accounts)
    await copies.settle()
    try:
        async with background_tasks() as tasks:
            tasks.start_soon(copies.follow, name="documents of the database")
            yield copies
    finally:
        with anyio.move_on_after(_LAST_S, shield=True):
            try:
                await copies.settle()  # Store changes of the last half second.
            except (DocumentError, OSError) as error:
                logger.error("changed documents wait for the next start: {}", error)


def working_copies(
    data: Path, shared: DatabaseDocuments, *, own_accounts: bool = False
) -> WorkingCopies:
    """Return the copies of the database's documents in a data folder. They are not settled yet. For
    ``own_accounts`` see `open_documents`."""
    left_out = OF_ACCOUNTS if own_accounts else ()
    return WorkingCopies(
        shared.with_secrets(SECRET),
        data,
        patterns=[each for each in PATTERNS if each not in left_out],
        secret=SECRET,
        in_existing_folders=_IN_PLUGINS,
    )


async def settle_before_start(settings: Settings, *, own_accounts: bool = False) -> bool:
    """Bring the files of the data folder up to date before the settings are used. Returns whether
    they must be read again. For ``own_accounts`` see `open_documents`. Raises `DocumentError`,
    `StoreError` and `DataFolderInUse`."""
    if settings.nekro_documents == "files":
        return False
    data = settings.nekro_data_dir.absolute()
    data.mkdir(parents=True, exist_ok=True, mode=0o700)
    with DataFolderLock(data):
        async with Store.open(settings.database_url, settings.nekro_store) as store:
            copies = working_copies(data, store.documents, own_accounts=own_accounts)
            return await copies.settle()


async def compare_documents(settings: Settings) -> Mapping[str, str]:
    """Return a sentence for each document: where it is, and whether the files and the database have
    the same text. No bot may use the data folder. Raises the errors of `settle_before_start`."""
    data = settings.nekro_data_dir.absolute()
    with DataFolderLock(data):
        async with Store.open(settings.database_url, settings.nekro_store) as store:
            return await working_copies(data, store.documents).compared()


async def copy_documents(settings: Settings, to: Place, *, overwrite: bool) -> list[str]:
    """Copy all documents from the files to the database or from the database to the files, and
    return the names of the documents that were changed. No bot may use the data folder.

    Raises `DocumentsDiffer` if documents differ and ``overwrite`` was not given, and the errors of
    `settle_before_start`.
    """
    data = settings.nekro_data_dir.absolute()
    data.mkdir(parents=True, exist_ok=True, mode=0o700)
    with DataFolderLock(data):
        async with Store.open(settings.database_url, settings.nekro_store) as store:
            copies = working_copies(data, store.documents)
            return await copies.copy(to_shared=to == "database", overwrite=overwrite)
