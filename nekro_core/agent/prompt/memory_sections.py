"""Defines the sections of a prompt that come from memory: a summary of the messages that the
history no longer shows, and notes.

The prompt shows both sections before the history. Both contain people's words, so the prompt quotes
them. `MemoryReader` is the protocol of the memory. `NoMemory` is used by a bot without a memory.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

from nekro_core.chat import ChatKey


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySections:
    """The texts from memory for one prompt, as plain text without marks; empty if nothing is
    remembered. ``summary`` is about the messages before those that the prompt shows. ``notes`` are
    about the chat and about the people who wrote the messages that the prompt shows. The
    `MemoryReader` keeps each text within its budget of tokens."""

    summary: str = ""
    notes: str = ""


NO_SECTIONS = MemorySections()
"""The sections if nothing is remembered."""


class MemoryReader(Protocol):
    """Reads what is remembered of a chat."""

    async def sections(
        self, chat_key: ChatKey, *, before_seq: int, people: Collection[str]
    ) -> MemorySections:
        """Return the sections for a prompt whose oldest message has the number ``before_seq``.
        ``people`` are the platform's ids of those who wrote the messages that the prompt shows.
        Never raises: if memory cannot be read, the sections are empty."""


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
