"""The values of a vector store's requests and answers, under the names of Qdrant's client.

They are a selection of ``qdrant_client.models`` with the fields of Qdrant's API (api.qdrant.tech).
Objects of the real package are accepted wherever one of these is.
"""

from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from nekro_core.store.vectors import Distance, PointId


class PayloadSchemaType(StrEnum):
    """The type of an index on a payload's field. This store needs no indexes and makes none."""

    KEYWORD = "keyword"
    INTEGER = "integer"
    FLOAT = "float"
    GEO = "geo"
    TEXT = "text"
    BOOL = "bool"
    DATETIME = "datetime"
    UUID = "uuid"


class UpdateStatus(StrEnum):
    """The state of a change."""

    ACKNOWLEDGED = "acknowledged"
    COMPLETED = "completed"


class CollectionStatus(StrEnum):
    """The status of a collection."""

    GREEN = "green"


class _Model(BaseModel):
    model_config = ConfigDict(extra="ignore", arbitrary_types_allowed=True)


class VectorParams(_Model):
    """The size and distance of a collection's vectors.

    Attributes:
        size: How many numbers a vector has, 1 to 65,536.
        distance: How two vectors are compared.
    """

    size: int
    distance: Distance = Distance.COSINE


class PointStruct(_Model):
    """A point to store.

    Attributes:
        id: An integer, or a text of 1 to 256 characters.
        vector: As many finite numbers as the collection says.
        payload: Data as JSON can hold it, at most 1,000,000 characters.
    """

    id: PointId
    vector: Any
    payload: dict[str, Any] | None = None


class Record(_Model):
    """A point as it is stored.

    Attributes:
        id: The point's id.
        payload: What is stored with it; None where it was not asked for.
        vector: Its numbers; None where they were not asked for.
    """

    id: PointId
    payload: dict[str, Any] | None = None
    vector: list[float] | None = None


class ScoredPoint(Record):
    """A point in the answer to a search.

    Attributes:
        version: Always 0: versions are not counted.
        score: How near it is: more is nearer, except for ``Euclid`` and ``Manhattan``.
    """

    version: int = 0
    score: float = 0.0


class QueryResponse(_Model):
    """The answer to a query.

    Attributes:
        points: The points, nearest first.
    """

    points: list[ScoredPoint] = Field(default_factory=list)


class MatchValue(_Model):
    """The field is equal to a value, or is a list that contains it.

    Attributes:
        value: The value. Numbers and booleans are never equal.
    """

    value: Any


class MatchAny(_Model):
    """The field is equal to one of several values, or is a list that contains one.

    Attributes:
        any: The values.
    """

    any: list[Any]


class MatchExcept(_Model):
    """The field has a value, or an element, that is none of these.

    Attributes:
        except_: The values; ``except`` in Qdrant's API.
    """

    model_config = ConfigDict(populate_by_name=True)

    except_: list[Any] = Field(alias="except")


class MatchText(_Model):
    """The field is a text that contains all of these words, in any case.

    Attributes:
        text: The words, separated by white space. Parts of words match too.
    """

    text: str


class Range(_Model):
    """The field is a number between these; what is None does not bound it.

    Attributes:
        lt: Less than this.
        gt: More than this.
        gte: This or more.
        lte: This or less.
    """

    lt: float | None = None
    gt: float | None = None
    gte: float | None = None
    lte: float | None = None


class FieldCondition(_Model):
    """What a field of the payload has to be. Everything that is given must hold; a condition that
    gives nothing raises `InvalidFilter`.

    Attributes:
        key: The field; ``author.name`` leads inside.
        match: `MatchValue`, `MatchAny`, `MatchExcept` or `MatchText`.
        range: A `Range`.
        is_empty: Whether the field is missing, null or an empty list.
        is_null: Whether the field is null.
    """

    key: str
    match: Any = None
    range: Any = None
    is_empty: bool | None = None
    is_null: bool | None = None


class PayloadField(_Model):
    """A field by its name.

    Attributes:
        key: The field; ``author.name`` leads inside.
    """

    key: str


class IsEmptyCondition(_Model):
    """The field is missing, null or an empty list.

    Attributes:
        is_empty: The field.
    """

    is_empty: PayloadField


class IsNullCondition(_Model):
    """The field is null.

    Attributes:
        is_null: The field.
    """

    is_null: PayloadField


class HasIdCondition(_Model):
    """The point has one of these ids.

    Attributes:
        has_id: The ids.
    """

    has_id: list[PointId]


class Filter(_Model):
    """Conditions together, at most 16 deep. Each attribute is a condition, a filter or a list of
    them.

    Attributes:
        must: All of these hold.
        should: At least one of these holds, if there is any.
        must_not: None of these holds.
    """

    must: Any = None
    should: Any = None
    must_not: Any = None


class PointIdsList(_Model):
    """Selects points by their ids.

    Attributes:
        points: The ids.
    """

    points: list[PointId]


class FilterSelector(_Model):
    """Selects the points for which a filter holds.

    Attributes:
        filter: The filter.
    """

    filter: Any


class UpdateResult(_Model):
    """The outcome of a change.

    Attributes:
        operation_id: Always 0: changes are not counted.
        status: ``completed``: a call returns when the change is stored.
    """

    operation_id: int | None = 0
    status: UpdateStatus = UpdateStatus.COMPLETED


class CountResult(_Model):
    """How many points there are.

    Attributes:
        count: The exact number.
    """

    count: int


class CollectionDescription(_Model):
    """A collection by its name.

    Attributes:
        name: The name.
    """

    name: str


class CollectionsResponse(_Model):
    """All collections.

    Attributes:
        collections: Sorted by name.
    """

    collections: list[CollectionDescription] = Field(default_factory=list)


class CollectionParams(_Model):
    """The parameters of a collection.

    Attributes:
        vectors: The size and distance of its vectors.
    """

    vectors: VectorParams


class CollectionConfig(_Model):
    """The configuration of a collection.

    Attributes:
        params: The size and distance of its vectors.
    """

    params: CollectionParams


class CollectionInfo(_Model):
    """The configuration and the size of a collection.

    Attributes:
        status: Always ``green``.
        points_count: How many points it has.
        vectors_count: The same number: a point has one vector.
        indexed_vectors_count: The same number again.
        config: Its configuration.
    """

    status: CollectionStatus = CollectionStatus.GREEN
    points_count: int = 0
    vectors_count: int = 0
    indexed_vectors_count: int = 0
    config: CollectionConfig


__all__ = [
    "CollectionConfig",
    "CollectionDescription",
    "CollectionInfo",
    "CollectionParams",
    "CollectionStatus",
    "CollectionsResponse",
    "CountResult",
    "Distance",
    "FieldCondition",
    "Filter",
    "FilterSelector",
    "HasIdCondition",
    "IsEmptyCondition",
    "IsNullCondition",
    "MatchAny",
    "MatchExcept",
    "MatchText",
    "MatchValue",
    "PayloadField",
    "PayloadSchemaType",
    "PointId",
    "PointIdsList",
    "PointStruct",
    "QueryResponse",
    "Range",
    "Record",
    "ScoredPoint",
    "UpdateResult",
    "UpdateStatus",
    "VectorParams",
]
