"""Boxes for whoever asks, while the backend is still proving itself, and words where it fails."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio
import anyio.abc

from nekro_core.sandbox.backends import open_backend
from nekro_core.sandbox.box import BackendUnavailable, Box
from nekro_core.sandbox.pool import BoxPool
from nekro_core.sandbox.settings import SandboxSettings


class BoxSupply:
    """A pool on the first backend that passes its self-check, opened in the background.

    The check starts a real box, which takes longer than everything else at a start; whoever asks
    meanwhile waits for it. A machine where no backend works refuses each request with the reason,
    until the next start.
    """

    def __init__(self) -> None:
        self._pool: BoxPool | None = None
        self._failure = ""
        self._decided = anyio.Event()

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        settings: SandboxSettings,
        *,
        clock: Callable[[], float],
        report: Callable[[str], None],
    ) -> AsyncIterator["BoxSupply"]:
        """A supply; leaving it destroys its boxes. ``report`` is told why there will be none."""
        supply = cls()
        tasks = anyio.create_task_group()
        await tasks.__aenter__()
        tasks.start_soon(supply._keep, settings, clock, report)
        try:
            yield supply
        finally:
            tasks.cancel_scope.cancel()
            # The body's error is the body's own: the group must not wrap it.
            await tasks.__aexit__(None, None, None)

    async def take(self) -> Box:
        """A box of one's own. Raises `BackendUnavailable`."""
        await self._decided.wait()
        if self._pool is None:
            raise BackendUnavailable(self._failure)
        return await self._pool.take()

    async def _keep(
        self, settings: SandboxSettings, clock: Callable[[], float], report: Callable[[str], None]
    ) -> None:
        async with anyio.create_task_group() as tasks:
            try:
                backend = await open_backend(settings, tasks, clock)
            except BackendUnavailable as error:
                self._failure = str(error)
                self._decided.set()
                report(self._failure)
                return
            try:
                async with BoxPool(backend, settings.spec, settings.pool_size) as self._pool:
                    self._decided.set()
                    await anyio.sleep_forever()
            finally:
                with anyio.CancelScope(shield=True):
                    await backend.aclose()
