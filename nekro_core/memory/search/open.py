"""Builds the search of messages, and owns its background tasks."""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Self
from zoneinfo import ZoneInfo

from nekro_core.memory.search.encoding import MessageEncoding
from nekro_core.memory.search.finder import MessageFinder
from nekro_core.memory.search.indexer import SearchIndexer
from nekro_core.memory.search.meaning import MessageVectors, TextEncoder
from nekro_core.store import Store
from nekro_core.store.ownership import ChatScope, every_chat
from nekro_core.system.background_tasks import background_tasks


@dataclass(frozen=True, slots=True)
class MessageSearchService:
    """The search of messages.

    Attributes:
        finder: Finds messages.
        indexer: Keeps the index complete. Its task runs while the service is open.
    """

    finder: MessageFinder
    indexer: SearchIndexer

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        store: Store,
        encoder: TextEncoder | None,
        *,
        timezone: str = "",
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        chats: ChatScope = every_chat,
    ) -> AsyncIterator[Self]:
        """Build the search. When the block ends, its background tasks end.

        Args:
            store: The store.
            encoder: Encodes texts; None to search by words alone.
            timezone: The time zone of dates, such as ``Asia/Shanghai``; empty for the machine's.
            clock: A monotonic clock.
            wall: Returns the present time, in seconds since 1970.
            chats: The chats whose messages this process indexes.
        """
        zone = ZoneInfo(timezone) if timezone else None
        async with background_tasks() as tasks:
            indexer = SearchIndexer(store, clock=clock, chats=chats)
            tasks.start_soon(indexer.run, name="index of messages")
            if encoder is None:
                yield cls(MessageFinder(store, zone=zone, wall=wall, clock=clock), indexer)
                return
            vectors = MessageVectors(encoder)
            encoding = MessageEncoding(store, vectors, clock=clock)
            tasks.start_soon(encoding.run, name="meaning of messages")
            finder = MessageFinder(
                store,
                vectors,
                searched=encoding.note_search,
                zone=zone,
                wall=wall,
                clock=clock,
            )
            yield cls(finder, indexer)
