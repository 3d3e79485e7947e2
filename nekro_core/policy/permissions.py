"""Who may run which command in which chat.

The operator's settings decide, together with ids and roles that the platform guarantees. A person's
name never decides, since people choose it. The names of commands are compared here as well.
"""

import re
import unicodedata
from collections.abc import Collection
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field, field_validator

from nekro_core.chat import ChatKey, ChatKind, Role, Sender
from nekro_core.policy import PolicyFile

MAX_NAME = 64
_NAME = re.compile(r"[^\W_][\w-]*(\.[\w-]+)*\Z")


def folded(name: str) -> str:
    """The name as it is compared: without case and width, and with ``_`` for ``-``."""
    return unicodedata.normalize("NFKC", name[: 4 * MAX_NAME]).casefold().replace("-", "_")


def is_name(name: str) -> bool:
    """Whether a command can have this name: letters, digits, ``-``, ``_``, ``.`` within a group."""
    return len(name) <= MAX_NAME and _NAME.match(name) is not None


EVERYBODY = "*"
"""The id in ``web:*``, which stands for everybody of that adapter or account."""


class CommandPermission(StrEnum):
    """What a person must be to run a command, from the lowest to the highest."""

    PUBLIC = "public"
    """Anybody, also a person without an id."""
    USER = "user"
    """A person with an id of the platform."""
    CHAT_ADMIN = "chat_admin"
    """The chat's owner and administrators, as the platform says. In a private chat, the person."""
    ADVANCED = "advanced"
    """A person of ``NEKRO_COMMAND__ADVANCED_USERS``, or an operator of the chat."""
    SUPER_USER = "super_user"
    """A person of ``NEKRO_COMMAND__SUPER_USERS``."""

    def allows(self, wanted: "CommandPermission") -> bool:
        """Whether a person with this permission may run a command.

        Args:
            wanted: What the command requires.

        Returns:
            True if this permission is the same or higher.
        """
        order = list(CommandPermission)
        return order.index(self) >= order.index(wanted)


class CommandSettings(BaseModel):
    """Commands in the chat, under ``NEKRO_COMMAND__``.

    People are written ``adapter:id`` or ``instance:id``, for example ``onebot_v11:10001``, with
    the id of the platform; ``web:*`` is everybody who writes on the page.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    prefixes: tuple[str, ...] = ("/", "／")
    """What a command begins with. An empty list switches commands off."""

    super_users: frozenset[str] = frozenset({"web:*"})
    """People who may run everything. The page is among them: it needs the operator's login."""

    advanced_users: frozenset[str] = frozenset()
    """People who may run what changes the bot's behaviour in a chat."""

    permissions: dict[str, CommandPermission] = Field(default_factory=dict)
    """By command, a permission that replaces the plugin's own."""

    off: frozenset[str] = frozenset()
    """Commands that nobody can run."""

    roles: bool = True
    """Whether owners and administrators of a platform's chat have `CHAT_ADMIN` here."""

    command_s: float = Field(default=300.0, gt=0)
    """Seconds that a command may run."""

    at_once: int = Field(default=4, ge=1, le=64)
    """Commands of one chat that run at the same time. Eight times as many may wait."""

    longest_wait_s: float = Field(default=3600.0, gt=0)
    """Seconds that a command may wait for a person's answer."""

    @field_validator("super_users", "advanced_users")
    @classmethod
    def _check_people(cls, people: frozenset[str]) -> frozenset[str]:
        for person in people:
            place, colon, user_id = person.partition(":")
            if not (place and colon and user_id):
                # An id alone would count on every platform, and on the page anybody takes any id.
                raise ValueError(f"{person!r}: expected adapter:id, for example onebot_v11:10001")
        return people

    @field_validator("prefixes")
    @classmethod
    def _check_prefixes(cls, prefixes: tuple[str, ...]) -> tuple[str, ...]:
        if "" in prefixes or any(text.strip() != text for text in prefixes):
            raise ValueError(
                'expected texts without blanks, for example ["/"]: an empty one would '
                "make a command of whatever begins with its name"
            )
        return prefixes


def permission_of(
    settings: CommandSettings, *, adapter: str, instance: str, user_id: str
) -> CommandPermission:
    """The permission that the settings give a person."""
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
    """The permission that a command requires by the settings; None if it is switched off.

    ``names`` are the command's names, folded; ``own`` is what its plugin requires.
    """
    if any(folded(name) in names for name in settings.off):
        return None
    chosen = (wanted for name, wanted in settings.permissions.items() if folded(name) in names)
    return next(chosen, own)


class CommandAccess:
    """Who may run which command, chat by chat. The operator's overrides go before the settings."""

    def __init__(self, settings: CommandSettings, conduct: PolicyFile | None = None) -> None:
        self._settings = settings
        self._conduct = conduct or PolicyFile()

    def standing(self, chat_key: ChatKey, adapter: str, sender: Sender) -> CommandPermission:
        """The permission that a person has in a chat."""
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
        """The permission that a command requires in a chat; see `required_permission`."""
        for name, wanted in self._conduct.of(chat_key).commands.items():
            if folded(name) in names:
                return None if wanted == "off" else CommandPermission(wanted)
        return required_permission(self._settings, names, own)


def _named(people: Collection[str], adapter: str, instance: str, user_id: str) -> bool:
    # A person whose id is "*" must not get what everybody has.
    return any(f"{place}:{EVERYBODY}" in people for place in (adapter, instance)) or (
        user_id != EVERYBODY
        and any(f"{place}:{user_id}" in people for place in (adapter, instance))
    )
