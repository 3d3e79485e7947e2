"""What a vector store is told and gives, under the names of Qdrant's client.

A selection of ``qdrant_client.models``: the fields are those of Qdrant's API (api.qdrant.tech), and
objects of the real package are taken wherever one of these is.
"""

from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from nekro_core.store.vectors import Distance, PointId


class PayloadSchemaType(StrEnum):
    """What an index of a payload's field is for. There are none here: a collection is small."""

    KEYWORD = "keyword"
    INTEGER = "integer"
    FLOAT = "float"
    GEO = "geo"
    TEXT = "text"
    BOOL = "bool"
    DATETIME = "datetime"
    UUID = "uuid"


class UpdateStatus(StrEnum):
    """What became of a change."""

    ACKNOWLEDGED = "acknowledged"
    COMPLETED = "completed"


class CollectionStatus(StrEnum):
    """How a collection is."""

    GREEN = "green"


class _Model(BaseModel):
    model_config = ConfigDict(extra="ignore", arbitrary_types_allowed=True)


class VectorParams(_Model):
    """What vectors a collection has."""

    size: int
    distance: Distance = Distance.COSINE


class PointStruct(_Model):
    """A point to be kept."""

    id: PointId
    vector: Any
    payload: dict[str, Any] | None = None


class Record(_Model):
    """A point as it is kept."""

    id: PointId
    payload: dict[str, Any] | None = None
    vector: list[float] | None = None


class ScoredPoint(Record):
    """A point that was found."""

    version: int = 0
    score: float = 0.0


class QueryResponse(_Model):
    """What a query found."""

    points: list[ScoredPoint] = Field(default_factory=list)


class MatchValue(_Model):
    """Equal to this, or one of a list is."""

    value: Any


class MatchAny(_Model):
    """Equal to one of these."""

    any: list[Any]


class MatchExcept(_Model):
    """Equal to none of these."""

    model_config = ConfigDict(populate_by_name=True)

    except_: list[Any] = Field(alias="except")


class MatchText(_Model):
    """A text with all of these words."""

    text: str


class Range(_Model):
    """A number between these."""

    lt: float | None = None
    gt: float | None = None
    gte: float | None = None
    lte: float | None = None


class FieldCondition(_Model):
    """What a field of the payload has to be. ``key`` may lead inside: ``author.name``."""

    key: str
    match: Any = None
    range: Any = None
    is_empty: bool | None = None
    is_null: bool | None = None


class PayloadField(_Model):
    """A field by its name."""

    key: str


class IsEmptyCondition(_Model):
    """The field is not there, null or an empty list."""

    is_empty: PayloadField


class IsNullCondition(_Model):
    """The field is null."""

    is_null: PayloadField


class HasIdCondition(_Model):
    """The point is one of these."""

    has_id: list[PointId]


class Filter(_Model):
    """All of ``must``, one of ``should``, none of ``must_not``."""

    must: Any = None
    should: Any = None
    must_not: Any = None


class PointIdsList(_Model):
    """Points by their ids."""

    points: list[PointId]


class FilterSelector(_Model):
    """Points by what they are."""

    filter: Any


class UpdateResult(_Model):
    """What became of a change."""

    operation_id: int | None = 0
    status: UpdateStatus = UpdateStatus.COMPLETED


class CountResult(_Model):
    """How many there are."""

    count: int


class CollectionDescription(_Model):
    """A collection by its name."""

    name: str


class CollectionsResponse(_Model):
    """All collections."""

    collections: list[CollectionDescription] = Field(default_factory=list)


class CollectionParams(_Model):
    """How a collection was made."""

    vectors: VectorParams


class CollectionConfig(_Model):
    """How a collection was made."""

    params: CollectionParams


class CollectionInfo(_Model):
    """How a collection was made and how large it is."""

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
