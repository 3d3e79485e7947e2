"""Sends messages. Each platform call has a row, whose state is committed before and after the
call."""

import time
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping
from types import TracebackType
from typing import Self

import anyio
from anyio.abc import TaskGroup
from loguru import logger

from nekro_core.chat import (
    ChatKey,
    Delivery,
    DeliveryState,
    Receipt,
    Segment,
    Segments,
    Text,
    plain_text,
)
from nekro_core.delivery.activity import Broadcast
from nekro_core.delivery.adapter import Adapter, Capabilities, SupportsEditing
from nekro_core.delivery.clean import clean_segments
from nekro_core.delivery.errors import NothingToSend, TooManySends
from nekro_core.delivery.media.fitter import MediaFitter
from nekro_core.delivery.media.store import MediaStore
from nekro_core.delivery.outbound.admin import OutboxAdmin
from nekro_core.delivery.outbound.chat_queue import ChatQueue, ChatQueues
from nekro_core.delivery.outbound.ledger import UNSPLIT, DeliveryLedger, OutgoingCall
from nekro_core.delivery.outbound.owner_of_chats import OwnerOfChats
from nekro_core.delivery.outbound.platform_call import PlatformCaller
from nekro_core.delivery.outbound.ready_media import keep_media, ready_media
from nekro_core.delivery.outbound.retry_queue import RetryQueue
from nekro_core.delivery.outbound.split import Piece, split
from nekro_core.delivery.outbound.stored_messages import StoredMessages
from nekro_core.delivery.settings import DeliverySettings
from nekro_core.policy.limits import RunSendLimit
from nekro_core.policy.overrides import ChatOverrides
from nekro_core.store import (
    DeliveryRow,
    GuardFailed,
    Ownership,
    OwnershipLost,
    Store,
    StoreError,
    StoreUnavailable,
    writing_as,
)
from nekro_core.store.ownership import ChatScope, current_ownership, every_chat
from nekro_core.system.telemetry.telemetry import Telemetry

_TEXT_ALONE = Capabilities(inline=frozenset({Text}), alone=frozenset())
"""What a platform carries at least. It is enough to find out that a message has no content."""


class Outbox:
    """Sends all messages of the bot. An async context manager.

    When entered, it resumes the unfinished calls of an earlier process. Calls that were under way
    become ``unknown``. Calls that were never made are sent in their old order as soon as the
    account is online, unless they are older than ``resend_for_s``. If the platform can be asked
    (`SupportsConfirmation`), it is asked for the outcome of each ``unknown`` call. If the message
    arrived, the call becomes ``sent``. If the platform does not have it after ``settle_s``, it is
    sent again, before all later messages of its chat. If the platform cannot be asked, the call
    stays ``unknown`` and is never repeated automatically.

    ``adapters`` is read each time a message is sent, so adapters may be added later. ``chats`` are
    the chats whose calls are resumed when the outbox is entered. `resume` does this later for more
    chats. With ``owner``, a message to a chat that this process does not own is stored for the
    chat's owner, and is ``pending``.
    """

    def __init__(
        self,
        store: Store,
        adapters: Mapping[str, Adapter],
        activity: Broadcast,
        settings: DeliverySettings | None = None,
        *,
        media: MediaStore | None = None,
        fitting: MediaFitter | None = None,
        clock: Callable[[], float] = time.time,
        telemetry: Telemetry | None = None,
        chats: ChatScope = every_chat,
        owner: OwnerOfChats | None = None,
    ) -> None:
        self._chats = chats
        self.owner = owner
        """Knows which chats other processes own. A process of a cluster sets it."""
        self._settings = settings or DeliverySettings()
        self._store = store
        self._media = media
        self._fitting = fitting
        self._ledger = DeliveryLedger(store, activity, clock=clock)
        self._caller = PlatformCaller(store, adapters, self._ledger, self._settings, telemetry)
        self._run_limit = RunSendLimit(self._settings)
        self._queues = ChatQueues(self._settings)
        self._retries = RetryQueue(self._caller, self._ledger, self._queues, self._settings)
        self.admin = OutboxAdmin(
            store, self._ledger, self._queues, self._retries, lambda: self.owner
        )
        """The operator's actions on messages."""
        self.overrides: Callable[[ChatKey], ChatOverrides] = lambda _: ChatOverrides()
        """Returns the operator's overrides for a chat. The runtime sets it."""
        self._stored = StoredMessages(self._is_prepared, self._send_stored)
        self._retried = anyio.Event()
        """Set, and replaced by a new event, when `retry_now` is called."""
        self._tasks: TaskGroup | None = None

    async def __aenter__(self) -> Self:
        await self._retries.load_pending(self._chats)
        unsplit = await self._ledger.load_unsplit(self._chats)
        self._tasks = await anyio.create_task_group().__aenter__()
        self._tasks.start_soon(self._retries.live, self._tasks, name="retries of sends")
        for row in unsplit:
            self._begin_stored(row)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._tasks is not None
        self._tasks.cancel_scope.cancel()
        # Do not pass on the error of the caller's block: the task group would wrap it in an
        # exception group.
        await self._tasks.__aexit__(None, None, None)

    async def resume(self, chats: ChatScope) -> None:
        """Resume the unfinished calls to ``chats``, as at the start. A process that takes chats
        over from another process needs this. Call this once for each chat, before the first message
        to it. Raises `StoreError`."""
        await self._retries.load_pending(chats)
        for row in await self._ledger.load_unsplit(chats):
            self._begin_stored(row)
        self.retry_now()

    async def send_stored(self, delivery_id: str) -> None:
        """Look at a row that another process has stored or changed, and send the message, or do not
        send it any more. Only the chat's owner may call this. A second call for the same row does
        nothing. The message is sent in a task of the outbox. Raises `StoreError`."""
        row = await self._store.deliveries.get(delivery_id)
        if row is None:
            return
        self._store.messages.changed(row.chat_key, added=row.record_seq)
        if row.position == UNSPLIT and row.state is DeliveryState.PENDING:
            self._begin_stored(row)
        elif row.position != UNSPLIT:
            await self.admin.follow(row)

    def _begin_stored(self, row: DeliveryRow) -> None:
        assert self._tasks is not None, "the outbox is entered"
        with writing_as(self._ownership(row.chat_key)):
            self._stored.add(row, self._tasks)

    def _ownership(self, chat_key: ChatKey) -> Ownership | None:
        """Return this process's ownership of a chat; if it does not own the chat, the present
        ownership. The present ownership (`writing_as`) can be that of another chat, whose turn
        sends to this chat."""
        if self.owner is not None and (owned := self.owner.ownership(chat_key)) is not None:
            return owned
        return current_ownership()

    async def _send_stored(
        self, row: DeliveryRow, prepared: bool, replaced: Callable[[], None], /
    ) -> None:
        """See `SendStored`. Replaces the row of the message. If the row was replaced already, do
        nothing. While the database cannot be written, try again until the message is too old."""
        while True:
            try:
                return await self._replace_and_send(row, prepared, replaced)
            except _NotReplaced as error:
                logger.warning("delivery {} is tried again: {}", row.delivery_id, error)
            except GuardFailed as error:
                return logger.debug("delivery {} was taken already: {}", row.delivery_id, error)
            except StoreError as error:
                return logger.error("delivery {} waits: {}", row.delivery_id, error)
            await anyio.sleep(self._settings.retry_s)
            prepared = prepared and not self._is_too_old(row)

    async def _replace_and_send(
        self, row: DeliveryRow, prepared: bool, replaced: Callable[[], None]
    ) -> None:
        """Split a stored message and send it; drop it if it is not ``prepared``. Raises
        `_NotReplaced` if the database could not be written; then nothing was sent."""
        if not prepared:
            entry = await self._ledger.found(row)
            reason = f"it waited {self._settings.resend_for_s:g} s: too old to be said now"
            return await self._ledger.decide(
                entry, Receipt(state=DeliveryState.DROPPED, reason=reason)
            )
        clean = clean_segments(row.segments)
        if self._media is not None:
            clean = self._caller.prepare(row.chat_key, clean)
        pieces = self._caller.pieces(row.chat_key, clean)
        with self._queues.use(row.chat_key) as queue:
            queue.sends += 1
            try:
                await self._send_in_turn(
                    queue,
                    clean,
                    pieces,
                    row.run_id,
                    record=bool(row.record_seq),
                    replaces=row,
                    replaced=replaced,
                )
            finally:
                queue.sends -= 1

    def _is_too_old(self, row: DeliveryRow) -> bool:
        return self._ledger.clock() - row.created > self._settings.resend_for_s

    async def _is_prepared(self, row: DeliveryRow) -> bool:
        """See `IsPrepared`."""
        while True:
            owner, retried = self.owner, self._retried
            if owner is not None and not owner.owns(row.chat_key):
                raise OwnershipLost(f"another process owns {row.chat_key} now")
            if self._is_too_old(row):
                return False
            if owner is None or await owner.prepare(row.chat_key):
                return True
            with anyio.move_on_after(self._settings.retry_s):
                await retried.wait()

    async def send(
        self,
        chat_key: ChatKey,
        segments: Iterable[Segment],
        *,
        run_id: str = "",
        record: bool = True,
    ) -> tuple[Receipt, ...]:
        """Send a message to a chat. Returns one receipt for each piece. A piece is one platform
        call.

        The message is split into pieces that the platform can carry. A segment that the platform
        cannot carry is ``rejected`` with a reason, and the rest is sent. If a text would need more
        than 4 calls, its beginning is sent, and the whole text as a file. If the platform has no
        bundles, a bundle (`Forward`) is sent as quoted text.

        Within a chat the calls keep their order, with one platform call at a time. After 30
        messages in a minute, further messages wait. A message is ``dropped`` if it would wait over
        a minute, or if 200 messages already wait. A message is ``pending`` while the account is
        offline, or while the platform must be asked for the outcome of an earlier message. It is
        sent when the account is online and that outcome is known, unless this takes more than 10
        minutes. These numbers are the defaults of the settings. If ``record`` is false, the message
        is left out of the chat's history.

        Raises `NothingToSend` and `TooManySends` (a run may send 8 pieces): nothing was sent.
        Raises `StoreUnavailable`: earlier pieces may have been sent. If the caller is cancelled, a
        call under way becomes ``unknown`` and later calls become ``dropped``.
        """
        clean, owner = clean_segments(tuple(segments)), self.owner
        if owner is not None and not owner.owns(chat_key):
            return await self._leave_to_owner(owner, chat_key, clean, run_id, record=record)
        if owner is None or current_ownership() is not None:
            return await self._send_here(chat_key, clean, run_id, record=record)
        # This is the message of a command or of a plugin's task, which goes on when the chat gets
        # another owner. (A turn has an ownership: if that is lost, the next owner resumes it.)
        try:
            with writing_as(owner.ownership(chat_key)):
                return await self._send_here(
                    chat_key, clean, run_id, record=record, stored_first=True
                )
        except _NothingStored:
            return await self._leave_to_owner(owner, chat_key, clean, run_id, record=record)
        except OwnershipLost as error:
            # The message is stored. The chat's next owner finds it in the database and sends it.
            return (Receipt(state=DeliveryState.PENDING, reason=str(error)),)

    async def _send_here(
        self,
        chat_key: ChatKey,
        clean: Segments,
        run_id: str,
        *,
        record: bool,
        stored_first: bool = False,
    ) -> tuple[Receipt, ...]:
        """Split a message and send it. If it cannot be split yet, store it, to be sent later. With
        ``stored_first``, nothing is sent before all of it is stored. Raises `_NothingStored` if
        this process has lost the chat by then."""
        if self.owner is not None and (
            self._stored.waiting(chat_key) or not await self.owner.prepare(chat_key)
        ):
            try:
                return await self._send_when_prepared(chat_key, clean, run_id, record=record)
            except OwnershipLost as error:
                raise _NothingStored(str(error)) from None
        if self._media is not None:
            clean = self._caller.prepare(chat_key, clean)
        pieces = self._caller.pieces(chat_key, clean)
        if not pieces:
            raise NothingToSend("the message is empty: give it a text or a medium")
        if refusal := self._run_limit.take(run_id, len(pieces)):
            raise TooManySends(refusal)
        with self._queues.use(chat_key) as queue:
            if queue.waiting >= self._settings.waiting_per_chat:
                reason = f"{queue.waiting} messages to this chat wait already"
                return (Receipt(state=DeliveryState.DROPPED, reason=reason),) * len(pieces)
            queue.sends += 1
            try:
                return await self._send_in_turn(
                    queue, clean, pieces, run_id, record=record, stored_first=stored_first
                )
            except _NothingStored:
                self._run_limit.give_back(run_id, len(pieces))
                raise
            finally:
                queue.sends -= 1

    async def _leave_to_owner(
        self,
        owner: OwnerOfChats,
        chat_key: ChatKey,
        clean: Segments,
        run_id: str,
        *,
        record: bool,
    ) -> tuple[Receipt, ...]:
        """Store a message for the process that owns the chat, and tell this process."""
        owner.tell(await self._store_whole(chat_key, clean, run_id, record=record))
        reason = "the process that owns the chat sends it"
        return (Receipt(state=DeliveryState.PENDING, reason=reason),)

    async def _send_when_prepared(
        self, chat_key: ChatKey, clean: Segments, run_id: str, *, record: bool
    ) -> tuple[Receipt, ...]:
        """Store a message to a chat that this process owns, to be sent when it is known what
        messages to the chat can carry. The messages that wait already are sent before it."""
        if (waiting := self._stored.waiting(chat_key)) >= self._settings.waiting_per_chat:
            reason = f"{waiting} messages to this chat wait already"
            return (Receipt(state=DeliveryState.DROPPED, reason=reason),)
        self._begin_stored(await self._store_whole(chat_key, clean, run_id, record=record))
        reason = "it is sent when the chat's account can be reached"
        return (Receipt(state=DeliveryState.PENDING, reason=reason),)

    async def _store_whole(
        self, chat_key: ChatKey, clean: Segments, run_id: str, *, record: bool
    ) -> DeliveryRow:
        """Store a message without splitting it, and return its row (`UNSPLIT`)."""
        if not split(clean, _TEXT_ALONE):
            raise NothingToSend("the message is empty: give it a text or a medium")
        if refusal := self._run_limit.take(run_id, 1):
            raise TooManySends(refusal)
        if self._media is not None:
            clean = await keep_media(self._media, chat_key, clean) or clean
        (entry,), written = self._ledger.open(
            chat_key, (Piece(clean),), run_id=run_id, record=record, first=UNSPLIT
        )
        try:
            await written
        except OwnershipLost:
            self._run_limit.give_back(run_id, 1)
            raise
        except anyio.get_cancelled_exc_class():
            await self._ledger.abandon([entry], "the run that sent it was stopped")
            raise
        return entry.row

    async def _send_in_turn(
        self,
        queue: ChatQueue,
        clean: Segments,
        pieces: tuple[Piece, ...],
        run_id: str,
        *,
        record: bool,
        replaces: DeliveryRow | None = None,
        stored_first: bool = False,
        replaced: Callable[[], None] = lambda: None,
    ) -> tuple[Receipt, ...]:
        chat_key, asked = queue.chat_key, anyio.current_time()
        async with queue.ready_lock:
            if self._media is not None and (
                kept := await ready_media(
                    self._media, self._fitting, chat_key, clean, self._caller.adapter(chat_key)
                )
            ):
                pieces = self._caller.pieces(chat_key, kept)
            entries, written = self._ledger.open(
                chat_key, pieces, run_id=run_id, record=record, replaces=replaces
            )
            for entry in entries:
                entry.ownership = self._ownership(chat_key)
            ticket = queue.enter()
        try:
            async with ticket.turn():
                if stored_first:
                    await _require_stored(written)
                elif replaces is not None:
                    await _require_replaced(written)
                    replaced()
                await self._send_all(queue, entries, asked)
                await written
        except (GuardFailed, _NotReplaced):
            raise  # Nothing was stored.
        except StoreUnavailable:
            if replaces is not None:
                self._park(queue, entries)
            else:
                await self._ledger.abandon(entries, "the database could not be written")
            raise
        except StoreError:
            await self._ledger.abandon(entries, "the database could not be written")
            raise
        except anyio.get_cancelled_exc_class():
            for entry in entries:
                if entry.row.state is DeliveryState.PENDING and entry not in queue.parked:
                    entry.receipt = None  # It was about to be parked, so nobody would send it.
            await self._ledger.abandon(entries, "the run that sent it was stopped")
            raise
        return tuple(entry.receipt for entry in entries if entry.receipt is not None)

    def _park(self, queue: ChatQueue, entries: Iterable[OutgoingCall]) -> None:
        """Queue the calls of a stored message that were not made because the database could not be
        written. Nobody waits for their outcome, so nobody could send the message again."""
        for entry in entries:
            if entry.receipt is None and entry.row.state is DeliveryState.PENDING:
                reason = "the database could not be written"
                entry.receipt = Receipt(state=DeliveryState.PENDING, reason=reason)
                self._retries.enqueue(queue, entry)

    @property
    def waiting(self) -> int:
        """The number of messages of all chats that wait or are being sent."""
        return self._queues.waiting

    def adapter(self, chat_key: ChatKey) -> Adapter | None:
        """Return the adapter that serves a chat; None if there is none."""
        return self._caller.adapter(chat_key)

    def capabilities(self, chat_key: ChatKey) -> Capabilities | None:
        """Return what messages to this chat can carry; None if no adapter serves the chat."""
        adapter = self._caller.adapter(chat_key)
        return adapter.capabilities(chat_key) if adapter is not None else None

    def edit_every_s(self, chat_key: ChatKey) -> float | None:
        """Return the minimum number of seconds between two edits of a message in this chat; None if
        messages cannot be edited."""
        adapter = self._caller.adapter(chat_key)
        every_s = adapter.capabilities(chat_key).edit_every_s if adapter is not None else None
        # The number is looked at first: a look at all methods of an adapter takes longer.
        return every_s if every_s is not None and isinstance(adapter, SupportsEditing) else None

    async def edit(
        self, chat_key: ChatKey, message_id: str, segments: Iterable[Segment]
    ) -> Receipt:
        """Replace the segments of a sent message. When the platform has accepted the edit, the
        chat's history gets the new segments too. Returns ``rejected`` if messages cannot be edited,
        or if the segments need more than one platform call.

        An edit has no row. Repeating an edit does no harm, so nothing about it must survive a crash
        (docs/decisions/0009-message-edits.md). Raises `StoreUnavailable`.
        """
        adapter = self._caller.adapter(chat_key)
        pieces = self._caller.pieces(chat_key, tuple(segments))
        if self.edit_every_s(chat_key) is None or not isinstance(adapter, SupportsEditing):
            return _rejected(f"messages of {chat_key} cannot be changed once they are sent")
        if len(pieces) != 1 or pieces[0].problem:
            return _rejected(pieces[0].problem if len(pieces) == 1 else "it is no single message")
        shown = clean_segments(pieces[0].segments)
        delivery = Delivery(delivery_id=uuid.uuid4().hex, chat_key=chat_key, segments=shown)
        with self._queues.use(chat_key) as queue:
            async with queue.enter().turn():
                seen = self._caller.shown(adapter, delivery)
                edited = adapter.edit(message_id, seen)
                receipt = await self._caller.report(adapter, edited, seen)
                if receipt.ok:
                    await self._ledger.revise(chat_key, message_id, shown)
        return receipt

    def retry_now(self) -> None:
        """Send the waiting messages now instead of at the next retry. Called when an account has
        come online, or its gateway answers again."""
        self._retries.retry_now()
        self._retried.set()
        self._retried = anyio.Event()

    async def _send_all(self, queue: ChatQueue, entries: list[OutgoingCall], asked: float) -> None:
        for entry in entries:
            if entry.receipt is not None:
                continue
            if queue.parked:
                await self._ledger.stored(entry)
                await self._park_behind(queue, entry)
            elif await self._wait_for_room(queue, entry, asked):
                await self._wait_for_pace(queue, entry)
                await self._caller.call(queue, entry)
                queue.sent_by, queue.sent_at = entry.row.run_id, anyio.current_time()
                if entry.row.state is DeliveryState.PENDING:
                    self._retries.enqueue(queue, entry)
                elif entry.row.state is DeliveryState.UNKNOWN and self._caller.can_confirm(
                    queue.chat_key
                ):
                    self._retries.enqueue(queue, entry)
                    self._retries.retry_now()

    async def _park_behind(self, queue: ChatQueue, entry: OutgoingCall) -> None:
        """Queue a call after the calls of its chat that already wait. Drop it instead if only the
        rate limit is what they wait for, and the call would wait too long for it."""
        first, now, settings = queue.parked[0], anyio.current_time(), self._settings
        delay, pending = queue.window.wait_s(now), first.row.state is DeliveryState.PENDING
        if delay and pending and first.for_rate:
            # What was parked for another reason is gone, because it was parked before the first.
            delay += len(queue.parked) // settings.sends_per_window * settings.window_s
            if delay > settings.longest_wait_s:
                await self._drop_for_rate(entry)
                return
        why = first.row.reason if pending and not delay and not first.for_rate else ""
        why = why or "waits for the messages before it"
        await self._ledger.decide(entry, Receipt(state=DeliveryState.PENDING, reason=why))
        entry.for_rate = pending and delay > 0
        self._retries.enqueue(queue, entry)
        self._retries.retry_now()

    async def _drop_for_rate(self, entry: OutgoingCall) -> None:
        settings = self._settings
        reason = (
            f"{settings.sends_per_window} messages went to this chat within "
            f"{settings.window_s:g} s; this one would have waited over "
            f"{settings.longest_wait_s:g} s"
        )
        await self._ledger.decide(entry, Receipt(state=DeliveryState.DROPPED, reason=reason))

    async def _wait_for_pace(self, queue: ChatQueue, entry: OutgoingCall) -> None:
        """If the same turn sent the chat's last message, wait as long as a person needs to type
        this message."""
        settings, row = self._settings, entry.row
        chars_s = self.overrides(row.chat_key).pace_chars_s
        chars_s = settings.pace_chars_s if chars_s is None else chars_s
        if not chars_s or not row.run_id or not queue.sent_by:
            return
        typed_s = min(len(plain_text(row.segments)) / chars_s, settings.pace_longest_s)
        if queue.sent_at + typed_s <= anyio.current_time():
            return
        runs = self._store.runs
        if row.run_id != queue.sent_by and not await runs.in_same_turn(row.run_id, queue.sent_by):
            return
        await self._ledger.stored(entry)
        await anyio.sleep(max(queue.sent_at + typed_s - anyio.current_time(), 0.0))

    async def _wait_for_room(self, queue: ChatQueue, entry: OutgoingCall, asked: float) -> bool:
        now = anyio.current_time()
        delay, settings = queue.window.wait_s(now), self._settings
        if not delay:
            return True
        await self._ledger.stored(entry)
        if now - asked + delay > settings.longest_wait_s:
            await self._drop_for_rate(entry)
            return False
        await anyio.sleep(delay)
        return True


class _NothingStored(OwnershipLost):
    """Another process owns the chat, and nothing of the message was stored or sent."""


class _NotReplaced(StoreUnavailable):
    """A stored message could not be replaced by its calls, and none of them was made."""


async def _require_replaced(written: Awaitable[object]) -> None:
    """Wait until a stored message is replaced. Raises `GuardFailed` and `_NotReplaced`."""
    try:
        await written
    except StoreUnavailable as error:
        raise _NotReplaced(str(error)) from error


async def _require_stored(written: Awaitable[object]) -> None:
    """Wait until a message is stored. Raises `_NothingStored` if the chat was lost."""
    try:
        await written
    except OwnershipLost as error:
        raise _NothingStored(str(error)) from None


def _rejected(reason: str) -> Receipt:
    return Receipt(state=DeliveryState.REJECTED, reason=reason)
