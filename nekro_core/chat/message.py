"""A message that the bot received."""

from enum import StrEnum

import msgspec

from nekro_core.chat.key import ChatKey
from nekro_core.chat.segments import Notice, Segments, plain_text


class Role(StrEnum):
    """The role of a person in a chat, as the platform reports it. A role gives permissions only in
    this chat, and only if the operator has allowed this (``NEKRO_COMMAND__ROLES``)."""

    OWNER = "owner"
    ADMIN = "admin"
    MEMBER = "member"


class Sender(msgspec.Struct, frozen=True):
    """The person who wrote a message.

    Attributes:
        user_id: The platform's id of the person.
        name: The name that the chat shows. The person can choose it, so it is not trusted.
        role: The person's role in the chat, as the platform reports it.
    """

    user_id: str
    name: str = ""
    role: Role = Role.MEMBER


class ChatMessage(msgspec.Struct, frozen=True, kw_only=True):
    """One inbound message or notice that an adapter received.

    Attributes:
        chat_key: The chat of the message.
        message_id: The platform's id of the message. A notice has none: the adapter passes an empty
            text, and the inbox makes an id.
        sender: The person who wrote the message.
        segments: The content, in order.
        time: The platform's time of the message, in seconds since 1970.
        account: The platform's id of the bot's account that received the message.
        to_bot: Whether the platform shows that the bot is addressed: a private chat, a mention, a
            reply to the bot, a poke at the bot.
        from_history: Whether the message was written while the bot was offline, and fetched later.
            Such a message is recorded, and answered only if it is recent.
        answered_elsewhere: Whether a blocking matcher of NoneBot has handled the message. Such a
            message is recorded, but it is not given to commands, hooks and the agent.
        chat_name: The name of the group or channel; empty if the platform did not say it.
    """

    chat_key: ChatKey
    message_id: str
    sender: Sender
    segments: Segments
    time: float
    account: str
    to_bot: bool = False
    from_history: bool = False
    answered_elsewhere: bool = False
    chat_name: str = ""

    @property
    def text(self) -> str:
        """The content as plain text; see `plain_text`."""
        return plain_text(self.segments)

    @property
    def notice(self) -> Notice | None:
        """The notice if this is a notice; None if it is a message of a person."""
        match self.segments:
            case (Notice() as notice,):
                return notice
        return None
