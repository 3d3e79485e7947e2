"""Keeps a few boxes ready, so that a chat does not wait for an interpreter to start."""

import logging
from collections import deque
from pathlib import Path
from types import TracebackType
from typing import Self

import anyio
import anyio.abc

from nekro_core.sandbox.box import Backend, Box, BoxSpec, SandboxError
from nekro_core.sandbox.memory_limit import meminfo_bytes

_log = logging.getLogger(__name__)

_MEMORY_FOR_ONE = 512 * 1024 * 1024
"""For each ready box, the machine must have this many bytes of free memory. A box needs far less.
The rest stays free for other programs."""
_MOST = 4

_PAUSE_AFTER_TAKING_S = 0.2
_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 60.0


def suggested_pool_size(meminfo: Path = Path("/proc/meminfo")) -> int:
    """Return the number of boxes to keep ready, one to four. It depends on the free memory of this
    machine."""
    return max(1, min(_MOST, meminfo_bytes("MemAvailable", meminfo) // _MEMORY_FOR_ONE))


class BoxPool:
    """Keeps ``size`` boxes of one kind ready. This is an async context manager; leaving it ends the
    ready boxes.

    Each box is given to one caller only. This caller destroys the box; otherwise the box ends when
    the backend is closed.
    """

    def __init__(self, backend: Backend, spec: BoxSpec, size: int) -> None:
        self._backend = backend
        self._spec = spec
        self._size = size
        self._ready: deque[Box] = deque()
        self._wanted = anyio.Event()
        self._tried = anyio.Event()
        self._tasks: anyio.abc.TaskGroup | None = None

    @property
    def ready(self) -> int:
        """The number of boxes that are ready and alive."""
        return sum(box.alive for box in self._ready)

    @property
    def idle_bytes(self) -> int:
        """The memory of the ready boxes, in bytes."""
        return sum(box.idle_bytes for box in self._ready if box.alive)

    async def settled(self) -> None:
        """Wait until the first box is ready, or until the first attempt to make a box failed."""
        await self._tried.wait()

    async def take(self) -> Box:
        """Return a ready box, or make one if none is ready. Raises `BackendUnavailable`."""
        while self._ready:
            box = self._ready.popleft()
            self._wanted.set()
            if box.alive:
                return box
            await box.destroy()
        return await self._backend.create(self._spec)

    async def __aenter__(self) -> Self:
        self._tasks = await anyio.create_task_group().__aenter__()
        self._tasks.start_soon(self._refill, name="refill of the boxes' pool")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        assert self._tasks is not None
        self._tasks.cancel_scope.cancel()
        try:
            return await self._tasks.__aexit__(kind, error, traceback)
        finally:
            with anyio.CancelScope(shield=True):
                while self._ready:
                    await self._ready.popleft().destroy()

    async def _refill(self) -> None:
        pause = _FIRST_PAUSE_S
        while True:
            self._wanted = anyio.Event()
            if len(self._ready) >= self._size:
                self._tried.set()
                await self._wanted.wait()
                # Making a box keeps a processor busy. During this pause, the box that a caller has
                # just taken can begin its work.
                await anyio.sleep(_PAUSE_AFTER_TAKING_S)
                continue
            try:
                self._ready.append(await self._backend.create(self._spec))
                self._tried.set()
                pause = _FIRST_PAUSE_S
            except SandboxError as error:
                self._tried.set()
                _log.warning("no box for the pool, next try in %g s: %s", pause, error)
                await anyio.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE_S)
