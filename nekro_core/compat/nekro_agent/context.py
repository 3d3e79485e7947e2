"""`LegacyAgentCtx`: a context with the names that plugins written for nekro-agent use.

The app gives this class to the plugin host as the factory of contexts.
"""

from pathlib import Path
from types import ModuleType
from typing import Any

from nekro_core.chat import ChatKey, Receipt
from nekro_core.compat.nekro_agent import message_functions
from nekro_core.compat.nekro_agent.host import NekroAgentHost
from nekro_core.compat.nekro_agent.legacy_services import NekroAgentServices
from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.plugins.authoring.web import WebhookRequest, no_chat_key
from nekro_core.tools.outcome import ToolFailure


class LegacyAgentCtx(AgentCtx):
    """`AgentCtx` with the older names. It accepts parameters of existing plugins that have no
    effect here. One is ``record``: sent messages are always in the record."""

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
        """The key of the chat's box: the name of its folder."""
        return self.chat.file_name

    @property
    def db_chat_channel(self) -> Any:
        """The row of the chat (``DBChatChannel``)."""
        return self._host.chat_channel(self)

    @property
    def db_user(self) -> Any:
        """The row (``DBUser``) of the person who asks; None if no person does."""
        return self._host.user(self)

    @property
    def adapter(self) -> Any:
        """The adapter of the chat."""
        return self._host.adapter(self)

    @property
    def ms(self) -> ModuleType:
        """The sending functions: `nekro_core.compat.nekro_agent.message_functions`."""
        return message_functions

    async def send_text(
        self,
        content: str,
        *,
        record: bool = True,
        chat_key: ChatKey | str | None = None,
        reply_to: str = "",
    ) -> tuple[Receipt, ...]:
        """As `AgentCtx.send_text`; ``record`` has no effect."""
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
        """As `AgentCtx.send_image`; ``record`` has no effect."""
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
        """As `AgentCtx.send_file`; ``record`` has no effect."""
        del record
        return await AgentCtx.send_file(self, file_path, name=name, chat_key=chat_key)

    async def get_core_config(self) -> Any:
        """Get the bot's configuration.

        Returns:
            An object with the names that plugins for nekro-agent read.
        """
        return self._host.core_config()

    async def get_bound_workspace(self) -> None:
        """None: a chat has named boxes (`AgentCtx.sandbox_tool`) and no workspace besides."""
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
            preset_id: Its number.

        Returns:
            The row (``DBPreset``), or None if there is none.
        """
        return await self._host.preset(preset_id)

    async def get_effective_preset_by_id(self, preset_id: int = -1) -> Any:
        """Look up a preset. If there is none of that number, get the chat's preset.

        Args:
            preset_id: Its number.

        Returns:
            The row (``DBPreset``) of that number, else that of the chat.
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
        """Give the chat another preset.

        Args:
            preset_id: Its number; None gives the chat the bot's own.

        Returns:
            False if there is no such preset; then nothing changes.
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
        """Make a context of a chat without a person who asks: for timers, routes and hooks. Raises
        `ChatKeyError` for an invalid chat key, and `RuntimeError` outside of a plugin's code.

        Args:
            chat_key: The chat.
            container_key: Ignored; plugins for nekro-agent pass it.
            from_chat_key: The same.
            webhook_request: The webhook call for which the context is made.

        Returns:
            The context. A tool's code may make one for any chat, but it can send only where the
            tool may send.
        """
        del container_key, from_chat_key
        return cls.for_chat(ChatKey.parse(chat_key), webhook_request=webhook_request)

    @classmethod
    def create_by_db_chat_channel(
        cls, db_chat_channel: Any, *_: Any, webhook_request: Any = None, **__: Any
    ) -> AgentCtx:
        """Make a context of a chat from its row. Raises the same errors as `create_by_chat_key`.

        Args:
            db_chat_channel: The row (``DBChatChannel``).
            webhook_request: As of `create_by_chat_key`.

        Returns:
            The context.
        """
        chat = ChatKey.parse(db_chat_channel.chat_key)
        return cls.for_chat(chat, webhook_request=webhook_request)

    @classmethod
    async def create_by_webhook(cls, req: WebhookRequest) -> AgentCtx:
        """Make the context of a webhook's handler. It belongs to no chat, so each sent message must
        name one. Raises `RuntimeError` outside of a plugin's code.

        Args:
            req: The call.

        Returns:
            The context.
        """
        return cls.for_chat(no_chat_key(req.endpoint), webhook_request=req)

    @property
    def _host(self) -> NekroAgentServices:
        host = self.services.extension(NekroAgentHost)
        if not isinstance(host, NekroAgentServices):
            raise ToolFailure(
                "this bot has no names for existing plugins (nekro_core.compat.nekro_agent)"
            )
        return host
