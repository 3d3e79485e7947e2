"""Lets `watchfiles.awatch` end as soon as its task is cancelled.

``awatch`` waits in a thread, and a cancelled task waits for its thread, for up to five seconds. The
thread ends sooner if an event that was given to ``awatch`` is set. Source:
https://watchfiles.helpmanual.io/api/watch/
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio


@asynccontextmanager
async def stop_event_of_watch() -> AsyncIterator[anyio.Event]:
    """Yield the argument ``stop_event`` for ``awatch``. This event is set when the task is
    cancelled or the block is left."""
    stop = anyio.Event()
    failed: Exception | None = None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_set_when_cancelled, stop)
        try:
            yield stop
        except Exception as error:  # noqa: BLE001 (raised below: the group would wrap it)
            failed = error
        tasks.cancel_scope.cancel()
    if failed is not None:
        raise failed


async def _set_when_cancelled(stop: anyio.Event) -> None:
    try:
        await anyio.sleep_forever()
    finally:
        stop.set()
