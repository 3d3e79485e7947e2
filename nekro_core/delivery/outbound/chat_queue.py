"""Each chat's queue of sends: one at a time, in the order of their calls.

`KeyedQueue` is not used here. A send returns its receipts to its caller and ends with it, so it
runs in the caller's task. It takes its place without a pause, before its rows are committed, so
that the rows and the next state share a commit; `KeyedLimiter` cannot hand out a place beforehand.
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
        """Wait for the turn and hold it. The place is given up however this ends."""
        try:
            # Without a pause where nobody is before it: the state that is written next then shares
            # a commit with the row, which is still in line.
            if not self.called.is_set():
                await self.called.wait()
            yield
        finally:
            self._queue.leave(self)


class ChatQueue:
    """What is on its way to one chat.

    ``ready_lock`` is held while a send is made ready and takes its ticket, so that a later text
    does not overtake a picture that is copied first. ``parked`` is what the platform's account
    could not take yet or what is in doubt, oldest first; ``flushing`` says that the retry queue
    works on it, and ``calling`` which call is on the wire. ``sends`` counts the sends that wait.
    """

    def __init__(self, chat_key: ChatKey, settings: DeliverySettings) -> None:
        self.chat_key = chat_key
        self.ready_lock = anyio.Lock(fast_acquire=True)  # a pause here would be one of each send
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
        """How many sends and parked calls stand in line."""
        return self.sends + len(self.parked)

    def leave(self, ticket: Ticket) -> None:
        """Give a place up, called or not."""
        self._line.remove(ticket)
        self._call_first()

    def _call_first(self) -> None:
        if self._line:
            self._line[0].called.set()


class ChatQueues:
    """The queues of the chats that something is on its way to."""

    def __init__(self, settings: DeliverySettings) -> None:
        self._settings = settings
        self._queues: dict[ChatKey, ChatQueue] = {}

    @contextmanager
    def use(self, chat_key: ChatKey) -> Iterator[ChatQueue]:
        """A chat's queue, which stays while it is used."""
        queue = self._queues.get(chat_key)
        if queue is None:
            queue = self._queues[chat_key] = ChatQueue(chat_key, self._settings)
        queue.users += 1
        try:
            yield queue
        finally:
            queue.users -= 1

    def parked(self) -> list[ChatQueue]:
        """Queues in which something waits and nobody is at it."""
        return [queue for queue in self._queues.values() if queue.parked and not queue.flushing]

    def find_parked(self, delivery_id: str) -> tuple[ChatQueue, OutgoingCall] | None:
        """The parked call of this id, and the queue that it stands in."""
        for queue in self._queues.values():
            for entry in queue.parked:
                if entry.row.delivery_id == delivery_id:
                    return queue, entry
        return None

    def forget_idle(self, now: float) -> None:
        """Let go of queues that hold nothing to remember."""
        for key, queue in [*self._queues.items()]:
            if not queue.users and not queue.parked and not queue.window.count(now):
                del self._queues[key]

    def __len__(self) -> int:
        return len(self._queues)
