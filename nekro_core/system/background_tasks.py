"""Runs tasks that end with the block that started them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from anyio.abc import TaskGroup


@asynccontextmanager
async def background_tasks() -> AsyncIterator[TaskGroup]:
    """Open a task group for tasks that run beside a block. When the block ends, its tasks are
    cancelled and awaited.

    An error of the block is raised unchanged, not in an exception group. An error of a task ends
    the block and is raised in an exception group, as with `anyio.create_task_group`.
    """
    failure: Exception | None = None
    async with anyio.create_task_group() as tasks:
        try:
            yield tasks
        except Exception as error:  # noqa: BLE001 - raised below, outside the task group
            failure = error
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure
