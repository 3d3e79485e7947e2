"""Offers numpy, which is imported when it is first used. The import takes 50 ms and 13 MiB, and the
bot starts without it.

A module that uses numpy begins with ``from __future__ import annotations`` and imports ``np`` and
``NDArray`` from here. Code that runs while the module is imported must not use ``np``.
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
            setattr(self, name, value)  # The next use of this name finds the object directly.
            return value

    np = _Numpy()
    NDArray = Any
