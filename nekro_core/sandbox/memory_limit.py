"""The memory that all boxes of a backend may use together, and what happens at the limit.

Each box has bounds of its own; many boxes that each keep to them can still take the machine. The
limits of all cannot simply be reserved: a box that may use 900 MB mostly uses 20. So what they do
use is measured, and the sum is bounded:

- From `_CROWDED` of the limit on new work waits, for so long and then with an error, and whoever
  keeps boxes ends the one unused longest (`MemoryLimit.crowded`).
- Each box at work has an equal share of the limit for certain. Only over the limit itself is work
  ended, that of the box with most, and only where it has more than this share; one of them must.
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
"""Share that each box at work has at least: with more of them than that, new ones wait."""
_MIB = 1024 * 1024


def half_of_machine(meminfo: Path = Path("/proc/meminfo")) -> int:
    """Half of this machine's memory in bytes: the bot, its database and its neighbours need some,
    and the kernel's caches too. 2 GB where it is not told."""
    return meminfo_bytes("MemTotal", meminfo) // 2 or 2 * 1024 * _MIB


def meminfo_bytes(field: str, meminfo: Path) -> int:
    """A field of the kernel's ``/proc/meminfo`` in bytes; 0 where it is not told. proc(5)."""
    try:
        lines = dict(line.split(":", 1) for line in meminfo.read_text().splitlines())
        return int(lines[field].split()[0]) * 1024
    except (OSError, ValueError, KeyError):
        return 0


class MeasuredBox(Protocol):
    """A box as it is seen here."""

    used_bytes: int
    """When it was looked at last: its processes, its files and its sockets."""

    @property
    def busy(self) -> bool:
        """Whether something strange may run in it."""

    def end_work(self, because: str) -> None:
        """End its run and its commands for their memory."""


class MemoryLimit:
    """The bound on ``boxes``. Whoever measures them calls `look` after each time."""

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
        """Bytes, when the boxes were measured last."""
        return sum(box.used_bytes for box in self._boxes())

    @property
    def crowded(self) -> bool:
        """Whether there is no room for more work: idle boxes should go."""
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
                while self.crowded:  # noqa: ASYNC110 - what boxes use is measured, nobody tells
                    await anyio.sleep(LOOK_S)
                return
        raise BoxesFull(
            f"the sandboxes are full: together they use {self.used // _MIB} of "
            f"{self.limit // _MIB} MB; try again later"
        )

    async def watch(self) -> None:
        """Until cancelled, for boxes that tell themselves what they use."""
        while True:
            self.look()
            await anyio.sleep(LOOK_S)

    def look(self) -> None:
        """End work where the sum is over the limit."""
        used = self.used
        if used <= self.limit:
            return
        working = [box for box in self._boxes() if box.busy]
        if not working:
            return
        greediest = max(working, key=lambda box: box.used_bytes)
        if greediest.used_bytes <= self.limit / len(working):
            return  # it is idle ones that have it: they are about to go
        because = (
            f"all sandboxes together used more than {self.limit // _MIB} MB; "
            f"this one had most, {greediest.used_bytes // _MIB} MB, and was stopped"
        )
        _log.warning("%s", because)
        greediest.end_work(because)
        greediest.used_bytes = 0  # until it is measured again
