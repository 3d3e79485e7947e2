"""Tasks that end with whoever has begun them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from anyio.abc import TaskGroup


@asynccontextmanager
async def background_tasks() -> AsyncIterator[TaskGroup]:
    """A task group for what runs beside a block: leaving the block cancels it and waits for it.

    An error of the block comes out as itself, since it is no task's. A task's error ends the block
    and comes out in a group, as with `anyio.create_task_group`.
    """
    failure: Exception | None = None
    async with anyio.create_task_group() as tasks:
        try:
            yield tasks
        except Exception as error:  # noqa: BLE001 - raised below, where no group wraps it
            failure = error
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure
