"""Limits the memory that all boxes of a backend use together.

Each box has its own limit, but many boxes below their limits can together use up the machine's
memory. Reserving the full limit of each box would waste memory: a box that may use 900 MB usually
uses 20 MB. So the real memory use of the boxes is measured, and the sum is limited:

- When the sum is above the share `_CROWDED` of the limit, new runs, commands and boxes wait. If no
  memory becomes free in time, they fail with `BoxesFull`. Meanwhile the callers of the backend read
  `Backend.crowded` and end idle boxes, beginning with the box that was unused longest.
- When the sum is above the limit, the work of one box is ended. All boxes in which work is going on
  have equal shares of the limit. The work of the box that uses most is ended, but only if this box
  uses more than its share.
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
"""The smallest share, in bytes, of a box that works. Work in one more box waits if it would make
the shares smaller than this."""
_MIB = 1024 * 1024


def half_of_machine(meminfo: Path = Path("/proc/meminfo")) -> int:
    """Return half of this machine's memory in bytes, or 2 GB if the kernel does not report the
    memory.

    The bot, its database, other programs and the kernel's caches need the other half.
    """
    return meminfo_bytes("MemTotal", meminfo) // 2 or 2 * 1024 * _MIB


def meminfo_bytes(field: str, meminfo: Path) -> int:
    """Return a field of ``/proc/meminfo`` in bytes, or 0 if the kernel does not report this
    field."""
    try:
        lines = dict(line.split(":", 1) for line in meminfo.read_text().splitlines())
        return int(lines[field].split()[0]) * 1024
    except (OSError, ValueError, KeyError):
        return 0


class MeasuredBox(Protocol):
    """The part of a box that `MemoryLimit` needs."""

    used_bytes: int
    """How many bytes of memory the box's processes, files and sockets used at the last
    measurement."""

    @property
    def busy(self) -> bool:
        """Return True if a run or a command may be active in the box."""

    def end_work(self, because: str) -> None:
        """End the box's run and commands, which use too much memory. ``because`` is the reason that
        their callers get."""


class MemoryLimit:
    """Limits the memory of all boxes together. ``boxes`` returns the boxes that exist now. `look`
    is called after each measurement."""

    def __init__(
        self, limit: int, wait_s: float, boxes: Callable[[], Collection[MeasuredBox]]
    ) -> None:
        """``limit`` is in bytes. ``wait_s`` is the longest time that new work waits for memory."""
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
        """Return True if there is too little memory for more work. Then idle boxes should be
        ended."""
        boxes = self._boxes()
        if (len(boxes) + 1) * _LEAST > self.limit:
            working = sum(box.busy for box in boxes)
            if working and (working + 1) * _LEAST > self.limit:
                return True
        return self.used > self.limit * _CROWDED

    def describe(self) -> str:
        """Describe this limit for an operator."""
        return f"all boxes together at most {self.limit // _MIB} MB"

    async def admit(self, box: MeasuredBox | None = None) -> None:
        """Wait until there is memory for one more box, or for work in ``box``. Callers are served
        in the order of their calls. If ``box`` works already, there is no wait. Raises
        `BoxesFull`."""
        if (box is not None and box.busy) or not (self._turn.locked() or self.crowded):
            return
        with anyio.move_on_after(self._wait_s):
            async with self._turn:
                while self.crowded:  # noqa: ASYNC110 - memory is measured, there is no event
                    await anyio.sleep(LOOK_S)
                return
        raise BoxesFull(
            f"the sandboxes are full: together they use {self.used // _MIB} of "
            f"{self.limit // _MIB} MB; try again later"
        )

    async def watch(self) -> None:
        """Call `look` regularly, until cancelled. This is for backends whose boxes report their
        memory themselves."""
        while True:
            self.look()
            await anyio.sleep(LOOK_S)

    def look(self) -> None:
        """If all boxes together are over the limit, end the work of the box that uses most, if
        this box uses more than its share."""
        used = self.used
        if used <= self.limit:
            return
        working = [box for box in self._boxes() if box.busy]
        if not working:
            return
        greediest = max(working, key=lambda box: box.used_bytes)
        if greediest.used_bytes <= self.limit / len(working):
            return  # The idle boxes use too much. Their callers end them soon.
        because = (
            f"all sandboxes together used more than {self.limit // _MIB} MB; "
            f"this one used the most, {greediest.used_bytes // _MIB} MB, and was stopped"
        )
        _log.warning("%s", because)
        greediest.end_work(because)
        greediest.used_bytes = 0  # The next measurement sets the real number again.
