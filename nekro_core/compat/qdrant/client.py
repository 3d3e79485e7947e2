"""`AsyncQdrantClient`: the embedded vector store with the method names of Qdrant's client.

All work happens in a thread. Named or sparse vectors, recommendations, snapshots and servers are
not supported. A plugin that needs them installs the package ``qdrant-client``.
"""

import importlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import anyio.to_thread

from nekro_core.compat.qdrant.filters import chosen_ids, matches_filter
from nekro_core.compat.qdrant.models import (
    CollectionConfig,
    CollectionDescription,
    CollectionInfo,
    CollectionParams,
    CollectionsResponse,
    CountResult,
    PointStruct,
    QueryResponse,
    Record,
    ScoredPoint,
    UpdateResult,
    VectorParams,
)
from nekro_core.plugins.authoring.current import NoCurrentBot, current_services
from nekro_core.plugins.authoring.services import PayloadRedactor
from nekro_core.store.vectors import FILE_NAME, Distance, PointId, VectorError

if TYPE_CHECKING:
    from nekro_core.store.vector_index import VectorIndex, VectorPoint

T = TypeVar("T")

STORE_URL = "http://vectors.nekro-core.internal:6333"
"""The address of the bot's own store. No server listens at this address, but the clients of this
module recognize it."""
_MOST_RESULTS = 10_000


class AsyncQdrantClient:
    """Stores collections of points in a file or in memory. The first call creates and opens the
    file; `close` closes it.

    The methods accept the objects of this package and of ``qdrant_client.models``. They ignore
    unknown options. They raise `VectorError`, which is a `ValueError`. Two subclasses are
    `NoCollection`, for a collection that does not exist, and `BadVector`, for a vector, id or
    payload that cannot be stored. A vector has 1 to 65,536 finite numbers. An id is an integer or a
    text of 1 to 256 characters. A payload is JSON of at most 1,000,000 characters.

    Args:
        location: ``":memory:"``, or an address, which is then used as ``url``.
        url: `STORE_URL`, the address of the bot's own store, which is also the store of
            `get_qdrant_client`. Any other address is refused, because this client cannot connect to
            a server.
        path: The folder of the file. If it is None, the points are stored in memory.
        other: ``host`` is refused; other options are ignored.

    Raises:
        VectorError: The arguments name a server.
    """

    def __init__(
        self,
        location: str | None = None,
        *,
        url: str | None = None,
        path: str | Path | None = None,
        **other: Any,
    ) -> None:
        address = url or (location if location != ":memory:" else None)
        self._is_shared = bool(address) and str(address).rstrip("/") == STORE_URL
        if other.get("host") or (address and not self._is_shared):
            raise VectorError(
                "this is the embedded vector store and reaches no server: use get_qdrant_client(), "
                "or install qdrant-client"
            )
        self._path = Path(path) / FILE_NAME if path else None
        self._engine: VectorIndex | None = None
        self._one_at_a_time = anyio.CapacityLimiter(1)

    async def close(self, **_: Any) -> None:
        """Close the file. The next call opens it again. The bot's own store stays open."""
        engine, self._engine = self._engine, None
        if engine is not None:
            await anyio.to_thread.run_sync(engine.close)

    # ---- collections

    async def get_collections(self) -> CollectionsResponse:
        """List all collections.

        Returns:
            Their names, sorted.
        """
        names = await self._run(lambda engine: engine.names())
        return CollectionsResponse(collections=[CollectionDescription(name=n) for n in names])

    async def collection_exists(self, collection_name: str, **_: Any) -> bool:
        """Check whether a collection exists.

        Args:
            collection_name: The collection.

        Returns:
            True if the collection exists.
        """
        return collection_name in await self._run(lambda engine: engine.names())

    async def create_collection(
        self, collection_name: str, vectors_config: Any = None, **_: Any
    ) -> bool:
        """Make a collection.

        Args:
            collection_name: 1 to 256 characters.
            vectors_config: `VectorParams`: the size of its vectors, 1 to 65,536, and their
                distance.

        Returns:
            True.

        Raises:
            VectorError: A collection with this name exists, or ``vectors_config`` is not a
                `VectorParams`.
        """
        size, distance = _kind(vectors_config)
        if not await self._run(lambda engine: engine.create(collection_name, size, distance)):
            raise VectorError(f"collection {collection_name!r} is there already")
        return True

    async def recreate_collection(
        self, collection_name: str, vectors_config: Any = None, **_: Any
    ) -> bool:
        """Delete a collection if it exists, then make it.

        Args:
            collection_name: The same as for `create_collection`.
            vectors_config: The same as for `create_collection`.

        Returns:
            True.
        """
        await self.delete_collection(collection_name)
        return await self.create_collection(collection_name, vectors_config)

    async def delete_collection(self, collection_name: str, **_: Any) -> bool:
        """Delete a collection with its points.

        Args:
            collection_name: The collection.

        Returns:
            True if the collection existed, otherwise False.
        """
        return await self._run(lambda engine: engine.drop(collection_name))

    async def get_collection(self, collection_name: str, **_: Any) -> CollectionInfo:
        """Describe a collection. Raises `NoCollection`.

        Args:
            collection_name: The collection.

        Returns:
            The size and distance of its vectors and the number of its points.
        """
        size, distance = await self._run(lambda engine: engine.kind(collection_name))
        count = (await self.count(collection_name)).count
        return CollectionInfo(
            points_count=count,
            vectors_count=count,
            indexed_vectors_count=count,
            config=CollectionConfig(
                params=CollectionParams(vectors=VectorParams(size=size, distance=distance))
            ),
        )

    async def create_payload_index(self, collection_name: str, **_: Any) -> UpdateResult:
        """Do nothing, because filters read every payload and need no index. Raises `NoCollection`.

        Args:
            collection_name: The collection.

        Returns:
            A completed change.
        """
        await self._run(lambda engine: engine.kind(collection_name))
        return UpdateResult()

    # ---- points

    async def upsert(self, collection_name: str, points: Any, **_: Any) -> UpdateResult:
        """Store points. Stored points with the same ids are replaced. After an error, none of the
        given points is stored. Raises `NoCollection` and `BadVector`.

        Args:
            collection_name: The collection.
            points: A list of `PointStruct` or of dicts with its fields, or a ``Batch``.

        Returns:
            A completed change.
        """
        rows = [*_rows(points)]
        await self._run(lambda engine: engine.put(collection_name, rows))
        return UpdateResult()

    async def upload_points(self, collection_name: str, points: Iterable[Any], **_: Any) -> None:
        """Store points; the same as `upsert`.

        Args:
            collection_name: The collection.
            points: The same as for `upsert`.
        """
        await self.upsert(collection_name, [*points])

    async def search(
        self,
        collection_name: str,
        query_vector: Sequence[float],
        query_filter: Any = None,
        *,
        limit: int = 10,
        offset: int | None = None,
        with_payload: Any = True,
        with_vectors: Any = False,
        score_threshold: float | None = None,
        **_: Any,
    ) -> list[ScoredPoint]:
        """Find the points nearest to a vector. All vectors are compared, so the answer is exact.
        Raises `NoCollection`, `BadVector`, and `InvalidFilter` for a condition that this store
        does not know.

        Args:
            collection_name: The collection.
            query_vector: As many numbers as the vectors of the collection have.
            query_filter: A `Filter` or one condition, nested at most 16 deep. None matches all.
            limit: Maximum number of points to return. ``offset`` and ``limit`` together are at most
                10,000.
            offset: How many points to skip, beginning with the nearest.
            with_payload: Whether to return payloads, or a list of the fields to return.
            with_vectors: Whether to return vectors.
            score_threshold: The lowest score of a returned point. For ``Euclid`` and ``Manhattan``
                the score is a distance, and this is the highest score.

        Returns:
            The points, nearest first.

        Raises:
            VectorError: ``query_vector`` is a pair of a name and a vector. Named vectors are not
                supported.
        """
        if isinstance(query_vector, tuple) and query_vector and isinstance(query_vector[0], str):
            raise VectorError("named vectors are not supported")
        first = max(offset or 0, 0)
        most = min(max(limit, 0) + first, _MOST_RESULTS)
        if most <= first:
            return []
        wanted = _wanted(query_filter)
        found = await self._run(
            lambda engine: engine.search(
                collection_name, query_vector, wanted, most, score_threshold
            )
        )
        return [
            ScoredPoint(
                id=point.id,
                score=score,
                payload=_shown(point.payload, with_payload),
                vector=point.vector.tolist() if with_vectors else None,
            )
            for score, point in found[first:]
        ]

    async def query_points(
        self,
        collection_name: str,
        query: Any = None,
        *,
        query_filter: Any = None,
        limit: int = 10,
        **options: Any,
    ) -> QueryResponse:
        """Find the points nearest to a vector or to a stored point.

        Args:
            collection_name: The collection.
            query: A vector or the id of a point. None returns the first points in the order of
                their ids.
            query_filter: The same as for `search`.
            limit: Maximum number of points to return.
            options: Further options of `search`, or of `scroll` if ``query`` is None.

        Returns:
            The points, nearest first.

        Raises:
            VectorError: There is no point with this id.
        """
        if query is None:
            records, _ = await self.scroll(collection_name, query_filter, limit=limit, **options)
            points = [ScoredPoint(**record.model_dump()) for record in records]
            return QueryResponse(points=points)
        if isinstance(query, int | str):
            (*near,) = await self.retrieve(collection_name, [query], with_vectors=True)
            if not near:
                raise VectorError(f"there is no point {query!r} in {collection_name!r}")
            query = near[0].vector
        nearest = getattr(query, "nearest", query)
        points = await self.search(collection_name, nearest, query_filter, limit=limit, **options)
        return QueryResponse(points=points)

    async def scroll(
        self,
        collection_name: str,
        scroll_filter: Any = None,
        *,
        limit: int = 10,
        offset: PointId | None = None,
        with_payload: Any = True,
        with_vectors: Any = False,
        **_: Any,
    ) -> tuple[list[Record], PointId | None]:
        """Read points page by page, in the order of their ids: numbers first, then texts.

        Args:
            collection_name: The collection.
            scroll_filter: The same as ``query_filter`` of `search`.
            limit: Maximum number of points of a page.
            offset: The id of the first point of the page; None begins with the first point.
            with_payload: Whether to return payloads, or a list of the fields to return.
            with_vectors: Whether to return vectors.

        Returns:
            The points, and the id of the first point of the next page; None after the last page.
        """
        wanted = _wanted(scroll_filter)
        found = await self._run(lambda engine: engine.points(collection_name, wanted))
        begin = 0
        if offset is not None:
            later = (at for at, each in enumerate(found) if _order(each.id) >= _order(offset))
            begin = next(later, len(found))
        page = found[begin : begin + max(limit, 0)]
        rest = found[begin + len(page) :]
        return _records(page, with_payload, with_vectors), rest[0].id if rest else None

    async def retrieve(
        self,
        collection_name: str,
        ids: Sequence[PointId],
        with_payload: Any = True,
        with_vectors: Any = False,
        **_: Any,
    ) -> list[Record]:
        """Read points by their ids.

        Args:
            collection_name: The collection.
            ids: The ids.
            with_payload: Whether to return payloads, or a list of the fields to return.
            with_vectors: Whether to return vectors.

        Returns:
            The points, sorted by id. Points that do not exist are left out.
        """
        wanted = _among(ids)
        found = await self._run(lambda engine: engine.points(collection_name, wanted))
        return _records(found, with_payload, with_vectors)

    async def count(self, collection_name: str, count_filter: Any = None, **_: Any) -> CountResult:
        """Count points.

        Args:
            collection_name: The collection.
            count_filter: The same as ``query_filter`` of `search`; None counts all points.

        Returns:
            The exact number.
        """
        wanted = _wanted(count_filter)
        return CountResult(
            count=await self._run(lambda engine: len(engine.points(collection_name, wanted)))
        )

    async def delete(self, collection_name: str, points_selector: Any, **_: Any) -> UpdateResult:
        """Delete points.

        Args:
            collection_name: The collection.
            points_selector: One id, a list of ids, `PointIdsList`, `FilterSelector` or `Filter`.
                Anything else raises `VectorError`.

        Returns:
            A completed change, even if no point was selected.
        """
        wanted = _selected(points_selector)
        await self._run(lambda engine: engine.remove(collection_name, wanted))
        return UpdateResult()

    async def set_payload(
        self, collection_name: str, payload: dict[str, Any], points: Any, **_: Any
    ) -> UpdateResult:
        """Add fields to the payloads of points. Existing fields with the same names are replaced.

        Args:
            collection_name: The collection.
            payload: The fields.
            points: Selects the points; see ``points_selector`` of `delete`.

        Returns:
            A completed change.
        """
        return await self._change(collection_name, points, lambda old: old | payload)

    async def overwrite_payload(
        self, collection_name: str, payload: dict[str, Any], points: Any, **_: Any
    ) -> UpdateResult:
        """Replace the payloads of points.

        Args:
            collection_name: The collection.
            payload: The new payload.
            points: Selects the points; see ``points_selector`` of `delete`.

        Returns:
            A completed change.
        """
        return await self._change(collection_name, points, lambda _old: payload)

    async def delete_payload(
        self, collection_name: str, keys: Sequence[str], points: Any, **_: Any
    ) -> UpdateResult:
        """Delete fields from the payloads of points.

        Args:
            collection_name: The collection.
            keys: The names of the fields, on the first level of the payload.
            points: Selects the points; see ``points_selector`` of `delete`.

        Returns:
            A completed change.
        """
        return await self._change(
            collection_name,
            points,
            lambda old: {key: value for key, value in old.items() if key not in keys},
        )

    async def forget(self, forgotten: PayloadRedactor) -> int:
        """Erase a person from all collections. See
        `nekro_core.compat.qdrant.home.EmbeddedVectorStore.forget`.

        Args:
            forgotten: Says which payloads are about the person, and removes the person from other
                payloads.

        Returns:
            How many points were deleted or changed.
        """
        return await self._run(lambda engine: engine.forget(forgotten.is_about, forgotten.value))

    async def _change(
        self,
        collection_name: str,
        points: Any,
        made: Callable[[dict[str, Any]], dict[str, Any]],
    ) -> UpdateResult:
        wanted = _selected(points)
        await self._run(lambda engine: engine.change(collection_name, wanted, made))
        return UpdateResult()

    async def _run(self, work: "Callable[[VectorIndex], T]") -> T:
        return await anyio.to_thread.run_sync(self._run_here, work, limiter=self._one_at_a_time)

    def _run_here(self, work: "Callable[[VectorIndex], T]") -> T:
        if self._is_shared:
            shared = current_services().vectors
            if shared is None:
                raise NoCurrentBot("this bot has no vector store")
            client: AsyncQdrantClient = shared.open_client()
            return client._run_here(work)
        if self._engine is None:
            # This import loads numpy, which takes 0.1 s. The import is here so that only bots with
            # a plugin that uses vectors need this time.
            module: Any = importlib.import_module("nekro_core.store.vector_index")
            if self._path is not None:
                self._path.parent.mkdir(parents=True, exist_ok=True)
            self._engine = module.VectorIndex(self._path or ":memory:")
        return work(self._engine)


class _BlockingClient(AsyncQdrantClient):
    """A client whose coroutines never wait, because all work is done in the calling thread. So one
    ``send(None)`` runs such a coroutine to its end."""

    async def close(self, **_: Any) -> None:
        """See `AsyncQdrantClient.close`."""
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.close()

    async def _run(self, work: "Callable[[VectorIndex], T]") -> T:
        return self._run_here(work)


class QdrantClient:
    """The client for code that is not asynchronous. It has the methods of `AsyncQdrantClient`, but
    each of them blocks the calling thread until it is done. So use it for small collections only.

    Args:
        given: The same as for `AsyncQdrantClient`.
        options: The same as for `AsyncQdrantClient`.

    Raises:
        VectorError: The arguments name a server.
    """

    def __init__(self, *given: Any, **options: Any) -> None:
        self._client = _BlockingClient(*given, **options)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._client, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            try:
                method(*args, **kwargs).send(None)
            except StopIteration as done:
                return done.value
            raise RuntimeError(f"{name} waited, but a blocking client cannot wait")

        return call


def _kind(config: Any) -> tuple[int, Distance]:
    size, distance = getattr(config, "size", None), getattr(config, "distance", None)
    if not isinstance(size, int):
        raise VectorError("vectors_config: expected VectorParams(size=..., distance=...)")
    return size, Distance(getattr(distance, "value", distance) or Distance.COSINE)


def _rows(points: Any) -> Iterable[tuple[PointId, Any, dict[str, Any]]]:
    if hasattr(points, "ids"):  # it is a `qdrant_client.models.Batch`
        payloads = points.payloads or [None] * len(points.ids)
        for point, vector, payload in zip(points.ids, points.vectors, payloads, strict=True):
            yield point, vector, payload or {}
        return
    for each in points:
        point = PointStruct(**each) if isinstance(each, dict) else each
        yield point.id, point.vector, point.payload or {}


def _wanted(condition: Any) -> Callable[[PointId, dict[str, Any]], bool] | None:
    if condition is None:
        return None
    return lambda point, payload: matches_filter(condition, point, payload)


def _among(ids: Iterable[Any]) -> Callable[[PointId, dict[str, Any]], bool]:
    chosen = chosen_ids(ids)
    return lambda point, _: point in chosen


def _selected(selector: Any) -> Callable[[PointId, dict[str, Any]], bool]:
    if hasattr(selector, "points"):
        return _among(selector.points)
    condition = getattr(selector, "filter", selector)
    if any(hasattr(condition, name) for name in ("must", "should", "must_not")):
        return lambda point, payload: matches_filter(condition, point, payload)
    if isinstance(selector, int | str):
        return _among([selector])
    try:
        return _among(selector)
    except TypeError:
        raise VectorError(f"{type(selector).__name__} does not select points") from None


def _order(point: PointId) -> tuple[bool, int, str]:
    return (False, point, "") if isinstance(point, int) else (True, 0, str(point))


def _shown(payload: dict[str, Any], wanted: Any) -> dict[str, Any] | None:
    if isinstance(wanted, list | tuple):
        return {key: payload[key] for key in wanted if key in payload}
    return payload if wanted else None


def _records(points: "Sequence[VectorPoint]", with_payload: Any, with_vectors: Any) -> list[Record]:
    return [
        Record(
            id=each.id,
            payload=_shown(each.payload, with_payload),
            vector=each.vector.tolist() if with_vectors else None,
        )
        for each in points
    ]


__all__ = ["AsyncQdrantClient"]
