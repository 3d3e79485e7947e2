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
        """Read the value; the same as `get`.

        Returns:
            The value now. What reads it inside of a `computed` depends on it.
        """

    def get(self) -> T_co:
        """Read the value.

        Returns:
            The value now. What reads it inside of a `computed` depends on it.
        """


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
    token = _reading.set(current := _Reading(node, _reading.get()))
    try:
        yield current
    finally:
        _reading.reset(token)


def read(node: Node, signal: reaktiv.Signal[T]) -> T:
    """The value that reaktiv keeps for a node. Raises `Circle` for one that is being computed, and
    for one that ever was in a circle: nothing of it is read any more."""
    if node.in_circle:
        raise _circle(node)
    line: list[Node] = []
    current = _reading.get()
    while current is not None:
        line.append(current.node)
        if current.node is node:
            for each in line:
                each.in_circle = True
            raise _circle(node)
        current = current.outer
    try:
        return signal.get()
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
    if waiting and (current := _reading.get()) is not None:
        current.waiting = True


def refuse_in_computed(what: str) -> None:
    """Raise `NotHere` inside of a computation."""
    if _reading.get() is not None:
        raise NotHere(
            f"{what} is made inside of a computed value, which only reads: make it before"
        )


def cell(value: T) -> Signal[T]:
    """Make a value that can be set: ``get()``, ``set(new)``, ``update(function)``.

    Set a new object instead of changing the one inside: a change is recognized by identity. Put
    several sets that belong together under ``with batch():``. Raises `NotHere` inside of a
    `computed`.

    Args:
        value: The first value, of any type.

    Returns:
        Reaktiv's ``Signal``, which cells and computed values take as an input.
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

    An exception of the function is kept like a value: every reading raises it, without computing
    again. Raises `NotHere` when it is made inside of another computation.

    Args:
        function: Computes the value. It takes nothing and only reads other values.
    """

    def __init__(self, function: Callable[[], T]) -> None:
        refuse_in_computed("a computed value")
        self._function = function
        self._outcome = reaktiv.Computed(self._compute, equal=_same)

    def __call__(self) -> T:
        """Read the value; the same as `get`.

        Returns:
            What the function returned.
        """
        return self.get()

    def get(self) -> T:
        """Compute the value if something that the function read has changed, and read it.

        Returns:
            What the function returned.

        Raises:
            Exception: What the function raised, of its own type.
            Circle: The value depends on itself.
        """
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
        """Watch the value change.

        Returns:
            An iterator of `Glimpse`: the value now, and after each change. It ends when nothing
            that the value depends on runs any more. Values between two readings of a slow reader
            are left out; the last one never is. Close it early with `contextlib.aclosing`.
        """
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
            with reading(self) as current:
                try:
                    value = self._function()
                finally:
                    waiting = current.waiting
        except Exception as error:  # noqa: BLE001 - raised again where it is read
            return _Outcome(None, error, error.__traceback__, waiting)
        return _Outcome(value, None, None, waiting)


def computed(function: Callable[[], T]) -> Computed[T]:
    """Derive a value from others; also a decorator.

    Args:
        function: Computes the value. It takes nothing and only reads: it runs again whenever
            something that it read has changed, so it must not ask a clock or draw random numbers.

    Returns:
        The value, to be read with ``get()`` or by calling it.
    """
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
