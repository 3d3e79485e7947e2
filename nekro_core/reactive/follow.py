"""Yields a value after each of its changes."""

import asyncio
import contextvars
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import anyio
from reaktiv import Effect


class LoopThread:
    """Calls functions in the thread and the event loop in which this object was made. Cells change
    only in this thread; a value may be set from any thread."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        # `call` runs functions in this context. In the context of another thread, a function would
        # find no running event loop.
        self._context = contextvars.copy_context()

    def call(self, function: Callable[[], None]) -> None:
        """Call a function in that thread. If the caller is in that thread, the function is called
        at once. Otherwise the event loop calls it soon. Does nothing if the event loop is
        closed."""
        if threading.get_ident() == self._thread:
            function()
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(function, context=self._context)


@dataclass(frozen=True, slots=True)
class Glimpse:
    """A value at one moment.

    Attributes:
        value: The value at that moment; None if there was none.
        error: What the computation raised; None otherwise.
        final: True if all functions that the value depends on had ended, so that the value would
            not change by itself.
    """

    value: Any
    error: Exception | None
    final: bool


class _ChangeEvent:
    """Sets ``changed`` when a value that ``look`` reads has changed."""

    def __init__(self, look: Callable[[], object]) -> None:
        self._look = look
        self._loop_thread = LoopThread()
        self.changed = anyio.Event()

    def listen(self) -> None:
        self._look()
        self._loop_thread.call(self._set)

    def _set(self) -> None:
        self.changed.set()


@contextmanager
def watching(look: Callable[[], object]) -> Iterator[_ChangeEvent]:
    """Notice changes of the values that ``look`` reads. ``look`` must not raise."""
    change = _ChangeEvent(look)
    effect = Effect(change.listen)
    try:
        yield change
    finally:
        effect.dispose()


async def follow(look: Callable[[], Glimpse]) -> AsyncGenerator[Glimpse]:
    """Yield what ``look`` returns, now and after each change, until the value is final.

    A slow reader misses states in between, but never the last state. To close the iterator early,
    use `contextlib.aclosing`.
    """
    with watching(look) as change:
        while True:
            await change.changed.wait()
            change.changed = anyio.Event()
            seen = look()
            yield seen
            if seen.final and not change.changed.is_set():
                return
