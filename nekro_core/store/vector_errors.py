"""Errors of the vector store.

::

    NekroError
    └── VectorError
        ├── NoCollection   there is no collection of this name
        └── BadVector      a vector, id or payload that cannot be kept
"""

from nekro_core.system.errors import NekroError


class VectorError(NekroError, ValueError):
    """The root; the message says what was expected."""


class NoCollection(VectorError):
    """There is no collection of this name."""


class BadVector(VectorError):
    """A vector, id or payload that cannot be kept."""
