"""Queues the sends of each chat. A send is one call of `Outbox.send`. Sends run one at a time, in
the order of these calls.

`KeyedQueue` cannot be used here, because it runs each job in a separate task. A send must run in
its caller's task, so that the caller gets the receipts and can cancel the send. `KeyedLimiter`
cannot be used either, because it cannot reserve a place. A send reserves its place without an
await, before its rows are committed, so that the rows and their next state are stored in one
commit.
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
        """Wait until this ticket is the first in the queue. It stays first until the block ends."""
        try:
            # Do not await if this ticket is first. The row is then still queued for the database,
            # and the row and its next state are stored in one commit.
            if not self.called.is_set():
                await self.called.wait()
            yield
        finally:
            self._queue.leave(self)


class ChatQueue:
    """The sends to one chat that wait or are under way.

    A send holds ``ready_lock`` while it is prepared and takes its ticket, so that a text cannot
    overtake an earlier picture that is still being copied. ``parked`` holds the calls that could
    not be made yet (account offline) or whose outcome is unknown, oldest first. ``flushing`` is
    true while the retry queue works on the parked calls. ``calling`` is the parked call that is
    being made now. ``sends`` counts the unfinished calls of `Outbox.send`.
    """

    def __init__(self, chat_key: ChatKey, settings: DeliverySettings) -> None:
        self.chat_key = chat_key
        # With this argument, no other task runs while a free lock is taken.
        self.ready_lock = anyio.Lock(fast_acquire=True)
        self.window = RateWindow((settings.sends_per_window, settings.window_s))
        self.parked: deque[OutgoingCall] = deque()
        self.users = 0
        self.sent_by = ""
        """The run that sent the last message; empty if no run did. The next message of the same
        turn may have to wait (`DeliverySettings.pace_chars_s`)."""
        self.sent_at = 0.0
        self.sends = 0
        self.flushing = False
        self.calling: OutgoingCall | None = None
        self._line: deque[Ticket] = deque()

    def enter(self) -> Ticket:
        """Take the last place in the queue."""
        ticket = Ticket(self)
        self._line.append(ticket)
        self._call_first()
        return ticket

    @property
    def waiting(self) -> int:
        """Return how many sends and parked calls the queue holds."""
        return self.sends + len(self.parked)

    def leave(self, ticket: Ticket) -> None:
        """Remove a ticket from the queue. The ticket need not be the first."""
        self._line.remove(ticket)
        self._call_first()

    def _call_first(self) -> None:
        if self._line:
            self._line[0].called.set()


class ChatQueues:
    """The queues of all chats to which messages are being sent or wait to be sent."""

    def __init__(self, settings: DeliverySettings) -> None:
        self._settings = settings
        self._queues: dict[ChatKey, ChatQueue] = {}

    @contextmanager
    def use(self, chat_key: ChatKey) -> Iterator[ChatQueue]:
        """Get a chat's queue. The queue is not removed until the block ends."""
        queue = self._queues.get(chat_key)
        if queue is None:
            queue = self._queues[chat_key] = ChatQueue(chat_key, self._settings)
        queue.window.set_bounds((self._settings.sends_per_window, self._settings.window_s))
        queue.users += 1
        try:
            yield queue
        finally:
            queue.users -= 1

    @property
    def waiting(self) -> int:
        """The number of sends and parked calls in all queues."""
        return sum(queue.waiting for queue in self._queues.values())

    def parked(self) -> list[ChatQueue]:
        """Return the queues that have parked calls and that the retry queue is not working on."""
        return [queue for queue in self._queues.values() if queue.parked and not queue.flushing]

    def find_parked(self, delivery_id: str) -> tuple[ChatQueue, OutgoingCall] | None:
        """Return the parked call with this id, and its queue."""
        for queue in self._queues.values():
            for entry in queue.parked:
                if entry.row.delivery_id == delivery_id:
                    return queue, entry
        return None

    def forget_idle(self, now: float) -> None:
        """Remove each queue that is not in use and has neither parked calls nor sends in its rate
        window."""
        for key, queue in [*self._queues.items()]:
            if not queue.users and not queue.parked and not queue.window.count(now):
                del self._queues[key]

    def __len__(self) -> int:
        return len(self._queues)
