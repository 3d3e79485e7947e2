"""A chat's record as plugins see it, and how a system line wakes the agent."""

from collections.abc import Callable

from nekro_core.chat import ChatKey, Record
from nekro_core.delivery import Inbox
from nekro_core.store import Store

Waker = Callable[[Record], None]


class ChatJournal:
    """See `nekro_core.plugin.services.Journal`. Made before the sessions, which then `attach`."""

    def __init__(self, store: Store, inbox: Inbox) -> None:
        self._store = store
        self._inbox = inbox
        self._wakers: list[Waker] = []

    def attach(self, waker: Waker) -> Callable[[], None]:
        """Be told of system lines that the agent is to answer. Returns what ends it."""
        self._wakers.append(waker)
        return lambda: self._wakers.remove(waker)

    async def note(
        self, chat_key: ChatKey, text: str, *, run_id: str = "", trigger: bool = False
    ) -> None:
        """Add a system line; with ``trigger`` the agent of the chat answers it."""
        record = await self._inbox.note(chat_key, text, run_id=run_id)
        if trigger:
            for waker in [*self._wakers]:
                waker(record)

    async def newest(self, chat_key: ChatKey, limit: int) -> list[Record]:
        """The newest records that were not taken back, oldest first."""
        records = await self._store.messages.newest(chat_key, limit)
        return [record for record in records if not record.recalled]
