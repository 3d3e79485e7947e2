"""The bot as existing plugins' names reach it.

Names at module level (``config``, ``message_service``, ``DBChatMessage``) are the same objects for
every bot of a process. Whose they mean is found when they are used: the bot whose plugin's code
runs, else the only one that is open.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nekro_core.agent.settings import AgentSettings
from nekro_core.chat import ChatKey
from nekro_core.compat.nekro_agent.facts_file import FactsFile
from nekro_core.llm.settings import LLMSettings
from nekro_core.plugins.authoring.binding import effective_binding
from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.plugins.authoring.services import Services
from nekro_core.policy.permissions import CommandSettings
from nekro_core.policy.settings import TriggerSettings
from nekro_core.store import Store
from nekro_core.system.errors import NekroError
from nekro_core.tools.outcome import ToolFailure

if TYPE_CHECKING:
    from nekro_core.plugins.host.listing import PluginInfo
    from nekro_core.plugins.host.registry import PluginRegistry

_open: list["NekroAgentHost"] = []
"""The bots of this process, for code that runs outside of any plugin's call. An entry is there
while its `use_host` is open."""


class NoBot(NekroError, RuntimeError):
    """A name that means the running bot was used where none runs."""


@dataclass(eq=False, kw_only=True)
class NekroAgentHost:
    """One bot. ``adapters`` are those that run, by name; ``reset`` begins a chat anew.

    Implements `nekro_core.plugins.authoring.services.LegacyServices`.
    """

    store: Store
    llm: LLMSettings
    agent: AgentSettings
    trigger: TriggerSettings
    command: CommandSettings
    adapters: Mapping[str, Any]
    data_dir: Path
    run_seconds: float = 60.0
    plugins: "PluginRegistry | None" = None
    reset: Callable[[ChatKey], Awaitable[object]] | None = None

    def __post_init__(self) -> None:
        folder = self.data_dir / "existing_plugins"
        self.extra_users = FactsFile(folder / "users.json")
        self.extra_chats = FactsFile(folder / "chats.json")
        self.presets = FactsFile(folder / "presets.json")

    @property
    def reach(self) -> Services:
        """What plugins can reach. Raises `NoBot` before the bot is put together."""
        binding = effective_binding()
        if binding is not None and binding.services is not None:
            return binding.services
        if self.plugins is None:
            raise NoBot("the bot is not up yet: use this in a function that the bot calls")
        return self.plugins.services

    def listed(self) -> "tuple[PluginInfo, ...]":
        """The plugins that there are."""
        return self.plugins.plugins() if self.plugins else ()

    def adapter_of(self, chat_key: ChatKey) -> str:
        """The adapter of a chat."""
        return self.reach.adapter_of(chat_key.instance)

    def chat_channel(self, ctx: AgentCtx) -> Any:
        """See `Older`."""
        from nekro_core.compat.nekro_agent.rows.chats import DBChatChannel  # noqa: PLC0415 - it needs this module

        return DBChatChannel.made(self, ctx.chat)

    def user(self, ctx: AgentCtx) -> Any:
        """See `Older`."""
        from nekro_core.compat.nekro_agent.rows.users import DBUser  # noqa: PLC0415 - it needs this module

        if not ctx.from_user_id:
            return None
        return DBUser.made(self, ctx.chat.instance, ctx.from_user_id, ctx.from_user_name)

    def adapter(self, ctx: AgentCtx) -> Any:
        """See `Older`."""
        from nekro_core.compat.nekro_agent.platform import LegacyAdapter  # noqa: PLC0415 - it needs this module

        return LegacyAdapter(ctx.adapter_key, self.adapters.get(ctx.adapter_key))

    def core_config(self) -> Any:
        """See `Older`."""
        from nekro_core.compat.nekro_agent.core_config import config  # noqa: PLC0415 - it needs this module

        return config

    async def onebot_bot(self, ctx: AgentCtx) -> Any:
        """See `Older`."""
        from nekro_core.compat.nekro_agent.platform import bot_of  # noqa: PLC0415 - it needs this module

        account = self.store.accounts.of(ctx.chat.instance)
        if ctx.adapter_key != "onebot_v11" or account is None:
            raise ToolFailure(f"{ctx.chat_key} is no chat of OneBot v11: it has no such bot")
        return bot_of(account.account)

    def keeps_silent(self, ctx: AgentCtx) -> bool:
        """See `Older`."""
        if not self.extra_chats.get(ctx.chat_key).get("is_active", True):
            return True
        known = self.extra_users.get(f"{ctx.chat.instance}:{ctx.from_user_id}")
        return bool(known) and self.user(ctx).is_prevent_trigger

    async def persona(self, ctx: AgentCtx) -> str:
        """See `Older`."""
        if not self.extra_chats.get(ctx.chat_key).get("preset_id"):
            return ""
        preset = await self.chat_channel(ctx).get_preset()
        if preset.id <= 0:
            return ""
        return f"Who you are in this chat: {preset.name}.\n{preset.content}"

    async def preset(self, preset_id: int) -> Any:
        """See `Older`."""
        from nekro_core.compat.nekro_agent.rows.presets import DBPreset  # noqa: PLC0415 - it needs this module

        return await DBPreset.get_or_none(id=preset_id)

    async def current_preset(self, ctx: AgentCtx) -> Any:
        """See `Older`."""
        return await self.chat_channel(ctx).get_preset()

    async def set_preset(self, ctx: AgentCtx, preset_id: int | None) -> bool:
        """See `Older`."""
        if preset_id is not None and await self.preset(preset_id) is None:
            return False
        row = self.chat_channel(ctx)
        row.preset_id = preset_id
        await row.save()
        return True


@contextmanager
def use_host(host: NekroAgentHost) -> Iterator[NekroAgentHost]:
    """While this is open, names at module level may mean this bot."""
    _open.append(host)
    try:
        yield host
    finally:
        _open.remove(host)


def current_host() -> NekroAgentHost:
    """The bot that is meant here. Raises `NoBot`."""
    binding = effective_binding()
    older = binding.services.older if binding and binding.services else None
    if isinstance(older, NekroAgentHost):
        return older
    if not _open:
        raise NoBot("no bot runs here: use this in a function that the bot calls")
    return _open[-1]
