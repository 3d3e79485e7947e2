"""Stores which plugins the processes of a cluster have, and why one of them cannot use one.

These rows decide which code a process runs. The files of a plugin are an object of the object
store, and a process uses them only if their digest is the one in the row.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from nekro_core.store.changes import ChangeFeed, ChangeTopic, announcement
from nekro_core.store.database import Database, Row, SqlStatement

_PROBLEM_LENGTH = 2000
"""Maximum number of characters of a stored problem. The first lines say what is wrong, and the log
of the process has all of them."""
_HEARD_S = 3600.0
"""A problem that its process has not stored again for this many seconds is not shown, because the
process may not exist any more. A process stores its problems again every `STORE_AGAIN_S`."""
STORE_AGAIN_S = 900.0
"""Seconds after which a process stores the same problems again."""
_COLUMNS = (
    "item, key, version, mark, archive, size, record, needs, abilities, wanted, without_data, "
    "node, changed_by, changed, revision"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedPluginRow:
    """A plugin of all processes.

    Attributes:
        item: Its item, such as ``local/weather``; the row of a built-in plugin only says whether
            the plugin is switched on.
        key: Its key; empty if not known.
        version: Its version.
        mark: The digest of the names and digests of its files; empty if it is not installed.
        archive: The SHA-256 of the archive with its files, in hex.
        size: The size of the archive in bytes.
        record: Its record as JSON, with the digest of each file; see
            `nekro_core.plugins.installation.installed`.
        needs: The packages that it needs, a list in JSON.
        abilities: What its code may do, as the operator who installed it was told; a list in JSON.
        wanted: Whether it is switched on.
        without_data: Whether its data were deleted when it was removed.
        node: The process at which it was last changed.
        changed_by: Who changed it; empty if a command did.
        changed: When it was last changed, in seconds since 1970.
        revision: How often it was changed. 0 if there is no row yet.
    """

    item: str
    key: str = ""
    version: str = ""
    mark: str = ""
    archive: str = ""
    size: int = 0
    record: str = ""
    needs: str = "[]"
    abilities: str = "[]"
    wanted: bool = True
    without_data: bool = False
    node: str = ""
    changed_by: str = ""
    changed: float = 0.0
    revision: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginReport:
    """Why a process cannot use a plugin that all processes should have."""

    node: str
    item: str
    problem: str


class SharedPluginRepository:
    """The plugins of all processes. Raises `StoreUnavailable`."""

    def __init__(
        self, database: Database, changes: ChangeFeed, *, clock: Callable[[], float]
    ) -> None:
        self._database = database
        self._changes = changes
        self._clock = clock

    async def all(self) -> dict[str, SharedPluginRow]:
        """Get all rows, by item. A plugin that was removed has a row without a ``mark``."""
        rows = await self._database.read(f"SELECT {_COLUMNS} FROM shared_plugins ORDER BY item")
        return {row["item"]: _plugin_row(row) for row in rows}

    async def put(self, row: SharedPluginRow) -> bool:
        """Insert a row, or replace the row of the same plugin if it still has the revision of
        ``row``, and tell the other processes. Returns False if somebody has changed the row
        meanwhile; then nothing was stored."""
        values = (
            row.item,
            row.key,
            row.version,
            row.mark,
            row.archive,
            row.size,
            row.record,
            row.needs,
            row.abilities,
            row.wanted,
            row.without_data,
            row.node,
            row.changed_by,
            self._clock(),
            row.revision + 1,
        )
        names = _COLUMNS.split(", ")
        stored, *_ = await self._database.write(
            SqlStatement(
                f"INSERT INTO shared_plugins ({_COLUMNS}) "
                f"VALUES ({', '.join('?' * len(names))}) ON CONFLICT (item) DO UPDATE SET "
                f"{', '.join(f'{name} = excluded.{name}' for name in names[1:])} "
                "WHERE shared_plugins.revision = ? RETURNING item",
                (*values, row.revision),
            ),
            *announcement(self._database, ChangeTopic.PLUGINS, row.item),
        )
        return bool(stored)

    async def archives(self) -> set[str]:
        """Get the digests of the archives of all installed plugins."""
        rows = await self._database.read("SELECT archive FROM shared_plugins WHERE mark <> ''")
        return {row["archive"] for row in rows}

    async def ask_for_object(self, item: str) -> None:
        """Ask the processes that have a plugin's files to store their archive as an object
        again."""
        await self._changes.announce(ChangeTopic.PLUGIN_OBJECTS, item)

    async def reports(self) -> list[PluginReport]:
        """Get the problems that the processes have told in the last hour."""
        rows = await self._database.read(
            "SELECT node, item, problem FROM plugin_reports WHERE told >= ? ORDER BY node, item",
            self._clock() - _HEARD_S,
        )
        return [
            PluginReport(node=row["node"], item=row["item"], problem=row["problem"]) for row in rows
        ]

    async def report(self, node: str, problems: Mapping[str, str]) -> None:
        """Replace the problems of a process, by item, and tell the other processes."""
        now = self._clock()
        await self._database.write(
            SqlStatement("DELETE FROM plugin_reports WHERE node = ?", (node,)),
            *(
                SqlStatement(
                    "INSERT INTO plugin_reports (node, item, problem, told) VALUES (?, ?, ?, ?)",
                    (node, item, problem[:_PROBLEM_LENGTH], now),
                )
                for item, problem in sorted(problems.items())
            ),
            *announcement(self._database, ChangeTopic.PLUGIN_REPORTS),
        )


def _plugin_row(row: Row) -> SharedPluginRow:
    return SharedPluginRow(
        item=row["item"],
        key=row["key"],
        version=row["version"],
        mark=row["mark"],
        archive=row["archive"],
        size=row["size"],
        record=row["record"],
        needs=row["needs"],
        abilities=row["abilities"],
        wanted=bool(row["wanted"]),
        without_data=bool(row["without_data"]),
        node=row["node"],
        changed_by=row["changed_by"],
        changed=row["changed"],
        revision=row["revision"],
    )
