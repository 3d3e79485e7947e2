"""A yes or no, however it is asked for."""

from collections.abc import Generator
from typing import Any


class AwaitableBool(int):
    """True or false. Plugins write ``task.cancel(id)`` and ``await task.cancel(id)``,
    ``handle.is_cancelled`` and ``handle.is_cancelled()``: each gives the answer, where a plain
    bool would be an error or a method always true."""

    def __call__(self) -> bool:
        """The same as a bool."""
        return bool(self)

    def __await__(self) -> Generator[Any, None, bool]:
        yield from ()
        return bool(self)

    def __repr__(self) -> str:
        return repr(bool(self))
