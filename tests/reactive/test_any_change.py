"""Inputs change at any time. Cells never show a mix of old and new inputs, and leave no task
behind.

Hypothesis chooses delays, failures and slow clean-ups for each cell of this graph::

    left ──▶ [first] ──┐
      └────────────────┼──▶ glance = (left, right, all three states)
    right ─────────────┴──▶ [second: first and right] ──▶ [third]
"""

import asyncio
import os
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import anyio
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from reaktiv import Effect

from nekro_core.api.reactive import (
    AsyncCell,
    CellState,
    Resources,
    Scope,
    batch,
    cell,
    computed,
    load,
    scope,
)
from tests.reactive.virtual_time import VirtualLoop

EXAMPLES = int(os.environ.get("NEKRO_PROPERTY_EXAMPLES", "30"))
"""The number of examples. To run more: ``NEKRO_PROPERTY_EXAMPLES=2000 make test
ARGS=tests/reactive``."""

WORDS = st.sampled_from([None, "", "a", "b", "c", "d"])
DELAYS = st.sampled_from([0.0, 0.0, 0.1, 1.0, 3.0])


class Unlucky(Exception):
    """The error of a load that hypothesis has chosen to fail."""


@dataclass
class Weather:
    """Says for each load how long it takes, whether it fails, and how long it takes to stop when it
    is cancelled."""

    delays: dict[str, float] = field(default_factory=dict)
    unlucky: set[str] = field(default_factory=set)
    stops: dict[str, float] = field(default_factory=dict)
    at_work: Counter[str] = field(default_factory=Counter)
    most: Counter[str] = field(default_factory=Counter)
    runs: Counter[str] = field(default_factory=Counter)

    async def work(self, name: str, *words: str) -> str:
        made = f"{name}({'+'.join(words)})"
        self.runs[name] += 1
        self.at_work[name] += 1
        self.most[name] = max(self.most[name], self.at_work[name])
        try:
            await anyio.sleep(self.delays.get(made[-4:], 0.0))
            if any(word in made for word in self.unlucky):
                raise Unlucky(made)
            return made
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(self.stops.get(name, 0.0))
            self.at_work[name] -= 1


class ThreeCells(RuleBasedStateMachine):
    """Inputs change, time passes, and cells are refreshed, in any order. At the end the scope
    closes."""

    scope: Scope

    @initialize()
    def open(self) -> None:
        self.loop = VirtualLoop()
        self.weather = Weather()
        self.left: Any = cell(None)
        self.right: Any = cell(None)
        self.cells: dict[str, AsyncCell[str]] = {}
        self.glances: list[tuple[Any, Any, list[CellState[str]]]] = []
        self.do(self._open())

    async def _open(self) -> None:
        opened, self.leave = anyio.Event(), anyio.Event()
        self.owner = asyncio.create_task(self._own(opened))
        await opened.wait()

    async def _own(self, opened: anyio.Event) -> None:
        async with scope(Resources()) as self.scope:
            self._make()
            opened.set()
            await self.leave.wait()

    def _make(self) -> None:
        async def first(word: str) -> str:
            return await self.weather.work("first", word)

        async def second(word: str, other: str) -> str:
            return await self.weather.work("second", word, other)

        async def third(word: str) -> str:
            return await self.weather.work("third", word)

        one = load(first, word=self.left)
        two = load(second, word=computed(lambda: one.result), other=self.right)
        self.cells = {"first": one, "second": two, "third": load(third, word=two)}
        everything = computed(
            lambda: (self.left(), self.right(), [each.state for each in self.cells.values()])
        )
        # The effect runs during each change, so it would see a mix of old and new values.
        self.observer = Effect(lambda: self.glances.append(everything()))

    def do(self, work: Any) -> Any:
        return self.loop.run_until_complete(work)

    # ---- the changes --------------------------------------------------------------------------

    @rule(left=WORDS)
    def set_left(self, left: str | None) -> None:
        self.do(self._set(left=left))

    @rule(right=WORDS)
    def set_right(self, right: str | None) -> None:
        self.do(self._set(right=right))

    @rule(left=WORDS, right=WORDS, again=WORDS)
    def set_several_at_once(self, left: str | None, right: str | None, again: str | None) -> None:
        self.do(self._set(left=left, right=right, again=again))

    @rule(name=st.sampled_from(["first", "second", "third"]))
    def ask_again(self, name: str) -> None:
        self.do(self._refresh(name))

    @rule(seconds=st.sampled_from([0.0, 0.05, 0.5, 2.0, 20.0]))
    def wait(self, seconds: float) -> None:
        self.do(anyio.sleep(seconds))

    @rule(word=st.sampled_from(["a)", "b)", "c)", "+d)"]), delay=DELAYS)
    def take_longer(self, word: str, delay: float) -> None:
        self.weather.delays[word] = delay

    @rule(name=st.sampled_from(["first", "second", "third"]), delay=DELAYS)
    def stop_more_slowly(self, name: str, delay: float) -> None:
        self.weather.stops[name] = delay

    @precondition(lambda self: not self.scope.busy)
    @rule(words=st.sets(st.sampled_from(["first(b", "second(", "+c", "third("]), max_size=2))
    def change_luck(self, words: set[str]) -> None:
        """Change which loads fail. Then each cell is refreshed, so that the shown states agree with
        the new choice."""
        self.weather.unlucky = words
        for name in self.cells:
            self.do(self._refresh(name))

    @rule()
    def settle(self) -> None:
        self.do(self.scope.settled())
        runs = self.weather.runs.copy()
        states = [each.state for each in self.cells.values()]
        assert [self._shown(state) for state in states] == self._expected()
        self.do(self._set(left=self.left(), right=self.right()))
        self.do(self.scope.settled())
        assert self.weather.runs == runs, "inputs that were used before must not run a load again"

    async def _set(self, **values: str | None) -> None:
        with batch():
            for name, value in values.items():
                (self.right if name == "right" else self.left).set(value)
                self._check_now()
        self._check_now()

    async def _refresh(self, name: str) -> None:
        self.cells[name].refresh()
        self._check_now()

    # ---- what must always be true -------------------------------------------------------------

    @invariant()
    def nothing_torn_and_nothing_stale(self) -> None:
        for left, right, states in self.glances:
            self._check(left, right, states)
        self.glances.clear()

    @invariant()
    def one_task_a_cell(self) -> None:
        assert all(most <= 1 for most in self.weather.most.values()), self.weather.most

    def teardown(self) -> None:
        if not hasattr(self, "owner"):
            return
        try:
            self.leave.set()
            self.do(self.owner)
            assert not +self.weather.at_work, "a load runs after its scope has ended"
            assert not asyncio.all_tasks(self.loop)
            assert not any(each.pending or each.waiting for each in self.cells.values())
            self.observer.dispose()
        finally:
            self.loop.close()

    def _check_now(self) -> None:
        self._check(self.left(), self.right(), [each.state for each in self.cells.values()])

    def _check(self, left: str | None, right: str | None, states: list[CellState[str]]) -> None:
        """Each cell is idle, pending, done or failed, and its value was computed from the present
        inputs."""
        for state in states:
            shown = (state.pending, state.result is not None, state.error is not None)
            assert sum(shown) <= 1, state
        first, second, third = states
        made = [f"first({left})"]
        made.append(f"second({made[0]}+{right})")
        made.append(f"third({made[1]})")
        for state, of_now in zip(states, made, strict=True):
            if state.result is not None:
                assert state.result == of_now
            if state.error is not None:
                assert str(state.error) == of_now
        assert first.pending or first.result or first.error or not left
        if first.result is None or not right:
            assert (second.pending, second.result, second.error) == (False, None, None)
        if second.result is None:
            assert (third.pending, third.result, third.error) == (False, None, None)

    def _expected(self) -> list[str]:
        """What the cells must show when nothing runs any more, computed from the inputs."""
        left, right = self.left(), self.right()
        shown: list[str] = []
        made: str | None = left or None
        for name in ("first", "second", "third"):
            if made is None or (name == "second" and not right):
                made = None
                shown.append("idle")
                continue
            made = f"{name}({made}+{right})" if name == "second" else f"{name}({made})"
            failed = any(word in made for word in self.weather.unlucky)
            shown.append(f"failed: {made}" if failed else made)
            made = None if failed else made
        return shown

    @staticmethod
    def _shown(state: CellState[str]) -> str:
        assert not state.pending
        return f"failed: {state.error}" if state.error else state.result or "idle"


ThreeCells.TestCase.settings = settings(
    max_examples=EXAMPLES, stateful_step_count=25, deadline=None, print_blob=True
)
TestThreeCells = ThreeCells.TestCase
