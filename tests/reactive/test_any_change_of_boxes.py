"""Commands and images change at any time. There are never too many boxes, none is left over, and no
old result is shown."""

import asyncio
import os
from typing import Any

import anyio
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from nekro_core.api.reactive import AsyncCell, Resources, cell, exec_, sandbox, scope
from tests.reactive.fakes import Yard
from tests.reactive.virtual_time import VirtualLoop

EXAMPLES = int(os.environ.get("NEKRO_PROPERTY_EXAMPLES", "20"))
"""The number of examples. To run more: ``NEKRO_PROPERTY_EXAMPLES=2000 make test
ARGS=tests/reactive``."""

COMMANDS = st.sampled_from([None, "", "a", "b", "c"])
IMAGES = st.sampled_from([None, "python", "other"])
DELAYS = st.sampled_from([0.0, 0.0, 0.1, 1.0, 3.0])


class Boxes(RuleBasedStateMachine):
    """Two commands run in a new box each, and two other commands run in one box that stays."""

    @initialize()
    def open(self) -> None:
        self.loop = VirtualLoop()
        self.yard = Yard()
        self.command: Any = cell(None)
        self.image: Any = cell(None)
        self.do(self._open())

    async def _open(self) -> None:
        opened, self.leave = anyio.Event(), anyio.Event()
        self.owner = asyncio.create_task(self._own(opened))
        await opened.wait()

    async def _own(self, opened: anyio.Event) -> None:
        async with scope(Resources(boxes=self.yard)) as self.scope:
            self.fresh = [self._fresh(name) for name in ("f1", "f2")]
            self.box = sandbox(self.image)
            self.kept = [self.box.exec(self._named(name)) for name in ("k1", "k2")]
            opened.set()
            await self.leave.wait()

    def _fresh(self, name: str) -> AsyncCell[Any]:
        return exec_(self._named(name), image=self.image)

    def _named(self, name: str) -> Any:
        return Named(self.command, name)

    def do(self, work: Any) -> Any:
        return self.loop.run_until_complete(work)

    @rule(command=COMMANDS)
    def set_command(self, command: str | None) -> None:
        self.do(self._set(self.command, command))

    @rule(image=IMAGES, again=IMAGES)
    def set_image(self, image: str | None, again: str | None) -> None:
        self.do(self._set(self.image, image))
        self.do(self._set(self.image, again))

    @rule(seconds=st.sampled_from([0.0, 0.05, 0.5, 2.0, 20.0]))
    def wait(self, seconds: float) -> None:
        self.do(anyio.sleep(seconds))

    @rule(take_s=DELAYS, command_s=DELAYS, end_s=DELAYS, broken=st.booleans())
    def change_the_yard(self, take_s: float, command_s: float, end_s: float, broken: bool) -> None:
        self.yard.take_s, self.yard.command_s, self.yard.end_s = take_s, command_s, end_s
        self.yard.broken = broken

    @rule()
    def mend(self) -> None:
        """Boxes can be made again, and every cell is refreshed. Each cell then gets its result."""
        self.yard.broken = False
        self.do(self._refresh())
        self.do(self.scope.settled())
        wanted = bool(self.command())
        for each in (*self.fresh, *self.kept):
            assert each.error is None, each.error
            assert bool(each.result) == wanted

    @rule()
    def settle(self) -> None:
        self.do(self.scope.settled())
        runs = bool(self.command())
        for each in (*self.fresh, *self.kept):
            assert not each.pending
            assert bool(each.result or each.error) == runs
        assert self.yard.alive <= 1, "the boxes of single commands must be gone; one box may stay"
        if all(each.result for each in self.kept):
            places = {each.result.stdout.rpartition(" ")[2] for each in self.kept}
            assert len(places) == 1, "both commands must run in the same box"

    async def _set(self, which: Any, value: str | None) -> None:
        which.set(value)
        self.nothing_stale()

    async def _refresh(self) -> None:
        for each in (*self.fresh, *self.kept):
            each.refresh()
        self.nothing_stale()

    @invariant()
    def nothing_stale(self) -> None:
        for each in (*self.fresh, *self.kept):
            if each.result is not None:
                told, _, _ = each.result.stdout.rpartition(" in ")
                assert told.endswith(f" {self.command()} on {self.image() or ''}")

    @invariant()
    def none_too_many(self) -> None:
        assert self.yard.alive <= 2 + 1, "at most two boxes for single commands, and one that stays"
        assert all(most <= 1 for most in self.yard.most_busy.values()), self.yard.most_busy

    def teardown(self) -> None:
        if not hasattr(self, "owner"):
            return
        try:
            self.leave.set()
            self.do(self.owner)
            assert self.yard.alive == 0
            assert not +self.yard.busy
            assert not asyncio.all_tasks(self.loop)
            assert self.box.status == "destroyed"
        finally:
            self.loop.close()


class Named:
    """A `Readable` that puts a name before a command, and is None while there is no command."""

    def __init__(self, command: Any, name: str) -> None:
        self._command = command
        self._name = name

    def get(self) -> str | None:
        command = self._command.get()
        return f"{self._name} {command}" if command else None

    def __call__(self) -> str | None:
        return self.get()


Boxes.TestCase.settings = settings(max_examples=EXAMPLES, stateful_step_count=25, deadline=None)
TestBoxes = Boxes.TestCase
