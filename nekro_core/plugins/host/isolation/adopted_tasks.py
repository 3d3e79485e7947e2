"""Makes tasks that a plugin starts itself (``asyncio.create_task``) end with the plugin.

The loop's task factory looks at who starts a task. A task belongs to a plugin if the plugin's code
starts it, or a library that the plugin called. What the bot starts on a plugin's behalf belongs to
the bot.
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
    """Adopt the tasks that plugins start on the running loop while the block is open."""
    loop = asyncio.get_running_loop()
    before = loop.get_task_factory()
    if isinstance(before, _Adopting):  # Another bot of this process sees to it.
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
