"""Defines how processes on several machines share the media of chats."""

from pathlib import Path
from typing import Protocol

from nekro_core.chat import ChatKey


class SharedMedia(Protocol):
    """The media of all chats in a place that every process reaches. `MediaStore` stores each medium
    in a file of this machine, and calls these methods. A path is always that of such a file."""

    async def store(self, chat_key: ChatKey, path: Path, *, sha256: str, size: int) -> None:
        """Share a new file. Does not raise: if the file cannot be shared now, that is tried
        again."""

    async def fetch(self, path: Path) -> ChatKey | None:
        """Copy a medium that another process has shared to this path. The file appears in one step.
        Does not raise. Returns the chat of the medium; None if there is no such medium, or if it
        cannot be fetched now."""

    async def forget(self, chat_key: ChatKey, path: Path) -> bool:
        """Delete a medium for all processes. Returns False if there is none. Raises `OSError`, also
        if a part of it is deleted only later."""

    async def forget_chat(self, chat_key: ChatKey) -> None:
        """Delete all media of a chat for all processes. Raises `OSError` as `forget` does."""

    async def tidy(self, *, before: float, total_bytes: int) -> int:
        """Delete the media that were last used before ``before`` (seconds since 1970), and the
        oldest media if all together exceed ``total_bytes``. Returns how many were deleted. Raises
        `OSError`."""
