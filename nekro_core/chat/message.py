"""A message that arrived."""

from enum import StrEnum

import msgspec

from nekro_core.chat.key import ChatKey
from nekro_core.chat.segments import Notice, Segments, plain_text


class Role(StrEnum):
    """What the platform says a person is in this chat. It gives a say in the chat, where the
    operator leaves it so (``NEKRO_COMMAND__ROLES``), and nothing beyond."""

    OWNER = "owner"
    ADMIN = "admin"
    MEMBER = "member"


class Sender(msgspec.Struct, frozen=True):
    """Who wrote. ``user_id`` is the platform's; ``name`` is what the chat shows, never trusted."""

    user_id: str
    name: str = ""
    role: Role = Role.MEMBER


class ChatMessage(msgspec.Struct, frozen=True, kw_only=True):
    """One inbound message or notice, as the adapter understood it.

    ``message_id`` is the platform's; for a notice, which has none, the adapter leaves it empty and
    the inbox makes one. ``account`` is the platform id of our own account that heard it. ``time``
    is the platform's, in seconds since 1970. ``to_bot`` is true where the platform itself says
    that we are meant: a private chat, a mention, a reply to us, a poke at us.
    ``from_history`` marks what was said while we were away and is only now fetched: it is recorded,
    and answered only if it is young.
    """

    chat_key: ChatKey
    message_id: str
    sender: Sender
    segments: Segments
    time: float
    account: str
    to_bot: bool = False
    from_history: bool = False

    @property
    def text(self) -> str:
        """What a person would read aloud."""
        return plain_text(self.segments)

    @property
    def notice(self) -> Notice | None:
        """The notice, where this is one and not a person's words."""
        match self.segments:
            case (Notice() as notice,):
                return notice
        return None
