"""When a plugin is unloaded, ends the tasks that the plugin started with ``asyncio.create_task``.

The event loop's task factory checks which code starts a task. A task belongs to a plugin if it is
started by the plugin's code or by a library that the plugin called. A task that the bot's code
starts for a plugin belongs to the bot.
"""

import asyncio
from collections.abc import Coroutine, Generator, Iterator
from contextlib import contextmanager
from typing import Any

from nekro_core.plugins.authoring.binding import current_owner
from nekro_core.plugins.host.isolation.code_owner import (
    caller_frame,
    plugin_of_frame,
    plugin_of_module,
)

_Work = Coroutine[Any, Any, Any] | Generator[Any, None, Any]


@contextmanager
def adopt_plugin_tasks() -> Iterator[None]:
    """While the block is open, record which plugin started each task on the running loop."""
    loop = asyncio.get_running_loop()
    before = loop.get_task_factory()
    if isinstance(before, _Adopting):  # Another bot of this process does this already.
        yield
        return
    loop.set_task_factory(_Adopting(before))
    try:
        yield
    finally:
        loop.set_task_factory(before)


class _Adopting:
    """A task factory that calls the previous one."""

    def __init__(self, before: Any) -> None:
        self._before = before

    def __call__(
        self, loop: asyncio.AbstractEventLoop, work: _Work, **options: Any
    ) -> asyncio.Future[Any]:
        make = self._before or _task
        task: asyncio.Future[Any] = make(loop, work, **options)
        owner = current_owner()
        if owner is not None and isinstance(task, asyncio.Task) and _is_a_plugins(work):
            owner.tasks.adopt(task)
        return task


def _task(loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> asyncio.Task[Any]:
    return asyncio.Task(work, loop=loop, **options)


def _is_a_plugins(work: _Work) -> bool:
    frame = getattr(work, "cr_frame", None)
    if frame is not None and plugin_of_module(frame.f_globals.get("__name__") or ""):
        return True
    return bool(plugin_of_frame(caller_frame(2)))
