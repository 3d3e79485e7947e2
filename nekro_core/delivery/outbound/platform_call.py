"""Makes platform calls, or asks a platform about an earlier call. Both have a time-out."""

from collections.abc import Awaitable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Protocol, runtime_checkable

import anyio
from loguru import logger

from nekro_core.chat import ChatKey, Delivery, DeliveryState, Receipt, Segments
from nekro_core.delivery.adapter import Adapter, SupportsConfirmation
from nekro_core.delivery.outbound.bundle import media_bytes, unbundled
from nekro_core.delivery.outbound.chat_queue import ChatQueue
from nekro_core.delivery.outbound.ledger import DeliveryLedger, OutgoingCall
from nekro_core.delivery.outbound.readable import readable_segments
from nekro_core.delivery.outbound.split import Piece, long_text_as_file, split
from nekro_core.delivery.settings import DeliverySettings
from nekro_core.store import Store
from nekro_core.system.telemetry.spans import Span
from nekro_core.system.telemetry.telemetry import Telemetry

_ANSWERS = frozenset(
    {
        DeliveryState.SENT,
        DeliveryState.REJECTED,
        DeliveryState.UNKNOWN,
        DeliveryState.PENDING,
    }
)
"""States that an adapter may return. Only the outbox sets the other states."""
_CANNOT_TELL = Receipt(
    state=DeliveryState.UNKNOWN, reason="this platform cannot be asked whether it arrived"
)


@runtime_checkable
class NeedsMoreTime(Protocol):
    """An adapter that reaches the platform through another process."""

    def extra_seconds(self, segments: Segments) -> float:
        """Return by how many seconds a call with these segments may exceed the time-out of a
        platform call. The other process limits the platform call itself."""


class PlatformCaller:
    """Makes the platform calls and stores their outcomes. ``adapters`` maps names to adapters and
    is read for each call, so adapters may be added later."""

    def __init__(
        self,
        store: Store,
        adapters: Mapping[str, Adapter],
        ledger: DeliveryLedger,
        settings: DeliverySettings,
        telemetry: Telemetry | None = None,
    ) -> None:
        self._store = store
        self._adapters = adapters
        self._ledger = ledger
        self._settings = settings
        self._telemetry = telemetry or Telemetry()

    def adapter(self, chat_key: ChatKey) -> Adapter | None:
        """Return the adapter that serves a chat."""
        return self._adapters.get(self._store.accounts.adapter_of(chat_key.instance))

    def pieces(self, chat_key: ChatKey, segments: Segments) -> tuple[Piece, ...]:
        """Split a message into pieces, each for one platform call."""
        adapter = self.adapter(chat_key)
        if adapter is None:
            return (Piece(segments, f"no adapter serves {chat_key.instance}"),) if segments else ()
        can = adapter.capabilities(chat_key)
        return split(unbundled(segments, can), can)

    def prepare(self, chat_key: ChatKey, segments: Segments) -> Segments:
        """Fit each bundle to the platform's limits, or turn it into quoted text if the platform has
        no bundles. Turn a text that needs too many messages into its beginning and a file. Called
        before the media are stored and the message is split."""
        adapter = self.adapter(chat_key)
        if adapter is None:
            return segments
        can, most = adapter.capabilities(chat_key), self._settings.text_pieces
        found = unbundled(segments, can)
        return long_text_as_file(found, can, most) if most else found

    async def call(self, queue: ChatQueue, entry: OutgoingCall) -> None:
        """Make the platform call, and commit its state before and after it. Does nothing if no
        adapter serves the chat. This can happen to a call of an earlier process; the call then
        waits until it is too old. Does nothing either if another process has sent the message."""
        adapter = self.adapter(entry.row.chat_key)
        if adapter is None:
            return
        if not await self._ledger.begin_call(entry):
            return
        delivery = self.shown(adapter, entry.delivery)
        began = anyio.current_time()
        with self._traced(adapter.name) as span:
            receipt = await self.report(adapter, adapter.send(delivery), delivery)
            span.note("nekro.delivery.state", receipt.state.value)
            if receipt.state is not DeliveryState.SENT:
                span.fail(receipt.state.value)
        self._count(adapter, entry, receipt, anyio.current_time() - began)
        if receipt.state is not DeliveryState.PENDING:
            queue.window.take(anyio.current_time())
        await self._ledger.decide(entry, receipt)

    @contextmanager
    def _traced(self, platform: str) -> Iterator[Span]:
        """Record a platform call as a span."""
        attributes = {"messaging.system": platform, "messaging.operation.type": "send"}
        span = self._telemetry.tracer.begin(f"send {platform}", attributes, client=True)
        try:
            yield span
        finally:
            span.end()

    def _count(
        self, adapter: Adapter, entry: OutgoingCall, receipt: Receipt, seconds: float
    ) -> None:
        metrics = self._telemetry.metrics
        metrics.platform_call.observe(seconds, adapter.name, receipt.state.value)
        if receipt.state is DeliveryState.SENT:
            metrics.messages.add(adapter.name, "out")
            if entry.row.run_id:
                metrics.words_sent(entry.row.chat_key)

    def _longest(self, adapter: Adapter, delivery: Delivery) -> float:
        """Return the time-out of a call in seconds. It is longer for large media."""
        size = media_bytes(delivery.segments)
        longest = self._settings.call_s + size // self._settings.call_bytes_s
        if isinstance(adapter, NeedsMoreTime):
            longest += adapter.extra_seconds(delivery.segments)
        return longest

    def can_confirm(self, chat_key: ChatKey) -> bool:
        """Return True if the platform can be asked about a call, or if its adapter is not loaded
        yet."""
        adapter = self.adapter(chat_key)
        return self._settings.settle_s > 0 and (
            adapter is None or isinstance(adapter, SupportsConfirmation)
        )

    async def ask(self, entry: OutgoingCall) -> Receipt:
        """Ask the platform about a call with an unknown outcome. Returns ``pending`` if the
        platform cannot be asked now. Raises `StoreError`."""
        adapter = self.adapter(entry.row.chat_key)
        if adapter is None:
            return Receipt(state=DeliveryState.PENDING, reason="no adapter serves it now")
        if not isinstance(adapter, SupportsConfirmation):
            return _CANNOT_TELL
        doubt = await self._ledger.uncertain_delivery(entry)
        doubt = replace(doubt, delivery=self.shown(adapter, doubt.delivery))
        return await self.report(adapter, adapter.confirm(doubt), entry.delivery)

    def shown(self, adapter: Adapter, delivery: Delivery) -> Delivery:
        """Return a delivery as the adapter gets it: on a platform without markup, Markdown becomes
        text without marks. Stored rows keep the Markdown."""
        can = adapter.capabilities(delivery.chat_key)
        segments = readable_segments(delivery.segments, can, enabled=self._settings.markdown)
        if segments is delivery.segments:
            return delivery
        return replace(delivery, segments=segments)

    async def report(
        self, adapter: Adapter, call: Awaitable[Receipt], delivery: Delivery
    ) -> Receipt:
        """Await an adapter's call within the time-out and return its receipt. An error or a
        time-out becomes ``unknown``."""
        unknown = DeliveryState.UNKNOWN
        try:
            with anyio.fail_after(seconds := self._longest(adapter, delivery)):
                receipt = await call
        except TimeoutError:
            limit = f"{seconds:g} s"
            return Receipt(state=unknown, reason=f"no answer within {limit}; it may have arrived")
        except Exception as error:  # noqa: BLE001 (an error of an adapter affects one message)
            logger.exception("the adapter failed in delivery {}", delivery.delivery_id)
            return Receipt(state=unknown, reason=f"the adapter failed: {error}")
        if receipt.state not in _ANSWERS:
            reason = f"the adapter answered {receipt.state}, which it cannot know"
            return Receipt(state=unknown, reason=reason)
        return receipt
