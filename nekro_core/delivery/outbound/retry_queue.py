"""Retries calls that could not be made yet, and asks about calls whose outcome is unknown.

Both kinds of calls wait in their chat's queue, oldest first, and later messages of the chat wait
behind them. So if a message did not arrive, it is sent again before the later messages.
"""

from dataclasses import replace

import anyio
from anyio.abc import TaskGroup
from loguru import logger

from nekro_core.chat import DeliveryState, Receipt
from nekro_core.delivery.outbound.chat_queue import ChatQueue, ChatQueues
from nekro_core.delivery.outbound.ledger import DeliveryLedger, OutgoingCall
from nekro_core.delivery.outbound.platform_call import PlatformCaller
from nekro_core.delivery.settings import DeliverySettings
from nekro_core.store import OwnershipLost, StoreError, writing_as
from nekro_core.store.ownership import ChatScope, every_chat

UNDECIDED = frozenset({DeliveryState.PENDING, DeliveryState.UNKNOWN})
"""States of the calls that wait in a queue."""


class RetryQueue:
    """Makes waiting calls, and asks platforms about calls with an unknown outcome."""

    def __init__(
        self,
        caller: PlatformCaller,
        ledger: DeliveryLedger,
        queues: ChatQueues,
        settings: DeliverySettings,
    ) -> None:
        self._caller = caller
        self._ledger = ledger
        self._queues = queues
        self._settings = settings
        self._nudged = anyio.Event()
        self._nudges = 0
        """How often `retry_now` was called."""

    async def load_pending(self, chats: ChatScope = every_chat) -> None:
        """Load the calls of an earlier process to ``chats`` that have no outcome yet. Meanwhile,
        this process must not make a call to these chats."""
        young_s = self._settings.resend_for_s
        for entry in await self._ledger.load_unfinished(young_s=young_s, chats=chats):
            with self._queues.use(entry.row.chat_key) as queue:
                queue.parked.append(entry)

    def enqueue(self, queue: ChatQueue, entry: OutgoingCall) -> None:
        """Queue a call after the waiting calls of its chat."""
        entry.parked = anyio.current_time()
        queue.parked.append(entry)

    def retry_now(self) -> None:
        """Start the next round of retries now. A chat whose calls are being tried is tried once
        more: what the caller waited for may have come after the attempt began."""
        self._nudges += 1
        self._nudged.set()

    async def live(self, tasks: TaskGroup) -> None:
        """Try the waiting calls again and again, with a pause of ``retry_s`` between two rounds. In
        each round, one task per chat tries the waiting calls of this chat. Never returns."""
        while True:
            try:
                await self._ledger.retry_writes()
            except StoreError as error:
                logger.debug("the outcomes of some messages are still not stored: {}", error)
            for queue in self._queues.parked():
                queue.flushing = True
                tasks.start_soon(self._flush, queue)
            with anyio.move_on_after(self._settings.retry_s):
                await self._nudged.wait()
            self._nudged = anyio.Event()
            self._queues.forget_idle(anyio.current_time())

    async def _flush(self, queue: ChatQueue) -> None:
        with self._queues.use(queue.chat_key):
            try:
                nudges = -1
                while queue.parked and nudges != self._nudges:
                    nudges = self._nudges
                    while await self._try_first(queue):
                        pass
            except StoreError as error:
                logger.error("the waiting messages for {} stay queued: {}", queue.chat_key, error)
            finally:
                queue.flushing = False

    async def _try_first(self, queue: ChatQueue) -> bool:
        """Try the first call of a queue. Returns False if there is none, or if it must keep
        waiting.

        The rate limit is waited for without the chat's turn. A send that comes meanwhile takes its
        turn at once, and queues its calls after the waiting ones. If it had to wait with them, a
        tool that sends a message would be stopped at its time limit, and its message would be
        dropped."""
        async with queue.enter().turn():
            if not queue.parked:
                return False
            entry, now, wait_s = queue.parked[0], anyio.current_time(), 0.0
            if _is_pending(entry):
                young_s = self._settings.resend_for_s - entry.waited_s(now)
                wait_s = min(queue.window.wait_s(now), max(young_s, 0.0))
            if not wait_s:
                return await self._try_as_owner(queue, entry)
        await anyio.sleep(wait_s)
        return True

    async def _try_as_owner(self, queue: ChatQueue, entry: OutgoingCall) -> bool:
        """Try a call with the ownership with which it was made. If another process owns the chat
        now, the call is removed from this queue: the other process takes care of it."""
        try:
            with writing_as(entry.ownership):
                return await self._try(queue, entry)
        except OwnershipLost as error:
            logger.info("delivery {} is left to its owner: {}", entry.row.delivery_id, error)
            if queue.parked and queue.parked[0] is entry:
                queue.parked.popleft()
            return True

    async def _try(self, queue: ChatQueue, entry: OutgoingCall) -> bool:
        """Make the first call of a queue, ask the platform for its outcome if that is unknown, or
        drop the call if it is too old. Returns False if the call must keep waiting. If the platform
        does not have the message, the call stays the first and is ``pending``."""
        too_old = entry.waited_s(anyio.current_time()) >= self._settings.resend_for_s
        if entry.row.state is DeliveryState.UNKNOWN:
            goes_on = too_old or await self._settle(queue, entry)
        elif too_old:
            reason = f"it waited {self._settings.resend_for_s:g} s: too old to be said now"
            receipt = Receipt(state=DeliveryState.DROPPED, reason=reason)
            await self._ledger.decide(entry, receipt)
            goes_on = True
        else:
            goes_on = await self._send(queue, entry)
        if goes_on and queue.parked and queue.parked[0] is entry and not _is_pending(entry):
            queue.parked.popleft()
        return goes_on

    async def _settle(self, queue: ChatQueue, entry: OutgoingCall) -> bool:
        """Ask the platform for the outcome of a call. If the platform still does not have the
        message after ``settle_s``, it must be sent again now, before the later messages of the
        chat. Returns False if the call must keep waiting."""
        receipt = await self._caller.ask(entry)
        if not _is_first(queue, entry):
            return True
        if receipt.state is not DeliveryState.SENT and await self._ledger.adopt_outcome(entry):
            # Another process has stored the outcome: the message was sent, the platform refused it,
            # or an operator has dropped it. It must not be sent again.
            return True
        if not _is_first(queue, entry):
            return True
        match receipt.state:
            case DeliveryState.PENDING:
                return False
            case DeliveryState.REJECTED:
                asked_after = anyio.current_time() - entry.doubted
                if asked_after < self._settings.settle_s:
                    return False
                logger.info("{} did not arrive and is sent now", entry.row.delivery_id)
                reason = f"it did not arrive, and is sent again: {receipt.reason}"
                await self._ledger.decide(
                    entry, replace(receipt, state=DeliveryState.PENDING, reason=reason)
                )
                return True
            case _:
                await self._ledger.decide(entry, receipt)
                return True

    async def _send(self, queue: ChatQueue, entry: OutgoingCall) -> bool:
        queue.calling, entry.for_rate = entry, False
        try:
            await self._caller.call(queue, entry)
        except anyio.get_cancelled_exc_class():
            if entry.row.state is DeliveryState.SENDING:
                queue.parked.popleft()
                await self._ledger.abandon([entry], "the bot was stopped while sending it")
            elif entry.row.state is DeliveryState.PENDING:
                await self._ledger.take_back(entry)
            raise
        finally:
            queue.calling = None
        if entry.row.state is DeliveryState.UNKNOWN:
            return not self._caller.can_confirm(queue.chat_key)
        return entry.row.state is not DeliveryState.PENDING


def _is_pending(entry: OutgoingCall) -> bool:
    return entry.row.state is DeliveryState.PENDING


def _is_first(queue: ChatQueue, entry: OutgoingCall) -> bool:
    """Return whether a call is still the first in its queue. An operator may have dropped it
    meanwhile."""
    return bool(queue.parked) and queue.parked[0] is entry and entry.row.state in UNDECIDED
