"""What a prompt says from memory: the summary of what is no longer in the history, and the notes.

The prompt shows both before the history, and quotes both: they hold people's words. Who keeps them
is behind a protocol. Without one, a prompt has neither.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

from nekro_core.chat import ChatKey


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySections:
    """The texts from memory for one prompt, as plain text without marks; empty if there is nothing
    to say. ``summary`` is about the messages before the ones that the prompt shows. ``notes`` are
    about the chat and about the people who wrote the messages that the prompt shows. Whoever
    returns them keeps each within its budget of tokens."""

    summary: str = ""
    notes: str = ""


NO_SECTIONS = MemorySections()
"""Nothing is remembered."""


class MemoryReader(Protocol):
    """Reads what is remembered of a chat."""

    async def sections(
        self, chat_key: ChatKey, *, before_seq: int, people: Collection[str]
    ) -> MemorySections:
        """Return the sections for a prompt whose oldest message has the number ``before_seq``.
        ``people`` are the platform's ids of those who wrote the messages that the prompt shows.
        Never raises: a chat of which nothing can be read has empty sections."""


class NoMemory:
    """A bot that remembers nothing beyond the history."""

    async def sections(
        self,
        chat_key: ChatKey,  # noqa: ARG002 - the protocol's
        *,
        before_seq: int,  # noqa: ARG002
        people: Collection[str],  # noqa: ARG002
    ) -> MemorySections:
        """Return empty sections."""
        return NO_SECTIONS
