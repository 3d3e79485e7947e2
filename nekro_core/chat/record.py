"""The records of a chat's history, which are stored in the order of arrival."""

from enum import StrEnum

import msgspec

from nekro_core.chat.delivery import DeliveryState
from nekro_core.chat.key import ChatKey
from nekro_core.chat.message import ChatMessage, Sender
from nekro_core.chat.segments import Notice, Segments

CONVERSATION_RESET = "new_beginning"
"""The kind of the notice that the framework adds to a chat when the conversation is reset, so that
prompts no longer show the earlier records."""
CONVERSATION_COMPACTED = "compacted"
"""The detail of the notice `CONVERSATION_RESET` if prompts show a summary of the earlier
records."""


class Author(StrEnum):
    """Who wrote a record: a person in the chat, the bot itself, or the framework."""

    PERSON = "person"
    BOT = "bot"
    SYSTEM = "system"


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a chat's history.

    ``seq`` is never reused, so it can also be an event id. If a record of the framework has
    ``to_bot``, the agent answers it.

    Attributes:
        seq: A number that is unique in the store, for all chats. Later records have larger numbers.
        chat_key: The chat of the record.
        author: Who wrote it: a person, the bot or the framework.
        segments: The content.
        time: Seconds since 1970.
        message_id: The platform's id of the message; empty if there is none.
        sender: The person who wrote it, if a person did.
        to_bot: Whether the bot was addressed.
        from_history: Whether the message was written while the bot was offline, and fetched later.
        answered_elsewhere: Whether a blocking matcher of NoneBot, or a plugin's hook, has handled
            the message.
        recalled: Whether it was recalled on the platform, or hidden by a plugin. The agent does not
            see it.
        run_id: In the bot's own records: the run that sent the message.
        state: In the bot's own records: the delivery state of the message.
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
        """Whether the conversation starts again here, so that the agent does not see earlier
        records of the chat."""
        match self.segments:
            case (Notice(kind=kind), *_):
                return self.author is Author.SYSTEM and kind == CONVERSATION_RESET
        return False

    @property
    def compacts(self) -> bool:
        """Whether the conversation starts again here with a summary of the earlier records."""
        match self.segments:
            case (Notice(detail=detail), *_):
                return self.begins_anew and detail == CONVERSATION_COMPACTED
        return False

    def as_message(self, account: str) -> ChatMessage:
        """Get the message of this record.

        Args:
            account: The platform's id of the bot's account in the chat.

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
    """One run, shown to people who want to see the code that made an answer.

    Attributes:
        run_id: The run's id.
        chat_key: The chat that it ran for.
        code: The Python that ran.
        output: The output of the code.
        stop: The reason why the run ended.
        error: The error; empty if the run did not fail.
        started: The start time, in seconds since 1970.
        seconds: The duration in seconds.
    """

    run_id: str
    chat_key: ChatKey
    code: str
    output: str
    stop: str
    error: str
    started: float
    seconds: float
