"""The record of a conversation: what the store keeps, in the order of arrival."""

from enum import StrEnum

import msgspec

from nekro_core.chat.delivery import DeliveryState
from nekro_core.chat.key import ChatKey
from nekro_core.chat.message import ChatMessage, Sender
from nekro_core.chat.segments import Notice, Segments

CONVERSATION_RESET = "new_beginning"
"""The kind of the framework's notice with which a chat's conversation begins anew."""


class Author(StrEnum):
    """Who a record is of: somebody in the chat, the bot itself, or the framework."""

    PERSON = "person"
    BOT = "bot"
    SYSTEM = "system"


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a chat's history.

    ``seq`` grows by arrival over all chats of a store and is never reused, so it is also an event
    id. ``message_id`` is the platform's, empty for what has none. For the bot's own, ``run_id``
    names the run that sent it and ``state`` what became of it. A line of the framework's ``to_bot``
    waits for the agent.

    Attributes:
        seq: Its number, unique in the store; a later arrival has a greater one.
        chat_key: The chat it belongs to.
        author: Who said it: a person, the bot or the framework.
        segments: What it says.
        time: Seconds since 1970.
        message_id: The platform's id; empty where there is none.
        sender: Who wrote it, where a person did.
        to_bot: Whether the bot was meant.
        from_history: Whether it was fetched after the bot had been away.
        recalled: Whether it was taken back on the platform.
        run_id: The run that sent it, for the bot's own.
        state: What became of it, for the bot's own.
    """

    seq: int
    chat_key: ChatKey
    author: Author
    segments: Segments
    time: float
    message_id: str = ""
    sender: Sender = Sender("")
    to_bot: bool = False
    from_history: bool = False
    recalled: bool = False
    run_id: str = ""
    state: DeliveryState = DeliveryState.SENT

    @property
    def begins_anew(self) -> bool:
        """Whether what came before it in the chat is forgotten."""
        match self.segments:
            case (Notice(kind=kind), *_):
                return self.author is Author.SYSTEM and kind == CONVERSATION_RESET
        return False

    def as_message(self, account: str) -> ChatMessage:
        """Get the message that this is the record of.

        Args:
            account: The platform's id of our own account in the chat.

        Returns:
            The message as it was stored.
        """
        return ChatMessage(
            chat_key=self.chat_key,
            message_id=self.message_id,
            sender=self.sender,
            segments=self.segments,
            time=self.time,
            account=account,
            to_bot=self.to_bot,
            from_history=self.from_history,
        )


class RunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What one run was: for people who want to see the code behind an answer.

    Attributes:
        run_id: The run's id.
        chat_key: The chat that it ran for.
        code: The Python that ran.
        output: What it printed.
        stop: Why it ended.
        error: What it failed with; empty where it did not.
        started: When it began, in seconds since 1970.
        seconds: How long it took.
    """

    run_id: str
    chat_key: ChatKey
    code: str
    output: str
    stop: str
    error: str
    started: float
    seconds: float
