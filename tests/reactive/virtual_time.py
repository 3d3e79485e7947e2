"""Defines an event loop in virtual time: instead of waiting, its clock jumps to the next timer."""

import asyncio
import selectors
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

T = TypeVar("T")


class _Jumping(selectors.DefaultSelector):  # type: ignore[misc, valid-type]
    loop: "VirtualLoop"

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None:
            raise AssertionError("everything waits for something that nobody will ever do")
        self.loop.now += max(timeout, 0.0)
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop for code that uses no network and no threads."""

    def __init__(self) -> None:
        self.now = 0.0
        selector = _Jumping()
        selector.loop = self
        super().__init__(selector)

    def time(self) -> float:
        return self.now


def in_virtual_time(play: Callable[[], Awaitable[T]]) -> T:
    """Run the coroutine to its end in virtual time. If another task is still running at that
    moment, raise an error."""
    loop = VirtualLoop()
    try:

        async def all_of_it() -> T:
            return await play()

        result = loop.run_until_complete(all_of_it())
        left = asyncio.all_tasks(loop)
        assert not left, left
        return result
    finally:
        loop.close()
