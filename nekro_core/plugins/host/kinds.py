"""Interfaces through which other rooms extend the plugin registry: kinds of plugins written for
another host (`PluginKind`), the forms of objects that such plugins expect (`LegacySupport`), and
functions that put declared values into effect (`Registrar`).

Everything that is done for a plugin is undone when the plugin ends. There are three ways:

- A plugin *declares* a value (a frozen dataclass of yours, `NekroPlugin.declare`), mostly from a
  ``mount_...`` method. The bot has one `Registrar` for its type, handed to `PluginRegistry.open`::

      def put(plugin: NekroPlugin, command: Command) -> None:
          table.add(plugin.key, command)                # raise Refused where it collides
          plugin.effects.add(f"command {command.name}", lambda: table.drop(plugin.key, command))

      PluginRegistry.open(services, registrars={Command: put})

- For something that was just done, ``plugin.effects.add(what, undo)`` adds its undo step. The
  function that it returns removes the step. ``undo`` may be async.
- A task is started with ``plugin.tasks.start(function, ...)``.

Call the plugin's code inside ``with plugin.acting():``, or with
`nekro_core.plugins.host.hooks.hook_result`, which also limits its time and logs its errors. When a
plugin is disabled or reloaded, or the bot ends, its tasks are ended, its effects are undone, last
first, and its modules are forgotten. Keep no plugin object and nothing of its modules beyond that:
a test counts what is left.

"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

from nekro_core.chat import ChatMessage
from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.plugins.authoring.effects import UndoStack
from nekro_core.plugins.authoring.plugin import NekroPlugin
from nekro_core.plugins.host.loader import DiscoveredPlugin
from nekro_core.system.errors import NekroError
from nekro_core.tools.problem import PluginProblem, ProblemSeverity


class PluginKind(Protocol):
    """A kind of plugins written for another host. What it loads is listed, switched and unloaded
    like any plugin.

    It is asked before the bot's own loader. A plugin that it takes is not loaded by another one.
    """

    def items(self, source: str, folder: Path) -> Sequence[DiscoveredPlugin]:
        """Get the plugins of this kind in a folder, sorted. Reads names alone."""

    async def load(self, item: DiscoveredPlugin, effects: UndoStack, limit_s: float) -> NekroPlugin:
        """Load a plugin and return a `NekroPlugin` for it. Its tools are in
        `NekroPlugin.offered_tools` where they are described already, and its start is the init
        method. Raises `LoadFailed`. What was done by then is among the effects."""


Registrar = Callable[[NekroPlugin, Any], None]
"""Puts one declared value into effect, and adds its undo step to ``plugin.effects``. Raises
`DeclarationRefused`."""
Registrars = Mapping[type, Registrar]
"""By the exact type of the declared value. A value of any other type has no effect."""
NO_REGISTRARS: Registrars = MappingProxyType({})


ContextFactory = Callable[..., AgentCtx]
"""Makes a context from `AgentCtx`'s fields. A subclass may have the names of another host."""


MessageForm = Callable[[ChatMessage, str], Any]
"""Makes what a message hook gets that does not ask for `ChatMessage` by its annotation. Given the
message and the name of its adapter."""


def native_message(message: ChatMessage, adapter_key: str) -> ChatMessage:
    """The form where no plugins of other hosts are served: the message itself."""
    del adapter_key
    return message


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacySupport:
    """What a bot adds so that plugins written for another bot find the forms that they know. The
    defaults add nothing.

    Attributes:
        make_context: Makes the contexts that handlers get first.
        message_form: Makes what message hooks get that do not ask for `ChatMessage`.
        keeps_silent: Whether a plugin forbids answers in this chat, or to this person.
        persona: Who the bot is in this chat, where a plugin has said so; else an empty text.
    """

    make_context: ContextFactory = AgentCtx
    message_form: MessageForm = native_message
    keeps_silent: Callable[[AgentCtx], bool] | None = None
    persona: Callable[[AgentCtx], Awaitable[str]] | None = None


NO_LEGACY_SUPPORT = LegacySupport()


class DeclarationRefused(NekroError):
    """A declared value cannot take effect; the rest of the plugin can. The author is shown the
    message, ``where`` (``file:line``) and ``remedy``."""

    def __init__(self, message: str, *, where: str = "", remedy: str = "") -> None:
        super().__init__(message)
        self.problem = PluginProblem(
            severity=ProblemSeverity.ERROR, message=message, where=where, remedy=remedy
        )
