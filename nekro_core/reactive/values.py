"""Makes values on which other values depend. `cell` holds a value, and `computed` derives a value.

A `computed` depends on the values that it reads. An `AsyncCell` depends on its inputs. The library
reaktiv stores these dependencies. This module adds two things. An error is stored like a value. And
each value says whether it is final or depends on a function that still runs.
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
    """An object with a value that may change: a cell, a computed value or an `AsyncCell`."""

    def __call__(self) -> T_co:
        """Read the value; the same as `get`.

        Returns:
            The value now. A `computed` that reads it depends on it.
        """

    def get(self) -> T_co:
        """Read the value.

        Returns:
            The value now. A `computed` that reads it depends on it.
        """


Reactive: TypeAlias = T | Readable[T]
"""An input: a plain value or a `Readable`."""


class Node:
    """A value that is computed from other values.

    When a value is found to depend on itself, reading it raises `Circle` from then on. It is not
    computed again, because reaktiv would recurse without end on every later change.
    """

    name = "a computed value"
    in_circle = False


@dataclass(slots=True)
class _Reading:
    """A running computation. ``waiting`` says that it has read a value that is not final."""

    node: Node
    outer: "_Reading | None"
    waiting: bool = False


_reading: ContextVar[_Reading | None] = ContextVar("nekro_reactive_reading", default=None)


@contextmanager
def reading(node: Node) -> Iterator[_Reading]:
    """Record that all reads in the block are done by ``node``. Raises `Circle`."""
    if node.in_circle:
        raise _circle(node)
    token = _reading.set(current := _Reading(node, _reading.get()))
    try:
        yield current
    finally:
        _reading.reset(token)


def read(node: Node, signal: reaktiv.Signal[T]) -> T:
    """Read the value of a node from reaktiv. Raises `Circle` if the node is being computed, or if
    an earlier read found that the node depends on itself."""
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
        # Here reaktiv itself has found the circle, when it checked whether it must compute the
        # value again.
        node.in_circle = True
        raise _circle(node) from None


def _circle(node: Node) -> Circle:
    return Circle(f"{node.name} depends on itself")


def note_waiting(waiting: bool) -> None:
    """If ``waiting`` is true, record that the running computation has read a value that is not
    final."""
    if waiting and (current := _reading.get()) is not None:
        current.waiting = True


def refuse_in_computed(what: str) -> None:
    """Raise `NotHere` if this is called inside of a computation."""
    if _reading.get() is not None:
        raise NotHere(
            f"{what} is made inside of a computed value, which only reads: make it before"
        )


def cell(value: T) -> Signal[T]:
    """Make a value that can be set. It has ``get()``, ``set(new)`` and ``update(function)``.

    Set a new object instead of changing the present object: a change is recognized by identity. Put
    several ``set`` calls that belong together under ``with batch():``. Raises `NotHere` inside of a
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
    """A value derived from other values. A read computes it if a value that it depends on has
    changed.

    An exception of the function is stored like a value: every read raises it, without computing
    again. Making a `Computed` inside of another computation raises `NotHere`.

    Args:
        function: Computes the value. It takes no arguments and only reads other values.
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
        """Read the value. It is computed first if a value that the function read has changed.

        Returns:
            What the function returned.

        Raises:
            Exception: The exception that the function raised, with its own type.
            Circle: The value depends on itself.
        """
        outcome = read(self, self._outcome)
        note_waiting(outcome.waiting)
        if outcome.error is not None:
            raise outcome.error.with_traceback(outcome.traceback)
        return outcome.value  # type: ignore[return-value]  # set, because there is no error

    @property
    def waiting(self) -> bool:
        """Return True if the value depends on a function that is running."""
        return read(self, self._outcome).waiting

    def follow(self) -> AsyncGenerator[Glimpse]:
        """Watch the value change.

        Returns:
            An iterator of `Glimpse`: the value now, and after each change. It ends when no function
            that the value depends on runs any more. A slow reader misses values in between, but
            never the last value. To close it early, use `contextlib.aclosing`.
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
        except Exception as error:  # noqa: BLE001 - `get` raises it
            return _Outcome(None, error, error.__traceback__, waiting)
        return _Outcome(value, None, None, waiting)


def computed(function: Callable[[], T]) -> Computed[T]:
    """Derive a value from other values. It can be used as a decorator.

    Args:
        function: Computes the value. It takes no arguments and only reads. It runs again only when
            a value that it read has changed, so its result must not depend on the time or on random
            numbers.

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
