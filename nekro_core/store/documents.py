"""Stores the operator's documents in the database, for several processes that share it."""

from collections.abc import Callable, Collection, Sequence

from nekro_core.store.database import Database, Row, SqlStatement
from nekro_core.store.errors import StoreError
from nekro_core.system.documents import (
    KEPT,
    Document,
    DocumentConflict,
    DocumentError,
    changed_lines,
    check_name,
    check_text,
)

_ADD = (
    "INSERT INTO documents (name, number, text, saved) "
    "SELECT ?, ?, ?, ? WHERE NOT EXISTS "
    "(SELECT 1 FROM documents WHERE name = ? AND number >= ?) "
    "ON CONFLICT DO NOTHING RETURNING number"
)


class DatabaseDocuments:
    """A `nekro_core.system.documents.DocumentStore` in the database. A revision is a number, and
    the unique key of name and number lets only one of several writers have the next one.

    Args:
        database: The open database.
        secret: The names of the documents that contain secrets: no earlier revisions of them are
            kept, and no error quotes them.
        kept: The number of revisions to keep, with the current one.
        clock: Returns seconds since 1970.
    """

    def __init__(
        self,
        database: Database,
        *,
        clock: Callable[[], float],
        secret: Collection[str] = (),
        kept: int = KEPT,
    ) -> None:
        self._database = database
        self._clock = clock
        self._secret = frozenset(secret)
        self._kept = kept

    async def read(self, name: str) -> Document | None:
        """See `DocumentStore.read`."""
        found = await self.revisions(name, 1)
        return found[0] if found else None

    async def revision(self, name: str) -> str | None:
        """See `DocumentStore.revision`. It reads one row of an index."""
        try:
            rows = await self._database.read(
                "SELECT MAX(number) AS number FROM documents WHERE name = ?", check_name(name)
            )
        except StoreError as error:
            raise DocumentError(f"{name} cannot be read: {error}") from error
        newest = rows[0]["number"]
        return None if newest is None else str(newest)

    async def write(self, name: str, text: str, *, expected: str | None) -> str:
        """See `DocumentStore.write`."""
        check_text(check_name(name), text)
        number = int(expected) + 1 if expected is not None else 1
        least_kept = number + 1 - (1 if name in self._secret else self._kept)
        try:
            current = await self.revision(name)
            added: Sequence[Row] = ()
            if current == expected:
                added, _ = await self._database.write(
                    SqlStatement(_ADD, (name, number, text, self._clock(), name, number)),
                    SqlStatement(
                        "DELETE FROM documents WHERE name = ? AND number < ? AND EXISTS "
                        "(SELECT 1 FROM documents WHERE name = ? AND number = ?)",
                        (name, least_kept, name, number),
                    ),
                )
        except StoreError as error:
            raise DocumentError(f"{name} cannot be written: {error}") from error
        if not added:
            raise await self._conflict(name, expected)
        return str(number)

    async def revisions(self, name: str, limit: int = KEPT) -> Sequence[Document]:
        """See `DocumentStore.revisions`."""
        try:
            rows = await self._database.read(
                "SELECT name, number, text, saved FROM documents WHERE name = ? "
                "ORDER BY number DESC LIMIT ?",
                check_name(name),
                min(limit, self._kept),
            )
        except StoreError as error:
            raise DocumentError(f"{name} cannot be read: {error}") from error
        return [_document(row) for row in rows]

    async def forget_earlier(self, name: str) -> int:
        """See `DocumentStore.forget_earlier`."""
        check_name(name)
        try:
            ((*deleted,),) = await self._database.write(
                SqlStatement(
                    "DELETE FROM documents WHERE name = ? AND number < "
                    "(SELECT MAX(number) FROM documents WHERE name = ?) RETURNING number",
                    (name, name),
                )
            )
        except StoreError as error:
            raise DocumentError(f"{name} cannot be written: {error}") from error
        return len(deleted)

    async def _conflict(self, name: str, expected: str | None) -> DocumentConflict:
        found = await self.revisions(name)
        before = next((one for one in found if one.revision == expected), None)
        current = found[0] if found else None
        change = [] if name in self._secret else changed_lines(before, current)
        return DocumentConflict(name, current, change)


def _document(row: Row) -> Document:
    return Document(
        name=str(row["name"]),
        text=str(row["text"]),
        revision=str(row["number"]),
        saved=float(row["saved"]),
    )
