"""Stores the archives of plugins in the object store, and fetches them.

The object store is not trusted: whoever has the password of a worker can replace an object. So an
archive is used only if its SHA-256 is the one in the plugin's row in the database. This is compared
before anything is unpacked, and nothing of a plugin is imported before.
"""

import json
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import msgspec
from anyio import to_thread
from loguru import logger

from nekro_core.cluster.errors import ObjectDamaged, ObjectMissing
from nekro_core.cluster.objects import ObjectStore, fetch_exactly
from nekro_core.plugins.host.links import LOCAL_FOLDER
from nekro_core.plugins.installation.archives import PluginArchives, sha256_of, unpack_plugin
from nekro_core.plugins.installation.files import FilesRefused
from nekro_core.plugins.installation.installed import InstalledPlugin
from nekro_core.plugins.installation.proposal import digest_of
from nekro_core.plugins.installation.received import ReceivedPlugin
from nekro_core.store import SharedPluginRow
from nekro_core.system.errors import NekroError

PLUGINS = "plugins/"
"""The beginning of the names of the objects of plugins. The SHA-256 of the archive follows."""
_STAGING = ".installing"
"""The beginning of the names of temporary folders, as in
`nekro_core.plugins.installation.install`, which deletes those of killed processes."""


class PluginNotReceived(NekroError):
    """The files of a plugin could not be fetched, or they are not those of its row. If ``ask`` is
    true, another process may be able to store them again."""

    def __init__(self, text: str, *, ask: bool = False) -> None:
        super().__init__(text)
        self.ask = ask


class PluginObjects:
    """The archives of plugins, in the object store and in one data folder."""

    def __init__(self, objects: ObjectStore, data_dir: Path) -> None:
        self._objects = objects
        self._data = data_dir
        self._archives = PluginArchives(data_dir)

    async def give(self, plugin: Path, record: InstalledPlugin) -> tuple[str, int]:
        """Store the archive of an installed plugin as an object. Returns its SHA-256 and its size.
        Raises `FilesRefused` if its files are not those of its record, or if other processes would
        refuse them, `ClusterError` and `OSError`."""
        archive = await to_thread.run_sync(self._archives.pack, plugin, record.files)
        await to_thread.run_sync(partial(_try_to_unpack, archive, record, self._data))
        digest = await to_thread.run_sync(sha256_of, archive)
        await self._objects.put(object_name(digest), archive)
        return digest, (await to_thread.run_sync(archive.stat)).st_size

    async def give_again(self, row: SharedPluginRow) -> bool:
        """Store the archive of a plugin as an object again. Returns False if this process has
        neither this archive nor the files of which it was made. Raises `PluginNotReceived`,
        `ClusterError` and `OSError`."""
        if not row.mark:
            return False
        record, _ = _read(row)
        try:
            place = self._data / LOCAL_FOLDER / record.path
            archive = await to_thread.run_sync(self._archives.pack, place, record.files)
        except FilesRefused:
            return False
        if await to_thread.run_sync(sha256_of, archive) != row.archive:
            return False
        await self._objects.put(object_name(row.archive), archive)
        return True

    @asynccontextmanager
    async def received(
        self, row: SharedPluginRow, configuration: str | None
    ) -> AsyncIterator[ReceivedPlugin]:
        """Fetch a plugin's archive if it is not here, and have its files unpacked until the block
        ends. Raises `PluginNotReceived`, `FilesRefused`, `ClusterError` and `OSError`."""
        record, needs = _read(row)
        archive = self._archives.path(row.mark)
        if await to_thread.run_sync(sha256_of, archive) != row.archive:
            await self._fetch(row, archive)
        with tempfile.TemporaryDirectory(prefix=_STAGING, dir=self._data) as folder:
            unpack = partial(unpack_plugin, archive, Path(folder) / "files", record.files)
            ready = await to_thread.run_sync(unpack)
            yield ReceivedPlugin(
                item=row.item,
                ready=ready,
                record=record,
                needs=needs,
                configuration=configuration,
            )

    async def _fetch(self, row: SharedPluginRow, archive: Path) -> None:
        """Fetch an archive, and move it to its path if it is the one of the row."""
        name, unfinished = object_name(row.archive), archive.with_name(f".{archive.name}.fetched")
        try:
            try:
                await fetch_exactly(
                    self._objects, name, unfinished, sha256=row.archive, size=row.size
                )
            except ObjectDamaged as error:
                logger.error("{}: {}", row.item, error)
                await self._objects.delete(name)
                raise PluginNotReceived(
                    "the file in the object store is not the plugin that was installed: somebody "
                    "has replaced it, or it is damaged. It was not used",
                    ask=True,
                ) from None
            await to_thread.run_sync(unfinished.replace, archive)
        except ObjectMissing:
            raise PluginNotReceived(
                "its files are not in the object store. They come when a process that has them "
                "runs",
                ask=True,
            ) from None
        finally:
            unfinished.unlink(missing_ok=True)


def object_name(archive: str) -> str:
    """Return the name of the object of an archive, by the archive's SHA-256."""
    return f"{PLUGINS}{archive}.zip"


def _read(row: SharedPluginRow) -> tuple[InstalledPlugin, Sequence[str]]:
    try:
        record = msgspec.json.decode(row.record, type=InstalledPlugin)
        needs = msgspec.json.decode(row.needs, type=list[str])
    except msgspec.MsgspecError as error:
        raise PluginNotReceived(f"its row in the database cannot be read: {error}") from None
    if digest_of(record.files) != row.mark:
        raise PluginNotReceived("its row in the database lists other files than its mark says")
    return record, needs


def needs_text(needs: Sequence[str]) -> str:
    """Return a list of texts, such as requirements or abilities, as it is stored in a row."""
    return json.dumps([*needs], ensure_ascii=False)


def _try_to_unpack(archive: Path, record: InstalledPlugin, data: Path) -> None:
    """Unpack an archive as the other processes will, and delete the result."""
    with tempfile.TemporaryDirectory(prefix=_STAGING, dir=data) as folder:
        unpack_plugin(archive, Path(folder) / "files", record.files)
