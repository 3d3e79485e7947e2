"""Queues the sends of each chat: one at a time, in the order of their calls.

`KeyedQueue` is not used here. A send returns its receipts to its caller and ends with it, so it
runs in the caller's task. It takes its place without an await, before its rows are committed, so
that the rows and the next state share a commit. `KeyedLimiter` cannot reserve a place beforehand.
"""

from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import anyio

from nekro_core.chat import ChatKey
from nekro_core.delivery.outbound.ledger import OutgoingCall
from nekro_core.delivery.settings import DeliverySettings
from nekro_core.system.rate_window import RateWindow


class Ticket:
    """A place in a chat's queue."""

    def __init__(self, queue: "ChatQueue") -> None:
        self._queue = queue
        self.called = anyio.Event()

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait until this is the first in the queue, and hold the place until the block ends."""
        try:
            # If it is first, do not await: the next state then shares a commit with the row, which
            # is still queued.
            if not self.called.is_set():
                await self.called.wait()
            yield
        finally:
            self._queue.leave(self)


class ChatQueue:
    """The sends to one chat that are under way or wait.

    ``ready_lock`` is held while a send is prepared and takes its ticket, so that a later text does
    not overtake a picture that is copied first. ``parked`` are the calls that the account could not
    take yet or whose outcome is unknown, oldest first. ``flushing`` says that the retry queue works
    on them, and ``calling`` which of them is being made. ``sends`` counts the unfinished calls of
    `Outbox.send`.
    """

    def __init__(self, chat_key: ChatKey, settings: DeliverySettings) -> None:
        self.chat_key = chat_key
        self.ready_lock = anyio.Lock(fast_acquire=True)  # saves a pause for each send
        self.window = RateWindow((settings.sends_per_window, settings.window_s))
        self.parked: deque[OutgoingCall] = deque()
        self.users = 0
        self.sends = 0
        self.flushing = False
        self.calling: OutgoingCall | None = None
        self._line: deque[Ticket] = deque()

    def enter(self) -> Ticket:
        """Take the next place."""
        ticket = Ticket(self)
        self._line.append(ticket)
        self._call_first()
        return ticket

    @property
    def waiting(self) -> int:
        """How many sends and parked calls the queue holds."""
        return self.sends + len(self.parked)

    def leave(self, ticket: Ticket) -> None:
        """Give up a place, first or not."""
        self._line.remove(ticket)
        self._call_first()

    def _call_first(self) -> None:
        if self._line:
            self._line[0].called.set()


class ChatQueues:
    """The queues of the chats with sends."""

    def __init__(self, settings: DeliverySettings) -> None:
        self._settings = settings
        self._queues: dict[ChatKey, ChatQueue] = {}

    @contextmanager
    def use(self, chat_key: ChatKey) -> Iterator[ChatQueue]:
        """Use a chat's queue; it is not removed meanwhile."""
        queue = self._queues.get(chat_key)
        if queue is None:
            queue = self._queues[chat_key] = ChatQueue(chat_key, self._settings)
        queue.users += 1
        try:
            yield queue
        finally:
            queue.users -= 1

    def parked(self) -> list[ChatQueue]:
        """Queues with parked calls that the retry queue does not work on."""
        return [queue for queue in self._queues.values() if queue.parked and not queue.flushing]

    def find_parked(self, delivery_id: str) -> tuple[ChatQueue, OutgoingCall] | None:
        """The parked call of this id, and its queue."""
        for queue in self._queues.values():
            for entry in queue.parked:
                if entry.row.delivery_id == delivery_id:
                    return queue, entry
        return None

    def forget_idle(self, now: float) -> None:
        """Remove queues that are unused, have no parked calls and no sends in their rate window."""
        for key, queue in [*self._queues.items()]:
            if not queue.users and not queue.parked and not queue.window.count(now):
                del self._queues[key]

    def __len__(self) -> int:
        return len(self._queues)
