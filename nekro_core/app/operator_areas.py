"""Builds the areas of `Operator`. An area is what an operator may see and do about one subject,
such as chats or people."""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from nekro_core.agent.replay.replay import TurnReplayer
from nekro_core.agent.shown.viewer import PromptViewer
from nekro_core.app.agent_runtime import AgentRuntime
from nekro_core.app.boxes import BoxServices
from nekro_core.app.extensions import Extensions
from nekro_core.app.health import examine, quick_problems
from nekro_core.app.message_io import MessageIO
from nekro_core.app.plugin_services import plugin_services
from nekro_core.app.settings import Settings
from nekro_core.backup.service import BackupService
from nekro_core.delivery.platforms.switch import PlatformSwitch
from nekro_core.llm.embedded.library import ModelFiles
from nekro_core.operator.about import About
from nekro_core.operator.audit import AuditLog, Done
from nekro_core.operator.audit_area import Audit
from nekro_core.operator.backups import Backups
from nekro_core.operator.boxes import Boxes
from nekro_core.operator.broadcast import BroadcastArea
from nekro_core.operator.chats import Chats
from nekro_core.operator.cluster import ClusterArea
from nekro_core.operator.embedded import Embedded
from nekro_core.operator.erasure import Erasure
from nekro_core.operator.finder import Finder, NamedSetting
from nekro_core.operator.health import Finding, Health
from nekro_core.operator.identity import Identity
from nekro_core.operator.jobs import Jobs
from nekro_core.operator.live_turns import LiveTurns
from nekro_core.operator.logs import Logs
from nekro_core.operator.mcp import Mcp
from nekro_core.operator.memory import Memory
from nekro_core.operator.models import Models
from nekro_core.operator.network import Network
from nekro_core.operator.operator import Operator
from nekro_core.operator.people import People
from nekro_core.operator.personas import Personas
from nekro_core.operator.platforms import Platforms
from nekro_core.operator.plugins import Plugins
from nekro_core.operator.requests import Requests
from nekro_core.operator.roles import Actor
from nekro_core.operator.settings import SettingsArea, SettingsBook
from nekro_core.operator.statistics import Statistics
from nekro_core.operator.timers import Timers
from nekro_core.operator.transfer.area import Transfer
from nekro_core.operator.transfer.exporter import Sources
from nekro_core.operator.turns import Turns
from nekro_core.operator.undelivered import Undelivered
from nekro_core.policy.ban_list import BanList
from nekro_core.system.background_tasks import background_tasks
from nekro_core.system.documents import DocumentFolder
from nekro_core.system.logs.book import LogBook


@asynccontextmanager
async def open_operator(
    settings: Settings,
    data: Path,
    *,
    book: SettingsBook,
    message_io: MessageIO,
    extensions: Extensions,
    runtime: AgentRuntime,
    identity: Identity,
    backups: BackupService,
    logs: LogBook,
    platforms: PlatformSwitch,
    bans: BanList,
    boxes: BoxServices,
    documents: DocumentFolder,
    turns: LiveTurns,
    alerts: Callable[[], tuple[Finding, ...]],
    wall: Callable[[], float],
) -> AsyncIterator[Operator]:
    """Build the areas. ``book`` reads and writes the settings, ``turns`` knows the running turns,
    ``alerts`` returns the alerts that are not over. When the block ends, long actions that still
    run are cancelled."""
    audit = AuditLog(message_io.store.audit)

    async def perform(actor: Actor, name: str, parameters: Mapping[str, Any]) -> Done[Any]:
        return await operator.perform(actor, name, parameters)

    async with background_tasks() as tasks:
        operator = Operator(
            jobs=Jobs(audit, tasks, wall),
            audit=Audit(audit, perform),
            people=People(audit, identity),
            chats=Chats(
                audit,
                store=message_io.store,
                policies=runtime.services.policies,
                sessions=turns,
                outbox=message_io.outbox,
                activity=message_io.activity,
                media=message_io.media,
                tools=extensions.plugins,
            ),
            erasure=Erasure(
                audit,
                store=message_io.store,
                erasing=runtime.erasure,
                sessions=runtime.sessions,
                media=message_io.media,
                boxes=boxes.of_chats,
                timers=message_io.timers,
            ),
            statistics=Statistics(audit, message_io.store, wall),
            turns=Turns(
                audit,
                message_io.store,
                PromptViewer(message_io.store, runtime.services.pictures),
                TurnReplayer(runtime.services),
                runtime.services.policies.model_named,
            ),
            undelivered=Undelivered(audit, message_io.outbox.admin),
            timers=Timers(audit, message_io.timers, extensions.tasks, message_io.store.timers),
            memory=Memory(audit, message_io.memory, message_io.store),
            models=Models(audit, runtime.models, book),
            embedded=Embedded(audit, runtime.models, ModelFiles(data / "models"), book),
            mcp=Mcp(audit, extensions.mcp),
            personas=Personas(audit, runtime.personas, runtime.services),
            network=Network(audit, boxes.egress),
            health=Health(
                audit,
                partial(examine, settings),
                lambda: (*alerts(), *quick_problems(settings, book.problem)),
                wall,
            ),
            about=About(audit, started=wall(), changes=_changes()),
            plugins=Plugins(audit, plugin_services(message_io, extensions, runtime, documents)),
            backups=Backups(audit, backups),
            logs=Logs(audit, logs),
            platforms=Platforms(audit, platforms),
            requests=Requests(audit, message_io.requests, bans),
            broadcast=BroadcastArea(audit, message_io.announcements),
            settings=SettingsArea(audit, book),
            transfer=Transfer(
                audit,
                Sources(
                    store=message_io.store,
                    settings=book,
                    personas=runtime.personas,
                    policies=runtime.services.policies.conduct,
                    wall=wall,
                ),
                message_io.memory,
            ),
            boxes=Boxes(audit, boxes.of_chats),
            finder=Finder(
                audit,
                store=message_io.store,
                plugins=extensions.plugins.plugins,
                settings=[NamedSetting(name=name) for name in setting_names(Settings)],
            ),
            cluster=ClusterArea(audit),
        )
        yield operator


def setting_names(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Yield the names of all settings of a class of settings, for example ``llm.base_url``."""
    for name, about in model.model_fields.items():
        full = f"{prefix}{name.removeprefix('nekro_')}"
        inner = about.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from setting_names(inner, f"{full}.")
        else:
            yield full


def _changes() -> str:
    """Return the text of CHANGELOG.md, from the checkout or from the installed wheel."""
    here = Path(__file__).parents[1]
    for path in (here.parent / "CHANGELOG.md", here / "_builtin" / "CHANGELOG.md"):
        if path.is_file():
            return path.read_text("utf-8")
    return ""
