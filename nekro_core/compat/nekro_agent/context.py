"""`LegacyAgentCtx`: a context with the attributes and methods that plugins for nekro-agent use.

The app passes this class to the plugin host, which makes all contexts with it.
"""

from pathlib import Path
from types import ModuleType
from typing import Any

from nekro_core.chat import ChatKey, Receipt
from nekro_core.compat.nekro_agent.host import NekroAgentHost
from nekro_core.compat.nekro_agent.legacy_services import NekroAgentServices
from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.plugins.authoring.web import WebhookRequest, no_chat_key
from nekro_core.tools.outcome import ToolFailure


class LegacyAgentCtx(AgentCtx):
    """An `AgentCtx` that also has the names of nekro-agent. Its methods accept parameters of
    nekro-agent that have no effect here, for example ``record``: sent messages are always stored in
    the chat's history."""

    __slots__ = ()

    @property
    def from_chat_key(self) -> str:
        """The same as ``chat_key``."""
        return self.chat_key

    @property
    def from_platform_userid(self) -> str:
        """The same as ``from_user_id``."""
        return self.from_user_id

    @property
    def container_key(self) -> str:
        """The key of the chat's box, which is the name of the box's folder."""
        return self.chat.file_name

    @property
    def db_chat_channel(self) -> Any:
        """The row of the chat (``DBChatChannel``)."""
        return self._host.chat_channel(self)

    @property
    def db_user(self) -> Any:
        """The row (``DBUser``) of the person who asks; None if no person asks."""
        return self._host.user(self)

    @property
    def adapter(self) -> Any:
        """The adapter of the chat."""
        return self._host.adapter(self)

    @property
    def ms(self) -> ModuleType:
        """The module with the sending functions:
        `nekro_core.compat.nekro_agent.message_functions`."""
        from nekro_core.compat.nekro_agent import message_functions  # noqa: PLC0415 - seldom needed

        return message_functions

    async def send_text(
        self,
        content: str,
        *,
        record: bool = True,
        chat_key: ChatKey | str | None = None,
        reply_to: str = "",
    ) -> tuple[Receipt, ...]:
        """See `AgentCtx.send_text`. ``record`` has no effect."""
        del record
        return await AgentCtx.send_text(self, content, chat_key=chat_key, reply_to=reply_to)

    async def send_image(
        self,
        file_path: str | bytes | Path,
        *,
        record: bool = True,
        chat_key: ChatKey | str | None = None,
        reply_to: str = "",
    ) -> tuple[Receipt, ...]:
        """See `AgentCtx.send_image`. ``record`` has no effect."""
        del record
        return await AgentCtx.send_image(self, file_path, chat_key=chat_key, reply_to=reply_to)

    async def send_file(
        self,
        file_path: str | bytes | Path,
        *,
        record: bool = True,
        name: str = "",
        chat_key: ChatKey | str | None = None,
    ) -> tuple[Receipt, ...]:
        """See `AgentCtx.send_file`. ``record`` has no effect."""
        del record
        return await AgentCtx.send_file(self, file_path, name=name, chat_key=chat_key)

    async def get_core_config(self) -> Any:
        """Get the bot's configuration.

        Returns:
            An object with the names that plugins for nekro-agent read.
        """
        return self._host.core_config()

    async def get_bound_workspace(self) -> None:
        """Return None. A chat has no workspace; it has named boxes (`AgentCtx.sandbox_tool`)."""
        return

    async def get_onebot_v11_bot(self) -> Any:
        """Get NoneBot's ``Bot`` of the account that serves the chat. Raises `ToolFailure` if the
        chat is not on OneBot v11 or the account is not connected.

        Returns:
            The ``Bot``.
        """
        return await self._host.onebot_bot(self)

    async def get_preset_by_id(self, preset_id: int) -> Any:
        """Look up a preset.

        Args:
            preset_id: The number of the preset.

        Returns:
            The row (``DBPreset``), or None if there is no such preset.
        """
        return await self._host.preset(preset_id)

    async def get_effective_preset_by_id(self, preset_id: int = -1) -> Any:
        """Look up a preset. If there is no preset with this number, get the chat's preset.

        Args:
            preset_id: The number of the preset.

        Returns:
            The row (``DBPreset``) of this preset, or of the chat's preset.
        """
        found = await self._host.preset(preset_id)
        return found or await self._host.current_preset(self)

    async def current_preset(self) -> Any:
        """Get the preset of the chat.

        Returns:
            The row (``DBPreset``); the bot's own preset if the chat has none.
        """
        return await self._host.current_preset(self)

    async def set_preset(self, preset_id: int | None = None) -> bool:
        """Set the preset of the chat.

        Args:
            preset_id: The number of the preset; None means the bot's own preset.

        Returns:
            True if the preset was set. False if there is no such preset; then nothing changes.
        """
        return await self._host.set_preset(self, preset_id)

    @classmethod
    async def create_by_chat_key(
        cls,
        chat_key: str,
        container_key: str | None = None,
        from_chat_key: str | None = None,
        webhook_request: Any = None,
    ) -> AgentCtx:
        """Make a context for a chat when no person asks, for example in a timer, a route or a hook.
        Raises `ChatKeyError` for an invalid chat key, and `RuntimeError` outside of a plugin's
        code.

        Args:
            chat_key: The chat.
            container_key: Ignored. Plugins for nekro-agent pass it.
            from_chat_key: Ignored, for the same reason.
            webhook_request: The webhook call for which the context is made.

        Returns:
            The context. A tool may make a context for any chat, but the context can send only to
            chats to which the tool may send.
        """
        del container_key, from_chat_key
        return cls.for_chat(ChatKey.parse(chat_key), webhook_request=webhook_request)

    @classmethod
    def create_by_db_chat_channel(
        cls, db_chat_channel: Any, *_: Any, webhook_request: Any = None, **__: Any
    ) -> AgentCtx:
        """Make a context for the chat of a row. Raises the same errors as `create_by_chat_key`.

        Args:
            db_chat_channel: The row (``DBChatChannel``).
            webhook_request: The same as for `create_by_chat_key`.

        Returns:
            The context.
        """
        chat = ChatKey.parse(db_chat_channel.chat_key)
        return cls.for_chat(chat, webhook_request=webhook_request)

    @classmethod
    async def create_by_webhook(cls, req: WebhookRequest) -> AgentCtx:
        """Make the context of a webhook's handler. The context belongs to no chat, so each call
        that sends a message must name the chat. Raises `RuntimeError` outside of a plugin's code.

        Args:
            req: The webhook call.

        Returns:
            The context.
        """
        return cls.for_chat(no_chat_key(req.endpoint), webhook_request=req)

    @property
    def _host(self) -> NekroAgentServices:
        host = self.services.extension(NekroAgentHost)
        if not isinstance(host, NekroAgentServices):
            raise ToolFailure(
                "this bot does not support plugins for nekro-agent (nekro_core.compat.nekro_agent)"
            )
        return host
