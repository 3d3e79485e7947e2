"""The host of MaiBot plugins: loads the plugins, and owns the parts that all of them share."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Self

from anyio.abc import TaskGroup

from nekro_core.chat import ChatKey
from nekro_core.compat.maibot.bot_view import BotView
from nekro_core.compat.maibot.gateway_ports import GatewayPorts
from nekro_core.compat.maibot.hooks.handlers import HookRunner
from nekro_core.compat.maibot.hooks.hooked_model import HookedModel
from nekro_core.compat.maibot.plugin.loaded import LoadedPlugins
from nekro_core.compat.maibot.plugin.manifest import discover
from nekro_core.llm.model import ChatModel
from nekro_core.plugins.authoring.effects import UndoStack
from nekro_core.plugins.authoring.plugin import NekroPlugin
from nekro_core.plugins.host.hooked_outbox import SendHook
from nekro_core.plugins.host.loader import DiscoveredPlugin
from nekro_core.plugins.host.registry import PluginRegistry
from nekro_core.system.background_tasks import background_tasks

if TYPE_CHECKING:
    from nekro_core.compat.maibot.loader import MaiBotLoader


class MaiBotHost:
    """A `PluginKind` for MaiBot plugins. Open the host, pass it to `PluginRegistry.open`, then
    `attach` the registry.

    The SDK, and everything else that only plugins need, is imported when the first plugin is
    loaded.
    """

    def __init__(
        self,
        bot: BotView,
        gateways: GatewayPorts,
        tasks: TaskGroup,
        *,
        tool_s: float,
        strict_host_range: bool,
        is_operator: Callable[[ChatKey, str], bool],
        hook_sends: Callable[[SendHook], Callable[[], None]] | None,
    ) -> None:
        self._bot = bot
        self.plugins = LoadedPlugins(tasks)
        self._hooks = HookRunner(self.plugins)
        self._gateways = gateways
        self._is_operator = is_operator
        self._tool_s = tool_s
        self._strict_host_range = strict_host_range
        self._hook_sends = hook_sends
        self._loader: MaiBotLoader | None = None
        self._unhook: Callable[[], None] | None = None

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        bot: BotView,
        gateways: GatewayPorts,
        *,
        tool_s: float,
        strict_host_range: bool = False,
        is_operator: Callable[[ChatKey, str], bool],
        hook_sends: Callable[[SendHook], Callable[[], None]] | None = None,
    ) -> AsyncIterator[Self]:
        """Open a host. Close the registry before the host.

        Args:
            bot: The data of the bot that plugins read.
            gateways: The parts of the bot that plugins' message gateways use.
            tool_s: Time limit in seconds of a command, and of a tool that sets no limit.
            strict_host_range: Whether to refuse a plugin if its manifest does not allow this host's
                version of MaiBot. Otherwise such a plugin is loaded with a warning.
            is_operator: Whether a person may run commands for operators in a chat.
            hook_sends: Adds a hook for every sent message, and returns a function that removes the
                hook.
        """
        async with background_tasks() as tasks:
            host = cls(
                bot,
                gateways,
                tasks,
                tool_s=tool_s,
                strict_host_range=strict_host_range,
                is_operator=is_operator,
                hook_sends=hook_sends,
            )
            try:
                yield host
            finally:
                if host._unhook is not None:
                    host._unhook()

    def attach(self, registry: PluginRegistry) -> None:
        """Set the registry, so that plugins can list, load and unload plugins."""
        self.plugins.registry = registry

    def items(self, source: str, folder: Path) -> list[DiscoveredPlugin]:
        """See `PluginKind.items`."""
        return discover(source, folder)

    async def load(self, item: DiscoveredPlugin, effects: UndoStack, limit_s: float) -> NekroPlugin:
        """See `PluginKind.load`."""
        if self._loader is None:
            self._loader = self._first_loader()
        return await self._loader.load(item, effects, limit_s)

    def hooked(self, model: ChatModel) -> ChatModel:
        """Wrap a model, so that plugins' hooks run for the requests of turns."""
        return HookedModel(model, self._bot, self._hooks, self.plugins)

    def _first_loader(self) -> "MaiBotLoader":
        # The SDK takes 0.2 s, and the other modules 10 ms. Few bots have such plugins.
        from nekro_core.compat.maibot.gateways import Gateways  # noqa: PLC0415
        from nekro_core.compat.maibot.hooks.commands import MaiBotCommands  # noqa: PLC0415
        from nekro_core.compat.maibot.hooks.inbound import InboundMessages  # noqa: PLC0415
        from nekro_core.compat.maibot.hooks.send_hooks import SendHooks  # noqa: PLC0415
        from nekro_core.compat.maibot.loader import MaiBotLoader  # noqa: PLC0415

        if self._hook_sends is not None:
            self._unhook = self._hook_sends(SendHooks(self._bot, self._hooks))
        return MaiBotLoader(
            bot=self._bot,
            hooks=self._hooks,
            plugins=self.plugins,
            gateways=Gateways(self._bot, self._gateways),
            inbound=InboundMessages(
                bot=self._bot,
                plugins=self.plugins,
                hooks=self._hooks,
                commands=MaiBotCommands(self._hooks, self._is_operator),
            ),
            tool_s=self._tool_s,
            strict_host_range=self._strict_host_range,
        )
