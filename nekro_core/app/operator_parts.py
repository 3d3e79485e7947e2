"""Collects the parts of the bot that operators see and change."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from nekro_core.app.agent_runtime import AgentRuntime
from nekro_core.app.boxes import BoxServices
from nekro_core.app.extensions import Extensions
from nekro_core.app.message_io import MessageIO
from nekro_core.app.settings import Settings
from nekro_core.backup.service import BackupService
from nekro_core.delivery.platforms.switch import PlatformSwitch
from nekro_core.operator.health import Finding
from nekro_core.operator.identity import Identity
from nekro_core.operator.late_operator import LateOperator
from nekro_core.operator.live_turns import LiveTurns
from nekro_core.policy.ban_list import BanList
from nekro_core.system.background_tasks import background_tasks
from nekro_core.system.documents import DocumentFolder
from nekro_core.system.logs.book import LogBook

if TYPE_CHECKING:
    from nekro_core.operator.operator import Operator
    from nekro_core.operator.settings import SettingsBook


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorParts:
    """The parts of the bot that the areas of `Operator` use.

    Attributes:
        book: Reads and writes the settings.
        turns: Knows the running turns.
        alerts: Returns the alerts that are not over.
    """

    settings: Settings
    data: Path
    book: "SettingsBook"
    message_io: MessageIO
    extensions: Extensions
    runtime: AgentRuntime
    identity: Identity
    backups: BackupService
    logs: LogBook
    platforms: PlatformSwitch
    bans: BanList
    boxes: BoxServices
    documents: DocumentFolder
    turns: LiveTurns
    alerts: Callable[[], tuple[Finding, ...]]
    wall: Callable[[], float]


@asynccontextmanager
async def open_operator(parts: OperatorParts) -> AsyncIterator[LateOperator]:
    """Make an operator that imports and makes its areas when somebody first uses them. When the
    block ends, long actions that still run are cancelled."""
    started = parts.wall()
    async with background_tasks() as tasks:

        def make() -> "Operator":
            from nekro_core.app.operator_areas import (  # noqa: PLC0415 - see `LateOperator`
                make_operator,
            )

            return make_operator(parts, tasks, started)

        yield LateOperator(make, partial(import_module, "nekro_core.app.operator_areas"))
