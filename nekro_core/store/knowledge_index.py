"""Keeps the search index of documents. The index is a SQLite file beside the documents, even if the
bot uses PostgreSQL.

The whole index is made from the documents. If the file is missing or damaged, it is made again, so
backups need not contain it.
"""

import sqlite3
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from loguru import logger

_VERSION = 1
"""The version of the index. Increase it when you change the tables or the way in which text is cut
into words. If an index has another version, the bot deletes it and makes it again."""
_MAX_TERMS = 24
"""Maximum number of different words of a question that are searched."""
_HEADING_WEIGHT, _NAME_WEIGHT, _TEXT_WEIGHT = 2.0, 1.0, 1.0
_TABLES = """
CREATE TABLE IF NOT EXISTS files (
    id INTEGER PRIMARY KEY, scope TEXT NOT NULL, path TEXT NOT NULL, modified REAL NOT NULL,
    size INTEGER NOT NULL, problem TEXT NOT NULL, cut INTEGER NOT NULL, UNIQUE (scope, path));
CREATE TABLE IF NOT EXISTS pieces (
    id INTEGER PRIMARY KEY, file INTEGER NOT NULL, heading TEXT NOT NULL, page INTEGER NOT NULL,
    text TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS pieces_file ON pieces (file);
CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5 (heading, name, text, tokenize = unicode61);
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownFile:
    """A document in the index.

    Attributes:
        scope: The folder of the bot or of a chat, such as ``bot``.
        path: The path of the file in this folder.
        modified: The time of its last change, in seconds since 1970.
        size: Its size in bytes.
        problem: Why the file cannot be searched; empty if it can be searched.
        cut: Whether the file is too long, so that its end is not searched.
        pieces: The number of pieces into which the file was cut.
    """

    scope: str
    path: str
    modified: float
    size: int
    problem: str = ""
    cut: bool = False
    pieces: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedPiece:
    """A piece of a document.

    Attributes:
        text: The piece.
        heading: The heading above it; may be empty.
        page: The page of the piece; 0 if the document has no pages.
        words: The words of the piece in the form in which they are searched, with spaces between
            the words.
        heading_words: The words of the heading.
    """

    text: str
    heading: str
    page: int
    words: str
    heading_words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundPiece:
    """A piece that was found, with its file, the heading above it, its page (0 if there is none)
    and its text."""

    scope: str
    path: str
    heading: str
    page: int
    text: str


class KnowledgeIndex:
    """The index. All methods block, and may be called from any thread. They raise
    `sqlite3.Error`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = Lock()
        self._database: sqlite3.Connection | None = None

    def open(self) -> None:
        """Open the index, or make it anew. Does nothing if it is open."""
        # Without this lock, another thread could close the connection during a statement. That
        # would crash the whole process.
        with self._lock:
            if self._database is not None:
                return
            try:
                self._open()
            except sqlite3.DatabaseError as error:
                logger.warning("the index of documents is made again: {}", error)
                self._close()
                self._path.unlink(missing_ok=True)
                self._open()

    def _open(self) -> None:
        database = sqlite3.connect(self._path, check_same_thread=False, isolation_level=None)
        self._database = database
        database.execute("PRAGMA secure_delete = ON")
        (version,) = database.execute("PRAGMA user_version").fetchone()
        if version not in (0, _VERSION):
            raise sqlite3.DatabaseError(f"version {version} came, {_VERSION} was expected")
        database.executescript(_TABLES)
        database.execute(f"PRAGMA user_version = {_VERSION}")

    def close(self) -> None:
        """Close the index."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None

    @property
    def _open_database(self) -> sqlite3.Connection:
        if self._database is None:
            raise sqlite3.ProgrammingError("the index of documents is closed")
        return self._database

    def files(self, scopes: Collection[str] | None = None) -> list[KnownFile]:
        """List the documents of these scopes, or of all scopes (None)."""
        with self._lock:
            rows = self._open_database.execute(
                "SELECT scope, path, modified, size, problem, cut, "
                "(SELECT COUNT(*) FROM pieces WHERE pieces.file = files.id) FROM files "
                "ORDER BY scope, path"
            ).fetchall()
        return [
            KnownFile(
                scope=scope,
                path=path,
                modified=modified,
                size=size,
                problem=problem,
                cut=bool(cut),
                pieces=pieces,
            )
            for scope, path, modified, size, problem, cut, pieces in rows
            if scopes is None or scope in scopes
        ]

    def put(self, file: KnownFile, pieces: Iterable[IndexedPiece], *, name_words: str = "") -> None:
        """Store a document with its pieces. ``name_words`` has the words of the file's name, in the
        form of `IndexedPiece.words`. The earlier pieces of the document are deleted."""
        with self._lock:
            database = self._open_database
            database.execute("BEGIN")
            try:
                self._delete(database, file.scope, file.path)
                cursor = database.execute(
                    "INSERT INTO files (scope, path, modified, size, problem, cut) "
                    "VALUES (?, ?, ?, ?, ?, ?)",
                    (file.scope, file.path, file.modified, file.size, file.problem, file.cut),
                )
                number = cursor.lastrowid
                for piece in pieces:
                    cursor = database.execute(
                        "INSERT INTO pieces (file, heading, page, text) VALUES (?, ?, ?, ?)",
                        (number, _storable(piece.heading), piece.page, _storable(piece.text)),
                    )
                    database.execute(
                        "INSERT INTO words (rowid, heading, name, text) VALUES (?, ?, ?, ?)",
                        (cursor.lastrowid, piece.heading_words, name_words, piece.words),
                    )
                database.execute("COMMIT")
            except BaseException:
                database.execute("ROLLBACK")
                raise

    def delete(self, scope: str, path: str) -> None:
        """Delete a document and its pieces from the index."""
        with self._lock:
            database = self._open_database
            database.execute("BEGIN")
            self._delete(database, scope, path)
            database.execute("COMMIT")

    @staticmethod
    def _delete(database: sqlite3.Connection, scope: str, path: str) -> None:
        row = database.execute(
            "SELECT id FROM files WHERE scope = ? AND path = ?", (scope, path)
        ).fetchone()
        if row is None:
            return
        theirs = "SELECT id FROM pieces WHERE file = ?"
        database.execute(f"DELETE FROM words WHERE rowid IN ({theirs})", row)
        database.execute("DELETE FROM pieces WHERE file = ?", row)
        database.execute("DELETE FROM files WHERE id = ?", row)

    def vacuum(self) -> None:
        """Remove the content of deleted documents from the index file."""
        with self._lock:
            # SQLite's full-text index keeps deleted words until its parts are merged. This
            # statement merges the parts.
            self._open_database.execute("INSERT INTO words (words) VALUES ('optimize')")
            self._open_database.execute("VACUUM")

    def search(self, words: Iterable[str], scopes: Collection[str], limit: int) -> list[FoundPiece]:
        """Find the pieces of these scopes that have one of the words, the best first. The words
        must be cut in the same way as `IndexedPiece.words`."""
        terms = list(dict.fromkeys(words))[:_MAX_TERMS]
        if not terms or not scopes:
            return []
        match = " OR ".join(f'"{term}"' for term in terms)
        marks = ", ".join("?" * len(scopes))
        with self._lock:
            rows: Sequence[tuple[str, str, str, int, str]] = self._open_database.execute(
                "SELECT f.scope, f.path, p.heading, p.page, p.text FROM words w "
                "JOIN pieces p ON p.id = w.rowid JOIN files f ON f.id = p.file "
                f"WHERE words MATCH ? AND f.scope IN ({marks}) "
                f"ORDER BY bm25(words, {_HEADING_WEIGHT}, {_NAME_WEIGHT}, {_TEXT_WEIGHT}), p.id "
                "LIMIT ?",
                (match, *sorted(scopes), limit),
            ).fetchall()
        return [
            FoundPiece(scope=scope, path=path, heading=heading, page=page, text=text)
            for scope, path, heading, page, text in rows
        ]


def _storable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
