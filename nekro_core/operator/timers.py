"""Shows the timers of all chats and the running tasks of plugins, and changes them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from nekro_core.chat import ChatKey
from nekro_core.operator.actions import Area, action, query
from nekro_core.operator.audit import AuditLog, Change, UndoCall
from nekro_core.operator.elsewhere import ProcessChoice
from nekro_core.operator.errors import NoSuchItem
from nekro_core.operator.roles import AccessRole, Actor, RequestOrigin
from nekro_core.plugins.tasks.runner import TaskRunner
from nekro_core.store import TimerRow
from nekro_core.store.timers import TimerRepository
from nekro_core.timers import TimerService
from nekro_core.timers.due import OVER, RECURRING, schedule_of
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
        rows: The stored timers of all processes of a cluster.
    """

    name = "timers"

    def __init__(
        self, audit: AuditLog, timers: TimerService, tasks: TaskRunner, rows: TimerRepository
    ) -> None:
        super().__init__(audit)
        self._timers = timers
        self._tasks = tasks
        self._rows = rows

    async def chat_of(self, parameters: Mapping[str, Any]) -> ChatKey | None:
        """See `Area.chat_of`. Raises `NoSuchItem`.

        Args:
            parameters: The validated parameters of the operation.

        Returns:
            The chat that is named, or that of the timer or of the task.
        """
        if "chat_key" in parameters:
            return await super().chat_of(parameters)
        if "timer_id" in parameters:
            row = await self._rows.get(parameters["timer_id"])
            if row is None or row.state == OVER:
                raise NoSuchItem(f"there is no timer {parameters['timer_id']!r}")
            return row.chat_key
        bot = Actor(name="bot", role=AccessRole.VIEWER, origin=RequestOrigin.SYSTEM)
        for task in await self.tasks(bot):
            if (task.task_type, task.task_id) == (parameters["task_type"], parameters["task_id"]):
                return ChatKey.parse(task.chat_key)
        raise _no_task(parameters["task_type"], parameters["task_id"])

    @query(role=AccessRole.VIEWER)
    async def all(self, actor: Actor, *, chat_key: ChatKey | None = None) -> list[TimerRow]:  # noqa: ARG002
        """List the timers that have not ended, in the order in which they are due.

        Args:
            chat_key: Only timers of this chat.
        """
        known = self._timers.all()
        if self.others is not None:  # A gateway holds no timers in memory.
            known = [row for row in await self._rows.all() if row.state != OVER]
        rows = [row for row in known if chat_key in (None, row.chat_key)]
        return sorted(rows, key=lambda row: (not row.due, row.due))

    @query(role=AccessRole.VIEWER, process=ProcessChoice.ANY)
    async def tasks(self, actor: Actor) -> list[RunningTaskView]:
        """List the tasks of plugins that run now."""
        found = self._own_tasks()
        if self.others is not None:
            for tasks in await self.others.at_workers(self.tasks, actor, {}):
                found += tasks
        return found

    def _own_tasks(self) -> list[RunningTaskView]:
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

    @action(role=AccessRole.OPERATOR, process=ProcessChoice.OWNER)
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

    @action(role=AccessRole.OPERATOR, process=ProcessChoice.OWNER)
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

    @action(role=AccessRole.OPERATOR, process=ProcessChoice.OWNER)
    async def pause(self, actor: Actor, *, timer_id: str) -> Change[TimerRow]:  # noqa: ARG002
        """Pause a recurring timer.

        Args:
            timer_id: The timer's id.
        """
        before = self._timers.get(timer_id)
        row = await self._timers.pause(timer_id)
        return _switched(before, row, "timers.resume")

    @action(role=AccessRole.OPERATOR, process=ProcessChoice.OWNER)
    async def resume(self, actor: Actor, *, timer_id: str) -> Change[TimerRow]:  # noqa: ARG002
        """Resume a paused timer.

        Args:
            timer_id: The timer's id.
        """
        before = self._timers.get(timer_id)
        row = await self._timers.resume(timer_id)
        return _switched(before, row, "timers.pause")

    @action(role=AccessRole.OPERATOR, process=ProcessChoice.OWNER)
    async def run_now(self, actor: Actor, *, timer_id: str) -> Change[TimerRow]:  # noqa: ARG002
        """Wake the agent with a recurring timer now. The timer's next time does not change.

        Args:
            timer_id: The timer's id.
        """
        row = await self._timers.run_now(timer_id)
        return Change(result=row, subject=timer_id)

    @action(role=AccessRole.OPERATOR, process=ProcessChoice.OWNER)
    async def delete(self, actor: Actor, *, timer_id: str) -> Change[None]:  # noqa: ARG002
        """Delete a timer.

        Args:
            timer_id: The timer's id.
        """
        row = next((each for each in self._timers.all() if each.timer_id == timer_id), None)
        if row is None or not await self._timers.forget(row.chat_key, timer_id):
            raise NoSuchItem(f"there is no timer {timer_id!r}")
        return Change(result=None, subject=timer_id, old=_shown(row), undo=_set_again(row))

    @action(role=AccessRole.OPERATOR, process=ProcessChoice.OWNER)
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
            raise _no_task(task_type, task_id)
        return Change(result=None, subject=f"{task_type} {task_id}", old="running")


def _no_task(task_type: str, task_id: str) -> NoSuchItem:
    return NoSuchItem(f"no task {task_type} {task_id!r} runs")


def _added(row: TimerRow) -> Change[TimerRow]:
    undo = UndoCall(action="timers.delete", parameters={"timer_id": row.timer_id})
    return Change(result=row, subject=row.timer_id, new=_shown(row), undo=undo)


def _switched(before: TimerRow | None, row: TimerRow, back: str) -> Change[TimerRow]:
    """Describe a change of a timer's state. ``back`` is the action that undoes it."""
    old, undo = before.state if before else None, None
    if old != row.state:
        undo = UndoCall(action=back, parameters={"timer_id": row.timer_id})
    return Change(result=row, subject=row.timer_id, old=old, new=row.state, undo=undo)


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
