"""Stores which files of chats are in the object store that several processes share.

An object without a row here belongs to nobody: nobody reads it, and it is deleted some time later.
So erasing a file begins with its row.
"""

import secrets
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from nekro_core.chat import ChatKey
from nekro_core.store.changes import ChangeTopic, announcement
from nekro_core.store.database import Database, Row, SqlStatement, Value, upsert
from nekro_core.store.ownership import current_ownership

_NAMES_AT_ONCE = 500
"""Maximum number of names in one query."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaFileRow:
    """A medium of a chat.

    Attributes:
        object_name: The name of the object.
        chat_key: The chat.
        sha256: The digest of the content in hex.
        size: The size in bytes.
        node: The process that has the file until the object is stored.
        ready: Whether the object is stored.
        used: When the medium was last received or sent, in seconds since 1970.
    """

    object_name: str
    chat_key: ChatKey
    sha256: str
    size: int
    node: str
    ready: bool = False
    used: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxFilesRow:
    """The files of a box.

    Attributes:
        chat_key: The chat that owns the box.
        name: The name of the box.
        record: The properties of the box as JSON; empty if not known.
        mark: The mark of the archive of all files; empty if the box has no files.
        parts: The objects as JSON; see `nekro_core.cluster.box_storage`.
        size: The size of all objects in bytes.
        epoch: The epoch of the owner that saved the files; 0 if there was no owner.
        saved: When they were saved, in seconds since 1970.
    """

    chat_key: ChatKey
    name: str
    record: str = ""
    mark: str = ""
    parts: str = "[]"
    size: int = 0
    epoch: int = 0
    saved: float = 0.0


class FileNotices:
    """Tells the other processes that rows of files were deleted. Each announcement names the
    process that made it, because that process gets its own announcements too."""

    def __init__(self, database: Database, topic: ChangeTopic) -> None:
        self._database = database
        self._topic = topic
        self._origin = secrets.token_hex(4)

    def statements(self, chat_key: ChatKey) -> list[SqlStatement]:
        """Return the statements that announce a deletion in a chat."""
        return announcement(self._database, self._topic, f"{self._origin} {chat_key}")

    def chat_of(self, name: str) -> ChatKey | None:
        """Return the chat of another process's announcement; None if this process made it."""
        origin, _, chat_key = name.partition(" ")
        return None if origin == self._origin else ChatKey.parse(chat_key)


class MediaFileRepository:
    """The rows of media. Raises `StoreUnavailable`."""

    def __init__(self, database: Database, *, clock: Callable[[], float]) -> None:
        self._database = database
        self._clock = clock
        self.notices = FileNotices(database, ChangeTopic.MEDIA_FILES)

    async def put(self, row: MediaFileRow, *, used: float | None = None) -> None:
        """Insert a row, or replace the row of the same object. ``used`` is when the medium was last
        used, in seconds since 1970; now if it is not given."""
        await self._database.write(
            upsert(
                "media_files",
                {
                    "object_name": row.object_name,
                    "chat_key": str(row.chat_key),
                    "sha256": row.sha256,
                    "size": row.size,
                    "node": row.node,
                    "ready": row.ready,
                    "used": self._clock() if used is None else used,
                },
                key=("object_name",),
            )
        )

    async def touch(self, object_name: str) -> bool:
        """Note that a medium is used now. Returns False if it has no row, or if its object is not
        stored."""
        (rows,) = await self._database.write(
            SqlStatement(
                "UPDATE media_files SET used = ? WHERE object_name = ? AND ready = ? "
                "RETURNING object_name",
                (self._clock(), object_name, True),
            )
        )
        return bool(rows)

    async def note_ready(self, object_name: str) -> bool:
        """Store that an object is stored. Returns False if the row was deleted meanwhile."""
        (rows,) = await self._database.write(
            SqlStatement(
                "UPDATE media_files SET ready = ? WHERE object_name = ? RETURNING object_name",
                (True, object_name),
            )
        )
        return bool(rows)

    async def get(self, object_name: str) -> MediaFileRow | None:
        """Get a row."""
        rows = await self._database.read(
            "SELECT * FROM media_files WHERE object_name = ?", object_name
        )
        return _media_row(rows[0]) if rows else None

    async def known(self, object_names: Collection[str]) -> set[str]:
        """Return those of these objects that have a row."""
        found: set[str] = set()
        for some in _slices(sorted(object_names)):
            rows = await self._database.read(
                "SELECT object_name FROM media_files WHERE object_name IN "
                f"({', '.join('?' * len(some))})",
                *some,
            )
            found |= {row["object_name"] for row in rows}
        return found

    async def not_ready(self, node: str) -> list[MediaFileRow]:
        """Get the media whose objects the process ``node`` has not stored yet."""
        return await self._rows("WHERE node = ? AND ready = ? ORDER BY used", node, False)

    async def oldest(
        self, *, before: float, chat_key: ChatKey | None = None, limit: int = 100
    ) -> list[MediaFileRow]:
        """Get the media that were last used before ``before``, of one chat or of all, the oldest
        first."""
        where, values = "WHERE used < ?", list[Value]([before])
        if chat_key is not None:
            where += " AND chat_key = ?"
            values.append(str(chat_key))
        return await self._rows(f"{where} ORDER BY used LIMIT ?", *values, limit)

    async def page(self, after: str, limit: int = _NAMES_AT_ONCE) -> list[MediaFileRow]:
        """Get at most ``limit`` rows whose objects have greater names than ``after``, in the order
        of the names."""
        return await self._rows("WHERE object_name > ? ORDER BY object_name LIMIT ?", after, limit)

    async def size(self, chat_key: ChatKey | None = None) -> int:
        """Return the size of all media together in bytes, of one chat or of all."""
        where, values = ("", ()) if chat_key is None else (" WHERE chat_key = ?", (str(chat_key),))
        (row,) = await self._database.read(
            f"SELECT COALESCE(SUM(size), 0) AS bytes FROM media_files{where}", *values
        )
        return int(row["bytes"])

    async def drop(self, chat_key: ChatKey, object_names: Sequence[str], *, tell: bool) -> None:
        """Delete rows of a chat. With ``tell``, the other processes are told."""
        statements = [
            SqlStatement(
                f"DELETE FROM media_files WHERE object_name IN ({', '.join('?' * len(some))})",
                tuple(some),
            )
            for some in _slices(object_names)
        ]
        if tell:
            statements += self.notices.statements(chat_key)
        if statements:
            await self._database.write(*statements)

    async def drop_chat(self, chat_key: ChatKey) -> None:
        """Delete all rows of a chat, and tell the other processes."""
        await self._database.write(
            SqlStatement("DELETE FROM media_files WHERE chat_key = ?", (str(chat_key),)),
            *self.notices.statements(chat_key),
        )

    async def _rows(self, where: str, *values: Value) -> list[MediaFileRow]:
        rows = await self._database.read(f"SELECT * FROM media_files {where}", *values)
        return [_media_row(row) for row in rows]


class BoxFilesRepository:
    """The rows of boxes. Writes carry the ownership of their context. Raises `StoreUnavailable` and
    `OwnershipLost`."""

    def __init__(self, database: Database, *, clock: Callable[[], float]) -> None:
        self._database = database
        self._clock = clock
        self.notices = FileNotices(database, ChangeTopic.BOX_FILES)

    async def put(self, row: BoxFilesRow) -> None:
        """Insert a row, or replace the row of the same box."""
        owner = current_ownership()
        await self._database.write(
            upsert(
                "box_files",
                {
                    "chat_key": str(row.chat_key),
                    "name": row.name,
                    "record": row.record,
                    "mark": row.mark,
                    "parts": row.parts,
                    "size": row.size,
                    "epoch": owner.epoch if owner is not None else 0,
                    "saved": self._clock(),
                },
                key=("chat_key", "name"),
            )
        )

    async def get(self, chat_key: ChatKey, name: str) -> BoxFilesRow | None:
        """Get the row of a box."""
        rows = await self._database.read(
            "SELECT * FROM box_files WHERE chat_key = ? AND name = ?", str(chat_key), name
        )
        return _box_row(rows[0]) if rows else None

    async def of_chat(self, chat_key: ChatKey) -> list[BoxFilesRow]:
        """Get the rows of a chat's boxes, by name."""
        rows = await self._database.read(
            "SELECT * FROM box_files WHERE chat_key = ? ORDER BY name", str(chat_key)
        )
        return [_box_row(row) for row in rows]

    async def names(self) -> list[tuple[ChatKey, str]]:
        """Get the chats and the names of all boxes."""
        rows = await self._database.read(
            "SELECT chat_key, name FROM box_files ORDER BY chat_key, name"
        )
        return [(ChatKey.parse(row["chat_key"]), row["name"]) for row in rows]

    async def size(self) -> int:
        """Return the size of the files of all boxes together in bytes."""
        (row,) = await self._database.read("SELECT COALESCE(SUM(size), 0) AS bytes FROM box_files")
        return int(row["bytes"])

    async def all_parts(self) -> list[str]:
        """Get the ``parts`` of all boxes of all chats."""
        rows = await self._database.read("SELECT parts FROM box_files")
        return [row["parts"] for row in rows]

    async def drop(self, chat_key: ChatKey, name: str = "") -> None:
        """Delete the row of a box, or of all boxes of the chat, and tell the other processes."""
        where, values = "chat_key = ?", [str(chat_key)]
        if name:
            where += " AND name = ?"
            values.append(name)
        await self._database.write(
            SqlStatement(f"DELETE FROM box_files WHERE {where}", tuple(values)),
            *self.notices.statements(chat_key),
        )


def _slices(names: Sequence[str]) -> Iterable[Sequence[str]]:
    for start in range(0, len(names), _NAMES_AT_ONCE):
        yield names[start : start + _NAMES_AT_ONCE]


def _media_row(row: Row) -> MediaFileRow:
    return MediaFileRow(
        object_name=row["object_name"],
        chat_key=ChatKey.parse(row["chat_key"]),
        sha256=row["sha256"],
        size=row["size"],
        node=row["node"],
        ready=bool(row["ready"]),
        used=row["used"],
    )


def _box_row(row: Row) -> BoxFilesRow:
    return BoxFilesRow(
        chat_key=ChatKey.parse(row["chat_key"]),
        name=row["name"],
        record=row["record"],
        mark=row["mark"],
        parts=row["parts"],
        size=row["size"],
        epoch=row["epoch"],
        saved=row["saved"],
    )
