"""Lets workers use the platform accounts to which this gateway is connected.

A gateway does not trust a worker. It checks that the worker owns the chat's partition, and sends a
message only if the database has a row for it whose call was not made yet.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import anyio
import msgspec
from loguru import logger

from nekro_core.chat import ChatKey, Delivery, DeliveryState, Receipt
from nekro_core.chat.key import ChatKeyError
from nekro_core.cluster.account_messages import (
    AccountAnswer,
    AccountRequest,
    Answered,
    ConfirmRequest,
    DeliveryData,
    EditRequest,
    OwnerRequest,
    ReactRequest,
    Refused,
    RemoteChat,
    RemoteChatAnswer,
    RemoteChatRequest,
    SendRequest,
    SignShown,
    TypingRequest,
    account_name,
    call_seconds,
    decode_request,
    encode,
)
from nekro_core.cluster.calls import CallCarrier
from nekro_core.cluster.capability_data import CapabilityData
from nekro_core.cluster.carried_media import MediaNotCarried, downloaded
from nekro_core.cluster.errors import ClusterError
from nekro_core.cluster.leases import Leases
from nekro_core.cluster.objects import ObjectStore
from nekro_core.cluster.partition_log import partition_of
from nekro_core.delivery.adapter import Adapter, SupportsConfirmation, SupportsEditing
from nekro_core.delivery.errors import SignRefused
from nekro_core.delivery.settings import DeliverySettings
from nekro_core.delivery.signs import SupportsReactions, SupportsTyping
from nekro_core.store import Ownership, OwnershipLost, Store, StoreError, writing_as
from nekro_core.store.values import DeliveryRow
from nekro_core.system.errors import NekroError

_LAST_WORDS_S = 5.0
"""After a call was cancelled, its outcome must be stored within this many seconds."""
_OPEN = frozenset({DeliveryState.PENDING, DeliveryState.SENDING})
"""States of a row whose call may be made."""
_CAN_ASK = _OPEN | {DeliveryState.UNKNOWN, DeliveryState.SENT}
"""States of a row whose outcome a worker may ask for."""


class _NotAllowed(NekroError):
    """A worker's request is refused. The text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountServer:
    """Serves the accounts of one gateway.

    Attributes:
        name: The name of this gateway. Errors of other processes show it to people.
        leases: Makes sure that at most one gateway serves an account.
        calls: Carries the requests.
        objects: The object store, in which workers put the media of outgoing messages.
        store: The database, which the workers use too.
        adapters: The adapters by their names. The mapping is read for each request, so adapters may
            be added later.
        partitions: The number of partitions of the cluster.
        scratch: The folder in which media lie while they are sent.
        settings: The time limits of platform calls.
    """

    name: str
    leases: Leases
    calls: CallCarrier
    objects: ObjectStore
    store: Store
    adapters: Mapping[str, Adapter]
    partitions: int
    scratch: Path
    settings: DeliverySettings
    _under_way: set[str] = field(default_factory=set)
    """The ids of the deliveries whose platform call is being made."""

    @asynccontextmanager
    async def serve(self, instance: str) -> AsyncIterator[None]:
        """Serve the account of an instance until the block ends. Raises `LeaseTaken` if another
        gateway serves the account. Raises `LeaseLost` if another gateway took the account over,
        because this process was suspended for too long."""

        async def handle(request: bytes) -> bytes:
            return encode(await self._handle(instance, request))

        name = account_name(instance)
        async with self.leases.hold(name, self.name), self.calls.serve(name, handle):
            yield

    async def _handle(self, instance: str, data: bytes) -> AccountAnswer:
        try:
            request = decode_request(data)
            return await self._answer(instance, request)
        except msgspec.DecodeError as error:
            return Refused(f"the request cannot be read: {error}")
        except OwnershipLost as error:
            return Refused(str(error), lost=True)
        except SignRefused as error:
            return Refused(str(error), sign=True)
        except (_NotAllowed, ChatKeyError, MediaNotCarried, ClusterError, StoreError) as error:
            logger.warning("a request for the account {} is refused: {}", instance, error)
            return Refused(str(error))

    async def _answer(self, instance: str, request: AccountRequest) -> AccountAnswer:
        match request:
            case RemoteChatRequest():
                chat_key = ChatKey.parse(request.chat_key)
                adapter = self._adapter(instance, chat_key)
                return RemoteChatAnswer(
                    RemoteChat(
                        adapter=adapter.name,
                        edits=isinstance(adapter, SupportsEditing),
                        confirms=isinstance(adapter, SupportsConfirmation),
                        types=isinstance(adapter, SupportsTyping),
                        reacts=isinstance(adapter, SupportsReactions),
                        own=await adapter.own_accounts(chat_key),
                        can=CapabilityData.of(adapter.capabilities(chat_key)),
                    )
                )
            case SendRequest():
                return Answered(await self._send(instance, request))
            case EditRequest():
                return Answered(await self._edit(instance, request))
            case ConfirmRequest():
                return Answered(await self._confirm(instance, request))
            case TypingRequest() | ReactRequest():
                await self._show(instance, request)
                return SignShown()

    async def _send(self, instance: str, request: SendRequest) -> Receipt:
        """Make a platform call, and store its outcome. If the worker stops waiting, the outcome is
        ``unknown``."""
        chat_key = ChatKey.parse(request.delivery.chat_key)
        adapter, owned = self._adapter(instance, chat_key), self._ownership(request, chat_key)
        delivery_id = request.delivery.delivery_id
        if delivery_id in self._under_way:
            raise _NotAllowed(f"delivery {delivery_id[:40]!r} is being sent now")
        # Do this before the row is read. Otherwise another request for this delivery could make the
        # call between this read and this call, and the message would be sent twice.
        self._under_way.add(delivery_id)
        try:
            row = await self._row(request.delivery, chat_key, _OPEN)
            with writing_as(owned):
                await self.store.deliveries.mark(row, DeliveryState.SENDING)
            return await self._send_row(row, request.delivery, adapter)
        finally:
            self._under_way.discard(delivery_id)

    async def _send_row(self, row: DeliveryRow, data: DeliveryData, adapter: Adapter) -> Receipt:
        try:
            receipt = await self._call(data, adapter.send)
        except anyio.get_cancelled_exc_class():
            reason = "the worker that sent it was stopped; it may have arrived"
            with anyio.move_on_after(_LAST_WORDS_S, shield=True):
                await self._decide(row, Receipt(state=DeliveryState.UNKNOWN, reason=reason))
            raise
        except (MediaNotCarried, ClusterError, OSError) as error:
            receipt = Receipt(state=DeliveryState.REJECTED, reason=str(error))
        await self._decide(row, receipt)
        return receipt

    async def _edit(self, instance: str, request: EditRequest) -> Receipt:
        chat_key = ChatKey.parse(request.delivery.chat_key)
        adapter = self._adapter(instance, chat_key)
        if not isinstance(adapter, SupportsEditing):
            raise _NotAllowed(f"messages of {adapter.name} cannot be edited")
        await self._require_owner(self._ownership(request, chat_key))

        async def edit(delivery: Delivery) -> Receipt:
            return await adapter.edit(request.message_id, delivery)

        return await self._call(request.delivery, edit)

    async def _confirm(self, instance: str, request: ConfirmRequest) -> Receipt:
        chat_key = ChatKey.parse(request.delivery.chat_key)
        adapter = self._adapter(instance, chat_key)
        if not isinstance(adapter, SupportsConfirmation):
            raise _NotAllowed(f"{adapter.name} cannot be asked about a message")
        await self._require_owner(self._ownership(request, chat_key))
        # Some adapters ask by making the call again with the same id, which sends the message if it
        # had not arrived. So the row must have a state in which it may be sent.
        row = await self._row(request.delivery, chat_key, _CAN_ASK)
        if row.state is DeliveryState.SENT:
            return Receipt(state=row.state, message_id=row.message_id)
        if row.delivery_id in self._under_way:
            return Receipt(state=DeliveryState.PENDING, reason="it is being sent now")

        async def confirm(delivery: Delivery) -> Receipt:
            return await adapter.confirm(request.doubt(delivery))

        return await self._call(request.delivery, confirm)

    async def _show(self, instance: str, request: TypingRequest | ReactRequest) -> None:
        """Show that the bot is typing, or a reaction. Raises `SignRefused`."""
        chat_key = ChatKey.parse(request.chat_key)
        adapter = self._adapter(instance, chat_key)
        await self._require_owner(self._ownership(request, chat_key))
        match request:
            case TypingRequest() if isinstance(adapter, SupportsTyping):
                shown = partial(adapter.show_typing, chat_key, typing=request.typing)
            case ReactRequest() if isinstance(adapter, SupportsReactions):
                shown = partial(adapter.react, chat_key, request.message_id, request.emoji)
            case _:
                raise _NotAllowed(f"{adapter.name} cannot show this")
        try:
            with anyio.fail_after(self.settings.call_s):
                await shown()
        except SignRefused:
            raise
        except Exception as error:
            raise _NotAllowed(f"it could not be shown: {error!r}") from error

    async def _call(
        self, data: DeliveryData, call: Callable[[Delivery], Awaitable[Receipt]]
    ) -> Receipt:
        """Fetch the media to this machine and make one call of the adapter. An error of the adapter
        or a time-out becomes ``unknown``."""
        async with downloaded(self.objects, data.segments, self.scratch) as segments:
            delivery = data.delivery(segments)
            longest = call_seconds(self.settings, segments)
            try:
                with anyio.fail_after(longest):
                    return await call(delivery)
            except TimeoutError:
                reason = f"no answer within {longest:g} s; it may have arrived"
            except Exception as error:  # noqa: BLE001 (an error of an adapter affects one message)
                logger.exception("the adapter failed in delivery {}", delivery.delivery_id)
                reason = f"the adapter failed: {error}"
            return Receipt(state=DeliveryState.UNKNOWN, reason=reason)

    async def _decide(self, row: DeliveryRow, receipt: Receipt) -> None:
        """Store the outcome of a call. It is stored even if the partition has another owner by now,
        because the call was made. If the store fails, the row stays ``sending``, and the chat's
        owner must ask the platform for the outcome."""
        try:
            await self.store.deliveries.mark(
                row, receipt.state, message_id=receipt.message_id, reason=receipt.reason
            )
        except StoreError as error:
            logger.error("delivery {}: the outcome is not stored: {}", row.delivery_id, error)

    async def _row(
        self, data: DeliveryData, chat_key: ChatKey, states: frozenset[DeliveryState]
    ) -> DeliveryRow:
        row = await self.store.deliveries.get(data.delivery_id)
        if row is None or row.chat_key != chat_key:
            raise _NotAllowed(f"{chat_key} has no delivery {data.delivery_id[:40]!r}")
        if row.state not in states:
            raise _NotAllowed(f"delivery {row.delivery_id} is {row.state} already")
        return row

    def _adapter(self, instance: str, chat_key: ChatKey) -> Adapter:
        if chat_key.instance != instance:
            raise _NotAllowed(f"{chat_key} is no chat of the account {instance}")
        adapter = self.adapters.get(self.store.accounts.adapter_of(instance))
        if adapter is None:
            raise _NotAllowed(f"no adapter of this gateway serves {instance} now")
        return adapter

    def _ownership(self, request: OwnerRequest, chat_key: ChatKey) -> Ownership:
        """Return the ownership that a request claims, if the chat is in its partition."""
        if request.partition != (right := partition_of(chat_key, self.partitions)):
            raise _NotAllowed(
                f"{chat_key} is in partition {right}, and the request is of {request.partition}"
            )
        return Ownership(partition=request.partition, epoch=request.epoch)

    async def _require_owner(self, owned: Ownership) -> None:
        """Raise `OwnershipLost` if another worker owns the partition now."""
        if not await self.store.partitions.is_current(owned):
            raise OwnershipLost(f"partition {owned.partition} has another owner")
