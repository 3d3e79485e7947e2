"""The numbers of messages in prompts: ``#311`` is the record with the sequence number 311.

Prompts, functions and their results name messages by these numbers. The ids that platforms give to
messages are longer, and models make mistakes when they copy them.
"""

import re
from typing import Protocol
from unicodedata import normalize

from nekro_core.chat import ChatKey, Record

_NUMBER = re.compile(r"#?\s*(\d{1,15})")


class RecordSource(Protocol):
    """Reads records (`nekro_core.store.messages.MessageRepository`)."""

    async def get(self, seq: int) -> Record | None:
        """Get one record."""

    async def by_message_id(self, chat_key: ChatKey, message_id: str) -> Record | None:
        """Get the record with this message id of the platform."""


def number_of(record: Record) -> str:
    """Return the number under which prompts show a record."""
    return f"#{record.seq}"


def seq_of(text: str) -> int | None:
    """Read a number as a model writes it: ``#311`` or ``311``, also with full-width characters.
    Return None if the text is not a number."""
    found = _NUMBER.fullmatch(normalize("NFKC", text[:40]).strip())
    return int(found[1]) if found else None


async def message_numbered(messages: RecordSource, chat_key: ChatKey, text: str) -> Record | None:
    """Find the message that a model names by its number or by the platform's id.

    Args:
        messages: The stored messages.
        chat_key: The chat of the turn. A message of another chat is never returned.
        text: What the model wrote: the number, or the platform's id of the message. A text that
            begins with ``#`` is only tried as a number.

    Returns:
        The record; None if the chat has no such message, or if it was recalled. A record that is a
        line of the program has no platform's id in ``message_id``.
    """
    seq = seq_of(text)
    record = await messages.get(seq) if seq is not None else None
    if (record is None or record.chat_key != chat_key) and not text.strip().startswith("#"):
        record = await messages.by_message_id(chat_key, text.strip())
    if record is None or record.chat_key != chat_key or record.recalled:
        return None
    return record
