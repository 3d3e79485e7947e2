"""Builds the areas of `Operator`. An area is what an operator may see and do about one subject,
such as chats or people."""

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from anyio.abc import TaskGroup
from pydantic import BaseModel

from nekro_core.agent.replay.replay import TurnReplayer
from nekro_core.agent.shown.viewer import PromptViewer
from nekro_core.app.health import examine, quick_problems
from nekro_core.app.operator_parts import OperatorParts
from nekro_core.app.plugin_services import plugin_services
from nekro_core.app.settings import Settings
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
from nekro_core.operator.health import Health
from nekro_core.operator.jobs import Jobs
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
from nekro_core.operator.settings import SettingsArea
from nekro_core.operator.statistics import Statistics
from nekro_core.operator.timers import Timers
from nekro_core.operator.transfer.area import Transfer
from nekro_core.operator.transfer.exporter import Sources
from nekro_core.operator.turns import Turns
from nekro_core.operator.undelivered import Undelivered


def make_operator(parts: OperatorParts, tasks: TaskGroup, started: float) -> Operator:
    """Make the areas.

    Args:
        parts: The parts of the bot that the areas use.
        tasks: Runs long actions.
        started: When the bot started, in seconds since 1970.
    """
    audit = AuditLog(parts.message_io.store.audit)

    async def perform(actor: Actor, name: str, parameters: Mapping[str, Any]) -> Done[Any]:
        return await operator.perform(actor, name, parameters)

    operator = Operator(
        jobs=Jobs(audit, tasks, parts.wall),
        audit=Audit(audit, perform),
        people=People(audit, parts.identity),
        chats=Chats(
            audit,
            store=parts.message_io.store,
            policies=parts.runtime.services.policies,
            sessions=parts.turns,
            outbox=parts.message_io.outbox,
            activity=parts.message_io.activity,
            media=parts.message_io.media,
            tools=parts.extensions.plugins,
        ),
        erasure=Erasure(
            audit,
            store=parts.message_io.store,
            erasing=parts.runtime.erasure,
            sessions=parts.runtime.sessions,
            media=parts.message_io.media,
            boxes=parts.boxes.of_chats,
            timers=parts.message_io.timers,
        ),
        statistics=Statistics(audit, parts.message_io.store, parts.wall),
        turns=Turns(
            audit,
            parts.message_io.store,
            PromptViewer(parts.message_io.store, parts.runtime.services.pictures),
            TurnReplayer(parts.runtime.services),
            parts.runtime.services.policies.model_named,
        ),
        undelivered=Undelivered(audit, parts.message_io.outbox.admin),
        timers=Timers(
            audit, parts.message_io.timers, parts.extensions.tasks, parts.message_io.store.timers
        ),
        memory=Memory(audit, parts.message_io.memory, parts.message_io.store),
        models=Models(audit, parts.runtime.models, parts.book),
        embedded=Embedded(
            audit, parts.runtime.models, ModelFiles(parts.data / "models"), parts.book
        ),
        mcp=Mcp(audit, parts.extensions.mcp),
        personas=Personas(audit, parts.runtime.personas, parts.runtime.services),
        network=Network(audit, parts.boxes.egress),
        health=Health(
            audit,
            partial(examine, parts.settings),
            lambda: (*parts.alerts(), *quick_problems(parts.settings, parts.book.problem)),
            parts.wall,
        ),
        about=About(audit, started=started, changes=_changes()),
        plugins=Plugins(
            audit,
            plugin_services(parts.message_io, parts.extensions, parts.runtime, parts.documents),
        ),
        backups=Backups(audit, parts.backups),
        logs=Logs(audit, parts.logs),
        platforms=Platforms(audit, parts.platforms),
        requests=Requests(audit, parts.message_io.requests, parts.bans),
        broadcast=BroadcastArea(audit, parts.message_io.announcements),
        settings=SettingsArea(audit, parts.book),
        transfer=Transfer(
            audit,
            Sources(
                store=parts.message_io.store,
                settings=parts.book,
                personas=parts.runtime.personas,
                policies=parts.runtime.services.policies.conduct,
                wall=parts.wall,
            ),
            parts.message_io.memory,
        ),
        boxes=Boxes(audit, parts.boxes.of_chats),
        finder=Finder(
            audit,
            store=parts.message_io.store,
            plugins=parts.extensions.plugins.plugins,
            settings=[NamedSetting(name=name) for name in setting_names(Settings)],
        ),
        cluster=ClusterArea(audit),
    )
    return operator


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
