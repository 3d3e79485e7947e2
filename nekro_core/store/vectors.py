"""Defines the distances and errors of a vector index. Does not import numpy.

::

    NekroError
    └── VectorError
        ├── NoCollection   there is no collection of this name
        └── BadVector      a vector, id or payload cannot be stored
"""

from enum import StrEnum

from nekro_core.system.errors import NekroError

PointId = int | str
FILE_NAME = "vectors.sqlite3"
"""The name of an index's file in its folder."""


class Distance(StrEnum):
    """How two vectors are compared. The nearer of two vectors has the greater score, except with
    ``EUCLID`` and ``MANHATTAN``, where it has the smaller score."""

    COSINE = "Cosine"
    EUCLID = "Euclid"
    DOT = "Dot"
    MANHATTAN = "Manhattan"


class VectorError(NekroError, ValueError):
    """The base class. The message says what was expected."""


class NoCollection(VectorError):
    """There is no collection of this name."""


class BadVector(VectorError):
    """A vector, an id or a payload cannot be stored."""
