"""Functions that are not async, called by code that is, and that must wait all the same.

Existing plugins call ``ctx.fs.get_file(path)`` without an ``await``, and the file is in a box. So
the bot calls handlers through `run_bridged`: the handler runs in a greenlet of its own, and
`wait_for`, called anywhere below it, gives the event loop an awaitable and comes back with what it
gave. The loop is never blocked. It is how SQLAlchemy's asyncio extension does it
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
"""How long a thread of a plugin waits for the loop."""
_loop: ContextVar[asyncio.AbstractEventLoop | None] = ContextVar("nekro_loop", default=None)


class CannotWait(NekroError, RuntimeError):
    """A function that waits was called where nobody can wait for it; says what to do."""


@dataclass(slots=True, eq=False)
class _Asked:
    """What is to be awaited for the code in the greenlet."""

    awaitable: Awaitable[Any]


@dataclass(slots=True, eq=False)
class _Passed:
    """What the code's own ``await`` handed to the event loop."""

    value: Any


async def run_bridged(coroutine: Awaitable[T]) -> T:
    """Await something; below it, `wait_for` works, also in threads that inherit its context."""
    _loop.set(asyncio.get_running_loop())
    return await _Bridge(coroutine)


def wait_for(coroutine: Coroutine[Any, Any, T]) -> T:
    """What a coroutine gives, or raises. Raises `CannotWait` in a task that the bot does not call
    through `run_bridged`."""
    here = getcurrent()
    if isinstance(here, _Inner):
        result: T = here.waiter.switch(_Asked(coroutine))
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
    """Whether `wait_for` works here, on the event loop."""
    return isinstance(getcurrent(), _Inner)


def outer_frame(innermost: FrameType) -> FrameType | None:
    """Where the code waits that called through `run_bridged`, for a stack that ends in the
    bridge."""
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
        # The same context and not a copy: variables that the handler sets are the task's.
        inner.gr_context = waiter.gr_context
        said = inner.switch()
        while not inner.dead:
            try:
                if isinstance(said, _Asked):
                    answer = yield from said.awaitable.__await__()
                else:
                    answer = yield said.value
            except BaseException as error:  # noqa: BLE001 - it is the handler's, not ours
                said = inner.throw(type(error), error, error.__traceback__)
            else:
                said = inner.switch(answer)
        result: T = said
        return result

    def run(self) -> T:
        """Drive the coroutine, in the greenlet: what it awaits goes to the waiter."""
        waiter = getcurrent().parent
        assert waiter is not None, "a greenlet has one"
        steps = self._coroutine.__await__()
        try:
            passed = next(steps)
            while True:
                try:
                    answer = waiter.switch(_Passed(passed))
                except BaseException as error:  # noqa: BLE001 - the loop's, for the coroutine
                    passed = steps.throw(error)
                else:
                    passed = steps.send(answer)
        except StopIteration as stop:
            result: T = stop.value
            return result
