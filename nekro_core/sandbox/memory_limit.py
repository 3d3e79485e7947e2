"""The memory that all boxes of a backend may use together, and what happens at the limit.

Each box has its own limit. But many boxes together can use up the machine's memory although each
keeps to its limit. Reserving the full limit of each box would waste memory: a box that may use
900 MB usually uses 20. So the memory that the boxes really use is measured, and the sum is limited:

- When the sum is above `_CROWDED` of the limit, new work waits. If no memory becomes free in time,
  it fails with an error. Meanwhile the code that keeps the boxes ends idle ones, the one
  unused longest first (`MemoryLimit.crowded`).
- When the sum is above the limit itself, the work of one box is ended: of the box at work that uses
  most, and only if it uses more than its share. All boxes at work have equal shares of the limit,
  so the work of a box that keeps to its share is never ended here.
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
"""The smallest share of a box at work. If one more box at work would make the shares smaller than
this, it has to wait."""
_MIB = 1024 * 1024


def half_of_machine(meminfo: Path = Path("/proc/meminfo")) -> int:
    """Half of this machine's memory in bytes, or 2 GB if the kernel does not report it.

    The bot, its database, other programs and the kernel's caches need the other half.
    """
    return meminfo_bytes("MemTotal", meminfo) // 2 or 2 * 1024 * _MIB


def meminfo_bytes(field: str, meminfo: Path) -> int:
    """A field of ``/proc/meminfo`` in bytes, or 0 if the kernel does not report it; see proc(5)."""
    try:
        lines = dict(line.split(":", 1) for line in meminfo.read_text().splitlines())
        return int(lines[field].split()[0]) * 1024
    except (OSError, ValueError, KeyError):
        return 0


class MeasuredBox(Protocol):
    """The part of a box that `MemoryLimit` needs."""

    used_bytes: int
    """The memory of its processes, files and sockets when it was last measured."""

    @property
    def busy(self) -> bool:
        """Whether code of the guest may run in it."""

    def end_work(self, because: str) -> None:
        """End its run and its commands, because they use too much memory."""


class MemoryLimit:
    """Limits the memory of ``boxes``. The code that measures them calls `look` each time after."""

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
        """The bytes that all boxes together used when they were last measured."""
        return sum(box.used_bytes for box in self._boxes())

    @property
    def crowded(self) -> bool:
        """Whether there is no memory for more work, so that idle boxes should be ended."""
        boxes = self._boxes()
        if (len(boxes) + 1) * _LEAST > self.limit:
            working = sum(box.busy for box in boxes)
            if working and (working + 1) * _LEAST > self.limit:
                return True
        return self.used > self.limit * _CROWDED

    def describe(self) -> str:
        """In words, for an operator."""
        return f"all boxes together at most {self.limit // _MIB} MB"

    async def admit(self, box: MeasuredBox | None = None) -> None:
        """Wait until there is room for one more box, or for work in ``box``; first come, first
        served. A box at work has its room already. Raises `BoxesFull`."""
        if (box is not None and box.busy) or not (self._turn.locked() or self.crowded):
            return
        with anyio.move_on_after(self._wait_s):
            async with self._turn:
                while self.crowded:  # noqa: ASYNC110 - use is measured, no event tells
                    await anyio.sleep(LOOK_S)
                return
        raise BoxesFull(
            f"the sandboxes are full: together they use {self.used // _MIB} of "
            f"{self.limit // _MIB} MB; try again later"
        )

    async def watch(self) -> None:
        """Call `look` regularly, until cancelled. For boxes that report their use themselves."""
        while True:
            self.look()
            await anyio.sleep(LOOK_S)

    def look(self) -> None:
        """If all boxes together are over the limit, end the work of the box that uses most."""
        used = self.used
        if used <= self.limit:
            return
        working = [box for box in self._boxes() if box.busy]
        if not working:
            return
        greediest = max(working, key=lambda box: box.used_bytes)
        if greediest.used_bytes <= self.limit / len(working):
            return  # idle boxes use the rest, and they are ended soon
        because = (
            f"all sandboxes together used more than {self.limit // _MIB} MB; "
            f"this one used the most, {greediest.used_bytes // _MIB} MB, and was stopped"
        )
        _log.warning("%s", because)
        greediest.end_work(because)
        greediest.used_bytes = 0  # until it is measured again
