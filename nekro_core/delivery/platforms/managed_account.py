"""Runs one account of an adapter in a task."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic

import anyio
from anyio.abc import TaskStatus
from loguru import logger

from nekro_core.delivery.platforms.connector import AccountConnector, Settings
from nekro_core.delivery.platforms.contract import AccountStatus
from nekro_core.delivery.platforms.monitor import AccountMonitor

STOP_S = 5.0
"""Time limit for an account to disconnect, in seconds."""


@dataclass(eq=False)
class ManagedAccount(Generic[Settings]):
    """An account with its settings and its task.

    Attributes:
        adapter: The adapter's name, for the log.
        monitor: The account's state.
        settings: Its settings; None if the stored settings are not valid any more.
        locked: The name of the setting that defines it; empty if the operator added it.
        stored: Its settings as they are stored.
        restart_needed: Whether the last change takes effect only after a restart of the bot.
        scope: The scope of its task; None while it does not run.
        ended: Set when the task has ended.
    """

    adapter: str
    monitor: AccountMonitor
    settings: Settings | None
    locked: str = ""
    stored: Mapping[str, Any] = field(default_factory=dict)
    restart_needed: bool = False
    scope: anyio.CancelScope | None = None
    ended: anyio.Event = field(default_factory=anyio.Event)

    def begin(self) -> anyio.CancelScope:
        """Return the scope in which the account is to run. It can be cancelled before the account's
        task begins."""
        self.scope, self.ended = anyio.CancelScope(), anyio.Event()
        return self.scope

    async def run(
        self,
        connector: AccountConnector[Settings],
        scope: anyio.CancelScope,
        *,
        task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        """Keep the account connected until ``scope`` is cancelled. Errors of the adapter are
        logged."""
        assert self.settings is not None
        try:
            with scope:
                task_status.started()
                # There must be no await between these two lines: `AccountManager.found` promises
                # that `run` has begun when it returns.
                await connector.run(self.settings, self.monitor)
        except Exception as error:  # noqa: BLE001 - an error must not end the other accounts
            logger.exception("{}: account {} ended", self.adapter, self.monitor.key)
            self.monitor.failed(f"an unexpected error ended it: {error!r}")
        finally:
            self.monitor.stopped()
            if self.scope is scope:
                self.scope = None
            self.ended.set()

    async def stop(self) -> None:
        """Cancel the task, and wait until it has ended, at most `STOP_S`."""
        if self.scope is None:
            return
        self.scope.cancel()
        with anyio.move_on_after(STOP_S, shield=True) as waiting:
            await self.ended.wait()
        if waiting.cancelled_caught:
            logger.error("{}: account {} does not end", self.adapter, self.monitor.key)

    def status(self) -> AccountStatus:
        """Return the account's state for the operator."""
        return self.monitor.status(locked=self.locked, restart_needed=self.restart_needed)
