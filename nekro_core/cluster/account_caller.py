"""Lets a worker send messages through the platform accounts to which gateways are connected."""

from collections.abc import Callable, MutableMapping
from dataclasses import dataclass
from functools import cache

import msgspec

from nekro_core.chat import ChatKey, Delivery, DeliveryState, Receipt
from nekro_core.cluster.account_messages import (
    AccountAnswer,
    AccountRequest,
    Answered,
    ConfirmRequest,
    DeliveryData,
    EditRequest,
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
    decode_answer,
    encode,
)
from nekro_core.cluster.calls import LONGEST_CALL_S, CallCarrier
from nekro_core.cluster.carried_media import uploaded
from nekro_core.cluster.errors import (
    CallTooLarge,
    ClusterError,
    ClusterUnavailable,
    NobodyServes,
    ObjectTooLarge,
    ServerBusy,
)
from nekro_core.cluster.objects import ObjectStore
from nekro_core.cluster.partition_log import partition_of
from nekro_core.delivery.adapter import Adapter, Capabilities, UncertainDelivery
from nekro_core.delivery.errors import SignRefused
from nekro_core.delivery.settings import DeliverySettings
from nekro_core.store import Ownership

_ASK_S = 10.0
"""Time limit in seconds for asking a gateway what messages to a chat can carry."""
_SPARE_S = 5.0
"""The gateway limits the time of a platform call. The worker waits this many seconds longer for the
gateway's answer, so that it learns the outcome of a call that ran out of time."""
_NOT_MADE = (NobodyServes, ServerBusy)
"""Errors after which the platform call was certainly not made. The call can be made later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayLink:
    """The objects through which a worker reaches the gateways.

    Attributes:
        calls: Carries the requests to the gateways.
        objects: Carries the media of outgoing messages.
        partitions: The number of partitions of the cluster.
        ownership: Returns this worker's ownership of a partition; None if it does not own it.
        settings: The time limits of platform calls.
    """

    calls: CallCarrier
    objects: ObjectStore
    partitions: int
    ownership: Callable[[int], Ownership | None]
    settings: DeliverySettings

    def owned(self, chat_key: ChatKey) -> Ownership | None:
        """Return this worker's ownership of a chat; None if another worker owns the chat."""
        return self.ownership(partition_of(chat_key, self.partitions))

    async def ask(
        self, chat_key: ChatKey, request: AccountRequest, *, within_s: float
    ) -> AccountAnswer:
        """Send a request to the gateway that holds the chat's account. Raises `ClusterError`."""
        name = account_name(chat_key.instance)
        data = await self.calls.call(name, encode(request), within_s=min(within_s, LONGEST_CALL_S))
        try:
            return decode_answer(data)
        except msgspec.DecodeError as error:
            raise ClusterError(
                f"the gateway of {name} answers what is no answer: {error}"
            ) from None


class AccountCaller:
    """Implements `Adapter` in a worker: each call goes to the gateway whose adapter of the same
    name holds the chat's account. `RemoteAccounts` makes one caller for each adapter."""

    def __init__(self, name: str, link: GatewayLink, chats: dict[ChatKey, RemoteChat]) -> None:
        self.name = name
        self._link = link
        self._chats = chats

    def capabilities(self, chat_key: ChatKey) -> Capabilities:
        """See `Adapter.capabilities`. For a chat that `RemoteAccounts.prepare` has not prepared, no
        segment can be sent."""
        known = self._chats.get(chat_key)
        if known is None:
            return Capabilities(inline=frozenset(), alone=frozenset())
        return known.can.capabilities()

    async def send(self, delivery: Delivery) -> Receipt:
        """See `Adapter.send`. The gateway too stores the outcome in the call's row."""

        def request(owned: Ownership, data: DeliveryData) -> AccountRequest:
            return SendRequest(owned.partition, owned.epoch, data)

        return await self._call(delivery, request)

    async def own_accounts(self, chat_key: ChatKey) -> frozenset[str]:
        """See `Adapter.own_accounts`."""
        known = self._chats.get(chat_key)
        return known.own if known is not None else frozenset()

    async def start(self) -> None:
        """Do nothing: the gateway has started the adapter."""

    async def aclose(self) -> None:
        """Do nothing: the gateway closes the adapter."""

    async def _call(
        self,
        delivery: Delivery,
        request: Callable[[Ownership, DeliveryData], AccountRequest],
        *,
        unclear: DeliveryState = DeliveryState.UNKNOWN,
    ) -> Receipt:
        """Have the gateway make one platform call. Never raises for a failure. ``unclear`` is the
        state of the receipt if it is not known whether the call was made."""
        owned = self._link.owned(delivery.chat_key)
        if owned is None:
            return _receipt(DeliveryState.PENDING, "another worker owns this chat now")
        within_s = call_seconds(self._link.settings, delivery.segments) + _SPARE_S
        asked = False
        try:
            async with uploaded(self._link.objects, delivery.segments) as carried:
                asked = True
                answer = await self._link.ask(
                    delivery.chat_key,
                    request(owned, DeliveryData.of(delivery, carried)),
                    within_s=within_s,
                )
        except (CallTooLarge, ObjectTooLarge, OSError) as error:
            return _receipt(DeliveryState.REJECTED, str(error))
        except ClusterError as error:
            if not asked or isinstance(error, _NOT_MADE):
                return _receipt(DeliveryState.PENDING, f"the gateway is away: {error}")
            return _receipt(unclear, f"{error}; it may have arrived")
        match answer:
            case Answered(receipt):
                return receipt
            case Refused(reason, lost=True):
                return _receipt(DeliveryState.PENDING, reason)
            case Refused(reason):
                state = DeliveryState.REJECTED if unclear is DeliveryState.UNKNOWN else unclear
                return _receipt(state, reason)
            case _:
                return _receipt(unclear, "the gateway answers another question")

    async def _show(
        self, chat_key: ChatKey, request: Callable[[Ownership], AccountRequest]
    ) -> None:
        """Have the gateway show that the bot is typing, or add a reaction. Raises `SignRefused` and
        `ClusterError`."""
        owned = self._link.owned(chat_key)
        if owned is None:
            raise ClusterUnavailable("another worker owns this chat now")
        within_s = self._link.settings.call_s + _SPARE_S
        match await self._link.ask(chat_key, request(owned), within_s=within_s):
            case SignShown():
                return
            case Refused(reason, sign=True):
                raise SignRefused(reason)
            case other:
                raise ClusterUnavailable(f"it could not be shown: {other}")


class _Edits(AccountCaller):
    async def edit(self, message_id: str, delivery: Delivery) -> Receipt:
        """See `SupportsEditing.edit`."""

        def request(owned: Ownership, data: DeliveryData) -> AccountRequest:
            return EditRequest(owned.partition, owned.epoch, message_id, data)

        return await self._call(delivery, request)


class _Confirms(AccountCaller):
    async def confirm(self, doubt: UncertainDelivery) -> Receipt:
        """See `SupportsConfirmation.confirm`. While the gateway cannot be asked, the state is
        ``pending``: ``unknown`` would mean that the outcome can never be found out."""

        def request(owned: Ownership, data: DeliveryData) -> AccountRequest:
            return ConfirmRequest(
                owned.partition, owned.epoch, data, doubt.since, doubt.before, doubt.taken
            )

        return await self._call(doubt.delivery, request, unclear=DeliveryState.PENDING)


class _Types(AccountCaller):
    async def show_typing(self, chat_key: ChatKey, *, typing: bool) -> None:
        """See `SupportsTyping.show_typing`."""
        await self._show(
            chat_key,
            lambda owned: TypingRequest(owned.partition, owned.epoch, str(chat_key), typing),
        )


class _Reacts(AccountCaller):
    async def react(self, chat_key: ChatKey, message_id: str, emoji: str) -> None:
        """See `SupportsReactions.react`."""
        await self._show(
            chat_key,
            lambda owned: ReactRequest(
                owned.partition, owned.epoch, str(chat_key), message_id, emoji
            ),
        )


@cache
def _caller_class(
    edits: bool,
    confirms: bool,
    types: bool,
    reacts: bool,
) -> type[AccountCaller]:
    """Return a class that implements, besides `Adapter`, only those protocols that the gateway's
    adapter implements too. The core tests with `isinstance` what an adapter supports."""
    parts = zip((_Edits, _Confirms, _Types, _Reacts), (edits, confirms, types, reacts), strict=True)
    bases = tuple(part for part, there in parts if there)
    return type("AccountCaller", bases or (AccountCaller,), {})


class RemoteAccounts:
    """Puts the adapters of the gateways into a worker's mapping of adapters.

    The mapping gets an adapter when `prepare` is called for the first chat of this adapter.
    """

    def __init__(self, link: GatewayLink, adapters: MutableMapping[str, Adapter]) -> None:
        self._link = link
        self._adapters = adapters
        self._chats: dict[ChatKey, RemoteChat] = {}

    async def prepare(self, chat_key: ChatKey, *, again: bool = False) -> None:
        """Ask the gateway what messages to a chat can carry. With ``again``, ask even if an earlier
        answer is known. Raises `ClusterError`."""
        if chat_key in self._chats and not again:
            return
        answer = await self._link.ask(chat_key, RemoteChatRequest(str(chat_key)), within_s=_ASK_S)
        match answer:
            case RemoteChatAnswer(chat):
                self._chats[chat_key] = chat
                kind = _caller_class(chat.edits, chat.confirms, chat.types, chat.reacts)
                if type(self._adapters.get(chat.adapter)) is not kind:
                    self._adapters[chat.adapter] = kind(chat.adapter, self._link, self._chats)
            case Refused(reason):
                raise ClusterUnavailable(reason)
            case _:
                raise ClusterUnavailable("the gateway answers another question")

    def forget(self, partition: int) -> None:
        """Forget the gateway's answers about the chats of a partition. Called when this worker
        gives the partition up, so that the answers for other workers' chats do not fill the
        memory."""
        for chat_key in [*self._chats]:
            if partition_of(chat_key, self._link.partitions) == partition:
                del self._chats[chat_key]


def _receipt(state: DeliveryState, reason: str) -> Receipt:
    return Receipt(state=state, reason=reason)
