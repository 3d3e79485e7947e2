"""numpy, imported when it is first used: it takes 50 ms and 13 MiB, which a start does not need.

A module that uses it begins with ``from __future__ import annotations`` and imports both names from
here. What it computes when it is imported must not use ``np``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__all__ = ["NDArray", "np"]

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
else:

    class _Numpy:
        def __getattr__(self, name: str) -> Any:
            value = getattr(import_module("numpy"), name)
            setattr(self, name, value)  # the next use costs as much as with the module itself
            return value

    np = _Numpy()
    NDArray = Any
