"""`AsyncCell`: ``pending``, ``result`` and ``error`` of an asynchronous function.

A cell stores each finished outcome under the key of its inputs. The cell's state is computed from
the present inputs and the stored outcomes. So the state is never stale, and ``pending``, ``result``
and ``error`` always belong to the same inputs. While the present inputs have no outcome, the cell
is pending, and one task computes the outcome. Runs do not overlap. If the inputs change during a
run, its outcome is dropped.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping
from contextlib import aclosing
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

import anyio
import reaktiv
from reaktiv import Effect, Signal, batch, untracked

from nekro_core.reactive.errors import Circle
from nekro_core.reactive.follow import Glimpse, follow
from nekro_core.reactive.inputs import InputSnapshot, read_inputs
from nekro_core.reactive.scope import current_scope
from nekro_core.reactive.values import (
    Computed,
    Node,
    note_waiting,
    read,
    refuse_in_computed,
)

T = TypeVar("T")

Load = Callable[[InputSnapshot], Awaitable[T]]
"""The function of a cell. It gets a private copy of the inputs. The copy leaves out inputs that are
None."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CellState(Generic[T]):
    """The state of a cell at one moment: idle, running, done or failed. A cell is idle while an
    input that it needs is missing.

    Attributes:
        pending: Whether the cell's function runs now.
        result: What the function returned for the present inputs; None while there is no result.
        error: The exception that the function raised for the present inputs; None otherwise.
        serial: How many outcomes (results and errors) the cell has had so far.
    """

    pending: bool = False
    result: T | None = None
    error: Exception | None = None
    serial: int = 0


MAX_CAUSES: Final = 100
"""Maximum number of runs in a row in which each run causes the next one. Without this bound, a
function that sets an input of its own cell would run for ever, and models cost money."""

_causes: ContextVar[int] = ContextVar("nekro_reactive_causes", default=0)
"""How many runs in a row have led to the present run."""

IDLE: CellState[Any] = CellState()
RUNNING: CellState[Any] = CellState(pending=True)


@dataclass(frozen=True, slots=True, eq=False)
class _Shown(Generic[T]):
    state: CellState[T]
    waiting: bool


class AsyncCell(Node, Generic[T]):
    """The cell that `fetch_data`, `exec_` and `load` return. It ends when its scope ends.

    A `computed` that reads ``pending``, ``result``, ``error`` or ``state`` depends on the cell. A
    cell that needs this cell as an input is idle until this cell has a result. Making a cell raises
    `NoScope` outside of a scope and `NotHere` inside of a `computed`.

    Args:
        load: Runs for each new set of inputs, one call at a time. It gets an `InputSnapshot`, a
            private copy of the inputs, and must tolerate cancellation.
        inputs: Plain data or reactive values by name, at most 32 MiB together (`MAX_INPUT`). An
            input that cannot be compared makes the cell fail with `BadInput`.
        name: The name of the cell in errors, and of its task.
        needed: The names of the inputs without which the cell is idle. None and empty values count
            as missing.
        present: The names of more inputs without which the cell is idle. Of these inputs, only None
            counts as missing; an empty value does not.
        remember: How many outcomes the cell stores, each under its inputs. If the inputs change
            back to inputs with a stored outcome, ``load`` does not run again.
    """

    def __init__(
        self,
        load: Load[T],
        inputs: Mapping[str, Any],
        *,
        name: str,
        needed: Collection[str] = (),
        present: Collection[str] = (),
        remember: int = 1,
    ) -> None:
        refuse_in_computed(name)
        self.name = name
        self._load = load
        self._remember = remember
        self._scope = current_scope()
        self._serial = 0
        self._salt = Signal(0)
        self._closed = Signal(False)
        self._outcomes: Signal[dict[str, CellState[T]]] = Signal({})
        self._inputs = reaktiv.Computed(
            lambda: read_inputs(self, inputs, needed, present, self._salt.get())
        )
        self._shown = reaktiv.Computed(self._show, equal=_same)
        self._wanted: InputSnapshot | None = None
        self._causes = 0
        self._running: anyio.CancelScope | None = None
        self._working = False
        self._scope.own(self)
        self._effect = Effect(self._react)

    # ---- state --------------------------------------------------------------------------------

    @property
    def state(self) -> CellState[T]:
        """The pending flag, the result and the error, read together."""
        shown = self._seen()
        note_waiting(shown.waiting)
        return shown.state

    @property
    def pending(self) -> bool:
        """Return True if the function runs."""
        return self.state.pending

    @property
    def result(self) -> T | None:
        """The result for the present inputs; None while there is no result."""
        return self.state.result

    @property
    def error(self) -> Exception | None:
        """The error for the present inputs. After an error, the function runs again only when the
        inputs change or `refresh` is called."""
        return self.state.error

    @property
    def waiting(self) -> bool:
        """Return True if the function of this cell runs, or the function of a cell that the inputs
        depend on."""
        return self._seen().waiting

    @property
    def key(self) -> str:
        """A hash of the present inputs; empty while the cell is idle."""
        return self._wants().key

    def get(self) -> T | None:
        """Read the result; the same as ``result``. Another cell that has this cell as an input
        calls this.

        Returns:
            The result for the present inputs; None while there is no result.
        """
        return self.result

    def __call__(self) -> T | None:
        """Read the result; the same as ``result``.

        Returns:
            The result for the present inputs; None while there is no result.
        """
        return self.result

    # ---- actions ------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Run the function again with the same inputs. The stored outcomes are deleted."""
        with batch():
            self._outcomes.set({})
            self._salt.update(lambda salt: salt + 1)

    async def settled(self) -> CellState[T]:
        """Wait until the cell and everything that its inputs depend on have stopped running. There
        is no time limit.

        Returns:
            The cell's state after the wait: idle, done or failed.
        """
        async with aclosing(self.follow()) as glimpses:
            async for _ in glimpses:
                pass
        return self._seen().state

    def follow(self) -> AsyncGenerator[Glimpse]:
        """Watch the results and errors change.

        Returns:
            An iterator of `Glimpse`: the state now, and after each change. It ends when the cell
            and everything that its inputs depend on have stopped running. To close it early, use
            `contextlib.aclosing`.
        """
        return follow(self._glimpse)

    def close(self) -> None:
        """Stop the function. The stored outcomes stay."""
        if self._closed.get():
            return
        self._effect.dispose()
        self._wanted = None
        if self._running is not None:
            self._running.cancel()
        self._closed.set(True)
        self._scope.disown(self)

    # ---- inside -------------------------------------------------------------------------------

    def _wants(self) -> InputSnapshot:
        try:
            return read(self, self._inputs)
        except Circle as error:
            return InputSnapshot(problem=error)

    def _seen(self) -> _Shown[T]:
        try:
            return read(self, self._shown)
        except Circle as error:
            return _Shown(CellState(error=error), waiting=False)

    def _show(self) -> _Shown[T]:
        inputs = self._wants()
        closed = self._closed.get()
        if inputs.problem is not None:
            state: CellState[T] = CellState(error=inputs.problem)
        elif not inputs.key:
            state = IDLE
        else:
            outcome = self._outcomes.get().get(inputs.key)
            state = outcome or (IDLE if closed else RUNNING)
        return _Shown(state, state.pending or (inputs.waiting and not closed))

    def _glimpse(self) -> Glimpse:
        shown = self._seen()
        return Glimpse(shown.state.result, shown.state.error, not shown.waiting)

    def _react(self) -> None:
        """The library reaktiv calls this when the inputs or the outcomes may have changed."""
        self._wants()
        self._outcomes.get()
        with untracked():
            self._scope.here(self._follow)

    def _follow(self) -> None:
        """Cancel a run whose inputs have changed, and start a run for the present inputs."""
        if self._closed.get():
            return
        inputs = self._wants()
        wanted = inputs if inputs.key and inputs.key not in self._outcomes.get() else None
        if wanted is not None and self._wanted is not None and wanted.key == self._wanted.key:
            return
        self._wanted, self._causes = wanted, _causes.get()
        if self._running is not None:
            self._running.cancel()
        if wanted is not None and self._causes >= MAX_CAUSES:
            error = Circle(f"{self.name} runs because of itself, {MAX_CAUSES} times by now")
            self._keep(wanted.key, CellState(error=error, serial=self._serial + 1))
        elif wanted is not None and not self._working:
            self._working = True
            self._scope.start(self._work, self.name)

    async def _work(self) -> None:
        """Run the function until the present inputs have an outcome. Runs do not overlap: the box
        of one run is destroyed before the next run starts."""
        try:
            while (wanted := self._wanted) is not None:
                _causes.set(self._causes + 1)
                outcome: CellState[T] | None = None
                with anyio.CancelScope() as self._running:
                    outcome = await self._outcome_of(wanted)
                self._running = None
                if outcome is not None and self._wanted is wanted:
                    self._keep(wanted.key, outcome)
        finally:
            self._working = False
            self._running = None

    async def _outcome_of(self, wanted: InputSnapshot) -> CellState[T]:
        try:
            result, failure = await self._load(wanted), None
        except Exception as error:  # noqa: BLE001 - becomes the cell's ``error``
            result, failure = None, error
        return CellState(result=result, error=failure, serial=self._serial + 1)

    def _keep(self, key: str, outcome: CellState[T]) -> None:
        self._wanted = None
        self._serial = outcome.serial
        outcomes = {**self._outcomes.get(), key: outcome}
        while len(outcomes) > self._remember:
            del outcomes[next(iter(outcomes))]
        self._outcomes.set(outcomes)


def _same(one: _Shown[T], other: _Shown[T]) -> bool:
    return one.state is other.state and one.waiting == other.waiting


def after_input(before: Any) -> Any:
    """If ``before`` is a cell, return an input with which another cell waits for the first result
    of ``before``, and runs again after each new result. Any other value is returned unchanged."""
    if isinstance(before, AsyncCell):
        return Computed(lambda: before.state.serial if before.state.result is not None else None)
    return before


def load(
    function: Callable[..., Awaitable[T]], *, needed: Collection[str] | None = None, **inputs: Any
) -> AsyncCell[T]:
    """Make a cell from any asynchronous function.

    Args:
        function: Called with the inputs by name; a reactive input is replaced by its value. It must
            tolerate cancellation. It should not return None, because other cells treat None as a
            missing result.
        needed: The names of the inputs without which the cell is idle. A value that is None or
            empty counts as missing. ``needed=None`` means all inputs.
        inputs: Plain data or reactive values, at most 32 MiB together.

    Returns:
        A cell with the function's result. An exception of the function is its ``error``.

    Raises:
        TypeError: ``needed`` contains a name that is not among the inputs.
    """
    if needed is None:
        needed = inputs
    elif unknown := sorted(set(needed) - inputs.keys()):
        raise TypeError(f"needed: {', '.join(unknown)} is no input; there are {', '.join(inputs)}")

    async def call(given: InputSnapshot) -> T:
        return await function(**given.values)

    name = getattr(function, "__name__", "load")
    return AsyncCell(call, inputs, name=name, needed=needed)
