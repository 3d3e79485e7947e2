"""The records of a conversation, which the store keeps in the order of arrival."""

from enum import StrEnum

import msgspec

from nekro_core.chat.delivery import DeliveryState
from nekro_core.chat.key import ChatKey
from nekro_core.chat.message import ChatMessage, Sender
from nekro_core.chat.segments import Notice, Segments

CONVERSATION_RESET = "new_beginning"
"""The kind of the framework's notice that begins a chat's conversation anew."""


class Author(StrEnum):
    """Who wrote a record: a person in the chat, the bot itself, or the framework."""

    PERSON = "person"
    BOT = "bot"
    SYSTEM = "system"


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a chat's history.

    ``seq`` grows with each arrival in any chat of a store and is never reused, so it is also an
    event id. ``message_id`` is the platform's, or empty. In the bot's own records ``run_id`` names
    the run that sent the message, and ``state`` is its delivery state. The agent answers a
    framework's record with ``to_bot``.

    Attributes:
        seq: Its number, unique in the store; a later arrival has a greater one.
        chat_key: The chat it belongs to.
        author: Who wrote it: a person, the bot or the framework.
        segments: Its content.
        time: Seconds since 1970.
        message_id: The platform's id; empty if there is none.
        sender: Who wrote it, if a person did.
        to_bot: Whether the bot was addressed.
        from_history: Whether it was fetched after the bot had been away.
        answered_elsewhere: Whether a blocking matcher of NoneBot took it.
        recalled: Whether it was recalled on the platform.
        run_id: The run that sent it, in the bot's own records.
        state: The delivery state, in the bot's own records.
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
    answered_elsewhere: bool = False
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
        """Get the message of this record.

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
            answered_elsewhere=self.answered_elsewhere,
        )


class RunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One run, for people who want to see the code of an answer.

    Attributes:
        run_id: The run's id.
        chat_key: The chat that it ran for.
        code: The Python that ran.
        output: What it printed.
        stop: Why it ended.
        error: The error it failed with; empty if it did not fail.
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
