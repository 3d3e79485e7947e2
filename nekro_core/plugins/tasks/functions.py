"""``task``: the functions with which a plugin starts, finds and cancels background tasks."""

from typing import Any

from nekro_core.plugins.authoring.binding import current_binding
from nekro_core.plugins.authoring.current import NoCurrentBot
from nekro_core.plugins.authoring.services import Services
from nekro_core.plugins.authoring.tasks import (
    AsyncTaskHandle,
    AwaitableBool,
    AwaitableInt,
    OnTerminal,
    TaskCtl,
    TaskOwner,
    TaskService,
)


class TaskFunctions:
    """Starts and finds tasks in the bot that called the plugin's code. Each method raises
    `RuntimeError` if no bot called the plugin's code."""

    def start(
        self,
        task_type: str,
        task_id: str,
        chat_key: str,
        plugin: TaskOwner,
        *args: Any,
        on_terminal: OnTerminal | None = None,
        **kwargs: Any,
    ) -> AsyncTaskHandle:
        """Start a task of a type that the plugin has mounted. See `TaskRunner.start`.

        Args:
            task_type: The name under which the task's function was mounted.
            task_id: Distinguishes tasks of the same type.
            chat_key: The text form of the chat's key.
            plugin: The plugin object.
            *args: Arguments of the task's function, after its handle.
            on_terminal: Called with the task's final report; may be async.
            **kwargs: Keyword arguments of the task's function.

        Returns:
            The task's handle. Awaiting it is allowed and returns the handle.

        Raises:
            TaskRefused: As of `TaskRunner.start`.
            RuntimeError: No bot called the plugin's code.
        """
        services = _services()
        return self.runner().start(
            task_type,
            task_id,
            str(chat_key),
            plugin,
            services.journal,
            *args,
            on_terminal=on_terminal,
            **kwargs,
        )

    def get_handle(self, task_type: str = "", task_id: str = "") -> AsyncTaskHandle | None:
        """See `TaskRunner.get_handle`.

        Args:
            task_type: The task's type; empty to find the task by its id only.
            task_id: The task's id.

        Returns:
            The handle of the task; None if it does not run.
        """
        return self.runner().get_handle(task_type, task_id)

    def get_state(self, task_type: str = "", task_id: str = "") -> TaskCtl | None:
        """See `TaskRunner.get_state`.

        Args:
            task_type: The task's type; empty to find the task by its id only.
            task_id: The task's id.

        Returns:
            The newest report of the task, or None for an unknown task.
        """
        return self.runner().get_state(task_type, task_id)

    def is_running(self, task_type: str = "", task_id: str = "") -> AwaitableBool:
        """See `TaskRunner.is_running`.

        Args:
            task_type: The task's type; empty to find the task by its id only.
            task_id: The task's id.

        Returns:
            Whether the task runs. The result may be awaited.
        """
        return self.runner().is_running(task_type, task_id)

    def cancel(self, task_type: str = "", task_id: str = "") -> AwaitableBool:
        """See `TaskRunner.cancel`.

        Args:
            task_type: The task's type; empty to find the task by its id only.
            task_id: The task's id.

        Returns:
            False if the task does not run. The result may be awaited.
        """
        return self.runner().cancel(task_type, task_id)

    def stop_all(self) -> AwaitableInt:
        """See `TaskRunner.stop_all`.

        Returns:
            How many tasks were cancelled. The result may be awaited.
        """
        return self.runner().stop_all()

    def get_running_tasks(self) -> list[AsyncTaskHandle]:
        """See `TaskRunner.get_running_tasks`.

        Returns:
            The handles of the running tasks of all plugins.
        """
        return self.runner().get_running_tasks()

    def runner(self) -> TaskService:
        """Get the task runner of the bot.

        Returns:
            The bot's task runner.

        Raises:
            RuntimeError: No bot called the plugin's code.
        """
        tasks = _services().tasks
        if tasks is None:
            raise NoCurrentBot("this bot runs no tasks of plugins")
        return tasks


def _services() -> Services:
    binding = current_binding()
    if binding is None or binding.services is None:
        raise NoCurrentBot(
            "no bot is known here: use task in a function that the bot calls (a tool, a hook, a "
            "command, a task), not at import or in a thread of your own"
        )
    return binding.services


task = TaskFunctions()
"""The functions for plugins. The object has no state: each call finds the bot that called the
plugin's code."""
