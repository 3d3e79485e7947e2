"""Interfaces through which other rooms extend the plugin registry: loaders of plugins written for
another bot (`PluginKind`), the objects that such plugins expect (`LegacySupport`), and functions
that put declared values into effect (`Registrar`).

Every change that is made for a plugin is undone when the plugin is unloaded. There are three ways:

- A plugin *declares* a value of a frozen dataclass of yours (`NekroPlugin.declare`), usually in a
  ``mount_...`` method. Pass one `Registrar` for the dataclass to `PluginRegistry.open`::

      def put(plugin: NekroPlugin, command: Command) -> None:
          table.add(plugin.key, command)                # may raise DeclarationRefused
          plugin.effects.add(f"command {command.name}", lambda: table.drop(plugin.key, command))

      PluginRegistry.open(services, registrars={Command: put})

- For a change that you just made, call ``plugin.effects.add(what, undo)``. It adds an undo step and
  returns a function that removes the step. ``undo`` may be async.
- Start a task with ``plugin.tasks.start(function, ...)``.

Call the plugin's code inside ``with plugin.acting():``, or with
`nekro_core.plugins.host.hooks.hook_result`, which also limits its time and logs its errors. When a
plugin is disabled or reloaded, or the bot ends, its tasks are ended, its undo steps run in reverse
order, and its modules are removed from ``sys.modules``. After that, keep no reference to the plugin
object or to anything in its modules: a test counts the remaining objects.

"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

from nekro_core.chat import ChatMessage, Segments
from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.plugins.authoring.effects import UndoStack
from nekro_core.plugins.authoring.plugin import NekroPlugin
from nekro_core.plugins.host.loader import DiscoveredPlugin
from nekro_core.system.errors import NekroError
from nekro_core.tools.problem import PluginProblem, ProblemSeverity
from nekro_core.tools.tool import Tool


class PluginKind(Protocol):
    """A loader of plugins written for another bot. Its plugins are listed, switched and unloaded
    like any other plugin.

    Each kind is tried before the bot's own loader. The first one that lists a plugin loads it.
    """

    def items(self, source: str, folder: Path) -> Sequence[DiscoveredPlugin]:
        """Get the plugins of this kind in a folder, sorted. Reads only names of files."""

    async def load(self, item: DiscoveredPlugin, effects: UndoStack, limit_s: float) -> NekroPlugin:
        """Load a plugin and return a `NekroPlugin` for it. Put the plugin's tools into
        `NekroPlugin.offered_tools`, and set an init method that starts the plugin. Add a step to
        ``effects`` for each change, so that the caller can undo it after an error. Raises
        `LoadFailed`."""


Registrar = Callable[[NekroPlugin, Any], None]
"""Puts one declared value into effect, and adds its undo step to ``plugin.effects``. Raises
`DeclarationRefused`."""
Registrars = Mapping[type, Registrar]
"""The registrars by the exact type of the declared value. A value of another type has no effect."""
NO_REGISTRARS: Registrars = MappingProxyType({})


ContextFactory = Callable[..., AgentCtx]
"""Makes a context from `AgentCtx`'s fields. The context may be of a subclass of `AgentCtx` that has
the attribute names of another bot."""


MessageForm = Callable[[ChatMessage, str], Any]
"""Makes, from a message and the name of its adapter, the object for message hooks whose parameter
is not annotated with `ChatMessage`."""


MessageChanges = Callable[[ChatMessage, Any], Segments | None]
"""Reads from a message, and from the object that a `MessageForm` made of it, what a hook has
changed in the object: the new segments, or None."""


def native_message(message: ChatMessage, adapter_key: str) -> ChatMessage:
    """Return the message itself. This is the `MessageForm` of a bot that does not run plugins of
    other bots."""
    del adapter_key
    return message


def no_changes(message: ChatMessage, given: Any) -> Segments | None:
    """Return None: a `ChatMessage` is frozen, so no hook changes it."""
    del message, given
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxExtras:
    """Global variables and symbolic links that a box gets in addition to the tools. Prompts do not
    mention them.

    Attributes:
        values: Texts by the name of the global variable that holds them.
        links: The targets of symbolic links, by their paths in the box.
    """

    values: Mapping[str, str] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)


NO_BOX_EXTRAS = BoxExtras()


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacySupport:
    """The objects and functions that plugins written for another bot need. The defaults add
    nothing.

    Attributes:
        make_context: Makes the contexts of handlers.
        message_form: Makes the message object for hooks whose parameter is not annotated with
            `ChatMessage`.
        message_changes: Reads what a hook has changed in the object of ``message_form``.
        keeps_silent: Whether a plugin forbids answers in this chat or to this person.
        persona: The persona text that a plugin set for this chat; empty if none did.
        box_extras: The `BoxExtras` of a chat. They are used only while a plugin that was written
            for another bot is loaded (`NekroPlugin.is_lenient`).
        tools: Unlisted tools that code can call while such a plugin is loaded.
    """

    make_context: ContextFactory = AgentCtx
    message_form: MessageForm = native_message
    message_changes: MessageChanges = no_changes
    keeps_silent: Callable[[AgentCtx], bool] | None = None
    persona: Callable[[AgentCtx], Awaitable[str]] | None = None
    box_extras: Callable[[AgentCtx], BoxExtras] | None = None
    tools: Sequence[Tool] = ()


NO_LEGACY_SUPPORT = LegacySupport()


class DeclarationRefused(NekroError):
    """A declared value cannot take effect; the rest of the plugin works. The plugin list shows the
    message, ``where`` (``file:line``) and ``remedy``."""

    def __init__(self, message: str, *, where: str = "", remedy: str = "") -> None:
        super().__init__(message)
        self.problem = PluginProblem(
            severity=ProblemSeverity.ERROR, message=message, where=where, remedy=remedy
        )
