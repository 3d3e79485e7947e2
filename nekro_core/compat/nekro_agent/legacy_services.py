"""`NekroAgentServices`: gives `LegacyAgentCtx` rows, adapters, settings and presets.

Rows, adapters and settings are imported when a plugin needs one. The rows load Tortoise, which
takes 0.15 s and 8 MiB. The others take 10 ms.
"""

from typing import Any

from nekro_core.compat.nekro_agent.host import NekroAgentHost
from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.tools.outcome import ToolFailure


class NekroAgentServices(NekroAgentHost):
    """One bot, with the functions behind the attributes and methods of `LegacyAgentCtx`."""

    def chat_channel(self, ctx: AgentCtx) -> Any:
        """The row of the chat (``DBChatChannel``)."""
        from nekro_core.compat.nekro_agent.rows.chats import DBChatChannel  # noqa: PLC0415

        return DBChatChannel.made(self, ctx.chat)

    def user(self, ctx: AgentCtx) -> Any:
        """The row (``DBUser``) of the person who asks; None if no person asks."""
        if not ctx.from_user_id:
            return None
        from nekro_core.compat.nekro_agent.rows.users import DBUser  # noqa: PLC0415

        return DBUser.made(self, ctx.chat.instance, ctx.from_user_id, ctx.from_user_name)

    def adapter(self, ctx: AgentCtx) -> Any:
        """The adapter of the chat."""
        from nekro_core.compat.nekro_agent.platform import LegacyAdapter  # noqa: PLC0415

        return LegacyAdapter(ctx.adapter_key, self.adapters.get(ctx.adapter_key))

    def core_config(self) -> Any:
        """The bot's configuration."""
        from nekro_core.compat.nekro_agent.core import config  # noqa: PLC0415

        return config

    async def onebot_bot(self, ctx: AgentCtx) -> Any:
        """NoneBot's ``Bot`` of the account that serves the chat. Raises `ToolFailure` if there is
        none."""
        account = self.store.accounts.of(ctx.chat.instance)
        if ctx.adapter_key != "onebot_v11" or account is None:
            raise ToolFailure(
                f"{ctx.chat_key} is not a chat on OneBot v11, so it has no Bot of NoneBot"
            )
        from nekro_core.compat.nekro_agent.platform import bot_of  # noqa: PLC0415

        return bot_of(account.account)

    def keeps_silent(self, ctx: AgentCtx) -> bool:
        """Return True if a plugin has switched off answers in this chat or to this person."""
        chat = self.extra_chats.get(ctx.chat_key)
        if not chat.get("is_active", True) or chat.get("observe_mode", False):
            return True
        known = self.extra_users.get(f"{ctx.chat.instance}:{ctx.from_user_id}")
        return bool(known) and self.user(ctx).is_prevent_trigger

    async def persona(self, ctx: AgentCtx) -> str:
        """The persona text of the preset that a plugin has set for the chat; empty if there is
        none."""
        if not self.extra_chats.get(ctx.chat_key).get("preset_id"):
            return ""
        preset = await self.chat_channel(ctx).get_preset()
        if preset.id <= 0:
            return ""
        return f"Who you are in this chat: {preset.name}.\n{preset.content}"

    async def preset(self, preset_id: int) -> Any:
        """The preset (``DBPreset``) with this id; None if it does not exist."""
        from nekro_core.compat.nekro_agent.rows.presets import DBPreset  # noqa: PLC0415

        return await DBPreset.get_or_none(id=preset_id)

    async def current_preset(self, ctx: AgentCtx) -> Any:
        """The preset of the chat."""
        return await self.chat_channel(ctx).get_preset()

    async def set_preset(self, ctx: AgentCtx, preset_id: int | None) -> bool:
        """Set the preset of the chat; None means the bot's own preset. Returns False if there is no
        such preset."""
        if preset_id is not None and await self.preset(preset_id) is None:
            return False
        row = self.chat_channel(ctx)
        row.preset_id = preset_id
        await row.save()
        return True
