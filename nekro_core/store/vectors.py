"""What a vector index is told, and what goes wrong with vectors. Loads no numpy.

::

    NekroError
    └── VectorError
        ├── NoCollection   there is no collection of this name
        └── BadVector      a vector, id or payload that cannot be kept
"""

from enum import StrEnum

from nekro_core.system.errors import NekroError

PointId = int | str
FILE_NAME = "vectors.sqlite3"
"""The file of an index, in the folder that it is given."""


class Distance(StrEnum):
    """How near two vectors are: the greater the nearer, but for ``EUCLID`` and ``MANHATTAN``."""

    COSINE = "Cosine"
    EUCLID = "Euclid"
    DOT = "Dot"
    MANHATTAN = "Manhattan"


class VectorError(NekroError, ValueError):
    """The root; the message says what was expected."""


class NoCollection(VectorError):
    """There is no collection of this name."""


class BadVector(VectorError):
    """A vector, id or payload that cannot be kept."""
