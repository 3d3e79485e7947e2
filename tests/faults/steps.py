"""Kill the process at the n-th step of its tasks.

A step is what a task does between two awaits that suspended it, so a kill before each step is a
kill at every await. The process writes its count into a file that the test reads. When the count
reaches the number that the test has set, the process kills itself with SIGKILL.
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
"""The number of steps taken, and the step at which to kill (0: never)."""


class Steps:
    """The shared file of one process: its count of steps, and the step at which to kill it."""

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
        """Kill the process before this step, or before its next step if this one is past."""
        with self._file.open("r+b") as file:
            file.seek(8)
            file.write(struct.pack("<q", step))


def install(environment: Mapping[str, str]) -> None:
    """Count the steps of this process from now on, if its environment asks for it. Each event loop
    that uvloop makes then wraps the coroutines of its tasks."""
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
    """Counts each step of a coroutine. Attributes that anyio reads come from that coroutine."""

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
