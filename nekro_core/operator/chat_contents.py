"""Reads the media of messages, and the content of recalled messages."""

from typing import Protocol

from nekro_core.chat import ChatKey, Media
from nekro_core.operator.chat_views import MessageView, message_view
from nekro_core.operator.errors import NoSuchItem, NotAllowed
from nekro_core.operator.roles import Actor
from nekro_core.store import HistoryLine, Store
from nekro_core.store.traces import media_in

_MOST_LOOKED_AT = 1_000
"""Number of newest calls of `MessageContents.recalled` that are remembered. Whoever read a recalled
message may then also load its pictures and files."""


class MediaReading(Protocol):
    """The stored media of chats (`nekro_core.delivery.media.store.MediaStore`)."""

    async def read(self, chat_key: ChatKey, path: str) -> bytes | None:
        """Read a medium by its `Media.path`. None if it was deleted."""


class MessageContents:
    """The contents of messages.

    Args:
        store: The store.
        media: The stored media of chats.
    """

    def __init__(self, store: Store, media: MediaReading) -> None:
        self._store = store
        self._media = media
        self._looked_at: dict[tuple[str, int], None] = {}

    async def line(self, seq: int) -> HistoryLine:
        """Get a message. Raises `NoSuchItem`."""
        line = await self._store.chat_list.line(seq)
        if line is None:
            raise NoSuchItem(f"there is no message {seq}")
        return line

    async def recalled(self, actor: Actor, seq: int) -> MessageView:
        """Get the content of a recalled message. After this call, the actor may also read the media
        of the message. Raises `NoSuchItem`."""
        line = await self.line(seq)
        if not line.record.recalled:
            raise NoSuchItem(f"message {seq} was not recalled; the history shows it")
        self._looked_at[actor.name, seq] = None
        if len(self._looked_at) > _MOST_LOOKED_AT:
            del self._looked_at[next(iter(self._looked_at))]
        return message_view(line, with_recalled=True)

    async def medium(self, actor: Actor, seq: int, number: int) -> tuple[Media, bytes]:
        """Read a medium of a message. See `Chats.medium_bytes`."""
        record = (await self.line(seq)).record
        if record.recalled and (actor.name, seq) not in self._looked_at:
            raise NotAllowed(f"message {seq} was recalled; chats.show_recalled shows it")
        media = [*media_in(record.segments)]
        if not 0 <= number < len(media):
            raise NoSuchItem(f"message {seq} has no medium {number}")
        path = media[number].path
        data = await self._media.read(record.chat_key, path) if path else None
        if data is None:
            raise NoSuchItem(f"the bot has no copy of medium {number} of message {seq}")
        return media[number], data
