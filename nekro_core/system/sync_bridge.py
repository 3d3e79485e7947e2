"""Lets a plain function wait for a coroutine without blocking the event loop.

Existing plugins call ``ctx.fs.get_file(path)`` without ``await``. But the file is in a box, so the
call must wait. Therefore the bot calls handlers through `run_bridged`, which runs them in a
greenlet. Any function that a handler calls can then use `wait_for`, which passes an awaitable to
the event loop and returns the result. SQLAlchemy's asyncio extension works the same way
(``greenlet_spawn``).
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
"""The longest time, in seconds, that a thread of a plugin waits for the event loop."""
_loop: ContextVar[asyncio.AbstractEventLoop | None] = ContextVar("nekro_loop", default=None)


class CannotWait(NekroError, RuntimeError):
    """A function that waits was called in a place where it cannot wait. The message says what to
    do."""


@dataclass(slots=True, eq=False)
class _ToAwait:
    """An awaitable that `wait_for` passes to the bridge, which awaits it."""

    awaitable: Awaitable[Any]


@dataclass(slots=True, eq=False)
class _ToLoop:
    """A value that an ``await`` in the handler passes to the event loop."""

    value: Any


async def run_bridged(coroutine: Awaitable[T]) -> T:
    """Await a coroutine in a greenlet. `wait_for` works in the code that the coroutine runs, and in
    threads that inherit its context."""
    _loop.set(asyncio.get_running_loop())
    return await _Bridge(coroutine)


def wait_for(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine and return its result, or raise its error. Raises `CannotWait` in a task that
    does not run through `run_bridged`. In a thread, raises `TimeoutError` if the coroutine has not
    ended after `_THREAD_S`; the coroutine then continues."""
    here = getcurrent()
    if isinstance(here, _Inner):
        result: T = here.waiter.switch(_ToAwait(coroutine))
        return result
    loop = _loop.get()
    if loop is not None and not _in_loop():
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result(_THREAD_S)
    coroutine.close()
    raise CannotWait(
        "this function must wait, which is not possible in this place: call it in the tool's, "
        "command's or hook's own coroutine, not in a task that this coroutine started"
    )


def can_wait() -> bool:
    """Return True if the calling code runs inside of `run_bridged`, so that `wait_for` works. Call
    this only in the thread of the event loop."""
    return isinstance(getcurrent(), _Inner)


def outer_frame(frame: FrameType) -> FrameType | None:
    """Return the frame from which the stack continues outside of a handler; None if there is none.

    A handler runs on the stack of its own greenlet. ``frame`` is the outermost frame of that stack,
    which is the frame of `_Bridge.run`. The returned frame waits for the handler; the frames that
    called `run_bridged` are its ``f_back``.
    """
    bridge = frame.f_locals.get("self")
    waiter = bridge.inner.waiter if isinstance(bridge, _Bridge) and bridge.inner else None
    return waiter.gr_frame if waiter is not None else None


def _in_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class _Inner(greenlet):
    """The greenlet in which a handler runs. ``waiter`` is the greenlet that drives it."""

    waiter: greenlet


class _Bridge(Generic[T]):
    def __init__(self, coroutine: Awaitable[T]) -> None:
        self._coroutine = coroutine
        self.inner: _Inner | None = None

    def __await__(self) -> Generator[Any, Any, T]:
        waiter = getcurrent()
        self.inner = inner = _Inner(self.run, waiter)
        inner.waiter = waiter
        # The context is not copied, so context variables that the handler sets stay set in the
        # task.
        inner.gr_context = waiter.gr_context
        passed = inner.switch()
        while not inner.dead:
            try:
                if isinstance(passed, _ToAwait):
                    answer = yield from passed.awaitable.__await__()
                else:
                    answer = yield passed.value
            except BaseException as error:  # noqa: BLE001 - passed on to the handler
                passed = inner.throw(type(error), error, error.__traceback__)
            else:
                passed = inner.switch(answer)
        result: T = passed
        return result

    def run(self) -> T:
        """Drive the coroutine in the greenlet. Each value that the coroutine passes to the event
        loop goes to the waiter, which passes it on."""
        waiter = getcurrent().parent
        assert waiter is not None, "every greenlet except the main greenlet has a parent"
        steps = self._coroutine.__await__()
        try:
            passed = next(steps)
            while True:
                try:
                    answer = waiter.switch(_ToLoop(passed))
                except BaseException as error:  # noqa: BLE001 - passed on to the coroutine
                    passed = steps.throw(error)
                else:
                    passed = steps.send(answer)
        except StopIteration as stop:
            result: T = stop.value
            return result
