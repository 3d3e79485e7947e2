"""The names of a context that existing plugins use, beside `AgentCtx`'s own."""

from types import ModuleType
from typing import Any, Self, cast

from nekro_core.chat import ChatKey
from nekro_core.plugins.authoring.binding import effective_binding
from nekro_core.plugins.authoring.call import CallFiles, running_call
from nekro_core.plugins.authoring.services import LegacyServices, Services
from nekro_core.plugins.authoring.web import WebhookRequest, no_chat_key
from nekro_core.tools.outcome import ToolFailure


class LegacyContext:
    """Mixed into `AgentCtx`. What it gives that is no plain value is
    `nekro_core.compat.nekro_agent`'s."""

    __slots__ = ()

    services: Services

    @property
    def container_key(self) -> str:
        """What names the box of the chat: its folder's name."""
        return cast(ChatKey, self.chat).file_name  # type: ignore[attr-defined]  # AgentCtx's

    @property
    def db_chat_channel(self) -> Any:
        """The row of the chat (``DBChatChannel``)."""
        return self._older.chat_channel(self)

    @property
    def db_user(self) -> Any:
        """The row of who asks (``DBUser``); None where nobody does."""
        return self._older.user(self)

    @property
    def adapter(self) -> Any:
        """The adapter of the chat."""
        return self._older.adapter(self)

    @property
    def ms(self) -> ModuleType:
        """The sending functions: `nekro_core.compat.nekro_agent.message_functions`."""
        from nekro_core.compat.nekro_agent import message_functions  # noqa: PLC0415 - it needs AgentCtx, which needs this

        return message_functions

    async def get_core_config(self) -> Any:
        """Get the bot's configuration.

        Returns:
            An object with the names that plugins for nekro-agent read.
        """
        return self._older.core_config()

    async def get_bound_workspace(self) -> None:
        """None: a chat has named boxes (`AgentCtx.sandbox_tool`) and no workspace besides."""
        return

    async def get_onebot_v11_bot(self) -> Any:
        """Get NoneBot's ``Bot`` of the account that serves the chat. Raises `ToolFailure` where the
        chat is not reached by OneBot v11 or the account is not connected.

        Returns:
            The ``Bot``.
        """
        return await self._older.onebot_bot(self)

    async def get_preset_by_id(self, preset_id: int) -> Any:
        """Look up a preset.

        Args:
            preset_id: Its number.

        Returns:
            The row (``DBPreset``), or None where there is none.
        """
        return await self._older.preset(preset_id)

    async def get_effective_preset_by_id(self, preset_id: int = -1) -> Any:
        """Look up a preset, else the one of the chat.

        Args:
            preset_id: Its number.

        Returns:
            The row (``DBPreset``) of that number, else the chat's.
        """
        found = await self._older.preset(preset_id)
        return found or await self._older.current_preset(self)

    async def current_preset(self) -> Any:
        """Get the preset of the chat.

        Returns:
            The row (``DBPreset``); the bot's own where the chat has none.
        """
        return await self._older.current_preset(self)

    async def set_preset(self, preset_id: int | None = None) -> bool:
        """Give the chat another preset.

        Args:
            preset_id: Its number; None gives the chat the bot's own.

        Returns:
            False where there is no such preset, and nothing has changed.
        """
        return await self._older.set_preset(self, preset_id)

    @classmethod
    async def create_by_chat_key(
        cls,
        chat_key: str,
        container_key: str | None = None,
        from_chat_key: str | None = None,
        webhook_request: Any = None,
    ) -> Self:
        """Make a context of a chat in which nobody asks: for timers, routes and hooks. Raises
        `ChatKeyError` for what is no chat key, and `RuntimeError` outside of a plugin's code.

        Args:
            chat_key: The chat.
            container_key: Ignored; plugins for nekro-agent give it.
            from_chat_key: The same.
            webhook_request: The webhook call on whose behalf it is made.

        Returns:
            The context. A tool's code may make one of any chat, but it may only send where the tool
            may.
        """
        del container_key, from_chat_key
        return cls._made(ChatKey.parse(chat_key), webhook_request)

    @classmethod
    def create_by_db_chat_channel(
        cls, db_chat_channel: Any, *_: Any, webhook_request: Any = None, **__: Any
    ) -> Self:
        """Make a context of a chat from its row. It raises as `create_by_chat_key` does.

        Args:
            db_chat_channel: The row (``DBChatChannel``).
            webhook_request: As of `create_by_chat_key`.

        Returns:
            The context.
        """
        return cls._made(ChatKey.parse(db_chat_channel.chat_key), webhook_request)

    @classmethod
    async def create_by_webhook(cls, req: WebhookRequest) -> Self:
        """Make the context of a webhook's handler. It is in no chat, so what is sent names one.
        Raises `RuntimeError` outside of a plugin's code.

        Args:
            req: The call.

        Returns:
            The context.
        """
        return cls._made(no_chat_key(req.endpoint), req)

    @classmethod
    def _made(cls, chat: ChatKey, webhook_request: Any) -> Self:
        binding = effective_binding()
        if binding is None or binding.services is None:
            raise RuntimeError(
                "no bot runs here: make a context in a function that a bot calls (a tool, a hook, "
                "a command, a task)"
            )
        make = cast(Any, cls)
        calls = cast(Any, running_call())
        made = make(
            services=binding.services,
            chat=chat,
            webhook_request=webhook_request,
            # A tool's code may name any chat: it must not write there by way of another context.
            owner=calls.owner if calls else "",
            asked_in=calls.asked_in or calls.chat if calls else None,
            files=calls.files if calls else CallFiles.now(),
        )
        return cast(Self, made)

    @property
    def _older(self) -> LegacyServices:
        older = self.services.older
        if older is None:
            raise ToolFailure(
                "this bot has no names for existing plugins (nekro_core.compat.nekro_agent)"
            )
        return older
