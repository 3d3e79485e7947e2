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
    """Who wrote. ``user_id`` is the platform's; ``name`` is what the chat shows, never trusted.

    Attributes:
        user_id: The platform's id of the person.
        name: The name that the chat shows; never trusted.
        role: What the platform says that the person is in the chat.
    """

    user_id: str
    name: str = ""
    role: Role = Role.MEMBER


class ChatMessage(msgspec.Struct, frozen=True, kw_only=True):
    """One inbound message or notice, as the adapter understood it.

    Attributes:
        chat_key: The chat in which it was said.
        message_id: The platform's id; empty for a notice, which has none: the inbox makes one.
        sender: Who wrote it.
        segments: What it says, in order.
        time: The platform's time, in seconds since 1970.
        account: The platform's id of our own account that heard it.
        to_bot: Whether the platform itself says that we are meant: a private chat, a mention, a
            reply to us, a poke at us.
        from_history: Whether it was said while we were away and is only now fetched. Such a message
            is recorded, and answered only if it is young.
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
