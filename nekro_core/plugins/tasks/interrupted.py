"""Stores which tasks run, so that the next start can report the tasks that a kill interrupted.

A task is a coroutine of a plugin and cannot be resumed. For each interrupted task, the next start
adds a line about the interruption to the chat's history, and wakes the agent, which can tell the
people who wait for the task.
"""

import hashlib
import json
import time
from collections.abc import Awaitable, Callable
from typing import Protocol

from loguru import logger

from nekro_core.chat import ChatKey, ChatKeyError, Record
from nekro_core.store import SqlStatement, Store, WaitingRow
from nekro_core.store.ownership import ChatScope, every_chat

TASK = "task"
_SHOWN = 200
"""Maximum number of characters of a task's type, and of its id, in the line."""


class TaskStore(Protocol):
    """Stores running tasks (`nekro_core.store.Store.waiting`)."""

    def put(self, row: WaitingRow) -> Awaitable[object]:
        """Store a row. It replaces a row with the same key."""

    def forget(self, kind: str, name: str) -> Awaitable[object]:
        """Delete a row."""


class TaskNoteWriter(Protocol):
    """The part of the inbox that this module uses (`nekro_core.delivery.Inbox`)."""

    async def note(
        self,
        chat_key: ChatKey,
        text: str,
        *,
        to_bot: bool,
        unique_id: str,
        beside: Callable[[int], tuple[SqlStatement, ...]],
    ) -> Record:
        """Store a line for the agent, and run the statements of ``beside`` in the same
        transaction."""


class RunningTaskRecords:
    """Stores which tasks run. Without a ``keeper`` nothing is stored. ``wall`` returns seconds
    since 1970."""

    def __init__(
        self, keeper: TaskStore | None = None, *, wall: Callable[[], float] = time.time
    ) -> None:
        self._keeper = keeper
        self._wall = wall

    def began(self, plugin: str, task_type: str, task_id: str, chat_key: str) -> None:
        """Store that a task has started."""
        if self._keeper is None:
            return
        try:
            chat = str(ChatKey.parse(chat_key))
        except ChatKeyError:
            return  # The task belongs to no chat, so nothing can be reported.
        self._keeper.put(
            WaitingRow(
                kind=TASK,
                name=_name(task_type, task_id),
                plugin=plugin,
                chat_key=chat,
                data=json.dumps({"type": task_type[:_SHOWN], "id": task_id[:_SHOWN]}),
                created=self._wall(),
            )
        )

    def ended(self, task_type: str, task_id: str) -> None:
        """Delete the row of a task that ended or was cancelled."""
        if self._keeper is not None:
            self._keeper.forget(TASK, _name(task_type, task_id))


async def report_interrupted(
    store: Store, inbox: TaskNoteWriter, chats: ChatScope = every_chat
) -> int:
    """Report the interrupted tasks of an earlier process to those chats of ``chats`` in which they
    ran, and delete their rows. Returns how many there were. Raises `StoreError`."""
    rows = await store.waiting.all(TASK, chats)
    for row in rows:
        known = json.loads(row.data)
        logger.warning("{}: task {} was interrupted by a restart", row.plugin, known)
        forgotten = store.waiting.forgotten(row.kind, row.name)
        await inbox.note(
            ChatKey.parse(row.chat_key),
            f"[task] {known['type']} {known['id']!r} of {row.plugin} was at work when the bot was "
            "restarted, and is over. What it had not done by then is not done. Whoever waits for "
            "it should be told; start it again if it is still wanted.",
            to_bot=True,
            unique_id=f"task:{row.name}:{row.created}",
            beside=lambda _, gone=forgotten: (gone,),  # type: ignore[misc]
        )
    return len(rows)


def _name(task_type: str, task_id: str) -> str:
    return hashlib.sha256(f"{task_type} {task_id}".encode(errors="replace")).hexdigest()
