"""Writes the rows of outgoing calls, and the history lines that show them."""

import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
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
from nekro_core.store import DeliveryRow, Store, StoreError

_LAST_WORDS_S = 5.0
"""Longest time for a cancelled send to store its outcome."""
_MOST_UNWRITTEN = 10_000
"""Outcomes held in memory because the database could not be written."""
_KNOWN_IDS = 1000
"""How many newest messages of a chat are compared to find the one in doubt. A platform's page has
at most 100."""


@dataclass(slots=True, eq=False)
class OutgoingCall:
    """One platform call. ``receipt`` is set once the call is decided or parked.

    ``parked`` is when it was parked and ``doubted`` when its call began (for a loaded row: when it
    was loaded), on the event loop's clock, which cannot be set. ``age`` is how old the call was
    when it was parked, in seconds. It is only set for calls of an earlier process, whose age the
    wall clock tells.
    """

    row: DeliveryRow
    record: Record | None
    receipt: Receipt | None = None
    stored: Awaitable[Any] | None = None
    parked: float = 0.0
    doubted: float = 0.0
    age: float = 0.0

    def waited_s(self, now: float) -> float:
        """Seconds that the call has waited. ``now`` is the event loop's time."""
        return self.age + now - self.parked

    @property
    def delivery(self) -> Delivery:
        """The value that the adapter gets."""
        row = self.row
        return Delivery(
            delivery_id=row.delivery_id,
            chat_key=row.chat_key,
            segments=row.segments,
            run_id=row.run_id,
        )


class DeliveryLedger:
    """Stores each change of state and publishes it to followers."""

    def __init__(
        self, store: Store, activity: Broadcast, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._store = store
        self._activity = activity
        self.clock = clock
        self._unwritten: dict[str, DeliveryRow] = {}

    def open(
        self, chat_key: ChatKey, pieces: Sequence[Piece], *, run_id: str, record: bool
    ) -> tuple[list[OutgoingCall], Awaitable[Any]]:
        """Queue the rows of one send for the database, before this returns. Returns the calls and
        an awaitable that ends when the rows are stored. A piece that cannot be sent begins as
        ``rejected``."""
        store, now = self._store, self.clock()
        account = store.accounts.of(chat_key.instance)
        sender = Sender(account.account if account else "")
        entries: list[OutgoingCall] = []
        for position, piece in enumerate(pieces):
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
            for each in records:
                self._activity.publish(Recorded(each))

        written = store.deliveries.add(
            [entry.row for entry in entries],
            records,
            before=store.chats.seen(chat_key),
            stored=stored,
            failed=lambda: store.chats.forget(chat_key),
        )
        for entry in entries:
            entry.stored = written
        return entries, written

    @staticmethod
    async def stored(entry: OutgoingCall) -> None:
        """Wait until the row is in the database. Raises `StoreError` if it could not be stored."""
        if entry.stored is not None:
            await entry.stored

    async def begin_call(self, entry: OutgoingCall) -> None:
        """Commit that the call is about to be made. If this raises `StoreError`, it must not be
        made."""
        # An earlier outcome must not overwrite this state.
        self._unwritten.pop(entry.row.delivery_id, None)
        marked = self._store.deliveries.mark(entry.row, DeliveryState.SENDING)
        # The row itself may still be queued: it and its state then share a commit.
        await self.stored(entry)
        await marked
        entry.row = replace(entry.row, state=DeliveryState.SENDING)
        entry.receipt = None
        entry.doubted = anyio.current_time()

    async def decide(self, entry: OutgoingCall, receipt: Receipt) -> None:
        """Store the outcome of a call. A failure to store it is logged and not raised: the sender
        must not be told that a message failed which people have read. `retry_writes` stores it
        later. If the process dies before that, the row stays ``sending`` and becomes ``unknown``.
        """
        entry.receipt = receipt
        entry.row = replace(
            entry.row,
            state=receipt.state,
            message_id=receipt.message_id,
            reason=receipt.reason,
        )
        try:
            await self._store.deliveries.mark(
                entry.row, receipt.state, message_id=receipt.message_id, reason=receipt.reason
            )
            self._unwritten.pop(entry.row.delivery_id, None)
        except StoreError as error:
            if len(self._unwritten) < _MOST_UNWRITTEN:
                self._unwritten[entry.row.delivery_id] = entry.row
            logger.error(
                "delivery {} is {} and that cannot be stored: {}",
                entry.row.delivery_id,
                receipt.state,
                error,
            )
        if entry.record is not None:
            changed = msgspec.structs.replace(
                entry.record, state=receipt.state, message_id=receipt.message_id
            )
            if changed != entry.record:
                entry.record = changed
                self._activity.publish(Recorded(changed))

    async def retry_writes(self) -> None:
        """Store outcomes that could not be written before. Raises `StoreError`."""
        for row in [*self._unwritten.values()]:
            await self._store.deliveries.mark(
                row, row.state, message_id=row.message_id, reason=row.reason
            )
            if self._unwritten.get(row.delivery_id) is row:
                del self._unwritten[row.delivery_id]

    async def revise(self, chat_key: ChatKey, message_id: str, segments: Segments) -> None:
        """Store the new segments of an edited message of the bot. Raises `StoreError`."""
        changed = await self._store.messages.revise(chat_key, message_id, segments)
        if changed is not None:
            self._activity.publish(Recorded(changed))

    async def abandon(self, entries: Sequence[OutgoingCall], reason: str) -> None:
        """Decide the calls of a send that was stopped: a call under way becomes ``unknown``, the
        rest ``dropped``."""
        with anyio.CancelScope(shield=True), anyio.move_on_after(_LAST_WORDS_S):
            for entry in entries:
                if entry.receipt is None:
                    called = entry.row.state is DeliveryState.SENDING
                    state = DeliveryState.UNKNOWN if called else DeliveryState.DROPPED
                    await self.decide(entry, Receipt(state=state, reason=reason))

    async def load_unfinished(self, *, young_s: float) -> list[OutgoingCall]:
        """Load the calls that the last process left undecided, in order. Calls that it was making
        become ``unknown``. ``unknown`` calls are returned if they are younger than ``young_s``."""
        found = self._store.deliveries
        for row in await found.in_state(DeliveryState.SENDING):
            reason = "the bot was stopped while it was sent; it may have arrived"
            entry = OutgoingCall(row, await self._record_of(row))
            await self.decide(entry, Receipt(state=DeliveryState.UNKNOWN, reason=reason))
        since, now = self.clock() - young_s, anyio.current_time()
        entries = []
        for row in await found.undecided(since=since):
            entry = OutgoingCall(row, await self._record_of(row), parked=now, doubted=now)
            # If the clock was set back, the age is 0 and not negative.
            entry.age = max(self.clock() - row.created, 0.0)
            entries.append(entry)
        return entries

    def show(self, entry: OutgoingCall) -> None:
        """Publish the state of a call that other code has stored."""
        if entry.record is not None:
            entry.record = msgspec.structs.replace(entry.record, state=entry.row.state)
            self._activity.publish(Recorded(entry.record))

    async def found(self, row: DeliveryRow) -> OutgoingCall:
        """Make an entry for a row that is in no queue."""
        now = anyio.current_time()
        return OutgoingCall(row, await self._record_of(row), parked=now, doubted=now)

    async def uncertain_delivery(self, entry: OutgoingCall) -> UncertainDelivery:
        """Collect what tells the message of a call from others."""
        known = await self._store.deliveries.platform_ids(entry.row.chat_key, _KNOWN_IDS)
        seq = entry.row.record_seq
        return UncertainDelivery(
            delivery=entry.delivery,
            since=entry.row.created,
            before=frozenset(name for at, name in known if seq and at < seq),
            taken=frozenset(name for _, name in known),
        )

    async def _record_of(self, row: DeliveryRow) -> Record | None:
        return await self._store.messages.get(row.record_seq) if row.record_seq else None
