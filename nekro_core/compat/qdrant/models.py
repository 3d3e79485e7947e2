"""The arguments and results of the vector store, with the class names of Qdrant's client.

The classes are some of those in ``qdrant_client.models`` and have the fields of Qdrant's API
(api.qdrant.tech). The methods that accept an object of this module also accept the object of the
real package ``qdrant-client``.
"""

from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from nekro_core.store.vectors import Distance, PointId


class PayloadSchemaType(StrEnum):
    """The type of an index on a field of the payloads. This store makes no indexes."""

    KEYWORD = "keyword"
    INTEGER = "integer"
    FLOAT = "float"
    GEO = "geo"
    TEXT = "text"
    BOOL = "bool"
    DATETIME = "datetime"
    UUID = "uuid"


class UpdateStatus(StrEnum):
    """The state of a change to the store."""

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
        vector: Finite numbers, as many as the ``size`` of the collection.
        payload: Data that can be written as JSON of at most 1,000,000 characters.
    """

    id: PointId
    vector: Any
    payload: dict[str, Any] | None = None


class Record(_Model):
    """A stored point.

    Attributes:
        id: The point's id.
        payload: The data that is stored with the point; None if it was not requested.
        vector: The point's numbers; None if they were not requested.
    """

    id: PointId
    payload: dict[str, Any] | None = None
    vector: list[float] | None = None


class ScoredPoint(Record):
    """A point in the result of a search.

    Attributes:
        version: Always 0, because this store does not count versions.
        score: How near the point is. A greater score is nearer; for ``Euclid`` and ``Manhattan`` a
            smaller score is nearer.
    """

    version: int = 0
    score: float = 0.0


class QueryResponse(_Model):
    """The result of a query.

    Attributes:
        points: The points, nearest first.
    """

    points: list[ScoredPoint] = Field(default_factory=list)


class MatchValue(_Model):
    """The field is equal to a value, or is a list that contains it.

    Attributes:
        value: The value. A number never equals a boolean.
    """

    value: Any


class MatchAny(_Model):
    """The field is equal to one of several values, or is a list that contains one of them.

    Attributes:
        any: The values.
    """

    any: list[Any]


class MatchExcept(_Model):
    """The field has a value that is not among the given values. If the field is a list, at least
    one of its items must not be among them.

    Attributes:
        except_: The excluded values. Qdrant's API calls this field ``except``.
    """

    model_config = ConfigDict(populate_by_name=True)

    except_: list[Any] = Field(alias="except")


class MatchText(_Model):
    """The field is a text that contains all given words, in upper or lower case.

    Attributes:
        text: The words, separated by white space. A word also matches inside a longer word of
            the field.
    """

    text: str


class Range(_Model):
    """The field is a number within bounds. A bound that is None is not checked.

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
    """A condition on a field of the payload. All given parts of the condition must be true. A
    condition without a part raises `InvalidFilter`.

    Attributes:
        key: The field. ``author.name`` is the field ``name`` in the field ``author``.
        match: `MatchValue`, `MatchAny`, `MatchExcept` or `MatchText`.
        range: A `Range`.
        is_empty: If True, the field must be missing, null or an empty list. If False, the field
            must have another value.
        is_null: If True, the field must be null. If False, the field must not be null.
    """

    key: str
    match: Any = None
    range: Any = None
    is_empty: bool | None = None
    is_null: bool | None = None


class PayloadField(_Model):
    """The name of a field.

    Attributes:
        key: The field. ``author.name`` is the field ``name`` in the field ``author``.
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
    """A combination of conditions, nested at most 16 deep. Each attribute is a condition, a filter,
    or a list of conditions and filters.

    Attributes:
        must: All of them must be true.
        should: At least one of them must be true, if there are any.
        must_not: None of them may be true.
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
    """Selects the points that match a filter.

    Attributes:
        filter: The filter.
    """

    filter: Any


class UpdateResult(_Model):
    """The outcome of a change.

    Attributes:
        operation_id: Always 0, because this store does not count changes.
        status: Always ``completed``, because a call returns when the change is stored.
    """

    operation_id: int | None = 0
    status: UpdateStatus = UpdateStatus.COMPLETED


class CountResult(_Model):
    """The number of points.

    Attributes:
        count: The exact number.
    """

    count: int


class CollectionDescription(_Model):
    """The name of a collection.

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
        points_count: How many points the collection has.
        vectors_count: The same as ``points_count``, because each point has one vector.
        indexed_vectors_count: The same as ``points_count``.
        config: The configuration of the collection.
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
