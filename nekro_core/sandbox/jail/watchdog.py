"""Limits the whole process tree of each box, which it measures ten times a second.

``RLIMIT_DATA`` is per process: four children of 200 MB each pass a limit of 256. A cgroup would do
this in the kernel; where one can be made it takes this class's place.
"""

from collections.abc import Callable, Iterable

import anyio
import anyio.to_thread

from nekro_core.sandbox.box import StopReason
from nekro_core.sandbox.guest.guest_wire import OPEN_FILES
from nekro_core.sandbox.jail import process_tree
from nekro_core.sandbox.jail.process import JailProcesses
from nekro_core.sandbox.link.box_connection import BoxConnection
from nekro_core.sandbox.memory_limit import LOOK_S, MemoryLimit

_MARGIN = 32 * 1024 * 1024
"""What supervisor, launcher and interpreter use themselves."""
_SOON_S = 0.02
_PIPE_END = 4096
"""Half of what a pipe holds once its user has many (``pipe-user-pages-soft``); the first ones hold
64 MB together. Other descriptors hold less, sockets are counted besides."""
_FORKS_SHARE = 4
"""Times its memory that a box's processes may have if each counts what it shares with others as
its own: 64 of them with numpy loaded have that. Beyond it nothing is measured any more, which
bounds what measuring costs."""


class Watchdog:
    """Looks at every box in which something strange may run: ends runs or commands, whichever use
    more, over their memory, and counts hidden work of runs."""

    def __init__(
        self,
        boxes: Callable[[], Iterable[tuple[BoxConnection, JailProcesses]]],
        total: MemoryLimit | None = None,
    ) -> None:
        """``total`` looks at all of them each time they were measured."""
        self._boxes = boxes
        self._total = total
        self._looks = 0
        self._fast = False
        """Whether some box grows so fast that it would be far over its bound at the next look."""
        self._last: dict[str, float] = {}

    async def watch(self) -> None:
        """Until cancelled."""
        while True:
            # Those that were busy are measured once more, to know what is left of it.
            # Of the others one at each look, for what they give back while they wait.
            boxes = list(self._boxes())
            self._looks += 1
            chosen = [
                pair
                for place, pair in enumerate(boxes)
                if pair[0].busy
                or pair[0].box_id in self._last
                or not pair[0].used_bytes
                or place == self._looks % len(boxes)
            ]
            before, self._last = self._last, {}
            self._fast = False
            # Side by side: one whose pages have to be counted must not keep the others waiting.
            async with anyio.create_task_group() as looking:
                for box, processes in chosen:
                    looking.start_soon(self._look, box, processes, before.get(box.box_id))
            if self._total is not None:
                self._total.look()
            await anyio.sleep(_SOON_S if self._fast else LOOK_S)

    async def _look(
        self, box: BoxConnection, processes: JailProcesses, spent_before: float | None
    ) -> None:
        commands = processes.commands(box.executor_pid)
        of_run = set(processes.tree()) - commands
        by_commands = process_tree.usage(commands)
        by_run = process_tree.usage(of_run)
        # Waiting is free, but a run that computes while it says that it waits pays for it. What it
        # has commands compute is theirs: they have limits of their own.
        spent = 0.0 if spent_before is None else by_run.processor_s - spent_before
        if spent > 0 and box.run is not None and not box.run.is_running_code:
            box.run.charge(min(spent, LOOK_S))
        if not box.executor_pid and box.run is not None and processes.starved():
            # The kernel kills one process and leaves the others waiting: all of the run goes. Where
            # there are commands too nobody knows whose it was.
            _end_for_memory(box)
        bound = box.spec.memory_bytes + _MARGIN
        used = (by_run.memory_bytes, by_commands.memory_bytes)
        in_kernel = _of_kernel(processes, of_run, commands)
        busy = box.busy
        if busy and sum(used) + sum(in_kernel) > bound:
            run, executor = box.run, box.executor_pid
            if sum(used) <= bound * _FORKS_SHARE:
                used = await anyio.to_thread.run_sync(_shares, of_run, commands)
            still_so = (box.run, box.executor_pid) == (run, executor)
            if still_so and sum(used) + sum(in_kernel) > bound:
                _end_greedier(box, used[0] + in_kernel[0], used[1] + in_kernel[1])
        before = box.used_bytes
        box.used_bytes = sum(used) + sum(in_kernel) + processes.files_bytes()
        self._fast = self._fast or box.used_bytes - before > _MARGIN
        if busy:
            self._last[box.box_id] = by_run.processor_s


def _of_kernel(processes: JailProcesses, of_run: set[int], commands: set[int]) -> tuple[int, int]:
    """What the kernel holds for either in pipes and sockets, which no process has mapped.

    Whose sockets they are is not told, since some may wait in others' queues: each has a share by
    its descriptors. Where that ends the wrong one, the next look ends the other.
    """
    open_files = (
        process_tree.descriptors(of_run, OPEN_FILES),
        process_tree.descriptors(commands, OPEN_FILES),
    )
    sockets = processes.kernel_memory()
    all_files = max(sum(open_files), 1)
    by_run, by_commands = (count * _PIPE_END + sockets * count // all_files for count in open_files)
    return by_run, by_commands


def _shares(of_run: set[int], commands: set[int]) -> tuple[int, int]:
    """Memory of either, in which pages that forks still share count once."""
    return process_tree.proportional_memory(of_run), process_tree.proportional_memory(commands)


def _end_greedier(box: BoxConnection, by_run: int, by_commands: int) -> None:
    if box.run is None or by_commands > by_run:
        box.stop_commands()
    else:
        _end_for_memory(box)


def _end_for_memory(box: BoxConnection) -> None:
    if box.run is not None:
        box.run.stop(
            StopReason.OUT_OF_MEMORY,
            f"the code used more than {box.spec.memory_bytes // 1024**2} MB and was stopped",
        )
