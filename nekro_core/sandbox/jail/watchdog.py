"""Bounds that hold for the whole tree of a box, by looking at it ten times a second.

``RLIMIT_DATA`` is per process: four children of 200 MB each pass a limit of 256. A cgroup would do
this in the kernel; where one can be made it takes this class's place.
"""

from collections.abc import Callable, Iterable

import anyio

from nekro_core.sandbox.agent_box import AgentBox
from nekro_core.sandbox.box import StopReason
from nekro_core.sandbox.jail import process_tree
from nekro_core.sandbox.jail.process import JailProcesses

_INTERVAL_S = 0.1
_MARGIN = 32 * 1024 * 1024
"""What agent, launcher and interpreter use themselves."""


class Watchdog:
    """Looks at every box that has a run: ends runs over their memory, counts hidden work."""

    def __init__(self, boxes: Callable[[], Iterable[tuple[AgentBox, JailProcesses]]]) -> None:
        self._boxes = boxes
        self._last: dict[str, float] = {}

    async def watch(self) -> None:
        """Until cancelled."""
        while True:
            busy = [pair for pair in self._boxes() if pair[0].run is not None]
            self._last = {box.box_id: self._look(box, processes) for box, processes in busy}
            await anyio.sleep(_INTERVAL_S)

    def _look(self, box: AgentBox, processes: JailProcesses) -> float:
        used = process_tree.usage(processes.tree())
        if box.run is None:
            return used.processor_s
        if used.memory_bytes > box.spec.memory_bytes + _MARGIN:
            box.run.stop(
                StopReason.OUT_OF_MEMORY,
                f"the code used more than {box.spec.memory_bytes // 1024**2} MB and was stopped",
            )
        # Waiting is free, but a run that computes while it says that it waits pays for it.
        spent = used.processor_s - self._last.get(box.box_id, used.processor_s)
        if spent > 0 and not box.run.has_floor:
            box.run.charge(min(spent, _INTERVAL_S))
        return used.processor_s
