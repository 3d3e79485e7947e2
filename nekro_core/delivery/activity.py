"""Publishes the activity of all chats to followers: web pages, event streams, tests."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio
from anyio.streams.memory import MemoryObjectSendStream

from nekro_core.chat import ChatKey, Record

QUEUE = 1024
"""How many activities a follower may lag behind: as many as a very busy chat has in about a minute.
A follower that lags further is disconnected, so that a stalled browser tab costs no memory. The
browser then reconnects and continues after the last id that it received."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """A record was added to a chat's history, or a record changed (it was recalled, or its delivery
    got an outcome).

    Attributes:
        record: The record in its current form.
    """

    record: Record


@dataclass(frozen=True, slots=True)
class Working:
    """A turn of the chat began or ended.

    Attributes:
        chat_key: The chat.
        busy: True when the turn began, False when it ended.
    """

    chat_key: ChatKey
    busy: bool


Activity = Recorded | Working


class Broadcast:
    """Hands each activity to every follower, in order, and never waits for a follower."""

    def __init__(self, *, queue: int = QUEUE) -> None:
        self._queue = queue
        self._followers: dict[MemoryObjectSendStream[Activity], ChatKey | None] = {}

    def publish(self, activity: Activity) -> None:
        """Hand an activity to all followers of its chat. Never waits, never raises."""
        chat_key = _chat_of(activity)
        for follower, wanted in [*self._followers.items()]:
            if wanted is None or wanted == chat_key:
                try:
                    follower.send_nowait(activity)
                except (anyio.WouldBlock, anyio.BrokenResourceError):
                    # The follower still reads its queued activities; then its iterator ends.
                    self._followers.pop(follower, None)
                    follower.close()

    @asynccontextmanager
    async def watch(
        self, chat_key: ChatKey | None = None
    ) -> AsyncIterator[AsyncIterator[Activity]]:
        """Follow one chat, or all chats. The iterator ends for a follower that is too slow."""
        send, receive = anyio.create_memory_object_stream[Activity](self._queue)
        self._followers[send] = chat_key
        try:
            yield receive
        finally:
            self._followers.pop(send, None)
            send.close()
            receive.close()

    @property
    def follower_count(self) -> int:
        """Return how many followers are connected now."""
        return len(self._followers)


def _chat_of(activity: Activity) -> ChatKey:
    match activity:
        case Recorded(record):
            return record.chat_key
        case Working(chat_key):
            return chat_key
