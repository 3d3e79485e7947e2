"""What goes wrong with vectors::

VectorError
├── NoCollection   there is no collection of this name
└── BadVector      a vector, id or payload that cannot be kept
"""


class VectorError(ValueError):
    """The root; the message says what was expected."""


class NoCollection(VectorError):
    """There is no collection of this name."""


class BadVector(VectorError):
    """A vector, id or payload that cannot be kept."""
