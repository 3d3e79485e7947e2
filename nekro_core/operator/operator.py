"""Collects all areas: everything that an operator may see and do."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from nekro_core.operator.about import About
from nekro_core.operator.actions import Area, BoundAction, BoundQuery
from nekro_core.operator.audit import Done
from nekro_core.operator.audit_area import Audit
from nekro_core.operator.backups import Backups
from nekro_core.operator.boxes import Boxes
from nekro_core.operator.broadcast import BroadcastArea
from nekro_core.operator.chats import Chats
from nekro_core.operator.cluster import ClusterArea
from nekro_core.operator.elsewhere import OtherProcesses
from nekro_core.operator.embedded import Embedded
from nekro_core.operator.erasure import Erasure
from nekro_core.operator.errors import NoSuchItem
from nekro_core.operator.finder import Finder
from nekro_core.operator.health import Health
from nekro_core.operator.jobs import Jobs
from nekro_core.operator.logs import Logs
from nekro_core.operator.mcp import Mcp
from nekro_core.operator.memory import Memory
from nekro_core.operator.models import Models
from nekro_core.operator.network import Network
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
from nekro_core.operator.turns import Turns
from nekro_core.operator.undelivered import Undelivered

Operation = BoundQuery[..., Any] | BoundAction[..., Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """The areas. Pages, HTTP API, command line and chat commands all use this object.

    Attributes:
        jobs: Long actions that run.
        audit: What operators did.
        people: The people who may open the console.
        chats: The chats of all platforms.
        erasure: What the bot keeps about chats and people.
        statistics: What the bot did and what it cost.
        turns: The turns of all chats.
        undelivered: Outgoing messages that did not arrive.
        timers: Timers of all chats, and tasks of plugins.
        memory: Notes, summaries, links and documents.
        models: Language models.
        embedded: The embedded model and its files.
        mcp: MCP servers.
        personas: The library of personas.
        network: What the code of chats may reach.
        health: Which parts of the bot work.
        about: The running version.
        plugins: The plugins, their configurations and their tools.
        backups: The backups, and the restore of the next start.
        logs: The log of the running bot.
        platforms: The platforms and the bot's accounts on them.
        requests: Friend and group requests, and banned people.
        broadcast: Messages of operators to several chats.
        settings: The bot's settings.
        transfer: Exports and imports of what the bot knows.
        boxes: The boxes of chats.
        finder: Finds chats, turns, plugins and settings.
        cluster: The processes of a cluster.
    """

    jobs: Jobs
    audit: Audit
    people: People
    chats: Chats
    erasure: Erasure
    statistics: Statistics
    turns: Turns
    undelivered: Undelivered
    timers: Timers
    memory: Memory
    models: Models
    embedded: Embedded
    mcp: Mcp
    personas: Personas
    network: Network
    health: Health
    about: About
    plugins: Plugins
    backups: Backups
    logs: Logs
    platforms: Platforms
    requests: Requests
    broadcast: BroadcastArea
    settings: SettingsArea
    transfer: Transfer
    boxes: Boxes
    finder: Finder
    cluster: ClusterArea

    def connect(self, others: OtherProcesses) -> None:
        """Let operations reach the other processes of a cluster.

        Args:
            others: The other processes.
        """
        for area in self.areas():
            area.others = others

    def areas(self) -> Iterator[Area]:
        """Yield all areas."""
        for each in fields(self):
            yield getattr(self, each.name)

    def operations(self) -> dict[str, Operation]:
        """Return all queries and actions by their full names, for example ``chats.stop``."""
        return {
            f"{area.name}.{name}": getattr(area, name)
            for area in self.areas()
            for name in area.declared()
        }

    def operation(self, full_name: str) -> Operation:
        """Get a query or an action.

        Args:
            full_name: Its name, for example ``chats.stop``.

        Returns:
            The operation.

        Raises:
            NoSuchItem: There is no operation of this name.
        """
        area_name, _, name = full_name.partition(".")
        for area in self.areas():
            if area.name == area_name and name in area.declared():
                operation: Operation = getattr(area, name)
                return operation
        raise NoSuchItem(f"there is no operation {full_name[:80]!r}")

    async def perform(
        self, actor: Actor, full_name: str, parameters: Mapping[str, Any]
    ) -> Done[Any]:
        """Carry out an action by its name.

        Args:
            actor: Who asks for it.
            full_name: The action's name, for example ``chats.stop``.
            parameters: Its parameters by name.

        Returns:
            The outcome.

        Raises:
            OperatorError: The action was refused.
            NekroError: The action failed.
        """
        operation = self.operation(full_name)
        if not isinstance(operation, BoundAction):
            raise NoSuchItem(f"{full_name} is a query, not an action")
        return await operation.invoke(actor, parameters)
