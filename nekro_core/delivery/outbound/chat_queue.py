"""One chat's line of sends: one at a time, in the order in which they came.

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
    """A place in a lane's line."""

    def __init__(self, lane: "ChatQueue") -> None:
        self._lane = lane
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
            self._lane.leave(self)


class ChatQueue:
    """What is on its way to one chat.

    ``door`` is held while a send is made ready and takes its ticket, so that a picture that is
    copied first does not let a later text overtake. ``parked`` is what the platform's account
    could not take yet or what is in doubt, oldest first; ``flushing`` says that somebody is at it,
    and ``calling`` which one is on the wire. ``sends`` counts who waits for their turn.
    """

    def __init__(self, chat_key: ChatKey, settings: DeliverySettings) -> None:
        self.chat_key = chat_key
        self.door = anyio.Lock(fast_acquire=True)  # a pause here would be one of each send
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
    """The lanes of all chats that anything is on its way to."""

    def __init__(self, settings: DeliverySettings) -> None:
        self._settings = settings
        self._lanes: dict[ChatKey, ChatQueue] = {}

    @contextmanager
    def use(self, chat_key: ChatKey) -> Iterator[ChatQueue]:
        """A chat's lane, which stays while it is used."""
        lane = self._lanes.get(chat_key)
        if lane is None:
            lane = self._lanes[chat_key] = ChatQueue(chat_key, self._settings)
        lane.users += 1
        try:
            yield lane
        finally:
            lane.users -= 1

    def parked(self) -> list[ChatQueue]:
        """Lanes in which something waits and nobody is at it."""
        return [lane for lane in self._lanes.values() if lane.parked and not lane.flushing]

    def find_parked(self, delivery_id: str) -> tuple[ChatQueue, OutgoingCall] | None:
        """The parked call of this id, and the lane that it stands in."""
        for lane in self._lanes.values():
            for entry in lane.parked:
                if entry.row.delivery_id == delivery_id:
                    return lane, entry
        return None

    def forget_idle(self, now: float) -> None:
        """Let go of lanes that hold nothing to remember."""
        for key, lane in [*self._lanes.items()]:
            if not lane.users and not lane.parked and not lane.window.count(now):
                del self._lanes[key]

    def __len__(self) -> int:
        return len(self._lanes)
