"""Sends messages. Each platform call has a row, whose state is committed before and after the
call."""

import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Self

import anyio
from anyio.abc import TaskGroup

from nekro_core.chat import (
    ChatKey,
    Delivery,
    DeliveryState,
    Receipt,
    Segment,
    Segments,
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
from nekro_core.delivery.outbound.ledger import DeliveryLedger, OutgoingCall
from nekro_core.delivery.outbound.platform_call import PlatformCaller
from nekro_core.delivery.outbound.ready_media import ready_media
from nekro_core.delivery.outbound.retry_queue import RetryQueue
from nekro_core.delivery.outbound.split import Piece
from nekro_core.delivery.settings import DeliverySettings
from nekro_core.policy.limits import RunSendLimit
from nekro_core.policy.overrides import ChatOverrides
from nekro_core.store import Store, StoreError
from nekro_core.store.ownership import ChatScope, every_chat
from nekro_core.system.telemetry.telemetry import Telemetry


class Outbox:
    """Sends all messages of the bot. An async context manager.

    When entered, it resumes the unfinished calls of an earlier process. Calls that were under way
    become ``unknown``. Calls that were never made are sent in their old order as soon as the
    account is online, unless they are older than ``resend_for_s``. If the platform can be asked
    (`SupportsConfirmation`), it is asked for the outcome of each ``unknown`` call. If the message
    arrived, the call becomes ``sent``. If the message certainly never arrived, it is sent now,
    before all later messages of its chat. If the platform cannot be asked, the call stays
    ``unknown`` and is never repeated automatically.

    ``adapters`` is read each time a message is sent, so adapters may be added later. ``chats`` are
    the chats whose calls are resumed when the outbox is entered. `resume` does this later for more
    chats.
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
    ) -> None:
        self._chats = chats
        self._settings = settings or DeliverySettings()
        self._store = store
        self._media = media
        self._fitting = fitting
        self._ledger = DeliveryLedger(store, activity, clock=clock)
        self._caller = PlatformCaller(store, adapters, self._ledger, self._settings, telemetry)
        self._budget = RunSendLimit(self._settings)
        self._queues = ChatQueues(self._settings)
        self._retries = RetryQueue(self._caller, self._ledger, self._queues, self._settings)
        self.admin = OutboxAdmin(store, self._ledger, self._queues, self._retries)
        """The operator's actions on messages."""
        self.overrides: Callable[[ChatKey], ChatOverrides] = lambda _: ChatOverrides()
        """Returns the operator's overrides for a chat. The runtime sets it."""
        self._tasks: TaskGroup | None = None

    async def __aenter__(self) -> Self:
        await self._retries.load_pending(self._chats)
        self._tasks = await anyio.create_task_group().__aenter__()
        self._tasks.start_soon(self._retries.live, self._tasks, name="retries of sends")
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
        self.retry_now()

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
        cannot carry is ``rejected`` with a reason, and the rest is sent. A text of more than 4
        messages is sent as its beginning and a file. If the platform has no bundles, a bundle is
        sent as quoted text.

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
        clean = clean_segments(tuple(segments))
        if self._media is not None:
            clean = self._caller.prepare(chat_key, clean)
        pieces = self._caller.pieces(chat_key, clean)
        if not pieces:
            raise NothingToSend("the message is empty: give it a text or a medium")
        if refusal := self._budget.take(run_id, len(pieces)):
            raise TooManySends(refusal)
        with self._queues.use(chat_key) as queue:
            if queue.waiting >= self._settings.waiting_per_chat:
                reason = f"{queue.waiting} messages to this chat wait already"
                return (Receipt(state=DeliveryState.DROPPED, reason=reason),) * len(pieces)
            queue.sends += 1
            try:
                return await self._send_in_turn(queue, clean, pieces, run_id, record=record)
            finally:
                queue.sends -= 1

    async def _send_in_turn(
        self,
        queue: ChatQueue,
        clean: Segments,
        pieces: tuple[Piece, ...],
        run_id: str,
        *,
        record: bool,
    ) -> tuple[Receipt, ...]:
        chat_key, asked = queue.chat_key, anyio.current_time()
        async with queue.ready_lock:
            if self._media is not None and (
                kept := await ready_media(
                    self._media, self._fitting, chat_key, clean, self._caller.adapter(chat_key)
                )
            ):
                pieces = self._caller.pieces(chat_key, kept)
            entries, written = self._ledger.open(chat_key, pieces, run_id=run_id, record=record)
            ticket = queue.enter()
        try:
            async with ticket.turn():
                await self._send_all(queue, entries, asked)
                await written
        except StoreError:
            await self._ledger.abandon(entries, "the database could not be written")
            raise
        except anyio.get_cancelled_exc_class():
            await self._ledger.abandon(entries, "the run that sent it was stopped")
            raise
        return tuple(entry.receipt for entry in entries if entry.receipt is not None)

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
        if adapter is None or not isinstance(adapter, SupportsEditing):
            return None
        return adapter.capabilities(chat_key).edit_every_s

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
                receipt = await self._caller.report(adapter.edit(message_id, seen), seen)
                if receipt.ok:
                    await self._ledger.revise(chat_key, message_id, shown)
        return receipt

    def retry_now(self) -> None:
        """Send the waiting messages now instead of at the next retry. Called when an account has
        come online."""
        self._retries.retry_now()

    async def _send_all(self, queue: ChatQueue, entries: list[OutgoingCall], asked: float) -> None:
        for entry in entries:
            if entry.receipt is not None:
                continue
            if queue.parked:
                # Queue the call after the calls that already wait.
                await self._ledger.stored(entry)
                reason = queue.parked[0].row.reason or "waits for the messages before it"
                await self._ledger.decide(
                    entry, Receipt(state=DeliveryState.PENDING, reason=reason)
                )
                self._retries.enqueue(queue, entry)
                self.retry_now()
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
                    self.retry_now()

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
            reason = (
                f"{settings.sends_per_window} messages went to this chat within "
                f"{settings.window_s:g} s; this one would have waited over "
                f"{settings.longest_wait_s:g} s"
            )
            await self._ledger.decide(entry, Receipt(state=DeliveryState.DROPPED, reason=reason))
            return False
        await anyio.sleep(delay)
        return True


def _rejected(reason: str) -> Receipt:
    return Receipt(state=DeliveryState.REJECTED, reason=reason)
