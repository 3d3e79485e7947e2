"""The thread in which everything happens. A value may be set from any other."""

import asyncio
import contextvars
import threading
from collections.abc import Callable


class LoopThread:
    """The running event loop and its thread, where it is made."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        # The other thread's own context says that no event loop runs.
        self._context = contextvars.copy_context()

    def call(self, function: Callable[[], None]) -> None:
        """Call it there: now if this is the thread, else soon. Nothing where the loop is closed."""
        if threading.get_ident() == self._thread:
            function()
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(function, context=self._context)
