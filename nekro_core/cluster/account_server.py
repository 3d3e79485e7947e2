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

from nekro_core.chat import Author, ChatKey, Delivery, DeliveryState, Receipt
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
from nekro_core.cluster.errors import (
    ClusterError,
    ClusterUnavailable,
    LeaseLost,
    ObjectMissing,
)
from nekro_core.cluster.leases import Leases
from nekro_core.cluster.objects import ObjectStore
from nekro_core.cluster.partition_log import partition_of
from nekro_core.cluster.running_calls import GatewayEnds, RunningCalls
from nekro_core.delivery.adapter import Adapter, SupportsConfirmation, SupportsEditing
from nekro_core.delivery.errors import SignRefused
from nekro_core.delivery.settings import DeliverySettings
from nekro_core.delivery.signs import SupportsReactions, SupportsTyping
from nekro_core.store import Ownership, OwnershipLost, Store, StoreError, writing_as
from nekro_core.store.values import DeliveryRow
from nekro_core.system.errors import NekroError

_LAST_WORDS_S = 5.0
"""After a call was cancelled, its outcome must be stored within this many seconds."""
_ANSWER_S = 3.0
"""If a worker stops waiting for a platform call, for example because its partition moves to another
worker, the call goes on for at most this many seconds. Platforms usually answer within one second.
A call that is cut off has an unknown outcome, and some platforms cannot be asked for it."""
_OPEN = frozenset({DeliveryState.PENDING, DeliveryState.SENDING})
"""States of a row whose call may be made."""
_DECIDED = frozenset({DeliveryState.SENT, DeliveryState.REJECTED, DeliveryState.DROPPED})
"""States of a row whose outcome is known. The platform need not be asked for it."""


_NO_TOKEN = "-"  # noqa: S105 (it opens nothing)
"""Stands for the missing token of a request. It is the token of no owner."""


class _NotAllowed(NekroError):
    """A worker's request is refused. The text says why."""


class _NotNow(NekroError):
    """A worker's request cannot be carried out now, and no platform call was made. The worker can
    repeat the request later."""


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
    running: RunningCalls = field(default_factory=RunningCalls)
    """The requests of workers that are being carried out."""
    _under_way: dict[str, anyio.Event] = field(default_factory=dict)
    """The ids of the deliveries whose platform call is being made. The event of each is set when
    the outcome is stored."""

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
            with self.running.one():
                return await self._answer(instance, request)
        except msgspec.DecodeError as error:
            # The worker can have a newer version, which the gateway is about to get too.
            return Refused(f"the request cannot be read: {error}", later=True)
        except (OwnershipLost, LeaseLost) as error:
            return Refused(str(error), lost=True)
        except SignRefused as error:
            return Refused(str(error), sign=True)
        except (_NotNow, GatewayEnds, ClusterUnavailable, StoreError, OSError) as error:
            # These errors were raised before the platform call: `_call` turns all errors of the
            # adapter into a receipt, and `_decide` raises none. An `OSError` is a fault of this
            # machine, for example a disk that has no room for a medium.
            logger.warning("a request for the account {} must wait: {}", instance, error)
            return Refused(str(error), later=True)
        except (_NotAllowed, ChatKeyError, MediaNotCarried, ClusterError) as error:
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
        """Make a platform call, and store its outcome, also if the worker stops waiting. If the
        platform then does not answer within `_ANSWER_S`, the outcome is ``unknown``."""
        chat_key = ChatKey.parse(request.delivery.chat_key)
        adapter, owned = self._adapter(instance, chat_key), self._ownership(request, chat_key)
        delivery_id = request.delivery.delivery_id
        if delivery_id in self._under_way:
            # Not `pending`: then the worker could make the call again without asking whether the
            # message has arrived.
            return Receipt(state=DeliveryState.UNKNOWN, reason="it is being sent now")
        # Do this before the row is read. Otherwise another request for this delivery could make the
        # call between this read and this call, and the message would be sent twice.
        decided = self._under_way[delivery_id] = anyio.Event()
        try:
            with writing_as(owned):
                row = await self.store.deliveries.begin_call(delivery_id, chat_key, _OPEN)
            if row is None:
                row = await self._row(request.delivery, chat_key)
                if row.state not in _OPEN:
                    raise _NotAllowed(f"delivery {delivery_id} is {row.state} already")
                raise _NotNow(f"delivery {delivery_id} was changed meanwhile")
            return await self._send_row(instance, row, request.delivery, adapter)
        finally:
            del self._under_way[delivery_id]
            decided.set()

    async def _send_row(
        self, instance: str, row: DeliveryRow, data: DeliveryData, adapter: Adapter
    ) -> Receipt:
        reason = "the worker that sent it was stopped; it may have arrived"
        outcome, lost = Receipt(state=DeliveryState.UNKNOWN, reason=reason), False

        async def make() -> None:
            # Errors are caught here: after a cancellation, `_finish` does not raise them.
            nonlocal outcome, lost
            try:
                outcome = await self._call(instance, data, adapter.send)
            except LeaseLost:
                lost = True  # The gateway that has the account now decides the row.
                raise
            except (ClusterUnavailable, ObjectMissing, OSError) as error:
                # Errors of fetching the media, before the platform call. The worker deletes the
                # objects when it stops waiting, and stores them again for its next request. An
                # `OSError` is a fault of this machine, for example a full disk.
                outcome = Receipt(
                    state=DeliveryState.PENDING,
                    reason=f"its media cannot be fetched now: {error}",
                )
            except (MediaNotCarried, ClusterError) as error:
                outcome = Receipt(state=DeliveryState.REJECTED, reason=str(error))

        try:
            await _finish(make)
        except anyio.get_cancelled_exc_class():
            if not lost:
                with anyio.move_on_after(_LAST_WORDS_S, shield=True):
                    await self._decide(row, outcome)
            raise
        await self._decide(row, outcome)
        return outcome

    async def _edit(self, instance: str, request: EditRequest) -> Receipt:
        chat_key = ChatKey.parse(request.delivery.chat_key)
        adapter = self._adapter(instance, chat_key)
        if not isinstance(adapter, SupportsEditing):
            raise _NotAllowed(f"messages of {adapter.name} cannot be edited")
        await self._require_owner(self._ownership(request, chat_key))
        record = await self.store.messages.by_message_id(chat_key, request.message_id)
        if record is None or record.author is not Author.BOT:
            raise _NotAllowed(f"{chat_key} has no message {request.message_id[:40]!r} of the bot")

        async def edit(delivery: Delivery) -> Receipt:
            return await adapter.edit(request.message_id, delivery)

        return await self._call(instance, request.delivery, edit)

    async def _confirm(self, instance: str, request: ConfirmRequest) -> Receipt:
        chat_key = ChatKey.parse(request.delivery.chat_key)
        adapter = self._adapter(instance, chat_key)
        if not isinstance(adapter, SupportsConfirmation):
            raise _NotAllowed(f"{adapter.name} cannot be asked about a message")
        await self._require_owner(self._ownership(request, chat_key))
        # Some adapters ask by making the call again with the same id, which sends the message if it
        # had not arrived. So they are asked only if the row has a state in which it may be sent.
        row = await self._row(request.delivery, chat_key)
        if row.state in _DECIDED:
            return _outcome(row)
        if (decided := self._under_way.get(row.delivery_id)) is not None:
            # The worker that asked for the call has usually stopped. Wait for the outcome, because
            # the later messages of the chat wait too.
            with anyio.move_on_after(_ANSWER_S):
                await decided.wait()
                row = await self._row(request.delivery, chat_key)
            if row.state in _DECIDED:
                return _outcome(row)
            return Receipt(state=DeliveryState.PENDING, reason="it is being sent now")

        async def confirm(delivery: Delivery) -> Receipt:
            return await adapter.confirm(request.doubt(delivery))

        return await self._call(instance, request.delivery, confirm)

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
        self, instance: str, data: DeliveryData, call: Callable[[Delivery], Awaitable[Receipt]]
    ) -> Receipt:
        """Fetch the media to this machine and make one call of the adapter. An error of the adapter
        or a time-out becomes ``unknown``. Raises `LeaseLost` if this process was suspended, so that
        another gateway may have the account by now. No call was made then."""
        async with downloaded(self.objects, data.segments, self.scratch) as segments:
            delivery = data.delivery(segments)
            longest = call_seconds(self.settings, segments)
            if not self.leases.is_current(account_name(instance)):
                raise LeaseLost(f"{self.name} may have lost the account {instance} by now")
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

    async def _row(self, data: DeliveryData, chat_key: ChatKey) -> DeliveryRow:
        row = await self.store.deliveries.get(data.delivery_id)
        if row is None or row.chat_key != chat_key:
            raise _NotAllowed(f"{chat_key} has no delivery {data.delivery_id[:40]!r}")
        return row

    def _adapter(self, instance: str, chat_key: ChatKey) -> Adapter:
        if chat_key.instance != instance:
            raise _NotAllowed(f"{chat_key} is no chat of the account {instance}")
        adapter = self.adapters.get(self.store.accounts.adapter_of(instance))
        if adapter is None:
            raise _NotNow(f"no adapter of this gateway serves {instance} now")
        return adapter

    def _ownership(self, request: OwnerRequest, chat_key: ChatKey) -> Ownership:
        """Return the ownership that a request claims, if the chat is in its partition."""
        if request.partition != (right := partition_of(chat_key, self.partitions)):
            raise _NotAllowed(
                f"{chat_key} is in partition {right}, and the request is of {request.partition}"
            )
        # When the ownership is checked, the token is compared too, but not if it is empty.
        return Ownership(request.partition, request.epoch, request.token or _NO_TOKEN)

    async def _require_owner(self, owned: Ownership) -> None:
        """Raise `OwnershipLost` if another worker owns the partition now, or if ``owned`` has
        another token than the owner."""
        if not await self.store.partitions.is_current(owned):
            raise OwnershipLost(f"partition {owned.partition} has another owner")


def _outcome(row: DeliveryRow) -> Receipt:
    return Receipt(state=row.state, message_id=row.message_id, reason=row.reason)


async def _finish(work: Callable[[], Awaitable[None]]) -> None:
    """Do some work. If the caller is cancelled, the work goes on for at most `_ANSWER_S`, and then
    the cancellation continues. Raises the errors of the work, but not after a cancellation."""
    errors: list[Exception] = []
    ended = anyio.Event()
    scope = anyio.CancelScope(shield=True)

    async def do() -> None:
        with scope:
            try:
                await work()
            except Exception as error:  # noqa: BLE001 (raised below, outside of the task group)
                errors.append(error)
        ended.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(do)
        try:
            await ended.wait()
        except anyio.get_cancelled_exc_class():
            scope.deadline = anyio.current_time() + _ANSWER_S
            raise
    if errors:
        raise errors[0]
