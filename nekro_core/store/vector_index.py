"""Stores collections of vectors in one SQLite file and searches them in memory. A *point* of a
collection is an id with a vector and a payload (a JSON object).

All functions block, so callers use a thread. A search compares the given vector with every stored
vector. So the result is exact, and the search takes 30 ms for 100,000 vectors of 1,024 numbers. A
plugin usually has a few thousand vectors.
"""

import json
import sqlite3
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nekro_core.store.vectors import BadVector, Distance, NoCollection, PointId

_TABLES = """
CREATE TABLE IF NOT EXISTS collections (
    name TEXT PRIMARY KEY, size INTEGER NOT NULL, distance TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS points (
    collection TEXT NOT NULL, id TEXT NOT NULL, payload TEXT NOT NULL, vector BLOB NOT NULL,
    PRIMARY KEY (collection, id)) WITHOUT ROWID;
"""
_MOST_SIZE = 65_536
_LONGEST_ID = 256
_LONGEST_NAME = 256
_MOST_PAYLOAD = 1_000_000

Floats = NDArray[np.float32]
Wanted = Callable[[PointId, dict[str, Any]], bool]


@dataclass(frozen=True, slots=True)
class VectorPoint:
    """A stored point."""

    id: PointId
    vector: Floats
    payload: dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Loaded:
    """A collection in memory. The points are in the order of their ids."""

    distance: Distance
    ids: list[PointId]
    payloads: list[dict[str, Any]]
    vectors: Floats
    unit: Floats | None
    """The vectors scaled to length 1, for the cosine distance; otherwise None."""


class VectorIndex:
    """The collections in one file, or with ``:memory:`` only in memory. Thread-safe."""

    def __init__(self, path: Path | str) -> None:
        self._lock = threading.RLock()
        self._loaded: dict[str, _Loaded] = {}
        # Any worker thread may use the connection. The lock admits one thread at a time.
        self._database = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._database.execute("PRAGMA journal_mode = WAL")
        self._database.execute("PRAGMA synchronous = NORMAL")
        self._database.execute("PRAGMA secure_delete = ON")
        self._database.executescript(_TABLES)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._loaded.clear()
            self._database.close()

    def names(self) -> list[str]:
        """Return the names of all collections."""
        with self._lock, closing(self._database.execute("SELECT name FROM collections")) as rows:
            return sorted(name for (name,) in rows)

    def create(self, name: str, size: int, distance: Distance) -> bool:
        """Create a collection. Returns False if the name exists already. Raises `BadVector` if the
        size or the name is not allowed."""
        if not 0 < size <= _MOST_SIZE or not 0 < len(name) <= _LONGEST_NAME:
            raise BadVector(
                f"the collection {name[:40]!r} cannot be made: its vectors have {size} numbers (1 "
                f"to {_MOST_SIZE} are allowed), its name {len(name)} characters (1 to "
                f"{_LONGEST_NAME})"
            )
        with self._lock:
            cursor = self._database.execute(
                "INSERT INTO collections VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
                (name, size, distance.value),
            )
            return cursor.rowcount > 0

    def drop(self, name: str) -> bool:
        """Delete a collection with all its points. Returns False if there is no such collection."""
        with self._lock:
            self._loaded.pop(name, None)
            with self._transaction():
                self._database.execute("DELETE FROM points WHERE collection = ?", (name,))
                gone = self._database.execute("DELETE FROM collections WHERE name = ?", (name,))
            return gone.rowcount > 0

    def kind(self, name: str) -> tuple[int, Distance]:
        """Return how many numbers each vector of a collection has, and how distances are measured.
        Raises `NoCollection`."""
        with self._lock:
            row = self._database.execute(
                "SELECT size, distance FROM collections WHERE name = ?", (name,)
            ).fetchone()
        if row is None:
            raise NoCollection(f"there is no collection {name!r}: create it first")
        return row[0], Distance(row[1])

    def put(self, name: str, points: Sequence[tuple[PointId, Any, dict[str, Any]]]) -> None:
        """Store points in one transaction. A point is an id, a vector and a payload. Points with
        the same ids are replaced. After a `BadVector`, no point was stored."""
        with self._lock:
            size, _ = self.kind(name)
            rows = [
                (name, _id_text(point), _payload_text(payload), _vector(vector, size).tobytes())
                for point, vector, payload in points
            ]
            self._loaded.pop(name, None)
            with self._transaction():
                self._database.executemany(
                    "INSERT OR REPLACE INTO points VALUES (?, ?, ?, ?)", rows
                )

    def change(
        self, name: str, wanted: Wanted, made: Callable[[dict[str, Any]], dict[str, Any]]
    ) -> None:
        """Replace the payloads of the points that ``wanted`` selects with the results of
        ``made``."""
        with self._lock:
            loaded = self._load(name)
            rows = [
                (_payload_text(made(payload)), name, _id_text(point))
                for point, payload in zip(loaded.ids, loaded.payloads, strict=True)
                if wanted(point, payload)
            ]
            self._loaded.pop(name, None)
            with self._transaction():
                self._database.executemany(
                    "UPDATE points SET payload = ? WHERE collection = ? AND id = ?", rows
                )

    def remove(self, name: str, wanted: Wanted) -> int:
        """Delete the points that ``wanted`` selects. Returns their number."""
        with self._lock:
            loaded = self._load(name)
            gone = [
                (name, _id_text(point))
                for point, payload in zip(loaded.ids, loaded.payloads, strict=True)
                if wanted(point, payload)
            ]
            self._loaded.pop(name, None)
            with self._transaction():
                self._database.executemany(
                    "DELETE FROM points WHERE collection = ? AND id = ?", gone
                )
            return len(gone)

    def forget(
        self, about: Callable[[dict[str, Any]], bool], made: Callable[[dict[str, Any]], Any]
    ) -> int:
        """Erase a person from all collections. Points whose payload is about the person (``about``)
        are deleted, and the payloads of other points are replaced with the results of ``made``.
        Returns the number of deleted and changed points. No deleted data stays in the file."""
        touched = 0
        with self._lock:
            for name in self.names():
                touched += self.remove(name, lambda _, payload: about(payload))
                others = self.points(name, lambda _, payload: made(payload) != payload)
                ids = {each.id for each in others}
                if ids:
                    self.change(name, lambda point, _, ids=ids: point in ids, made)  # type: ignore[misc]
                touched += len(ids)
            if touched:
                self._database.execute("VACUUM")
                self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return touched

    def points(self, name: str, wanted: Wanted | None = None) -> list[VectorPoint]:
        """Return the points for which ``wanted`` is true, in the order of their ids; without it,
        all points."""
        with self._lock:
            loaded = self._load(name)
        return [
            VectorPoint(point, vector, payload)
            for point, vector, payload in zip(
                loaded.ids, loaded.vectors, loaded.payloads, strict=True
            )
            if wanted is None or wanted(point, payload)
        ]

    def search(
        self, name: str, query: Any, wanted: Wanted | None, limit: int, threshold: float | None
    ) -> list[tuple[float, VectorPoint]]:
        """Return the nearest points with their scores, nearest first, at most ``limit``.
        ``threshold`` is the worst score that a returned point may have; None allows any score. If
        ``wanted`` is given, only points for which it is true are returned."""
        with self._lock:
            size, _ = self.kind(name)
            loaded = self._load(name)
        target = _vector(query, size)
        scores = _scores(loaded, target)
        nearest_first = loaded.distance in (Distance.EUCLID, Distance.MANHATTAN)
        order = np.argsort(scores if nearest_first else -scores, kind="stable")
        found: list[tuple[float, VectorPoint]] = []
        for index in order:
            score = float(scores[index])
            if threshold is not None and (
                score > threshold if nearest_first else score < threshold
            ):
                break
            point, payload = loaded.ids[index], loaded.payloads[index]
            if wanted is None or wanted(point, payload):
                found.append((score, VectorPoint(point, loaded.vectors[index], payload)))
                if len(found) >= limit:
                    break
        return found

    def _load(self, name: str) -> _Loaded:
        if name not in self._loaded:
            size, distance = self.kind(name)
            rows = self._database.execute(
                "SELECT id, payload, vector FROM points WHERE collection = ?", (name,)
            ).fetchall()
            rows = sorted(((_id_of(text), *rest) for text, *rest in rows), key=lambda r: _key(r[0]))
            data = b"".join(vector for _, _, vector in rows)
            vectors = np.frombuffer(data, np.float32).reshape(-1, size)
            self._loaded[name] = _Loaded(
                distance,
                [point for point, _, _ in rows],
                [json.loads(payload) for _, payload, _ in rows],
                vectors,
                _unit(vectors) if distance is Distance.COSINE else None,
            )
        return self._loaded[name]

    def _transaction(self) -> "_Transaction":
        return _Transaction(self._database)


class _Transaction:
    """A transaction. It commits at the end of the block, or rolls back on an error."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    def __enter__(self) -> None:
        self._database.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._database.execute("COMMIT" if error is None else "ROLLBACK")


def _unit(vectors: Floats) -> Floats:
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    unit: Floats = (vectors / np.where(lengths == 0, 1, lengths)).astype(np.float32)
    return unit


def _scores(loaded: _Loaded, target: Floats) -> Floats:
    scores: Any
    match loaded.distance:
        case Distance.COSINE:
            assert loaded.unit is not None
            scores = loaded.unit @ _unit(target)
        case Distance.DOT:
            scores = loaded.vectors @ target
        case Distance.EUCLID:
            scores = np.linalg.norm(loaded.vectors - target, axis=1)
        case Distance.MANHATTAN:
            scores = np.abs(loaded.vectors - target).sum(axis=1)
    result: Floats = scores
    return result


def _vector(given: Any, size: int) -> Floats:
    if isinstance(given, dict):
        raise BadVector(
            "named vectors are not supported: each point of a collection has exactly one vector"
        )
    try:
        vector = np.asarray(given, dtype=np.float32)
    except (TypeError, ValueError):
        raise BadVector(
            f"a vector is a list of {size} numbers, not {type(given).__name__}"
        ) from None
    if vector.shape != (size,) or not np.isfinite(vector).all():
        raise BadVector(f"a vector of shape {vector.shape}: expected {size} finite numbers")
    return vector


def _id_text(point: PointId) -> str:
    """Return the id as JSON, so that the number 1 and the text "1" are different ids."""
    if isinstance(point, bool) or not isinstance(point, int | str):
        point = str(point)  # The id is a UUID object.
    if isinstance(point, str) and not 0 < len(point) <= _LONGEST_ID:
        raise BadVector(f"an id of {len(point)} characters: 1 to {_LONGEST_ID}")
    return json.dumps(point)


def _id_of(text: str) -> PointId:
    value: PointId = json.loads(text)
    return value


def _key(point: PointId) -> tuple[bool, int, str]:
    return (False, point, "") if isinstance(point, int) else (True, 0, point)


def _payload_text(payload: dict[str, Any]) -> str:
    try:
        text = json.dumps(payload, ensure_ascii=False, default=str)
    except (TypeError, ValueError) as error:
        raise BadVector(f"a payload is data that JSON can hold: {error}") from None
    if len(text) > _MOST_PAYLOAD:
        raise BadVector(f"a payload of {len(text)} characters: at most {_MOST_PAYLOAD}")
    return text.encode("utf-8", "replace").decode()
