"""Decides who may run which command in which chat.

The decision uses the operator's settings, and the ids and roles that the platform guarantees. A
person's name is never used, since people choose their names. This module also compares the names of
commands.
"""

import re
import unicodedata
from collections.abc import Collection
from enum import StrEnum

from pydantic import Field, field_validator

from nekro_core.chat import ChatKey, ChatKind, Role, Sender
from nekro_core.policy import PolicyFile
from nekro_core.system.live_settings import AFTER_RESTART, LiveSettings

MAX_NAME = 64
_NAME = re.compile(r"[^\W_][\w-]*(\.[\w-]+)*\Z")


def folded(name: str) -> str:
    """Return a command's name as it is used for comparisons: case and width are normalized, and
    ``-`` becomes ``_``. Two names with the same result are the same command."""
    return unicodedata.normalize("NFKC", name[: 4 * MAX_NAME]).casefold().replace("-", "_")


def is_name(name: str) -> bool:
    """Return whether a command can have this name. It may contain letters, digits, ``-``, ``_``,
    and ``.`` for a command within a group."""
    return len(name) <= MAX_NAME and _NAME.match(name) is not None


EVERYBODY = "*"
"""The ``*`` in ``web:*``. In the place of an id, it stands for all people of that adapter or
account."""


class CommandPermission(StrEnum):
    """The permission that a command requires and a person has, from the lowest to the highest."""

    PUBLIC = "public"
    """All people, even a person without an id."""
    USER = "user"
    """A person with an id of the platform."""
    CHAT_ADMIN = "chat_admin"
    """The chat's owner and administrators, as the platform reports them. In a private chat: the
    person."""
    ADVANCED = "advanced"
    """A person in ``NEKRO_COMMAND__ADVANCED_USERS``, or in ``operators`` of the chat's
    overrides."""
    SUPER_USER = "super_user"
    """A person in ``NEKRO_COMMAND__SUPER_USERS``."""

    def allows(self, wanted: "CommandPermission") -> bool:
        """Return whether a person with this permission may run a command.

        Args:
            wanted: The permission that the command requires.

        Returns:
            True if this permission is the same or higher.
        """
        order = list(CommandPermission)
        return order.index(self) >= order.index(wanted)


class CommandSettings(LiveSettings):
    """Settings of chat commands, under ``NEKRO_COMMAND__``.

    A person is written ``adapter:id`` or ``instance:id``, for example ``onebot_v11:10001``, with
    the platform's id. ``web:*`` means all people who write on the web page.
    """

    prefixes: tuple[str, ...] = ("/", "／")
    """The prefixes of commands. An empty list switches commands off."""

    super_users: frozenset[str] = frozenset({"web:*"})
    """People who may run all commands. They include the users of the web page, because the page
    needs the operator's login."""

    advanced_users: frozenset[str] = frozenset()
    """People who may run commands that change the bot's behaviour in a chat."""

    permissions: dict[str, CommandPermission] = Field(default_factory=dict)
    """For each command, a permission that replaces the one that its plugin requires."""

    off: frozenset[str] = frozenset()
    """Commands that are switched off."""

    roles: bool = True
    """Whether the platform's owners and administrators of a chat have `CHAT_ADMIN`."""

    command_s: float = Field(default=300.0, gt=0)
    """Maximum number of seconds that a command may run."""

    at_once: int = Field(default=4, ge=1, le=64, json_schema_extra=AFTER_RESTART)
    """Maximum number of commands of one chat that run at the same time. Eight times as many may
    wait."""

    longest_wait_s: float = Field(default=3600.0, gt=0, json_schema_extra=AFTER_RESTART)
    """Maximum number of seconds that a command may wait for a person's answer."""

    @field_validator("super_users", "advanced_users")
    @classmethod
    def _check_people(cls, people: frozenset[str]) -> frozenset[str]:
        for person in people:
            place, colon, user_id = person.partition(":")
            if not (place and colon and user_id):
                # An id without a platform would be valid on every platform, and users of the web
                # page choose any id.
                raise ValueError(f"{person!r}: expected adapter:id, for example onebot_v11:10001")
        return people

    @field_validator("prefixes")
    @classmethod
    def _check_prefixes(cls, prefixes: tuple[str, ...]) -> tuple[str, ...]:
        if "" in prefixes or any(text.strip() != text for text in prefixes):
            raise ValueError(
                'expected texts without blanks, for example ["/"]: with an empty prefix, '
                "every message that begins with a command's name would be a command"
            )
        return prefixes


def permission_of(
    settings: CommandSettings, *, adapter: str, instance: str, user_id: str
) -> CommandPermission:
    """Return the permission that the settings give a person."""
    if not user_id:
        return CommandPermission.PUBLIC
    if _named(settings.super_users, adapter, instance, user_id):
        return CommandPermission.SUPER_USER
    if _named(settings.advanced_users, adapter, instance, user_id):
        return CommandPermission.ADVANCED
    return CommandPermission.USER


def required_permission(
    settings: CommandSettings, names: Collection[str], own: CommandPermission
) -> CommandPermission | None:
    """Return the permission that the settings require for a command. Return None if the command is
    switched off.

    ``names`` has the command's names, after `folded`. ``own`` is the permission that its plugin
    requires.
    """
    if any(folded(name) in names for name in settings.off):
        return None
    chosen = (wanted for name, wanted in settings.permissions.items() if folded(name) in names)
    return next(chosen, own)


class CommandAccess:
    """Decides who may run which command in each chat. The operator's overrides take precedence over
    the settings."""

    def __init__(self, settings: CommandSettings, conduct: PolicyFile | None = None) -> None:
        self._settings = settings
        self._conduct = conduct or PolicyFile()

    def standing(self, chat_key: ChatKey, adapter: str, sender: Sender) -> CommandPermission:
        """Return the permission that a person has in a chat."""
        instance, user_id = chat_key.instance, sender.user_id
        known = permission_of(self._settings, adapter=adapter, instance=instance, user_id=user_id)
        if known is not CommandPermission.USER:
            return known
        if user_id in self._conduct.of(chat_key).operators:
            return CommandPermission.ADVANCED
        is_admin = chat_key.kind is ChatKind.PRIVATE or (
            self._settings.roles and sender.role in (Role.OWNER, Role.ADMIN)
        )
        return CommandPermission.CHAT_ADMIN if is_admin else known

    def rule(
        self, chat_key: ChatKey, names: Collection[str], own: CommandPermission
    ) -> CommandPermission | None:
        """Return the permission that a command requires in a chat; None if the command is switched
        off there. The arguments are those of `required_permission`."""
        for name, wanted in self._conduct.of(chat_key).commands.items():
            if folded(name) in names:
                return None if wanted == "off" else CommandPermission(wanted)
        return required_permission(self._settings, names, own)


def _named(people: Collection[str], adapter: str, instance: str, user_id: str) -> bool:
    # A person whose id is "*" must not match an entry for all people.
    return any(f"{place}:{EVERYBODY}" in people for place in (adapter, instance)) or (
        user_id != EVERYBODY
        and any(f"{place}:{user_id}" in people for place in (adapter, instance))
    )
