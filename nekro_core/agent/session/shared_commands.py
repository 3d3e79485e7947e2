"""Runs the commands of chats whose work several processes share: each command runs in one process
only, and is not run again if that process ends."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup
from loguru import logger

from nekro_core.agent.session.chat_tasks import ChatTasks
from nekro_core.agent.session.record_takes import RecordTakes
from nekro_core.agent.session.services import SessionServices
from nekro_core.chat import Record
from nekro_core.plugins.commands.router import CommandRouter
from nekro_core.store import DecisionReason, OwnershipLost, StoreUnavailable

_AGAIN_S = 1.0
"""Pause in seconds after a failure of the database, before the next try."""
_CUT_COMMAND_S = 30.0
"""If an earlier owner has not renewed the row of a command for this many seconds, the command was
cut off. An owner that lives finishes the command although it has lost the chat, and renews the row
every 10 s (`RecordTakes.keep_renewed`)."""


class SharedCommands:
    """The commands that this process runs while others share its work."""

    def __init__(
        self, services: SessionServices, router: CommandRouter, run: Callable[[Record], None]
    ) -> None:
        """``run`` starts the command of a record."""
        self._services = services
        self._router = router
        self._run = run
        self.begun: set[int] = set()
        """The numbers of the records whose commands run, or wait until it is stored that this
        process runs them."""

    def has(self, record: Record) -> bool:
        """Return whether a record is a command that must run once."""
        return self._router.is_command(record) and not record.from_history

    def start(self, record: Record, takes: RecordTakes | None, tasks: TaskGroup) -> None:
        """Run a command in a task, unless another process has begun it."""
        self.begun.add(record.seq)
        work = partial(self._run_if_unclaimed, record, takes)
        tasks.start_soon(work, name=f"command {record.seq}")

    async def find_cut(self, takes: RecordTakes, tasks: ChatTasks) -> None:
        """Find the commands that earlier owners of some chats began and did not finish, and tell
        their chats. Such a command is not run again."""
        for seq in takes.left():
            decision = await self._services.store.decisions.of(seq)
            record = await self._services.store.messages.get(seq)
            if record is None or decision is None:
                continue
            if decision.reason is DecisionReason.COMMAND:
                tell = partial(self._tell_of_cut_command, record, takes)
                tasks.start(record.chat_key, tell, name=f"cut command {seq}")

    async def _run_if_unclaimed(self, record: Record, takes: RecordTakes | None) -> None:
        """Run a command if no process has stored yet that it runs. If this process has lost the
        chat, the chat's new owner runs it."""
        try:
            if not await self._claim(record, takes):
                return
            self._run(record)
            # Let the command's task begin: `wait_until_idle` does not know of it before.
            await anyio.lowlevel.checkpoint()
            async with anyio.create_task_group() as renewing:
                if takes is not None:
                    renewing.start_soon(takes.keep_renewed, record.seq)
                await self._router.wait_until_idle(record.chat_key)
                renewing.cancel_scope.cancel()
            if takes is not None:
                takes.finish_one(record.seq)
        finally:
            self.begun.discard(record.seq)

    async def _claim(self, record: Record, takes: RecordTakes | None) -> bool:
        """Store that this process runs a command. Returns False if another process has stored that
        it runs the command, or owns the chat now."""
        while True:
            try:
                claimed = await self._services.store.decisions.claim_command(record.seq)
            except OwnershipLost:
                return False
            except StoreUnavailable as error:
                logger.warning("{}: command {} waits: {}", record.chat_key, record.seq, error)
                await anyio.sleep(_AGAIN_S)
            else:
                break
        if claimed and takes is not None:
            # If this process ends, the row tells the next owner that the command was cut off.
            with suppress(OwnershipLost):
                await takes.take(record.chat_key, record.seq)
        return claimed

    async def _tell_of_cut_command(self, record: Record, takes: RecordTakes) -> None:
        """Wait until a command of an earlier owner is finished, or its row is not renewed any more.
        In the second case, tell the chat that the command was cut off."""
        before = 0.0
        while True:
            try:
                taken = await takes.last_taken(record.seq)
            except StoreUnavailable as error:
                logger.warning("{}: command {}: {}", record.chat_key, record.seq, error)
                await anyio.sleep(_AGAIN_S)
                continue
            if taken is None:
                return
            if taken <= before:
                break
            before = taken
            await anyio.sleep(_CUT_COMMAND_S)
        takes.finish_one(record.seq)
        logger.warning("{}: command {} was cut off", record.chat_key, record.seq)
        await self._services.notices.send(record.chat_key, [record], "command.cut_off")
