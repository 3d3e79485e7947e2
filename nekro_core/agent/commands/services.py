"""Defines the services that the built-in commands use, and reads their texts."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from loguru import logger

from nekro_core.agent.commands.actions import ActionsInForce, ChangeRefused
from nekro_core.chat.catalogue import Catalogue
from nekro_core.delivery.inbound.inbox import Inbox
from nekro_core.delivery.outbound.admin import OutboxAdmin
from nekro_core.memory.keeper import MemoryKeeper
from nekro_core.plugins.authoring.commands import CommandExecutionContext
from nekro_core.plugins.commands.router import CommandRouter
from nekro_core.policy.resolver import PolicyResolver
from nekro_core.policy.settings import PolicyDefaults
from nekro_core.store import Store
from nekro_core.system.errors import NekroError


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandServices:
    """The services that the built-in commands use. ``clock`` is monotonic; ``wall`` returns seconds
    since 1970."""

    router: CommandRouter
    catalogue: Catalogue
    store: Store
    outbox: OutboxAdmin
    policies: PolicyResolver
    actions: ActionsInForce
    settings: PolicyDefaults
    inbox: Inbox | None = None
    memory: MemoryKeeper | None = None
    clock: Callable[[], float]
    wall: Callable[[], float]

    async def tried(self, context: CommandExecutionContext, change: Awaitable[object]) -> str:
        """Carry out a change. Returns an empty text if the change succeeded. Otherwise returns the
        reason, for the person who wrote the command."""
        try:
            await change
        except ChangeRefused as error:
            return self.catalogue.say("command.refused", context.lang, reason=error)
        except (NekroError, OSError) as error:
            logger.error("{}: a command of {} failed: {}", context.chat_key, context.user_id, error)
            return self.catalogue.say("command.not_kept", context.lang)
        return ""


def command_texts(catalogue: Catalogue, name: str) -> dict[str, Any]:
    """Return a command's aliases and descriptions from the catalogue, as arguments of `Command`."""
    aliases = catalogue.in_each(f"own.{name}.alias").values()
    return {
        "i18n_description": catalogue.in_each(f"own.{name}.does"),
        "aliases": tuple(dict.fromkeys(alias for alias in aliases if alias != name)),
    }
