"""The host: which MaiBot plugins are loaded, and what all of them share."""

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from anyio.abc import TaskGroup

from nekro_core.chat import ChatKey, ChatMessage, Record
from nekro_core.compat.maibot import folder
from nekro_core.compat.maibot.changed_messages import ChangedMessages
from nekro_core.compat.maibot.hooked_model import HookedModel
from nekro_core.compat.maibot.hooks import HookRunner
from nekro_core.compat.maibot.plugin import MaiBotPlugin
from nekro_core.compat.maibot.wire import message_of, stream_of
from nekro_core.delivery.adapter import Adapter
from nekro_core.delivery.host import MediaKeeper
from nekro_core.delivery.outbound.hook import SendHook
from nekro_core.llm.model import ChatModel
from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.plugins.authoring.effects import UndoStack
from nekro_core.plugins.authoring.plugin import NekroPlugin
from nekro_core.plugins.authoring.services import Services
from nekro_core.plugins.host.loader import DiscoveredPlugin
from nekro_core.store import Store
from nekro_core.system.background_tasks import background_tasks

if TYPE_CHECKING:
    from nekro_core.compat.maibot.gateways import GatewayAdapter
    from nekro_core.plugins.host.registry import PluginRegistry

LOOK_S = 1.0
"""How often to look whether a plugin's ``config.toml`` was changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MaiBotPorts:
    """What the host needs of the bot. ``adapters`` are the platforms, to which a plugin's gateway
    is added; ``inbound`` is where its messages go, ``online`` is called
    when one connects; ``hook_sends`` gives a say in what is sent. ``operator`` tells whether
    somebody may run commands that are for operators, ``received`` keeps what a gateway delivers."""

    services: Services
    store: Store
    adapters: dict[str, Adapter] = field(default_factory=dict)
    inbound: Callable[[ChatMessage], Awaitable[object]] | None = None
    names: Sequence[str] = ()
    persona: str = ""
    tool_s: float = 120.0
    wall: Callable[[], float] = time.time
    online: Callable[[], None] = lambda: None
    hook_sends: Callable[[SendHook], Callable[[], None]] | None = None
    operator: Callable[[ChatKey, str], bool] = lambda _chat, _user: False
    received: MediaKeeper | None = None


class MaiBotHost:
    """A `PluginKind`. Open it, hand it to `PluginRegistry.open`, then `attach` the registry.

    Nothing of the SDK is imported before the first plugin is loaded.
    """

    def __init__(self, ports: MaiBotPorts, tasks: TaskGroup) -> None:
        self.ports = ports
        self.plugins: dict[str, MaiBotPlugin] = {}
        self.stages = HookRunner(self.plugins)
        self.talk: dict[str, float] = {}
        self.changed = ChangedMessages()
        self.gateways: dict[tuple[str, str], GatewayAdapter] = {}
        self.look_s = LOOK_S
        self.older: set[str] = set()
        self.registry: PluginRegistry | None = None
        self._tasks = tasks
        self._unhook: Callable[[], None] | None = None

    @classmethod
    @asynccontextmanager
    async def open(cls, ports: MaiBotPorts) -> AsyncIterator[Self]:
        """Leave it after the registry."""
        async with background_tasks() as tasks:
            host = cls(ports, tasks)
            try:
                yield host
            finally:
                if host._unhook is not None:
                    host._unhook()

    def attach(self, registry: "PluginRegistry") -> None:
        """The plugins of the bot, for those that load and list others."""
        self.registry = registry

    def items(self, source: str, place: Path) -> list[DiscoveredPlugin]:
        """See `PluginKind.items`."""
        return folder.items(source, place)

    async def load(self, item: DiscoveredPlugin, effects: UndoStack, limit_s: float) -> NekroPlugin:
        """See `PluginKind.load`."""
        from nekro_core.compat.maibot.loader import load_plugin  # noqa: PLC0415 - the SDK takes 0.2 s

        self._register_send_hooks()
        return await load_plugin(self, item, effects, limit_s)

    def staged(self, model: ChatModel) -> ChatModel:
        """The model, with plugins' hooks around what turns ask of it."""
        return HookedModel(model, self)

    def _register_send_hooks(self) -> None:
        """From the first plugin on: without one nothing is asked about what is sent."""
        from nekro_core.compat.maibot.send_hooks import SendHooks  # noqa: PLC0415 - as above

        if self._unhook is None and self.ports.hook_sends is not None:
            self._unhook = self.ports.hook_sends(SendHooks(self))

    def find(self, name: str) -> MaiBotPlugin | None:
        """A loaded plugin by its id, its key or its folder."""
        for live in self.plugins.values():
            if name in (live.plugin_id, live.plugin.key, live.folder.name):
                return live
        return None

    def later(self, act: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Do something that must not happen inside the plugin that asks for it."""
        self._tasks.start_soon(act)

    def offer_tools(self, live: MaiBotPlugin) -> None:
        """Make a plugin's tools anew of its components."""
        from nekro_core.compat.maibot.loader import offer_tools  # noqa: PLC0415 - as above

        offer_tools(self, live)

    def config_schema(self, live: MaiBotPlugin) -> Mapping[str, Any]:
        """The form of a plugin's configuration, for a page: its own words for it."""
        make = getattr(live.instance, "get_webui_config_schema", None)
        if make is None:
            return {}
        schema: Mapping[str, Any] = make(
            plugin_id=live.plugin_id,
            plugin_name=live.manifest.name,
            plugin_version=live.manifest.version,
            plugin_description=live.manifest.description,
            plugin_author=live.manifest.author,
        )
        return schema

    def wall(self) -> float:
        """Seconds since 1970."""
        return self.ports.wall()

    def online(self) -> None:
        """A gateway is connected: what waits for it is tried."""
        self.ports.online()

    def facts(self) -> Mapping[str, Any]:
        """What plugins look up of the bot itself, under MaiBot's names."""
        names = [*self.ports.names]
        return {
            "bot": {
                "nickname": names[0] if names else "",
                "alias_names": names[1:],
                "platform": "qq",
                "qq_account": self._account("onebot_v11"),
            },
            "personality": {"personality": self.ports.persona, "reply_style": ""},
        }

    def instance_of(self, adapter: str, account: str) -> str:
        """The instance of an adapter's account, or of its first one; empty where none is known."""
        found = self.ports.store.accounts.instances(adapter)
        return found.get(account, "") if account else next(iter(found.values()), "")

    async def stream(self, key: ChatKey) -> dict[str, Any]:
        """A chat as plugins know it."""
        account = self.ports.store.accounts.of(key.instance)
        private = key.kind.value == "private"
        name = await self.ports.store.users.name(key.instance, key.native_id) if private else ""
        stream: dict[str, Any] = stream_of(
            key,
            adapter=self.ports.services.adapter_of(key.instance),
            account=account.account if account else "",
            user_name=name,
        )
        return stream

    def message(self, record: Record | ChatMessage, *, binary: bool = False) -> dict[str, Any]:
        """A message as plugins know it."""
        instance = record.chat_key.instance
        account = self.ports.store.accounts.of(instance)
        return message_of(
            record,
            adapter=self.ports.services.adapter_of(instance),
            account=account.account if account else "",
            binary=binary,
        )

    async def message_for(self, ctx: AgentCtx) -> dict[str, Any]:
        """The message that a run answers; nothing in it where no message woke the bot."""
        if not ctx.message_id:
            return {}
        record = await self.ports.store.messages.by_message_id(ctx.chat, ctx.message_id)
        return self.message(record) if record is not None else {}

    def _account(self, adapter: str) -> str:
        return next(iter(self.ports.store.accounts.instances(adapter)), "")
