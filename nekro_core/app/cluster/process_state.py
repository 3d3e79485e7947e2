"""Reads the state of this process of a cluster, for the consoles of gateways."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from nekro_core.app.app import App
from nekro_core.app.cluster.process_register import RegisteredProcess
from nekro_core.cluster.process_messages import ProcessState
from nekro_core.delivery.platforms.contract import AccountState, SupportsAccounts

_STATM = Path("/proc/self/statm")
_MOST_ACCOUNTS = 100
"""Maximum number of accounts that are listed."""


@dataclass(frozen=True, slots=True)
class OwnState:
    """Reads the state of this process. ``partitions`` returns how many partitions it owns."""

    app: App
    own: RegisteredProcess
    partitions: Callable[[], int]

    async def read(self) -> ProcessState:
        """Return the present state."""
        app, sessions = self.app, self.app.runtime.sessions
        return ProcessState(
            node=self.own.node,
            version=self.own.version,
            started=self.own.started,
            partitions=self.partitions(),
            turns_running=sessions.turns_running,
            turns_waiting=sessions.turns_waiting,
            chats=sessions.live_count,
            boxes=app.boxes_running,
            memory=resident_bytes(),
            accounts=_accounts(app),
            problem=await _problem(app),
        )


def resident_bytes() -> int:
    """Return the memory of this process in bytes; 0 if the system does not say."""
    try:
        return int(_STATM.read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def _accounts(app: App) -> tuple[str, ...]:
    found = [
        f"{name} {each.account or each.key}"
        for name, adapter in app.started_adapters().items()
        if isinstance(adapter, SupportsAccounts)
        for each in adapter.managed_accounts.listed()
        if each.state is AccountState.ONLINE
    ]
    return tuple(sorted(found)[:_MOST_ACCOUNTS])


async def _problem(app: App) -> str:
    if app.site.monitor is None:
        return ""
    checks = (await app.site.monitor.readiness()).checks
    return "; ".join(f"{each.name}: {each.reason}" for each in checks if not each.ok)
