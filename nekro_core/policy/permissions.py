"""How a command's name is written, and when two are the same.

Who may run which command, where: by the operator's word, the platform's own ids, and the roles
that the platform vouches for. Never by names, which people give themselves.
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
    """The name without differences of case and width, with ``-`` and ``_`` as one."""
    return unicodedata.normalize("NFKC", name[: 4 * MAX_NAME]).casefold().replace("-", "_")


def is_name(name: str) -> bool:
    """Whether a command can have it: letters, digits, ``-``, ``_``, and ``.`` for a group's."""
    return len(name) <= MAX_NAME and _NAME.match(name) is not None


EVERYBODY = "*"
"""The id in ``web:*``: everybody of that adapter or account."""


class CommandPermission(StrEnum):
    """What a person must be to run a command, from the least on."""

    PUBLIC = "public"
    """Anybody, also who has no id."""
    USER = "user"
    """Whoever the platform has an id for."""
    CHAT_ADMIN = "chat_admin"
    """Who runs the chat: its owner and administrators, as the platform says; in a private chat the
    person."""
    ADVANCED = "advanced"
    """Named under ``NEKRO_COMMAND__ADVANCED_USERS``."""
    SUPER_USER = "super_user"
    """Named under ``NEKRO_COMMAND__SUPER_USERS``."""

    def allows(self, wanted: "CommandPermission") -> bool:
        """Whether a person of this standing may run what wants that one.

        Args:
            wanted: What the command asks for.

        Returns:
            True where this one is the same or more.
        """
        order = list(CommandPermission)
        return order.index(self) >= order.index(wanted)


class CommandSettings(BaseModel):
    """Commands in the chat, under ``NEKRO_COMMAND__``.

    People are named ``adapter:id`` or ``instance:id``, for example ``onebot_v11:10001``, with the
    id that the platform itself vouches for; ``web:*`` is everybody who writes on the page.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    prefixes: tuple[str, ...] = ("/", "／")
    """What a command begins with; none switches commands off."""

    super_users: frozenset[str] = frozenset({"web:*"})
    """Who may run everything. Whoever writes on the page holds the operator's own login."""

    advanced_users: frozenset[str] = frozenset()
    """Who may run what changes how the bot behaves in a chat."""

    permissions: dict[str, CommandPermission] = Field(default_factory=dict)
    """Another permission than the plugin's own, by command."""

    off: frozenset[str] = frozenset()
    """Commands that nobody can run."""

    roles: bool = True
    """Whether a platform's owners and administrators of a chat count as such here."""

    command_s: float = Field(default=300.0, gt=0)
    """Longest run of a command."""

    at_once: int = Field(default=4, ge=1, le=64)
    """Commands of one chat that run at one time; eight times as many may wait."""

    longest_wait_s: float = Field(default=3600.0, gt=0)
    """Longest that a command may wait for a person's answer."""

    @field_validator("super_users", "advanced_users")
    @classmethod
    def _check_people(cls, people: frozenset[str]) -> frozenset[str]:
        for person in people:
            place, colon, user_id = person.partition(":")
            if not (place and colon and user_id):
                # An id alone would be good on every platform, and on the page anyone takes any.
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
    """What a person is in this chat."""
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
    """What one must be to run a command that is known by these names, folded; None where the
    operator has switched it off."""
    if any(folded(name) in names for name in settings.off):
        return None
    chosen = (wanted for name, wanted in settings.permissions.items() if folded(name) in names)
    return next(chosen, own)


class CommandAccess:
    """Who may run which command, in each chat. What the operator says of a chat while the bot runs
    goes before the settings."""

    def __init__(self, settings: CommandSettings, conduct: PolicyFile | None = None) -> None:
        self._settings = settings
        self._conduct = conduct or PolicyFile()

    def standing(self, chat_key: ChatKey, adapter: str, sender: Sender) -> CommandPermission:
        """What a person is in a chat."""
        instance, user_id = chat_key.instance, sender.user_id
        known = permission_of(self._settings, adapter=adapter, instance=instance, user_id=user_id)
        if known is not CommandPermission.USER:
            return known
        if user_id in self._conduct.of(chat_key).operators:
            return CommandPermission.ADVANCED
        runs_it = chat_key.kind is ChatKind.PRIVATE or (
            self._settings.roles and sender.role in (Role.OWNER, Role.ADMIN)
        )
        return CommandPermission.CHAT_ADMIN if runs_it else known

    def rule(
        self, chat_key: ChatKey, names: Collection[str], own: CommandPermission
    ) -> CommandPermission | None:
        """What one must be to run a command there; see `required_permission`."""
        for name, wanted in self._conduct.of(chat_key).commands.items():
            if folded(name) in names:
                return None if wanted == "off" else CommandPermission(wanted)
        return required_permission(self._settings, names, own)


def _named(people: Collection[str], adapter: str, instance: str, user_id: str) -> bool:
    # A person's own id may be "*", which must not be everybody's.
    return any(f"{place}:{EVERYBODY}" in people for place in (adapter, instance)) or (
        user_id != EVERYBODY
        and any(f"{place}:{user_id}" in people for place in (adapter, instance))
    )
