"""Kill the process before the n-th step of its tasks.

A step is the code that a task runs until an ``await`` suspends it. If a test kills the process once
before each step, it has killed the process at every ``await`` that suspends. The process counts its
steps in a file that the test reads. When the count reaches the number that the test has written
into the file, the process kills itself with SIGKILL.
"""

import asyncio
import mmap
import os
import re
import signal
import struct
from collections.abc import Coroutine, Generator, Mapping
from pathlib import Path
from typing import Any

import uvloop

STEPS_FILE = "FAULT_STEPS"
TASKS = "FAULT_STEPS_TASKS"
_SHARED = struct.Struct("<2q")
"""The number of steps taken, and the number of the step before which the process is killed (0:
never)."""


class Steps:
    """The file that the test and one process share: how many steps the process has taken, and
    before which step it kills itself."""

    def __init__(self, folder: Path, *, tasks: str = "") -> None:
        self._file = folder / "steps"
        self._file.write_bytes(_SHARED.pack(0, 0))
        self.environment = {STEPS_FILE: str(self._file), TASKS: tasks}
        """The environment variables that the process needs. Only tasks whose name matches the
        pattern ``tasks`` are counted; an empty pattern counts all."""

    @property
    def taken(self) -> int:
        """The number of steps that the process has taken since its start."""
        return int(_SHARED.unpack(self._file.read_bytes())[0])

    def kill_at(self, step: int) -> None:
        """Kill the process before this step, or before its next step if it has already taken this
        one."""
        with self._file.open("r+b") as file:
            file.seek(8)
            file.write(struct.pack("<q", step))


def install(environment: Mapping[str, str]) -> None:
    """Count the steps of this process from now on, if ``environment`` has `STEPS_FILE`. Each event
    loop that uvloop makes from now on runs the coroutine of each task inside a `_Counted`."""
    if STEPS_FILE not in environment:
        return
    counter = _Counter(Path(environment[STEPS_FILE]), re.compile(environment.get(TASKS, "")))
    make = uvloop.new_event_loop

    def new_event_loop() -> asyncio.AbstractEventLoop:
        loop = make()

        def factory(
            loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any], **options: Any
        ) -> asyncio.Task[Any]:
            return asyncio.Task(_Counted(work, counter), loop=loop, **options)

        loop.set_task_factory(factory)
        return loop

    uvloop.new_event_loop = new_event_loop


class _Counter:
    def __init__(self, file: Path, tasks: re.Pattern[str]) -> None:
        with file.open("r+b") as opened:
            self._shared = mmap.mmap(opened.fileno(), _SHARED.size)
        self._tasks = tasks
        self._taken = 0
        self._shared[:8] = struct.pack("<q", 0)

    def step(self) -> None:
        task = asyncio.current_task()
        if task is None or not self._tasks.search(task.get_name()):
            return
        self._taken += 1
        self._shared[:8] = struct.pack("<q", self._taken)
        _, kill_at = _SHARED.unpack(self._shared)
        if kill_at and self._taken >= kill_at:
            os.kill(os.getpid(), signal.SIGKILL)


class _Counted(Coroutine[Any, Any, Any]):
    """Runs a coroutine and counts its steps. It also has the coroutine's attributes (``cr_running``
    and others), because anyio reads them to learn the state of a task's coroutine."""

    def __init__(self, work: Coroutine[Any, Any, Any], counter: _Counter) -> None:
        self._work = work
        self._counter = counter

    def send(self, value: Any) -> Any:
        self._counter.step()
        return self._work.send(value)

    def throw(self, *error: Any) -> Any:
        self._counter.step()
        return self._work.throw(*error)

    def close(self) -> None:
        self._work.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._work.__await__()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._work, name)
