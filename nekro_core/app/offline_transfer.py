"""Exports and imports while no bot runs: opens the data folder, and offers the same area as a
running bot."""

import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from nekro_core.app.documents import open_documents
from nekro_core.app.restored_people import marks_of
from nekro_core.app.settings import Settings
from nekro_core.app.settings_editor import SettingsEditor
from nekro_core.memory.keeper import MemoryKeeper
from nekro_core.operator.audit import AuditLog
from nekro_core.operator.transfer.area import Transfer
from nekro_core.operator.transfer.exporter import Sources
from nekro_core.policy import PolicyFile
from nekro_core.policy.personas import PersonaLibrary
from nekro_core.store import DataFolderLock, Store
from nekro_core.system.errors import NekroError
from nekro_core.system.secrets import kept_secret
from nekro_core.system.setting_info import SettingChange, SettingInfo


class _NoBot(NekroError):
    """Something was asked that only a running bot can do."""


class SettingsOfFiles:
    """Implements `nekro_core.operator.settings.SettingsBook` while no bot runs."""

    problem = ""

    def __init__(self, editor: SettingsEditor) -> None:
        self._editor = editor

    async def infos(self) -> Sequence[SettingInfo]:
        """See `SettingsBook.infos`."""
        return await self._editor.infos()

    async def set(self, values: Mapping[str, Any]) -> Sequence[SettingChange]:
        """See `SettingsBook.set`."""
        return await self._editor.set(values)

    async def move_from_env(self, names: Sequence[str]) -> Sequence[SettingChange]:
        """See `SettingsBook.move_from_env`."""
        return await self._editor.move_from_env(names)

    def restart(self) -> None:
        """See `SettingsBook.restart`."""
        raise _NoBot("no bot runs here: nekro run starts one")


@asynccontextmanager
async def open_transfer(
    settings: Settings, *, wall: Callable[[], float] = time.time
) -> AsyncIterator[Transfer]:
    """Open the data folder of the settings for an export or import. Raises `DataFolderInUse`,
    `StoreError` and `DocumentError`."""
    data = settings.nekro_data_dir.absolute()
    data.mkdir(parents=True, exist_ok=True, mode=0o700)
    with DataFolderLock(data):
        async with (
            Store.open(settings.database_url, settings.nekro_store, clock=wall) as store,
            open_documents(settings.nekro_documents, data, store.documents) as documents,
        ):
            policies = PolicyFile(documents)
            await policies.look()
            memory = MemoryKeeper(
                store, settings.nekro_memory, data=data, secret=partial(kept_secret, data, "memory")
            )
            try:
                await memory.scope.load()
                if (marks := marks_of(data, wall)) is not None:
                    memory.scope.know_erased(marks.was_erased)
                sources = Sources(
                    store=store,
                    settings=SettingsOfFiles(SettingsEditor(Path(), documents)),
                    personas=PersonaLibrary(data, wall, documents),
                    policies=policies,
                    wall=wall,
                )
                yield Transfer(AuditLog(store.audit), sources, memory, alone=True)
            finally:
                memory.knowledge.close()
