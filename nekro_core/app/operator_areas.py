"""Builds all areas of the operator: what an operator may see and do."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from nekro_core.app.extensions import Extensions
from nekro_core.app.health import examine
from nekro_core.app.message_io import MessageIO
from nekro_core.app.settings import Settings
from nekro_core.operator.about import About
from nekro_core.operator.audit import AuditLog, Done
from nekro_core.operator.audit_area import Audit
from nekro_core.operator.health import Health
from nekro_core.operator.jobs import Jobs
from nekro_core.operator.operator import Operator
from nekro_core.operator.roles import Actor
from nekro_core.operator.settings import SettingsArea, SettingsBook
from nekro_core.operator.timers import Timers
from nekro_core.operator.undelivered import Undelivered
from nekro_core.system.background_tasks import background_tasks


@asynccontextmanager
async def open_operator(
    settings: Settings,
    *,
    book: SettingsBook,
    message_io: MessageIO,
    extensions: Extensions,
    wall: Callable[[], float],
) -> AsyncIterator[Operator]:
    """Build the areas. ``book`` reads and writes the settings. When the block ends, long actions
    that still run are cancelled."""
    audit = AuditLog(message_io.store.audit)

    async def perform(actor: Actor, name: str, parameters: Mapping[str, Any]) -> Done[Any]:
        return await operator.perform(actor, name, parameters)

    async with background_tasks() as tasks:
        operator = Operator(
            jobs=Jobs(audit, tasks, wall),
            audit=Audit(audit, perform),
            undelivered=Undelivered(audit, message_io.outbox.admin),
            timers=Timers(audit, message_io.timers, extensions.tasks),
            health=Health(audit, partial(examine, settings), wall),
            about=About(audit, started=wall(), changes=_changes()),
            settings=SettingsArea(audit, book),
        )
        yield operator


def _changes() -> str:
    """Return the text of CHANGELOG.md: of the checkout, or of the installed wheel."""
    here = Path(__file__).parents[1]
    for path in (here.parent / "CHANGELOG.md", here / "_builtin" / "CHANGELOG.md"):
        if path.is_file():
            return path.read_text("utf-8")
    return ""
