"""Lists outgoing messages for the operator, sends them again and drops them."""

from collections.abc import Callable, Collection

import anyio

from nekro_core.chat import ChatKey, DeliveryState, Receipt
from nekro_core.delivery.errors import CannotDo
from nekro_core.delivery.outbound.chat_queue import ChatQueues
from nekro_core.delivery.outbound.ledger import DeliveryLedger, OutgoingCall
from nekro_core.delivery.outbound.owner_of_chats import OwnerOfChats
from nekro_core.delivery.outbound.retry_queue import RetryQueue
from nekro_core.store import DeliveryRow, GuardFailed, OwnershipLost, Store

OPEN_STATES = (
    DeliveryState.PENDING,
    DeliveryState.SENDING,
    DeliveryState.UNKNOWN,
    DeliveryState.REJECTED,
)
"""States of the messages that an operator sees by default: all but ``sent`` and ``dropped``."""
_CALL_S = 1.0
"""Seconds for which `OutboxAdmin.drop` waits for a call that is under way."""


class OutboxAdmin:
    """Implements `OutboxActions`. Made by `Outbox`, which must be open."""

    def __init__(
        self,
        store: Store,
        ledger: DeliveryLedger,
        queues: ChatQueues,
        retries: RetryQueue,
        owner: Callable[[], OwnerOfChats | None] = lambda: None,
    ) -> None:
        self._store = store
        self._ledger = ledger
        self._queues = queues
        self._retries = retries
        self._owner = owner

    async def listed(
        self,
        states: Collection[DeliveryState] = OPEN_STATES,
        *,
        chat_key: ChatKey | None = None,
        before: str = "",
        limit: int = 50,
    ) -> list[DeliveryRow]:
        """List the newest messages in these states, newest first. ``before`` is the id of a
        message; with it, only messages that were requested earlier than this message are listed."""
        return await self._store.deliveries.newest(
            *states, chat_key=chat_key, before=before, limit=limit
        )

    async def count(self, states: Collection[DeliveryState] = OPEN_STATES) -> int:
        """Count the messages in these states, at most 1,000."""
        return await self._store.deliveries.count(*states)

    async def resend(self, delivery_id: str) -> DeliveryRow:
        """Send an ``unknown``, ``rejected`` or ``dropped`` message again. People may see an
        ``unknown`` message twice; the operator accepts that. The message is queued after the
        waiting messages of its chat. Returns its row, now ``pending``.

        Raises `CannotDo` and `StoreError`.
        """
        row = await self._row(delivery_id)
        if not row.state.can_be_resent:
            raise CannotDo(f"{delivery_id} is {row.state.value}: it cannot be sent again")
        try:
            row = await self._store.deliveries.renew(row, "sent again by the operator")
        except OwnershipLost:
            raise
        except GuardFailed:
            raise CannotDo(f"{delivery_id} was changed meanwhile: look again") from None
        entry = await self._ledger.found(row)
        self._ledger.show(entry)
        if (owner := self._elsewhere(row.chat_key)) is not None:
            owner.tell(row)
            return row
        self._enqueue(entry)
        return row

    async def drop(self, delivery_id: str) -> DeliveryRow:
        """Drop a message that is ``pending``, ``unknown`` or ``rejected``. The message is not sent
        any more unless `resend` is called, and it is no longer listed by default. Raises
        `CannotDo` and `StoreError`."""
        receipt = Receipt(state=DeliveryState.DROPPED, reason="dropped by the operator")
        only_from: Collection[DeliveryState] = ()
        if (held := self._queues.find_parked(delivery_id)) is not None:
            queue, entry = held
            with anyio.move_on_after(_CALL_S):
                # Wait until the retry queue has ended a call of this message. If the account is
                # offline, the call ends at once.
                while queue.calling is entry:  # noqa: ASYNC110 - there is no event for the end of a call
                    await anyio.sleep(_CALL_S / 20)
            if queue.calling is entry or entry not in queue.parked:
                raise CannotDo(f"{delivery_id} is on its way right now: look again in a minute")
            queue.parked.remove(entry)
        else:
            row = await self._row(delivery_id)
            if not row.state.can_be_dropped:
                raise CannotDo(f"{delivery_id} is {row.state.value}: it cannot be dropped")
            entry, only_from = await self._ledger.found(row), (row.state,)
        await self._ledger.decide(entry, receipt, only_from=only_from)
        if (state := entry.row.state) is not DeliveryState.DROPPED:
            raise CannotDo(f"{delivery_id} is {state.value} by now: it was not dropped")
        if (owner := self._elsewhere(entry.row.chat_key)) is not None:
            owner.tell(entry.row)
        return entry.row

    async def follow(self, row: DeliveryRow) -> None:
        """Do what another process has decided about a message: send it again if its row is
        ``pending``, and do not send it if its row is ``dropped``. Only the chat's owner may call
        this. Raises `StoreError`."""
        held = self._queues.find_parked(row.delivery_id)
        if row.state is DeliveryState.PENDING and held is None:
            self._enqueue(await self._ledger.found(row))
        elif row.state is DeliveryState.DROPPED and held is not None:
            queue, entry = held
            if queue.calling is not entry:
                queue.parked.remove(entry)

    def _enqueue(self, entry: OutgoingCall) -> None:
        with self._queues.use(entry.row.chat_key) as queue:
            self._retries.enqueue(queue, entry)
        self._retries.retry_now()

    def _elsewhere(self, chat_key: ChatKey) -> OwnerOfChats | None:
        """Return the way to the chat's owner; None if this process owns the chat."""
        owner = self._owner()
        return None if owner is None or owner.owns(chat_key) else owner

    async def _row(self, delivery_id: str) -> DeliveryRow:
        if self._queues.find_parked(delivery_id) is not None:
            raise CannotDo(f"{delivery_id} waits to be sent, or the platform is asked about it")
        row = await self._store.deliveries.get(delivery_id)
        if row is None:
            raise CannotDo(f"there is no message {delivery_id!r}: `nekro outbox list` shows them")
        return row
