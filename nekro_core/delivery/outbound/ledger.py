"""Writes the rows of outgoing calls, and their records in the chat's history."""

import time
import uuid
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import anyio
import msgspec
from loguru import logger

from nekro_core.chat import (
    Author,
    ChatKey,
    Delivery,
    DeliveryState,
    Receipt,
    Record,
    Segments,
    Sender,
)
from nekro_core.delivery.activity import Broadcast, Recorded
from nekro_core.delivery.adapter import UncertainDelivery
from nekro_core.delivery.outbound.split import Piece
from nekro_core.store import (
    DeliveryRow,
    Ownership,
    OwnershipLost,
    Store,
    StoreError,
    writing_as,
)
from nekro_core.store.deliveries import is_marked
from nekro_core.store.messages import with_final_seq
from nekro_core.store.ownership import ChatScope, current_ownership, every_chat

_LAST_WORDS_S = 5.0
"""Time limit in seconds for storing the outcomes of the calls of a cancelled `Outbox.send`."""
_MOST_UNWRITTEN = 10_000
"""Maximum number of outcomes held in memory while the database cannot be written."""
_KNOWN_IDS = 1000
"""When a platform is asked about a call, the ids of this many newest stored messages of the chat
are compared with the platform's history. A page of that history has at most 100 messages."""
_DECIDED = frozenset({DeliveryState.SENT, DeliveryState.REJECTED, DeliveryState.DROPPED})
"""States of a call that is not made again, and for whose outcome the platform is not asked."""
_CALLABLE = (DeliveryState.PENDING, DeliveryState.SENDING, DeliveryState.UNKNOWN)
"""States of a row whose call may be made."""

UNSPLIT = -1
"""The position of the row of a whole message that another process has stored for the chat's owner.
The owner splits the message, and replaces this row with a row for each platform call."""


@dataclass(frozen=True, slots=True)
class _Unwritten:
    """An outcome that could not be stored yet, with the conditions under which it is written."""

    row: DeliveryRow
    ownership: Ownership | None
    only_from: Collection[DeliveryState]


@dataclass(slots=True, eq=False)
class OutgoingCall:
    """One platform call. ``receipt`` is set once the call is decided or parked. A call is parked,
    that is, it waits in its chat's queue, if it could not be made yet or if its outcome is unknown.

    ``for_rate`` says that the call was parked when the rate limit alone held up the parked calls of
    its chat, and was never begun. ``parked`` is the time at which the call was parked. ``doubted``
    is the time at which the call began or, for a call of an earlier process, was loaded. Both are
    on the event loop's clock, which, unlike the wall clock, cannot be set. ``age`` is the call's
    age in seconds when it was parked. It is 0 except for calls of an earlier process, whose age
    comes from the wall clock. ``ownership`` is the right to write for the chat (`Ownership`) that
    the process had when this object was created, which is before the platform is called.
    """

    row: DeliveryRow
    record: Record | None
    receipt: Receipt | None = None
    stored: Awaitable[Any] | None = None
    for_rate: bool = False
    parked: float = 0.0
    doubted: float = 0.0
    age: float = 0.0
    ownership: Ownership | None = field(default_factory=current_ownership)

    def waited_s(self, now: float) -> float:
        """Seconds that the call has waited. ``now`` is the event loop's time."""
        return self.age + now - self.parked

    @property
    def delivery(self) -> Delivery:
        """The value that is passed to the adapter."""
        row = self.row
        return Delivery(
            delivery_id=row.delivery_id,
            chat_key=row.chat_key,
            segments=row.segments,
            run_id=row.run_id,
        )


class DeliveryLedger:
    """Stores each change of a call's state and publishes it to followers."""

    def __init__(
        self, store: Store, activity: Broadcast, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._store = store
        self._activity = activity
        self.clock = clock
        self._unwritten: dict[str, _Unwritten] = {}

    def open(
        self,
        chat_key: ChatKey,
        pieces: Sequence[Piece],
        *,
        run_id: str,
        record: bool,
        first: int = 0,
        replaces: DeliveryRow | None = None,
    ) -> tuple[list[OutgoingCall], Awaitable[Any]]:
        """Make a row for each piece of a message and, if ``record`` is true, a record for each
        piece. When this method returns, all of them are in the queue of the database. Returns the
        calls, and an awaitable that ends when the rows are stored. A piece that cannot be sent
        begins as ``rejected``. ``first`` is the position of the first piece; `UNSPLIT` is the
        position of a message that was not split. The rows take the place of the row ``replaces``,
        see `DeliveryRepository.add`."""
        store, now = self._store, self.clock()
        account = store.accounts.of(chat_key.instance)
        sender = Sender(account.account if account else "")
        entries: list[OutgoingCall] = []
        for position, piece in enumerate(pieces, first):
            state = DeliveryState.REJECTED if piece.problem else DeliveryState.PENDING
            shown = (
                Record(
                    seq=store.messages.reserve(),
                    chat_key=chat_key,
                    author=Author.BOT,
                    segments=piece.segments,
                    time=now,
                    sender=sender,
                    run_id=run_id,
                    state=state,
                )
                if record
                else None
            )
            row = DeliveryRow(
                delivery_id=uuid.uuid4().hex,
                chat_key=chat_key,
                run_id=run_id,
                position=position,
                segments=piece.segments,
                state=state,
                message_id="",
                reason=piece.problem,
                record_seq=shown.seq if shown else 0,
                created=now,
                changed=now,
            )
            receipt = Receipt(state=state, reason=piece.problem) if piece.problem else None
            entries.append(OutgoingCall(row, shown, receipt))
        records = [entry.record for entry in entries if entry.record is not None]

        def stored() -> None:
            for entry in entries:
                if entry.record is None:
                    continue
                final = with_final_seq(entry.record)
                if final is not entry.record:
                    entry.record, entry.row = final, replace(entry.row, record_seq=final.seq)
                self._activity.publish(Recorded(final))

        written = store.deliveries.add(
            [entry.row for entry in entries],
            records,
            before=store.chats.seen(chat_key),
            stored=stored,
            failed=lambda: store.chats.forget(chat_key),
            replaces=replaces,
        )
        for entry in entries:
            entry.stored = written
        return entries, written

    @staticmethod
    async def stored(entry: OutgoingCall) -> None:
        """Wait until the row is in the database. Raises `StoreError` if it could not be stored."""
        if entry.stored is not None:
            await entry.stored

    async def begin_call(self, entry: OutgoingCall) -> bool:
        """Commit the state ``sending``, before the call is made. If this raises `StoreError`, the
        call must not be made. It must not be made either if this returns False: another process has
        stored that the message was sent or refused, or an operator has dropped it there."""
        # An earlier outcome that is not written yet must not overwrite this state.
        self._unwritten.pop(entry.row.delivery_id, None)
        marked = self._store.deliveries.mark(entry.row, DeliveryState.SENDING, only_from=_CALLABLE)
        # The row itself may still be in the queue of the database. Then the row and this state are
        # stored in one commit.
        await self.stored(entry)
        if not is_marked(await marked) and await self.adopt_outcome(entry):
            return False
        entry.row = replace(entry.row, state=DeliveryState.SENDING)
        entry.receipt = None
        entry.doubted = anyio.current_time()
        return True

    async def decide(
        self,
        entry: OutgoingCall,
        receipt: Receipt,
        *,
        only_from: Collection[DeliveryState] = (),
    ) -> None:
        """Store the outcome of a call. If the store fails, this is logged and not raised: an error
        would tell the sender that the message failed, although people have read it. `retry_writes`
        stores the outcome later. If the process dies before that, the row stays ``sending`` and
        becomes ``unknown`` at the next start.

        If another process has stored that the message was sent, this outcome is not stored, and the
        call gets the stored one. If ``only_from`` is given, the same holds for a row whose state is
        none of these."""
        entry.receipt = receipt
        entry.row = replace(
            entry.row,
            state=receipt.state,
            message_id=receipt.message_id,
            reason=receipt.reason,
        )
        try:
            written = await self._store.deliveries.mark(
                entry.row,
                receipt.state,
                message_id=receipt.message_id,
                reason=receipt.reason,
                only_from=only_from,
            )
            self._unwritten.pop(entry.row.delivery_id, None)
            if not is_marked(written):
                stays = tuple(DeliveryState) if only_from else (DeliveryState.SENT,)
                receipt = await self._adopt(entry, stays) or receipt
        except OwnershipLost as error:
            # The new owner of the chat decides the row. This process must not change it any more.
            logger.warning(
                "delivery {} is left to another process: {}", entry.row.delivery_id, error
            )
        except StoreError as error:
            if len(self._unwritten) < _MOST_UNWRITTEN:
                self._unwritten[entry.row.delivery_id] = _Unwritten(
                    entry.row, entry.ownership, only_from
                )
            logger.error(
                "delivery {}: the outcome {} cannot be stored: {}",
                entry.row.delivery_id,
                receipt.state,
                error,
            )
        self._publish(entry, receipt)

    async def _adopt(
        self, entry: OutgoingCall, states: Collection[DeliveryState]
    ) -> Receipt | None:
        """If a call's row has one of these states, give the call what the row says, and return it.
        Raises `StoreError`."""
        row = await self._store.deliveries.get(entry.row.delivery_id)
        if row is None or row.state not in states:
            return None
        entry.row = row
        entry.receipt = Receipt(state=row.state, message_id=row.message_id, reason=row.reason)
        return entry.receipt

    async def adopt_outcome(self, entry: OutgoingCall) -> bool:
        """If another process has stored the outcome of a call whose outcome this process does not
        know, give the call this outcome and return True. In a cluster, a gateway stores the
        platform's answer although the worker that asked for the call has lost the chat. Raises
        `StoreError`."""
        receipt = await self._adopt(entry, _DECIDED)
        if receipt is None:
            return False
        self._publish(entry, receipt)
        return True

    def _publish(self, entry: OutgoingCall, receipt: Receipt) -> None:
        """Publish the state of a call's record, if it has changed."""
        if entry.record is not None:
            changed = msgspec.structs.replace(
                entry.record, state=receipt.state, message_id=receipt.message_id
            )
            if changed != entry.record:
                entry.record = changed
                self._activity.publish(Recorded(changed))

    async def retry_writes(self) -> None:
        """Store outcomes that could not be written before. Raises `StoreError`."""
        for unwritten in [*self._unwritten.values()]:
            row = unwritten.row
            with suppress(OwnershipLost), writing_as(unwritten.ownership):
                await self._store.deliveries.mark(
                    row,
                    row.state,
                    message_id=row.message_id,
                    reason=row.reason,
                    only_from=unwritten.only_from,
                )
            if self._unwritten.get(row.delivery_id) is unwritten:
                del self._unwritten[row.delivery_id]

    async def revise(self, chat_key: ChatKey, message_id: str, segments: Segments) -> None:
        """Store the new segments of an edited message of the bot. Raises `StoreError`."""
        changed = await self._store.messages.revise(chat_key, message_id, segments)
        if changed is not None:
            self._activity.publish(Recorded(changed))

    async def abandon(self, entries: Sequence[OutgoingCall], reason: str) -> None:
        """Set the outcomes of a stopped `Outbox.send`: a call under way becomes ``unknown``, later
        calls become ``dropped``."""
        with anyio.CancelScope(shield=True), anyio.move_on_after(_LAST_WORDS_S):
            for entry in entries:
                if entry.receipt is None:
                    called = entry.row.state is DeliveryState.SENDING
                    state = DeliveryState.UNKNOWN if called else DeliveryState.DROPPED
                    await self.decide(entry, Receipt(state=state, reason=reason))

    async def take_back(self, entry: OutgoingCall) -> None:
        """Store that a call was not made: its task was cancelled in `begin_call`, and the state
        ``sending`` may be stored by now. Otherwise its outcome would count as unknown."""
        with anyio.CancelScope(shield=True), anyio.move_on_after(_LAST_WORDS_S):
            await self.decide(
                entry,
                Receipt(state=entry.row.state, reason=entry.row.reason),
                only_from=_CALLABLE,
            )

    async def load_unfinished(
        self, *, young_s: float, chats: ChatScope = every_chat
    ) -> list[OutgoingCall]:
        """Load, in their order, the calls to ``chats`` that an earlier process left without an
        outcome. Calls that were ``sending`` become ``unknown``. Of the ``unknown`` calls, only the
        calls younger than ``young_s`` are returned. Messages that were not split are left out; see
        `load_unsplit`."""
        found = self._store.deliveries
        for row in await found.in_state(DeliveryState.SENDING, chats=chats):
            reason = "the bot was stopped while it was sent; it may have arrived"
            entry = OutgoingCall(row, await self._record_of(row))
            # The row may have got its outcome since it was read: from the gateway that made the
            # call, or from an operator.
            await self.decide(
                entry,
                Receipt(state=DeliveryState.UNKNOWN, reason=reason),
                only_from=(DeliveryState.SENDING,),
            )
        since, now = self.clock() - young_s, anyio.current_time()
        entries = []
        for row in await found.undecided(since=since, chats=chats):
            if row.position == UNSPLIT:
                continue
            entry = OutgoingCall(row, await self._record_of(row), parked=now, doubted=now)
            # If the clock was set back, the age is 0 and not negative.
            entry.age = max(self.clock() - row.created, 0.0)
            entries.append(entry)
        return entries

    async def load_unsplit(self, chats: ChatScope = every_chat) -> list[DeliveryRow]:
        """Load the messages to ``chats`` that the owner of the chat has not split yet (`UNSPLIT`),
        in the order in which they were stored."""
        found = await self._store.deliveries.in_state(DeliveryState.PENDING, chats=chats)
        return [row for row in found if row.position == UNSPLIT]

    def show(self, entry: OutgoingCall) -> None:
        """Publish the state that a call's row has. Other code has already stored this state."""
        if entry.record is not None:
            entry.record = msgspec.structs.replace(entry.record, state=entry.row.state)
            self._activity.publish(Recorded(entry.record))

    async def found(self, row: DeliveryRow) -> OutgoingCall:
        """Create the `OutgoingCall` for a row that is in no queue."""
        now = anyio.current_time()
        return OutgoingCall(row, await self._record_of(row), parked=now, doubted=now)

    async def uncertain_delivery(self, entry: OutgoingCall) -> UncertainDelivery:
        """Collect the data that distinguishes the call's message from others."""
        known = await self._store.deliveries.platform_ids(entry.row.chat_key, _KNOWN_IDS)
        seq = entry.row.record_seq
        return UncertainDelivery(
            delivery=entry.delivery,
            since=entry.row.created,
            before=frozenset(name for at, name in known if seq and at < seq),
            # The call's own record can have an id although the outcome is unknown. This id is left
            # out, because the message with this id is the one that is looked for.
            taken=frozenset(name for at, name in known if at != seq),
        )

    async def _record_of(self, row: DeliveryRow) -> Record | None:
        return await self._store.messages.get(row.record_seq) if row.record_seq else None
