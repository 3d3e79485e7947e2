"""How a plugin mounts kinds of tasks."""

from collections.abc import Callable
from typing import Any, TypeVar

from nekro_core.plugins.authoring.declaring import SupportsDeclare
from nekro_core.plugins.authoring.tasks import TaskType

Function = TypeVar("Function", bound=Callable[..., Any])


class MountsTasks(SupportsDeclare):
    """Mixed into `NekroPlugin`."""

    def mount_async_task(self, task_type: str) -> Callable[[Function], Function]:
        """Let ``task.start(task_type, ...)`` run an ``async def f(handle, ...)`` that yields
        `TaskCtl`: an async generator. ``handle`` is its `AsyncTaskHandle`.

        Args:
            task_type: The name to start it by.

        Returns:
            A decorator that gives the function back.
        """

        def mount(function: Function) -> Function:
            self.declare(TaskType(task_type, function))
            return function

        return mount
