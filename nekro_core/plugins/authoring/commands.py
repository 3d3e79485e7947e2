"""Commands: their declarations, how they are mounted, and the context of their handlers."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from nekro_core.chat import Record
from nekro_core.chat.catalogue.languages import I18nDict, SupportedLang, get_text
from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.plugins.authoring.declarations import SupportsDeclare
from nekro_core.policy.permissions import CommandPermission

Handler = Callable[..., Awaitable[Any] | Any]
"""``async (context, **arguments) -> CommandResponse``, or an async generator of such answers."""


class CommandExecutionContext(msgspec.Struct, frozen=True, kw_only=True):
    """Says who runs a command, and in which chat. The bot sets all fields. People choose only the
    values of ``username`` and ``text``.

    Attributes:
        user_id: The platform's id of the person.
        chat_key: The text form of the chat's key.
        username: The name that the chat shows.
        adapter_key: The name of the chat's adapter.
        is_super_user: Whether the operator named the person as a super user.
        is_advanced_user: Whether the operator named the person as an advanced user.
        is_chat_admin: Whether the person may administer this chat.
        lang: The language of answers, a BCP 47 tag.
        text: The text after the command's name.
        context_data: The values that a command gave to `CmdCtl.wait` when it asked a question. Only
            the command that gets the reply to this question has them; otherwise empty.
        ctx: The context for actions in the chat; None in a plugin's own test.
        record: The stored message, pictures included; None in a plugin's own test.
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
        """The highest permission that the person has."""
        if self.is_super_user:
            return CommandPermission.SUPER_USER
        if self.is_advanced_user:
            return CommandPermission.ADVANCED
        if self.is_chat_admin:
            return CommandPermission.CHAT_ADMIN
        return CommandPermission.USER if self.user_id else CommandPermission.PUBLIC


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """One command, as `NekroPlugin.mount_command` declares it. People cannot type an ``internal``
    command: it only receives the replies to a question of another command."""

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
        """Get the description in a language."""
        return get_text(self.i18n_description, self.description, lang)

    def usage_in(self, lang: str) -> str:
        """Get the usage text that the author wrote, in a language; usually empty."""
        return get_text(self.i18n_usage, self.usage, lang)


class CommandFamily(msgspec.Struct, frozen=True, kw_only=True):
    """The name and description that the commands ``name.sub`` of a group share."""

    name: str
    description: str = ""


class SpokenCommand(msgspec.Struct, frozen=True, kw_only=True):
    """A command that a plugin finds in messages itself. ``/help`` lists it, but it is not called
    through the command router.

    Attributes:
        usage: What people type.
        description: What the command does.
        permission: The permission that a person needs to see it in the list.
    """

    usage: str
    description: str = ""
    permission: CommandPermission = CommandPermission.PUBLIC


Function = TypeVar("Function", bound=Callable[..., Any])
Permission = CommandPermission | str | None


def mount_command(
    plugin: SupportsDeclare,
    name: str,
    description: str = "",
    aliases: Sequence[str] | None = None,
    permission: Permission = None,
    usage: str = "",
    category: str = "plugin",
    tags: Sequence[str] | None = None,
    internal: bool = False,
    i18n_description: I18nDict | None = None,
    i18n_usage: I18nDict | None = None,
    i18n_category: I18nDict | None = None,
) -> Callable[[Function], Function]:
    """Let people run an ``async def f(context, ...) -> CommandResponse`` as ``/name``. An async
    generator may answer several times. The decorator returns the function unchanged.

    ``context`` is a `CommandExecutionContext`; the other parameters get the arguments that people
    type, see `Arg`. Without ``permission``, everybody may run the command. ``-`` and ``_`` in names
    count as the same character. If two installed plugins use the same name, neither command runs
    under this name until the operator ranks the plugins (``NEKRO_PLUGIN__ORDER``); ``module:name``
    always works. Problems with the function are reported after the plugin has been loaded.

    Args:
        plugin: The plugin. You call this as a method, so do not pass it.
        name: What people type after the prefix.
        description: What the command does; empty for the first line of the function's docstring.
        aliases: Other names for it.
        permission: The permission that a person needs to run it; None if everybody may.
        usage: A text that explains how to use it; written by the author.
        category: The heading under which lists show it.
        tags: Words for searches.
        internal: True for a command that people cannot type: it only receives the replies to
            another command's question.
        i18n_description: The description by BCP 47 tag.
        i18n_usage: The usage by BCP 47 tag.
        i18n_category: The category by BCP 47 tag.

    Returns:
        A decorator that gives the function back.

    Raises:
        ValueError: There is no such permission.
    """
    wanted = CommandPermission(permission) if permission else CommandPermission.PUBLIC

    def mount(function: Function) -> Function:
        plugin.declare(
            Command(
                name=name,
                handler=function,
                description=description or _first_line(function),
                aliases=tuple(aliases or ()),
                permission=wanted,
                usage=usage,
                category=category,
                tags=tuple(tags or ()),
                internal=internal,
                i18n_description=i18n_description,
                i18n_usage=i18n_usage,
                i18n_category=i18n_category,
            )
        )
        return function

    return mount


class CommandGroup:
    """Commands that are called ``/group sub``; made by `NekroPlugin.mount_command_group`.

    Args:
        plugin: The plugin that the commands are mounted on.
        family: The group's name and description.
        permission: The permission for commands that name none; None if everybody may run them.
        category: The category for commands that name none.
        tags: Tags that every command of the group has.
    """

    def __init__(
        self,
        plugin: SupportsDeclare,
        family: CommandFamily,
        *,
        permission: Permission,
        category: str,
        tags: Sequence[str] | None,
    ) -> None:
        self.name = family.name
        self.description = family.description
        self._plugin = plugin
        self._permission = permission
        self._category = category
        self._tags = tuple(tags or ())

    def command(
        self,
        name: str,
        description: str = "",
        aliases: Sequence[str] | None = None,
        permission: Permission = None,
        usage: str = "",
        category: str = "",
        tags: Sequence[str] | None = None,
        internal: bool = False,
        **i18n: I18nDict | None,
    ) -> Callable[[Function], Function]:
        """Mount a command of the group, as `NekroPlugin.mount_command` does. Without a permission
        or category, the command has the group's. The group's tags are added. ``aliases`` are other
        names for ``sub``.

        Args:
            name: ``sub`` of ``/group sub``.
            description: What the command does; empty for the first line of the function's
                docstring.
            aliases: Other names for ``sub``.
            permission: The permission that a person needs to run it; None for the group's.
            usage: A text that explains how to use it; written by the author.
            category: Its category; empty for the group's.
            tags: Tags besides the group's.
            internal: True for a command that people cannot type: it only receives the replies to
                another command's question.
            **i18n: ``i18n_description``, ``i18n_usage`` and ``i18n_category``: texts by BCP 47 tag.

        Returns:
            A decorator that gives the function back.

        Raises:
            ValueError: There is no such permission.
        """
        return mount_command(
            self._plugin,
            f"{self.name}.{name}",
            description,
            aliases=[f"{self.name}.{alias}" for alias in aliases or ()],
            permission=permission or self._permission,
            usage=usage,
            category=category or self._category,
            tags=[*self._tags, *(tags or ())],
            internal=internal,
            **i18n,
        )


def mount_command_group(
    plugin: SupportsDeclare,
    name: str,
    description: str = "",
    permission: Permission = None,
    category: str = "plugin",
    tags: Sequence[str] | None = None,
) -> CommandGroup:
    """Make a group of commands. A command that ``@group.command("sub")`` declares is called as
    ``/name sub``; ``/name`` alone lists the group's commands.

    Args:
        plugin: The plugin. You call this as a method, so do not pass it.
        name: What people type after the prefix.
        description: What the group is for.
        permission: The permission for commands that name none; None if everybody may run them.
        category: The category for commands that name none.
        tags: Tags that every command of the group has.

    Returns:
        The group, whose ``command`` mounts its commands.
    """
    family = CommandFamily(name=name, description=description)
    plugin.declare(family)
    return CommandGroup(plugin, family, permission=permission, category=category, tags=tags)


def _first_line(function: Callable[..., Any]) -> str:
    return (function.__doc__ or "").strip().partition("\n")[0]
