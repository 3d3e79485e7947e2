"""Collects all areas: everything that an operator may see and do."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from nekro_core.operator.about import About
from nekro_core.operator.actions import Area, BoundAction, BoundQuery
from nekro_core.operator.audit import Done
from nekro_core.operator.audit_area import Audit
from nekro_core.operator.errors import NoSuchItem
from nekro_core.operator.health import Health
from nekro_core.operator.jobs import Jobs
from nekro_core.operator.roles import Actor
from nekro_core.operator.settings import SettingsArea
from nekro_core.operator.timers import Timers
from nekro_core.operator.undelivered import Undelivered

Operation = BoundQuery[..., Any] | BoundAction[..., Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """The areas. All faces use this object: pages, HTTP API, command line and chat commands.

    Attributes:
        jobs: Long actions that run.
        audit: What operators did.
        undelivered: Outgoing messages that did not arrive.
        timers: Timers of all chats, and tasks of plugins.
        health: Which parts of the bot work.
        about: The running version.
        settings: The bot's settings.
    """

    jobs: Jobs
    audit: Audit
    undelivered: Undelivered
    timers: Timers
    health: Health
    about: About
    settings: SettingsArea

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
            NoSuchItem: There is none of this name.
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
