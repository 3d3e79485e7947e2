"""Defines the services that the built-in commands use, and reads their texts."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol

from nekro_core.chat import ChatKey
from nekro_core.chat.catalogue import Catalogue
from nekro_core.delivery.outbound.admin import OutboxAdmin
from nekro_core.plugins.authoring.commands import CommandExecutionContext
from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.plugins.commands.router import CommandRouter
from nekro_core.policy import PolicyFile
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


WritePolicy = Callable[[CommandExecutionContext, ChatKey, str, object | None], Awaitable[object]]
"""Writes one field of a chat's overrides for a command. Raises `NekroError` and `OSError`."""


class ChatPolicyWriter:
    """Writes the overrides that commands change.

    The operator's actions are built after the commands. They take this over with `use`, so that a
    change by a command is validated, logged and undone like one on a page.
    """

    def __init__(self, file: PolicyFile) -> None:
        self._file = file
        self._write: WritePolicy = self._to_file

    def use(self, write: WritePolicy) -> None:
        """Let ``write`` write the overrides from now on."""
        self._write = write

    async def put(
        self, context: CommandExecutionContext, chat: ChatKey, field: str, value: object | None
    ) -> None:
        """Write a field; None removes it. Raises `NekroError` and `OSError`."""
        await self._write(context, chat, field, value)

    async def _to_file(
        self, _: CommandExecutionContext, chat: ChatKey, field: str, value: object | None
    ) -> None:
        await self._file.put(("chats", str(chat)), field, value)


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
    policy_writer: ChatPolicyWriter
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
