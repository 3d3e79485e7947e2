"""Defines the services that the built-in commands use, and reads their texts."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from nekro_core.chat.catalogue import Catalogue
from nekro_core.delivery.outbound.admin import OutboxAdmin
from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.plugins.commands.router import CommandRouter
from nekro_core.policy.resolver import PolicyResolver
from nekro_core.policy.settings import PolicyDefaults
from nekro_core.store import Store


class ErasingPlugins(Protocol):
    """The part of the plugin registry that ``/erase`` uses
    (`nekro_core.plugins.host.registry.PluginRegistry`)."""

    async def on_user_erase(
        self, ctx: AgentCtx, adapter: str, user_id: str
    ) -> tuple[int, list[str]]:
        """Call the plugins' hooks that erase a person. Returns the number of deleted items, and the
        plugins that failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandServices:
    """The services that the built-in commands use. ``clock`` is monotonic; ``wall`` returns seconds
    since 1970."""

    router: CommandRouter
    catalogue: Catalogue
    store: Store
    outbox: OutboxAdmin
    plugins: ErasingPlugins
    policies: PolicyResolver
    settings: PolicyDefaults
    clock: Callable[[], float]
    wall: Callable[[], float]


def command_texts(catalogue: Catalogue, name: str) -> dict[str, Any]:
    """Return a command's aliases and descriptions from the catalogue, as arguments of `Command`."""
    aliases = catalogue.in_each(f"own.{name}.alias").values()
    return {
        "i18n_description": catalogue.in_each(f"own.{name}.does"),
        "aliases": tuple(dict.fromkeys(alias for alias in aliases if alias != name)),
    }
