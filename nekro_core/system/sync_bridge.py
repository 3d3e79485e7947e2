"""Lets a plain function wait for a coroutine without blocking the event loop.

Existing plugins call ``ctx.fs.get_file(path)`` without ``await``, and the file is in a box. So the
bot calls handlers through `run_bridged`, which runs them in a greenlet. `wait_for`, called anywhere
below, passes an awaitable to the event loop and returns its result. SQLAlchemy's asyncio extension
works the same way (``greenlet_spawn``).
"""

import asyncio
from collections.abc import Awaitable, Coroutine, Generator
from contextvars import ContextVar
from dataclasses import dataclass
from types import FrameType
from typing import Any, Generic, TypeVar

from greenlet import getcurrent, greenlet

from nekro_core.system.errors import NekroError

T = TypeVar("T")

_THREAD_S = 120.0
"""Seconds that a thread of a plugin waits for the loop."""
_loop: ContextVar[asyncio.AbstractEventLoop | None] = ContextVar("nekro_loop", default=None)


class CannotWait(NekroError, RuntimeError):
    """A function that waits was called where it cannot; the message says what to do."""


@dataclass(slots=True, eq=False)
class _ToAwait:
    """What the bridge awaits for the code in the greenlet."""

    awaitable: Awaitable[Any]


@dataclass(slots=True, eq=False)
class _ToLoop:
    """What the code's own ``await`` passes to the event loop."""

    value: Any


async def run_bridged(coroutine: Awaitable[T]) -> T:
    """Await something. `wait_for` works in the code that this runs, and in threads that inherit its
    context."""
    _loop.set(asyncio.get_running_loop())
    return await _Bridge(coroutine)


def wait_for(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine and return its result, or raise its error. Raises `CannotWait` in a task that
    the bot does not call through `run_bridged`."""
    here = getcurrent()
    if isinstance(here, _Inner):
        result: T = here.waiter.switch(_ToAwait(coroutine))
        return result
    loop = _loop.get()
    if loop is not None and not _in_loop():
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result(_THREAD_S)
    coroutine.close()
    raise CannotWait(
        "this must wait, and is called where it cannot: call it in the tool's, command's or hook's "
        "own coroutine, not in a task that it started"
    )


def can_wait() -> bool:
    """Whether `wait_for` works at this point of the event loop's thread."""
    return isinstance(getcurrent(), _Inner)


def outer_frame(innermost: FrameType) -> FrameType | None:
    """The frame that called `run_bridged`, for a stack whose outermost frame is the bridge."""
    bridge = innermost.f_locals.get("self")
    waiter = bridge.inner.waiter if isinstance(bridge, _Bridge) and bridge.inner else None
    return waiter.gr_frame if waiter is not None else None


def _in_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class _Inner(greenlet):
    """The greenlet in which a handler runs. ``waiter`` is the one that drives it."""

    waiter: greenlet


class _Bridge(Generic[T]):
    def __init__(self, coroutine: Awaitable[T]) -> None:
        self._coroutine = coroutine
        self.inner: _Inner | None = None

    def __await__(self) -> Generator[Any, Any, T]:
        waiter = getcurrent()
        self.inner = inner = _Inner(self.run, waiter)
        inner.waiter = waiter
        # The same context and not a copy, so variables that the handler sets stay set in the task.
        inner.gr_context = waiter.gr_context
        passed = inner.switch()
        while not inner.dead:
            try:
                if isinstance(passed, _ToAwait):
                    answer = yield from passed.awaitable.__await__()
                else:
                    answer = yield passed.value
            except BaseException as error:  # noqa: BLE001 - it is the handler's, not ours
                passed = inner.throw(type(error), error, error.__traceback__)
            else:
                passed = inner.switch(answer)
        result: T = passed
        return result

    def run(self) -> T:
        """Drive the coroutine in the greenlet. The waiter awaits what the coroutine awaits."""
        waiter = getcurrent().parent
        assert waiter is not None, "a greenlet has one"
        steps = self._coroutine.__await__()
        try:
            passed = next(steps)
            while True:
                try:
                    answer = waiter.switch(_ToLoop(passed))
                except BaseException as error:  # noqa: BLE001 - the loop's, for the coroutine
                    passed = steps.throw(error)
                else:
                    passed = steps.send(answer)
        except StopIteration as stop:
            result: T = stop.value
            return result
