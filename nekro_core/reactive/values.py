"""Values that others depend on: `cell` holds one, `computed` derives one.

Reading one inside of a `computed`, or handing it to a cell as an input, makes the reader depend on
it. Reaktiv keeps the graph; what is added here is that a failed computation is remembered like any
other value, and that everybody knows whether a value is final or waits for something that runs.
"""

from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import TracebackType
from typing import Generic, Protocol, TypeAlias, TypeVar

import reaktiv
from reaktiv import Signal, batch

from nekro_core.reactive.errors import NotHere
from nekro_core.reactive.follow import Glimpse, follow

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Readable(Protocol[T_co]):
    """What has a value that may change: a cell, a computed value, a cell that runs something."""

    def __call__(self) -> T_co:
        """The value now; the reader depends on it."""

    def get(self) -> T_co:
        """The same."""


Reactive: TypeAlias = T | Readable[T]
"""An input: a value that stays, or one that may change."""


@dataclass(slots=True)
class _Reading:
    """What one computation learns about the values that it reads."""

    waiting: bool = False


_reading: ContextVar[_Reading | None] = ContextVar("nekro_reactive_reading", default=None)


@contextmanager
def reading() -> Iterator[_Reading]:
    """Learn whether anything read in here waits for something that runs."""
    token = _reading.set(found := _Reading())
    try:
        yield found
    finally:
        _reading.reset(token)


def note_waiting(waiting: bool) -> None:
    """Tell whoever reads that this value is not final yet."""
    if waiting and (found := _reading.get()) is not None:
        found.waiting = True


def refuse_in_computed(what: str) -> None:
    """Raise `NotHere` inside of a computation."""
    if _reading.get() is not None:
        raise NotHere(
            f"{what} is made inside of a computed value, which only reads: make it before"
        )


def cell(value: T) -> Signal[T]:
    """A value that may be set: ``get()``, ``set(new)``, ``update(function)``.

    Put a new object in its place rather than changing the one inside: changes are told by identity.
    Several sets that belong together stand in ``with batch():``.
    """
    refuse_in_computed("a cell")
    return Signal(value)


@dataclass(frozen=True, slots=True, eq=False)
class _Outcome(Generic[T]):
    value: T | None
    error: Exception | None
    traceback: TracebackType | None = field(repr=False)
    waiting: bool


class Computed(Generic[T]):
    """A value derived from others, computed when it is read and something in it has changed.

    An exception is its value too: it is raised at every reading, without computing again.
    """

    def __init__(self, function: Callable[[], T]) -> None:
        refuse_in_computed("a computed value")
        self._function = function
        self._outcome = reaktiv.Computed(self._compute, equal=_same)

    def __call__(self) -> T:
        """The same as `get`."""
        return self.get()

    def get(self) -> T:
        """The value now. Raises what the function raised."""
        outcome = self._outcome.get()
        note_waiting(outcome.waiting)
        if outcome.error is not None:
            raise outcome.error.with_traceback(outcome.traceback)
        return outcome.value  # type: ignore[return-value]  # there, since there is no error

    @property
    def waiting(self) -> bool:
        """Whether something that it was computed from is running."""
        return self._outcome.get().waiting

    def follow(self) -> AsyncGenerator[Glimpse]:
        """Its values as they change, until nothing runs any more that it depends on."""
        return follow(self._glimpse)

    def _glimpse(self) -> Glimpse:
        outcome = self._outcome.get()
        return Glimpse(outcome.value, outcome.error, not outcome.waiting)

    def _compute(self) -> _Outcome[T]:
        with reading() as found:
            try:
                value = self._function()
            except Exception as error:  # noqa: BLE001 - raised again where it is read
                return _Outcome(None, error, error.__traceback__, found.waiting)
        return _Outcome(value, None, None, found.waiting)


def computed(function: Callable[[], T]) -> Computed[T]:
    """A value derived from others; also a decorator. ``function`` only reads: it runs again
    whenever something that it read has changed, so it asks no clock and throws no dice."""
    return Computed(function)


def _same(one: _Outcome[T], other: _Outcome[T]) -> bool:
    return (
        one.error is None
        and other.error is None
        and one.value is other.value
        and one.waiting == other.waiting
    )


__all__ = [
    "Computed",
    "Reactive",
    "Readable",
    "Signal",
    "batch",
    "cell",
    "computed",
    "note_waiting",
    "reading",
    "refuse_in_computed",
]
