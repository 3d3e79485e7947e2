"""The names of a context that existing plugins use, beside `AgentCtx`'s own."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import ModuleType
from typing import Any, Self, cast

from nekro_core.chat import ChatKey
from nekro_core.plugins.authoring.binding import effective_binding
from nekro_core.plugins.authoring.host_files import CallFiles
from nekro_core.plugins.authoring.services import LegacyServices, Services
from nekro_core.plugins.authoring.web import WebhookRequest, no_chat_key
from nekro_core.tools.outcome import ToolFailure

_calling: ContextVar[Any] = ContextVar("nekro_calling", default=None)


@contextmanager
def call_scope(ctx: Any) -> Iterator[None]:
    """In here a tool runs for the run of this context."""
    token = _calling.set(ctx)
    try:
        yield
    finally:
        _calling.reset(token)


def current_context() -> Any:
    """The context of the tool that runs, if one does."""
    return _calling.get()


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
        """The bot's configuration."""
        return self._older.core_config()

    async def get_bound_workspace(self) -> None:
        """None: a chat has named boxes (`AgentCtx.sandbox_tool`) and no workspace besides."""
        return

    async def get_onebot_v11_bot(self) -> Any:
        """NoneBot's ``Bot`` of the account that serves the chat. Raises `ToolFailure` where the
        chat is not reached by OneBot or the account is not connected."""
        return await self._older.onebot_bot(self)

    async def get_preset_by_id(self, preset_id: int) -> Any:
        """One preset (``DBPreset``), or None."""
        return await self._older.preset(preset_id)

    async def get_effective_preset_by_id(self, preset_id: int = -1) -> Any:
        """The preset of that id, else the one of the chat."""
        found = await self._older.preset(preset_id)
        return found or await self._older.current_preset(self)

    async def current_preset(self) -> Any:
        """The preset of the chat (``DBPreset``)."""
        return await self._older.current_preset(self)

    async def set_preset(self, preset_id: int | None = None) -> bool:
        """Give the chat another preset; None gives it the bot's own. False where there is none."""
        return await self._older.set_preset(self, preset_id)

    @classmethod
    async def create_by_chat_key(
        cls,
        chat_key: str,
        container_key: str | None = None,
        from_chat_key: str | None = None,
        webhook_request: Any = None,
    ) -> Self:
        """A context of a chat that nobody asks in: for timers, routes and hooks.

        Raises `ChatKeyError` for what is no chat key, `NotLoaded` outside of a plugin's code.
        """
        del container_key, from_chat_key
        return cls._made(ChatKey.parse(chat_key), webhook_request)

    @classmethod
    def create_by_db_chat_channel(
        cls, db_chat_channel: Any, *_: Any, webhook_request: Any = None, **__: Any
    ) -> Self:
        """The same, of a row (``DBChatChannel``)."""
        return cls._made(ChatKey.parse(db_chat_channel.chat_key), webhook_request)

    @classmethod
    async def create_by_webhook(cls, req: WebhookRequest) -> Self:
        """The context of a webhook's handler: it is in no chat, so what is sent names one."""
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
        calls = current_context()
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
