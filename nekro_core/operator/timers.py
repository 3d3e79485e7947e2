"""Shows the timers of all chats and the running tasks of plugins, and changes them."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from nekro_core.chat import ChatKey
from nekro_core.operator.actions import Area, action, query
from nekro_core.operator.audit import AuditLog, Change, UndoCall
from nekro_core.operator.errors import NoSuchItem
from nekro_core.operator.roles import AccessRole, Actor
from nekro_core.plugins.tasks.runner import TaskRunner
from nekro_core.store import TimerRow
from nekro_core.timers import TimerService
from nekro_core.timers.due import RECURRING, schedule_of
from nekro_core.timers.schedule import Schedule
from nekro_core.timers.workdays import WorkdayMode


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningTaskView:
    """A task of a plugin that runs now.

    Attributes:
        task_type: The name under which the plugin mounted the task's function.
        task_id: Distinguishes tasks of the same type.
        plugin: The plugin's key.
        chat_key: The text of the chat's key.
        state: The newest report of the task, in words.
    """

    task_type: str
    task_id: str
    plugin: str
    chat_key: str
    state: str


class Timers(Area):
    """The timers of all chats, and the tasks of plugins.

    Args:
        audit: The audit log.
        timers: Sets and changes timers.
        tasks: Runs the tasks of plugins.
    """

    name = "timers"

    def __init__(self, audit: AuditLog, timers: TimerService, tasks: TaskRunner) -> None:
        super().__init__(audit)
        self._timers = timers
        self._tasks = tasks

    @query(role=AccessRole.VIEWER)
    async def all(self, actor: Actor, *, chat_key: ChatKey | None = None) -> list[TimerRow]:  # noqa: ARG002
        """List the timers that have not ended, in the order in which they are due.

        Args:
            chat_key: Only timers of this chat.
        """
        rows = [row for row in self._timers.all() if chat_key in (None, row.chat_key)]
        return sorted(rows, key=lambda row: (not row.due, row.due))

    @query(role=AccessRole.VIEWER)
    async def tasks(self, actor: Actor) -> list[RunningTaskView]:  # noqa: ARG002
        """List the tasks of plugins that run now."""
        return [
            RunningTaskView(
                task_type=handle.task_type,
                task_id=handle.task_id,
                plugin=handle.plugin.key,
                chat_key=handle.chat_key,
                state=str(handle.state.message if handle.state else ""),
            )
            for handle in self._tasks.running()
        ]

    @action(role=AccessRole.OPERATOR)
    async def set_once(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        chat_key: ChatKey,
        due: Annotated[float, Field(gt=0)],
        text: str,
    ) -> Change[TimerRow]:
        """Wake the agent of a chat once.

        Args:
            chat_key: The chat.
            due: The time, in seconds since 1970.
            text: What the agent reads then.
        """
        return _added(await self._timers.set_once(chat_key, due, text))

    @action(role=AccessRole.OPERATOR)
    async def set_recurring(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        chat_key: ChatKey,
        cron: str,
        text: str,
        title: str = "",
        timezone: str = "",
        workdays: WorkdayMode = WorkdayMode.NONE,
    ) -> Change[TimerRow]:
        """Wake the agent of a chat again and again.

        Args:
            chat_key: The chat.
            cron: The times, as a cron expression of five fields, for example ``0 8 * * *``.
            text: What the agent reads each time.
            title: A short name.
            timezone: The name of a time zone; empty for the bot's.
            workdays: On which days the timer is due.
        """
        schedule = Schedule.parse(cron, timezone or self._timers.timezone, workdays.value)
        return _added(await self._timers.create(chat_key, schedule, text, title=title))

    @action(role=AccessRole.OPERATOR)
    async def pause(self, actor: Actor, *, timer_id: str) -> Change[TimerRow]:  # noqa: ARG002
        """Pause a recurring timer.

        Args:
            timer_id: The timer's id.
        """
        row = await self._timers.pause(timer_id)
        return _switched(row, "active", "timers.resume")

    @action(role=AccessRole.OPERATOR)
    async def resume(self, actor: Actor, *, timer_id: str) -> Change[TimerRow]:  # noqa: ARG002
        """Resume a paused timer.

        Args:
            timer_id: The timer's id.
        """
        row = await self._timers.resume(timer_id)
        return _switched(row, "paused", "timers.pause")

    @action(role=AccessRole.OPERATOR)
    async def run_now(self, actor: Actor, *, timer_id: str) -> Change[TimerRow]:  # noqa: ARG002
        """Wake the agent with a recurring timer now. The timer's next time does not change.

        Args:
            timer_id: The timer's id.
        """
        row = await self._timers.run_now(timer_id)
        return Change(result=row, subject=timer_id)

    @action(role=AccessRole.OPERATOR)
    async def delete(self, actor: Actor, *, timer_id: str) -> Change[None]:  # noqa: ARG002
        """Delete a timer.

        Args:
            timer_id: The timer's id.
        """
        row = next((each for each in self._timers.all() if each.timer_id == timer_id), None)
        if row is None or not await self._timers.forget(row.chat_key, timer_id):
            raise NoSuchItem(f"there is no timer {timer_id!r}")
        return Change(result=None, subject=timer_id, old=_shown(row), undo=_set_again(row))

    @action(role=AccessRole.OPERATOR)
    async def cancel_task(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        task_type: str,
        task_id: str,
    ) -> Change[None]:
        """Cancel a running task of a plugin.

        Args:
            task_type: The task's type.
            task_id: The task's id.
        """
        if not self._tasks.cancel(task_type, task_id):
            raise NoSuchItem(f"no task {task_type} {task_id!r} runs")
        return Change(result=None, subject=f"{task_type} {task_id}", old="running")


def _added(row: TimerRow) -> Change[TimerRow]:
    undo = UndoCall(action="timers.delete", parameters={"timer_id": row.timer_id})
    return Change(result=row, subject=row.timer_id, new=_shown(row), undo=undo)


def _switched(row: TimerRow, before: str, back: str) -> Change[TimerRow]:
    undo = UndoCall(action=back, parameters={"timer_id": row.timer_id})
    return Change(result=row, subject=row.timer_id, old=before, new=row.state, undo=undo)


def _shown(row: TimerRow) -> dict[str, object]:
    when = row.cron if row.kind == RECURRING else row.due
    return {"chat_key": str(row.chat_key), "when": when, "text": row.text}


def _set_again(row: TimerRow) -> UndoCall:
    given: dict[str, object] = {"chat_key": str(row.chat_key), "text": row.text}
    if row.kind != RECURRING:
        return UndoCall(action="timers.set_once", parameters={**given, "due": row.due})
    schedule = schedule_of(row)
    given |= {
        "cron": schedule.cron,
        "timezone": schedule.timezone,
        "workdays": schedule.workdays.value,
        "title": row.title,
    }
    return UndoCall(action="timers.set_recurring", parameters=given)
