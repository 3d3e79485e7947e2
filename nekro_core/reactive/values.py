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

from nekro_core.reactive.errors import Circle, NotHere
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


class Node:
    """Something that is computed from others. Once it was found to depend on itself it is an error
    for good: a circle that reaktiv is let to close costs every later change an endless recursion.
    """

    name = "a computed value"
    in_circle = False


@dataclass(slots=True)
class _Reading:
    """A computation under way, and what it learns about the values that it reads."""

    node: Node
    outer: "_Reading | None"
    waiting: bool = False


_reading: ContextVar[_Reading | None] = ContextVar("nekro_reactive_reading", default=None)


@contextmanager
def reading(node: Node) -> Iterator[_Reading]:
    """What is read in here is read to compute ``node``. Raises `Circle`."""
    if node.in_circle:
        raise _circle(node)
    token = _reading.set(found := _Reading(node, _reading.get()))
    try:
        yield found
    finally:
        _reading.reset(token)


def read(node: Node, kept: reaktiv.Signal[T]) -> T:
    """The value that reaktiv keeps for a node. Raises `Circle` for one that is being computed, and
    for one that ever was in a circle: nothing of it is read any more."""
    if node.in_circle:
        raise _circle(node)
    line: list[Node] = []
    found = _reading.get()
    while found is not None:
        line.append(found.node)
        if found.node is node:
            for each in line:
                each.in_circle = True
            raise _circle(node)
        found = found.outer
    try:
        return kept.get()
    except RuntimeError as error:
        if type(error) is not RuntimeError:
            raise
        # Reaktiv's own word: it was not computing, but looking whether it has to.
        node.in_circle = True
        raise _circle(node) from None


def _circle(node: Node) -> Circle:
    return Circle(f"{node.name} depends on itself")


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


class Computed(Node, Generic[T]):
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
        outcome = read(self, self._outcome)
        note_waiting(outcome.waiting)
        if outcome.error is not None:
            raise outcome.error.with_traceback(outcome.traceback)
        return outcome.value  # type: ignore[return-value]  # there, since there is no error

    @property
    def waiting(self) -> bool:
        """Whether something that it was computed from is running."""
        return read(self, self._outcome).waiting

    def follow(self) -> AsyncGenerator[Glimpse]:
        """Its values as they change, until nothing runs any more that it depends on."""
        return follow(self._glimpse)

    def _glimpse(self) -> Glimpse:
        try:
            outcome = read(self, self._outcome)
        except Circle as error:
            return Glimpse(None, error, final=True)
        return Glimpse(outcome.value, outcome.error, not outcome.waiting)

    def _compute(self) -> _Outcome[T]:
        waiting = False
        try:
            with reading(self) as found:
                try:
                    value = self._function()
                finally:
                    waiting = found.waiting
        except Exception as error:  # noqa: BLE001 - raised again where it is read
            return _Outcome(None, error, error.__traceback__, waiting)
        return _Outcome(value, None, None, waiting)


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
    "Node",
    "Reactive",
    "Readable",
    "Signal",
    "batch",
    "cell",
    "computed",
    "note_waiting",
    "read",
    "reading",
    "refuse_in_computed",
]
