"""Limits the memory of all boxes of a backend together.

Each box has its own limits, but many boxes within their limits can still use up the machine. The
limits cannot simply be reserved: a box with a limit of 900 MB mostly uses 20. So the memory in use
is measured, and the sum is bounded:

- Above `_CROWDED` of the limit, new work waits for some time and then fails. The owner of idle
  boxes ends the one unused longest (`MemoryLimit.crowded`).
- Each box at work may always use an equal share of the limit. Work is ended only if the sum is over
  the limit itself. Then the box with the most memory is chosen, if it has more than this share.
"""

import logging
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Protocol

import anyio

from nekro_core.sandbox.box import BoxesFull

_log = logging.getLogger(__name__)

LOOK_S = 0.1
_CROWDED = 0.8
_LEAST = 64 * 1024 * 1024
"""Least share of a box at work. New work that would make the shares smaller waits."""
_MIB = 1024 * 1024


def half_of_machine(meminfo: Path = Path("/proc/meminfo")) -> int:
    """Half of this machine's memory in bytes. The bot, its database, other programs and the
    kernel's caches need the rest. 2 GB if the kernel does not report the memory."""
    return meminfo_bytes("MemTotal", meminfo) // 2 or 2 * 1024 * _MIB


def meminfo_bytes(field: str, meminfo: Path) -> int:
    """A field of the kernel's ``/proc/meminfo`` in bytes; 0 if it cannot be read. proc(5)."""
    try:
        lines = dict(line.split(":", 1) for line in meminfo.read_text().splitlines())
        return int(lines[field].split()[0]) * 1024
    except (OSError, ValueError, KeyError):
        return 0


class MeasuredBox(Protocol):
    """A box as `MemoryLimit` sees it."""

    used_bytes: int
    """Of its processes, files and sockets, when it was last measured."""

    @property
    def busy(self) -> bool:
        """Whether untrusted code may run in it."""

    def end_work(self, because: str) -> None:
        """End its run and its commands because of their memory."""


class MemoryLimit:
    """The limit of ``boxes``. The code that measures them calls `look` after each measurement."""

    def __init__(
        self, limit: int, wait_s: float, boxes: Callable[[], Collection[MeasuredBox]]
    ) -> None:
        """``limit`` in bytes; ``wait_s`` is how long new work waits for room."""
        self.limit = limit
        self._wait_s = wait_s
        self._boxes = boxes
        self._turn = anyio.Lock()

    @property
    def used(self) -> int:
        """Sum of the last measurements, in bytes."""
        return sum(box.used_bytes for box in self._boxes())

    @property
    def crowded(self) -> bool:
        """Whether there is no room for more work, so that idle boxes should end."""
        boxes = self._boxes()
        if (len(boxes) + 1) * _LEAST > self.limit:
            working = sum(box.busy for box in boxes)
            if working and (working + 1) * _LEAST > self.limit:
                return True
        return self.used > self.limit * _CROWDED

    def describe(self) -> str:
        """Describe the limit for an operator."""
        return f"all boxes together at most {self.limit // _MIB} MB"

    async def admit(self, box: MeasuredBox | None = None) -> None:
        """Wait until there is room for one more box, or for work in ``box``; first come, first
        served. A box at work is admitted at once. Raises `BoxesFull`."""
        if (box is not None and box.busy) or not (self._turn.locked() or self.crowded):
            return
        with anyio.move_on_after(self._wait_s):
            async with self._turn:
                while self.crowded:  # noqa: ASYNC110 - what boxes use is measured, nobody tells
                    await anyio.sleep(LOOK_S)
                return
        raise BoxesFull(
            f"the sandboxes are full: together they use {self.used // _MIB} of "
            f"{self.limit // _MIB} MB; try again later"
        )

    async def watch(self) -> None:
        """Check the sum until cancelled. For boxes that report their own memory."""
        while True:
            self.look()
            await anyio.sleep(LOOK_S)

    def look(self) -> None:
        """End the work of the largest box if the sum is over the limit."""
        used = self.used
        if used <= self.limit:
            return
        working = [box for box in self._boxes() if box.busy]
        if not working:
            return
        greediest = max(working, key=lambda box: box.used_bytes)
        if greediest.used_bytes <= self.limit / len(working):
            return  # idle boxes have the memory; they are about to end
        because = (
            f"all sandboxes together used more than {self.limit // _MIB} MB; "
            f"this one had most, {greediest.used_bytes // _MIB} MB, and was stopped"
        )
        _log.warning("%s", because)
        greediest.end_work(because)
        greediest.used_bytes = 0  # until it is measured again
