"""Defines what an adapter can show to people besides messages: that the bot is typing, and
reactions to messages. Both are optional parts of an adapter."""

from typing import Protocol, runtime_checkable

from nekro_core.chat import ChatKey
from nekro_core.delivery.adapter import Adapter


@runtime_checkable
class SupportsTyping(Adapter, Protocol):
    """An adapter whose platform can show that the bot is typing.

    `Capabilities.typing_s` says how long the platform shows it. The bot repeats the call before
    that time is over, while it works on an answer.
    """

    async def show_typing(self, chat_key: ChatKey, *, typing: bool) -> None:
        """Show people of a chat that the bot is typing, or no longer show it. The bot sets a
        time-out on this call, and never waits for it before it sends a message.

        Args:
            chat_key: The chat.
            typing: Whether the bot is typing. For False, an adapter whose platform cannot end the
                state does nothing; the platform ends it by itself.

        Raises:
            SignRefused: The platform refuses it and would refuse it again. The call is not repeated
                in this chat.
            Exception: The state could not be shown this time, for example because the account is
                offline. The call is repeated at the next regular time.
        """


@runtime_checkable
class SupportsReactions(Adapter, Protocol):
    """An adapter whose platform can show a reaction of the bot to a message."""

    async def react(self, chat_key: ChatKey, message_id: str, emoji: str) -> None:
        """React to a message. If the bot has reacted with this emoji already, nothing changes.

        Args:
            chat_key: The chat.
            message_id: The platform's id of the message, as in `ChatMessage.message_id`.
            emoji: The emoji, or the platform's name of one.

        Raises:
            SignRefused: The platform refuses this emoji or any reaction in this chat, and would
                refuse it again. The emoji is not tried in this chat again.
            Exception: The reaction could not be shown this time. It is not tried again for this
                message.
        """
