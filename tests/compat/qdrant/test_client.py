"""Qdrant's client classes work with the embedded vector index behind them."""

import random
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nekro_core.compat.qdrant import models
from nekro_core.compat.qdrant.client import AsyncQdrantClient
from nekro_core.compat.qdrant.filters import InvalidFilter, matches_filter
from nekro_core.store.vectors import VectorError

STICKERS = "ann.emotion-stickers"


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[AsyncQdrantClient]:
    opened = AsyncQdrantClient(path=tmp_path)
    yield opened
    await opened.close()


def point(number: Any, *vector: float, **payload: Any) -> models.PointStruct:
    return models.PointStruct(id=number, vector=list(vector), payload=payload)


async def filled(client: AsyncQdrantClient) -> None:
    config = models.VectorParams(size=2, distance=models.Distance.COSINE)
    await client.create_collection(STICKERS, vectors_config=config)
    await client.upsert(
        collection_name=STICKERS,
        points=[
            point(1, 1, 0, name="cat", tags=["cute", "animal"], used=3),
            point(2, 0, 2, name="dog", tags=["animal"], used=1),
            point("4e1b6cc5-6ab1-4c21-a3f2-5c1d3f1a9f10", 1, 1, name="sun", used=0, author=None),
        ],
    )


async def test_a_sticker_store_finds_its_points(client: AsyncQdrantClient) -> None:
    assert not await client.collection_exists(collection_name=STICKERS)
    await filled(client)
    assert [each.name for each in (await client.get_collections()).collections] == [STICKERS]
    found = await client.search(collection_name=STICKERS, query_vector=[1.0, 0.1], limit=2)
    assert [(each.id, each.payload["name"]) for each in found if each.payload] == [
        (1, "cat"),
        ("4e1b6cc5-6ab1-4c21-a3f2-5c1d3f1a9f10", "sun"),
    ]
    assert found[0].score == pytest.approx(0.995, abs=0.001)
    close = await client.query_points(STICKERS, query=[0.0, 1.0], score_threshold=0.9)
    assert [each.id for each in close.points] == [2]
    assert (await client.query_points(STICKERS, query=2, limit=1)).points[0].id == 2
    assert (await client.count(STICKERS)).count == 3
    info = await client.get_collection(STICKERS)
    assert (info.points_count, info.config.params.vectors.size) == (3, 2)
    (cat,) = await client.retrieve(STICKERS, ids=[1, 99], with_vectors=True)
    assert (cat.payload or {})["used"] == 3
    assert cat.vector == [1.0, 0.0]
    await client.set_payload(STICKERS, payload={"used": 4}, points=[1])
    await client.delete_payload(STICKERS, keys=["tags"], points=[1])
    (cat,) = await client.retrieve(STICKERS, ids=[1], with_payload=["used", "tags"])
    assert cat.payload == {"used": 4}
    await client.overwrite_payload(STICKERS, payload={"name": "puss"}, points=[1])
    await client.delete(STICKERS, points_selector=models.PointIdsList(points=[2]))
    page, following = await client.scroll(STICKERS, limit=1)
    assert ([each.payload for each in page], following) == (
        [{"name": "puss"}],
        "4e1b6cc5-6ab1-4c21-a3f2-5c1d3f1a9f10",
    )
    rest, following = await client.scroll(STICKERS, offset=following)
    assert (len(rest), following) == (1, None)
    assert await client.delete_collection(STICKERS)
    assert not await client.collection_exists(STICKERS)


async def test_points_are_still_there_after_a_restart(tmp_path: Path) -> None:
    first = AsyncQdrantClient(path=tmp_path)
    await filled(first)
    await first.close()
    second = AsyncQdrantClient(path=tmp_path)
    assert (await second.count(STICKERS)).count == 3
    found = await second.search(STICKERS, [0, 1], limit=1)
    assert found[0].payload == {"name": "dog", "tags": ["animal"], "used": 1}
    await second.close()


async def test_the_number_7_and_the_text_7_are_the_ids_of_two_different_points(
    client: AsyncQdrantClient,
) -> None:
    await filled(client)
    points = [
        models.PointStruct(id=number, vector=[1, 0], payload={"of": type(number).__name__})
        for number in (7, "7")
    ]
    await client.upsert(STICKERS, points)
    for wanted in (7, "7"):
        kind = {"of": type(wanted).__name__}
        chosen = models.Filter(must=[models.HasIdCondition(has_id=[wanted])])
        found, _ = await client.scroll(STICKERS, scroll_filter=chosen)
        assert [each.payload for each in found] == [kind]
        assert [each.payload for each in await client.retrieve(STICKERS, [wanted])] == [kind]


def condition(key: str, **asked: Any) -> models.FieldCondition:
    return models.FieldCondition(key=key, **asked)


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        (models.Filter(must=[condition("name", match=models.MatchValue(value="dog"))]), "dog"),
        (models.Filter(must=condition("tags", match=models.MatchValue(value="animal"))), "cat dog"),
        (models.Filter(must=[condition("used", range=models.Range(gte=1, lt=3))]), "dog"),
        (models.Filter(must=[condition("name", match=models.MatchAny(any=["cat", "x"]))]), "cat"),
        (
            models.Filter(
                should=[
                    condition("name", match=models.MatchText(text="SU")),
                    condition("used", range=models.Range(gt=2)),
                ],
                must_not=[condition("tags", match=models.MatchValue(value="nothing"))],
            ),
            "cat sun",
        ),
        (models.Filter(must_not=[models.HasIdCondition(has_id=[1, 2])]), "sun"),
        (
            models.Filter(must=[models.IsEmptyCondition(is_empty=models.PayloadField(key="tags"))]),
            "sun",
        ),
        (
            models.Filter(must=[models.IsNullCondition(is_null=models.PayloadField(key="author"))]),
            "sun",
        ),
        # Objects of the real client's classes have the same fields.
        (
            SimpleNamespace(
                must=[SimpleNamespace(key="name", match=SimpleNamespace(value="cat"), range=None)],
                should=None,
                must_not=None,
            ),
            "cat",
        ),
        (None, "cat dog sun"),
    ],
)
async def test_a_filter_selects_points(client: AsyncQdrantClient, wanted: Any, names: str) -> None:
    await filled(client)
    records, _ = await client.scroll(STICKERS, scroll_filter=wanted, limit=10)
    assert [(each.payload or {})["name"] for each in records] == names.split()
    found = await client.search(STICKERS, [1, 0], query_filter=wanted)
    assert len(found) == len(records)
    if wanted is not None:
        await client.delete(STICKERS, points_selector=models.FilterSelector(filter=wanted))
        assert (await client.count(STICKERS)).count == 3 - len(records)


@pytest.mark.parametrize("bad", [object(), models.FieldCondition(key="name")])
def test_an_unknown_condition_is_an_error(bad: Any) -> None:
    with pytest.raises(InvalidFilter):
        matches_filter(models.Filter(must=[bad]), 1, {"name": "x"})


async def test_invalid_requests_raise_an_error_with_the_reason(client: AsyncQdrantClient) -> None:
    with pytest.raises(VectorError, match="there is no collection 'x'"):
        await client.search("x", [1.0])
    with pytest.raises(VectorError, match="expected VectorParams"):
        await client.create_collection("x", vectors_config={"a": 1})
    await filled(client)
    with pytest.raises(VectorError, match="is there already"):
        await client.create_collection(
            STICKERS, models.VectorParams(size=2, distance=models.Distance.DOT)
        )
    for vector in ([1.0], [1.0, float("nan")], "ab", {"named": [1.0, 2.0]}, [[1.0, 2.0]]):
        with pytest.raises(VectorError, match="vector"):
            await client.upsert(STICKERS, [SimpleNamespace(id=9, vector=vector, payload={})])
    with pytest.raises(VectorError, match="an id of 300"):
        await client.upsert(STICKERS, [point("x" * 300, 1, 2)])
    with pytest.raises(VectorError, match="reaches no server"):
        AsyncQdrantClient(url="http://127.0.0.1:6333")
    # If one point is invalid, no point of the call is stored.
    with pytest.raises(VectorError):
        await client.upsert(STICKERS, [point(7, 1, 2), point(8, 1)])
    assert (await client.count(STICKERS)).count == 3


async def test_searches_do_not_block_the_event_loop() -> None:
    chance = random.Random(1)
    client = AsyncQdrantClient(":memory:")
    await client.create_collection("many", models.VectorParams(size=512))
    points = [point(n, *(chance.random() for _ in range(512)), n=n) for n in range(500)]
    async with anyio.create_task_group() as tasks:
        for begin in range(0, 500, 50):
            tasks.start_soon(client.upsert, "many", points[begin : begin + 50])
    (best,) = await client.search("many", points[321].vector, limit=1)
    assert (best.id, best.payload) == (321, {"n": 321})
    await client.close()


@settings(max_examples=25)
@given(
    st.sampled_from(list(models.Distance)),
    st.lists(st.tuples(*[st.integers(-5, 5)] * 3).filter(any), min_size=1, max_size=12),
    st.tuples(*[st.integers(-5, 5)] * 3).filter(any),
)
async def test_search_results_equal_the_definition_of_each_distance(
    distance: models.Distance, vectors: list[tuple[int, ...]], query: tuple[int, ...]
) -> None:
    client = AsyncQdrantClient(":memory:")
    await client.create_collection("c", models.VectorParams(size=3, distance=distance))
    await client.upsert("c", [point(n, *vector) for n, vector in enumerate(vectors)])
    found = await client.search("c", [*map(float, query)], limit=100)
    await client.close()
    a, q = np.array(vectors, float), np.array(query, float)
    scores = {
        models.Distance.COSINE: a @ q / np.linalg.norm(a, axis=1) / np.linalg.norm(q),
        models.Distance.DOT: a @ q,
        models.Distance.EUCLID: np.linalg.norm(a - q, axis=1),
        models.Distance.MANHATTAN: np.abs(a - q).sum(axis=1),
    }[distance]
    assert len(found) == len(vectors)
    for each in found:
        assert each.score == pytest.approx(scores[int(each.id)], abs=1e-4)
    order = [each.score for each in found]
    reverse = distance in (models.Distance.COSINE, models.Distance.DOT)
    assert order == sorted(order, reverse=reverse)
