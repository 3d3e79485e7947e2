"""A command as its plugin describes it, and what its handler is given."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from nekro_core.chat import Record
from nekro_core.chat.catalogue.languages import I18nDict, SupportedLang, get_text
from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.policy.permissions import CommandPermission

Handler = Callable[..., Awaitable[Any] | Any]
"""``async (context, **arguments) -> CommandResponse``, or an async generator of them."""


class CommandExecutionContext(msgspec.Struct, frozen=True, kw_only=True):
    """Who runs a command, and where; nothing of it but the name is a person's own word.

    ``ctx`` is the way to the chat and ``record`` the whole message, pictures included; both are
    None in a plugin's own test. ``text`` is what stood behind the name. ``context_data`` is what
    `CmdCtl.wait` was given, in the command that gets the answer.
    """

    user_id: str = ""
    chat_key: str = ""
    username: str = ""
    adapter_key: str = ""
    is_super_user: bool = False
    is_advanced_user: bool = False
    is_chat_admin: bool = False
    lang: str = SupportedLang.EN_US
    text: str = ""
    context_data: Mapping[str, Any] = msgspec.field(default_factory=dict)
    ctx: AgentCtx | None = None
    record: Record | None = None

    @property
    def standing(self) -> CommandPermission:
        """What the person is."""
        if self.is_super_user:
            return CommandPermission.SUPER_USER
        if self.is_advanced_user:
            return CommandPermission.ADVANCED
        if self.is_chat_admin:
            return CommandPermission.CHAT_ADMIN
        return CommandPermission.USER if self.user_id else CommandPermission.PUBLIC


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """One command, as `NekroPlugin.mount_command` declares it. An ``internal`` one is nobody's to
    type: it gets the answers that another one waits for."""

    name: str
    handler: Handler
    description: str = ""
    aliases: tuple[str, ...] = ()
    permission: CommandPermission = CommandPermission.PUBLIC
    usage: str = ""
    category: str = "plugin"
    tags: tuple[str, ...] = ()
    internal: bool = False
    i18n_description: I18nDict | None = None
    i18n_usage: I18nDict | None = None
    i18n_category: I18nDict | None = None

    def description_in(self, lang: str) -> str:
        """What it does, in a language."""
        return get_text(self.i18n_description, self.description, lang)

    def usage_in(self, lang: str) -> str:
        """How its author says it is used, in a language; mostly nothing."""
        return get_text(self.i18n_usage, self.usage, lang)


class CommandFamily(msgspec.Struct, frozen=True, kw_only=True):
    """What several commands ``name.sub`` have in common, as a group declares it."""

    name: str
    description: str = ""
