"""What the processes of this box use, for backends whose host cannot look at them from outside.

The agent sees them all: they are below it in its own namespace of process ids.
"""

from __future__ import annotations

import contextlib
import os

_TICKS = os.sysconf("SC_CLK_TCK")
_MARGIN = 32 * 1024 * 1024
"""What agent and interpreter use themselves."""
_EVENTS = ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control")
"""Where the kernel counts what it killed for memory: cgroups of version 2, and of version 1."""


class Meter:
    """Adds up a box: ``memory`` bytes are what it may use."""

    def __init__(self, memory: int) -> None:
        self._memory = memory
        self._kills = _count_kills()
        self._seen: dict[str, int] = {}

    def look(self) -> tuple[float, bool]:
        """Processor seconds spent since the last look, and whether memory is over its bound.

        A process that began and ended between two looks is not seen; the bound on how many there
        may be at once, and what a fork costs, keep that small.
        """
        memory, spent, seen = 0, 0, {}
        for pid in os.listdir("/proc"):
            if pid.isdigit() and pid != "1":
                with contextlib.suppress(OSError, ValueError, IndexError):
                    memory += _own_memory(pid)
                    seen[pid] = _ticks(pid)
                    spent += max(seen[pid] - self._seen.get(pid, 0), 0)
        self._seen = seen
        return spent / _TICKS, memory > self._memory + _MARGIN or self.starved()

    def starved(self) -> bool:
        """Whether the kernel killed something here for memory since this was last asked."""
        before, self._kills = self._kills, _count_kills()
        return self._kills > before


def _own_memory(pid: str) -> int:
    memory = 0
    with open(f"/proc/{pid}/status", "rb") as file:
        for line in file:
            if line.startswith((b"RssAnon:", b"RssShmem:")):
                memory += int(line.split()[1]) * 1024
    return memory


def _ticks(pid: str) -> int:
    with open(f"/proc/{pid}/stat", "rb") as file:
        # The name may hold spaces and brackets; the numbers start after the last bracket.
        return sum(map(int, file.read().rpartition(b")")[2].split()[11:13]))


def _count_kills() -> int:
    for path in _EVENTS:
        with contextlib.suppress(OSError), open(path) as file:
            for line in file:
                if line.startswith("oom_kill "):
                    return int(line.split()[1])
    return 0
