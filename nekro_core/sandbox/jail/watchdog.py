"""Measures the memory of all processes of each box ten times a second, and limits it.

``RLIMIT_DATA`` limits only single processes: with a limit of 256 MB, four children may use 200 MB
each. If a cgroup can be made, the kernel limits all processes together too.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import anyio
import anyio.to_thread

from nekro_core.sandbox.box import StopReason
from nekro_core.sandbox.guest.guest_wire import OPEN_FILES
from nekro_core.sandbox.jail import process_tree
from nekro_core.sandbox.jail.process import JailProcesses
from nekro_core.sandbox.link.box_connection import BoxConnection
from nekro_core.sandbox.memory_limit import LOOK_S, MemoryLimit

_MARGIN = 32 * 1024 * 1024
"""Bytes of memory that the supervisor, the launcher (bubblewrap) and the interpreter need. They are
added to the box's memory limit."""
_SOON_S = 0.02
_PIPE_END = 4096
"""The number of bytes that is counted for each open descriptor. It is half of a pipe's buffer,
because a pipe has two descriptors. A new pipe gets this buffer if its user has many pipes
(``pipe-user-pages-soft``). The first pipes of a user have larger buffers, 64 MB together. Other
descriptors use less. Sockets are counted separately."""
_FORKS_SHARE = 4
"""The first measurement counts a shared page again for each process that maps it. If its sum is
above the limit, but at most this many times the limit, a slower measurement counts shared pages
only once. For example, 64 processes with numpy loaded need this slower measurement. If the sum is
larger, the box counts as over its limit. This bounds the cost of the slower measurement."""


class Watchdog:
    """Measures the boxes. If a box is over its memory limit, the watchdog ends its run or its
    commands, depending on which of them use more. If a run computes while it pretends to wait, the
    watchdog adds the processor time to the run's own time."""

    def __init__(
        self,
        boxes: Callable[[], Iterable[tuple[BoxConnection, JailProcesses]]],
        total: MemoryLimit | None = None,
    ) -> None:
        """``total`` limits the memory of all boxes together. It is checked after each
        measurement."""
        self._boxes = boxes
        self._total = total
        self._looks = 0
        self._fast = False
        """Whether a box grows so fast that it may soon be far over its limit."""
        self._last: dict[str, float] = {}

    async def watch(self) -> None:
        """Measure until cancelled."""
        while True:
            # A box is measured while it is busy and once after that. Idle boxes may free memory
            # later, so one of them is measured each time.
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
            used_before = [box.used_bytes for box, _ in chosen]
            over = [
                found
                for box, processes in chosen
                if (found := self._look(box, processes, before.get(box.box_id)))
            ]
            if over:
                # The slower measurements run at the same time, so that one does not delay the
                # others.
                async with anyio.create_task_group() as measuring:
                    for each in over:
                        measuring.start_soon(_end_if_over, each)
            self._fast = any(
                box.used_bytes - used > _MARGIN
                for (box, _), used in zip(chosen, used_before, strict=True)
            )
            if self._total is not None:
                self._total.look()
            await anyio.sleep(_SOON_S if self._fast else LOOK_S)

    def _look(
        self, box: BoxConnection, processes: JailProcesses, spent_before: float | None
    ) -> "_BoxMemory | None":
        """Measure a box. Returns what was measured if a busy box seems to be over its limit."""
        commands = processes.commands(box.executor_pid)
        of_run = set(processes.tree()) - commands
        by_commands = process_tree.usage(commands)
        by_run = process_tree.usage(of_run)
        # The time in which a run waits does not count. So if a run computes while it says that it
        # waits, its processor time is added to its own time. The time of commands is not counted
        # here, because they have their own limits.
        spent = 0.0 if spent_before is None else by_run.processor_s - spent_before
        if spent > 0 and box.run is not None and not box.run.is_running_code:
            box.run.charge(min(spent, LOOK_S))
        if not box.executor_pid and box.run is not None and processes.starved():
            # The kernel killed one process, and the run's other processes may wait for it without
            # end. So the run is ended. This is skipped while there are commands, because then the
            # killed process may belong to a command.
            _end_for_memory(box)
        found = _BoxMemory(
            box,
            of_run,
            commands,
            used=(by_run.memory_bytes, by_commands.memory_bytes),
            in_kernel=_of_kernel(processes, of_run, commands),
            files=processes.files_bytes(),
        )
        if box.busy:
            self._last[box.box_id] = by_run.processor_s
            if found.is_over:
                return found
        box.used_bytes = found.total
        return None


@dataclass(slots=True)
class _BoxMemory:
    """The memory of a box in bytes. ``used`` and ``in_kernel`` are those of the run's processes and
    of the commands. ``files`` is that of files in memory, which does not count for the limit."""

    box: BoxConnection
    of_run: set[int]
    commands: set[int]
    used: tuple[int, int]
    in_kernel: tuple[int, int]
    files: int

    @property
    def total(self) -> int:
        return sum(self.used) + sum(self.in_kernel) + self.files

    @property
    def bound(self) -> int:
        return self.box.spec.memory_bytes + _MARGIN

    @property
    def is_over(self) -> bool:
        return sum(self.used) + sum(self.in_kernel) > self.bound


async def _end_if_over(found: _BoxMemory) -> None:
    """Measure a box again that seems to be over its limit, so that shared pages count once. If it
    is over its limit, end its run or its commands."""
    box = found.box
    run, executor = box.run, box.executor_pid
    if sum(found.used) <= found.bound * _FORKS_SHARE:
        found.used = await anyio.to_thread.run_sync(_shares, found.of_run, found.commands)
    if (box.run, box.executor_pid) == (run, executor) and found.is_over:
        by_run, by_commands = map(sum, zip(found.used, found.in_kernel, strict=True))
        _end_greedier(box, by_run, by_commands)
    box.used_bytes = found.total


def _of_kernel(processes: JailProcesses, of_run: set[int], commands: set[int]) -> tuple[int, int]:
    """Estimate the kernel memory of pipes and sockets: of the run, and of the commands.

    The kernel does not show which process owns a socket: some sockets are in the queues of other
    sockets. So the memory of all sockets is divided in proportion to the open descriptors. This
    division may be wrong: the run may be ended because of sockets that belong to the commands, or
    the commands because of sockets of the run. Then the next measurement finds the box over its
    limit again, and the other of the two is ended too.
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
    """Return the memory of the run and of the commands, in bytes. Pages that forked processes share
    count once."""
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
