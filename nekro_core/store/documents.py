"""Stores the operator's documents in the database, for several processes that share it."""

from collections.abc import Callable, Collection, Mapping, Sequence

from nekro_core.store.changes import ChangeFeed, ChangeTopic, announcement
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
    matches,
)

_ADD = (
    "INSERT INTO documents (name, number, text, saved, removed) "
    "SELECT ?, ?, ?, ?, ? WHERE NOT EXISTS "
    "(SELECT 1 FROM documents WHERE name = ? AND number >= ?) "
    "ON CONFLICT DO NOTHING RETURNING number"
)


class DatabaseDocuments:
    """A `nekro_core.system.documents.DocumentStore` in the database. Each revision of a document
    has a number. Name and number together are a unique key, so if several writers store the next
    revision at the same time, only one succeeds.

    Args:
        database: The open database.
        secret: The names, or patterns of names, of the documents that contain secrets. No earlier
            revisions of these documents are kept, and no error quotes them.
        kept: The number of revisions to keep, including the current revision.
        clock: Returns seconds since 1970.
        changes: Tells which documents other processes have changed. While it is connected, the
            revisions are held in memory, and `listed` reads the database only after a change.
    """

    def __init__(
        self,
        database: Database,
        *,
        clock: Callable[[], float],
        secret: Collection[str] = (),
        kept: int = KEPT,
        changes: ChangeFeed | None = None,
    ) -> None:
        self._changes = changes
        self._listing: dict[str, str] | None = None
        self._forgotten = 0
        self._database = database
        self._clock = clock
        self._secret = tuple(secret)
        self._kept = kept

    def with_secrets(self, secret: Collection[str]) -> "DatabaseDocuments":
        """Return a view of the same documents. ``secret`` lists the names, or patterns of names, of
        the documents that contain secrets."""
        view = DatabaseDocuments(
            self._database,
            clock=self._clock,
            secret=secret,
            kept=self._kept,
            changes=self._changes,
        )
        if self._changes is not None:
            self._changes.listen(ChangeTopic.DOCUMENTS, view.forget_listing)
        return view

    async def forget_listing(self, _: str = "") -> None:
        """Read the revisions again at the next call of `listed`, because they have changed."""
        self._listing = None
        self._forgotten += 1

    async def read(self, name: str) -> Document | None:
        """See `DocumentStore.read`."""
        newest = await self._rows(name, 1)
        return _document(newest[0]) if newest and not newest[0]["removed"] else None

    async def revision(self, name: str) -> str | None:
        """See `DocumentStore.revision`. This reads only one row, through an index."""
        number, removed = await self._newest(check_name(name))
        return None if removed else str(number)

    async def write(self, name: str, text: str, *, expected: str | None) -> str:
        """See `DocumentStore.write`."""
        check_text(check_name(name), text)
        return str(await self._add(name, text, expected, removed=False))

    async def remove(self, name: str, *, expected: str) -> None:
        """See `DocumentStore.remove`. This adds a row without text. So the revision numbers
        continue, and other processes notice the removal."""
        await self._add(check_name(name), "", expected, removed=True)

    async def listed(self, *patterns: str) -> Mapping[str, str]:
        """See `DocumentStore.listed`. This reads one row for each revision of all documents, unless
        the revisions are held in memory."""
        found = self._listing
        if found is None or self._changes is None or not self._changes.live:
            forgotten = self._forgotten
            found = await self._read_listing()
            # A document may have changed while the rows were read. Then do not hold them in memory.
            self._listing = found if forgotten == self._forgotten else None
        return {name: each for name, each in found.items() if matches(name, patterns)}

    async def _read_listing(self) -> dict[str, str]:
        try:
            rows = await self._database.read(
                "SELECT name, MAX(number) AS number, "
                "MAX(CASE WHEN removed THEN number ELSE 0 END) AS gone "
                "FROM documents GROUP BY name ORDER BY name"
            )
        except StoreError as error:
            raise DocumentError(f"the documents cannot be listed: {error}") from error
        return {str(row["name"]): str(row["number"]) for row in rows if row["number"] > row["gone"]}

    async def _newest(self, name: str) -> tuple[int, bool]:
        """Return the number of the newest row of a document, and whether this row says that the
        document was removed. For a document that never existed, return 0 and True."""
        try:
            rows = await self._database.read(
                "SELECT number, removed FROM documents WHERE name = ? ORDER BY number DESC LIMIT 1",
                name,
            )
        except StoreError as error:
            raise DocumentError(f"{name} cannot be read: {error}") from error
        return (int(rows[0]["number"]), bool(rows[0]["removed"])) if rows else (0, True)

    async def _add(self, name: str, text: str, expected: str | None, *, removed: bool) -> int:
        newest, gone = await self._newest(name)
        number = newest + 1
        least_kept = number + 1 - (1 if matches(name, self._secret) else self._kept)
        added: Sequence[Row] = ()
        if (None if gone else str(newest)) == expected:
            row = (name, number, text, self._clock(), removed)
            try:
                added, *_ = await self._database.write(
                    SqlStatement(_ADD, (*row, name, number)),
                    SqlStatement(
                        "DELETE FROM documents WHERE name = ? AND number < ? AND EXISTS "
                        "(SELECT 1 FROM documents WHERE name = ? AND number = ?)",
                        (name, least_kept, name, number),
                    ),
                    *announcement(self._database, ChangeTopic.DOCUMENTS, name),
                )
            except StoreError as error:
                raise DocumentError(f"{name} cannot be written: {error}") from error
        await self.forget_listing()
        if not added:
            raise await self._conflict(name, expected)
        return number

    async def revisions(self, name: str, limit: int = KEPT) -> Sequence[Document]:
        """See `DocumentStore.revisions`."""
        rows = await self._rows(name, self._kept)
        return [_document(row) for row in rows if not row["removed"]][:limit]

    async def _rows(self, name: str, limit: int) -> Sequence[Row]:
        try:
            return await self._database.read(
                "SELECT name, number, text, saved, removed FROM documents WHERE name = ? "
                "ORDER BY number DESC LIMIT ?",
                check_name(name),
                limit,
            )
        except StoreError as error:
            raise DocumentError(f"{name} cannot be read: {error}") from error

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
        current = await self.read(name)
        found = await self.revisions(name)
        before = next((one for one in found if one.revision == expected), None)
        change = [] if matches(name, self._secret) else changed_lines(before, current)
        return DocumentConflict(name, current, change)


def _document(row: Row) -> Document:
    return Document(
        name=str(row["name"]),
        text=str(row["text"]),
        revision=str(row["number"]),
        saved=float(row["saved"]),
    )
