"""Measures the processes of this box, for backends whose host cannot see these processes.

The supervisor sees all of them, because it is process 1 of their PID namespace. The kernel limits
the memory of the box; this module finds out when the kernel killed a process at this limit. But
cgroups of version 1 do not count TCP buffers. So if a box has many sockets, this module compares
the memory of its sockets and processes with the limit. It does not do this for other boxes, because
the sum of the processes' memory is larger than what the box uses. The sum counts a page once for
each process that shares the page.
"""

from __future__ import annotations

import contextlib
import os

import guest_processes
import guest_socket_memory

# This name is not imported from `typing`, because that import takes 4 ms.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_TICKS = os.sysconf("SC_CLK_TCK")
_EVENTS = ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control")
"""Files in which the kernel counts the processes that it killed for lack of memory: for cgroups of
version 2 and of version 1."""

_USED = ("/sys/fs/cgroup/memory.current", "/sys/fs/cgroup/memory/memory.usage_in_bytes")


class MemoryOverrun:
    """What must be ended because the box used too much memory: nothing, the run, or the
    commands."""

    NOBODY, RUN, COMMANDS = range(3)


class ResourceMeter:
    """Measures a box at intervals."""

    def __init__(self, memory: int) -> None:
        """``memory`` is the box's limit in bytes. It is checked here only if the box has many
        sockets; otherwise the kernel's limit suffices."""
        self._memory = memory
        self._kills = _count_kills()
        self._seen: dict[int, int] = {}

    def look(self, executor: int) -> tuple[float, int]:
        """Return the processor seconds of runs since the last call, and a `MemoryOverrun`.

        ``executor`` is the process id of the executor, or 0 if there is none. Its descendants count
        as commands. The time of a process that starts and ends between two calls is not counted.
        The limit on processes and the cost of a fork keep this error small.
        """
        listed = guest_processes.table()
        commands = guest_processes.below(listed, executor) if executor else set()
        of_runs = listed.keys() - commands - {1, executor}
        spent, seen = 0, {}
        for pid in of_runs:
            with contextlib.suppress(OSError, ValueError, IndexError):
                seen[pid] = _ticks(pid)
                spent += max(seen[pid] - self._seen.get(pid, 0), 0)
        self._seen = seen
        over = MemoryOverrun.NOBODY
        sockets = guest_socket_memory.socket_memory("/proc/net")
        if self.starved() or (sockets and sockets + _memory_of(listed) > self._memory):
            over = (
                MemoryOverrun.COMMANDS
                if _memory_of(commands) > _memory_of(of_runs)
                else MemoryOverrun.RUN
            )
        return spent / _TICKS, over

    def used(self) -> int:
        """Return how many bytes of memory the kernel counts for this box, including its files.
        Return 0 if that is unknown."""
        for path in _USED:
            with contextlib.suppress(OSError, ValueError), open(path) as file:
                return int(file.read())
        return 0

    def starved(self) -> bool:
        """Return True if the kernel killed a process of the box for lack of memory since the last
        call."""
        before, self._kills = self._kills, _count_kills()
        return self._kills > before


def _memory_of(pids: Iterable[int]) -> int:
    memory = 0
    for pid in pids:
        with contextlib.suppress(OSError), open(f"/proc/{pid}/status", "rb") as file:
            for line in file:
                if line.startswith((b"RssAnon:", b"RssShmem:")):
                    memory += int(line.split()[1]) * 1024
    return memory


def _ticks(pid: int) -> int:
    with open(f"/proc/{pid}/stat", "rb") as file:
        # The process name may have spaces and brackets. The numbers start after the last ")".
        return sum(map(int, file.read().rpartition(b")")[2].split()[11:13]))


def _count_kills() -> int:
    for path in _EVENTS:
        with contextlib.suppress(OSError), open(path) as file:
            for line in file:
                if line.startswith("oom_kill "):
                    return int(line.split()[1])
    return 0
