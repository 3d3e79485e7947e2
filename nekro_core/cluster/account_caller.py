"""Lets a worker send messages through the platform accounts to which gateways are connected."""

from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache

import anyio
import msgspec

from nekro_core.chat import ChatKey, Delivery, DeliveryState, Receipt, Segments
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
    carry_seconds,
    decode_answer,
    encode,
)
from nekro_core.cluster.calls import LONGEST_CALL_S, CallCarrier
from nekro_core.cluster.carried_media import uploaded
from nekro_core.cluster.errors import (
    AnswerTooLarge,
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
from nekro_core.store.traces import media_in

_ASK_S = 3.0
"""Time limit in seconds for asking a gateway what messages to a chat can carry. Other chats of the
partition wait for it."""
_ASK_AGAIN_S = 1.0
"""The same limit for a gateway that did not answer the last time."""
_SILENT_S = 2.0
"""A gateway that has not answered is not asked again for this many seconds, so that its chats do
not hold up others."""
_NOBODY_S = 0.2
"""The same pause if no gateway has the account, which NATS says at once. A gateway that has started
needs some milliseconds to get its account, so the pause is short."""
_WATCH_S = 0.25
"""Pause in seconds between two questions whether an account that was missed has a gateway again."""
_WATCH_FOR_S = 3.0
"""Seconds for which these questions go on after the account was missed the last time. Messages that
wait for the account are tried again more often, and each failure begins this time anew."""
_SPARE_S = 5.0
"""The gateway limits the time of a platform call. The worker waits this many seconds longer for the
gateway's answer, so that it learns the outcome of a call that ran out of time. If the message has
media, the worker waits still longer: the media must first get into the object store, and the
gateway must fetch them from there."""
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
        bring: Copies a medium to this machine, if another worker has stored it. A message that
            another worker has left unsent can have such media.
    """

    calls: CallCarrier
    objects: ObjectStore
    partitions: int
    ownership: Callable[[int], Ownership | None]
    settings: DeliverySettings
    bring: Callable[[str], Awaitable[None]] | None = None

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

    def __init__(self, name: str, link: GatewayLink, accounts: "RemoteAccounts") -> None:
        self.name = name
        self._link = link
        self._accounts = accounts

    def capabilities(self, chat_key: ChatKey) -> Capabilities:
        """See `Adapter.capabilities`. For a chat that `RemoteAccounts.prepare` has not prepared, no
        segment can be sent."""
        known = self._accounts.known(chat_key)
        if known is None:
            return Capabilities(inline=frozenset(), alone=frozenset())
        return known.can.capabilities()

    async def send(self, delivery: Delivery) -> Receipt:
        """See `Adapter.send`. The gateway too stores the outcome, in the row of the delivery."""

        def request(owned: Ownership, data: DeliveryData) -> AccountRequest:
            return SendRequest(owned.partition, owned.epoch, data, owned.token)

        return await self._call(delivery, request)

    def extra_seconds(self, segments: Segments) -> float:
        """See `NeedsMoreTime.extra_seconds`. Media need the time twice: into the object store, and
        out of it."""
        return 2 * carry_seconds(self._link.settings, segments) + _SPARE_S

    async def own_accounts(self, chat_key: ChatKey) -> frozenset[str]:
        """See `Adapter.own_accounts`."""
        known = self._accounts.known(chat_key)
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
        if self._accounts.known(delivery.chat_key) is None:
            # Without an answer, `capabilities` says that the platform can carry nothing, and the
            # message was made for that. For the next try it is made again.
            return _receipt(DeliveryState.PENDING, await self._ask_first(delivery.chat_key))
        settings, segments = self._link.settings, delivery.segments
        within_s = call_seconds(settings, segments) + carry_seconds(settings, segments) + _SPARE_S
        # `confirm` only asks for the outcome of an earlier call. If the question is refused, this
        # does not say that the platform rejected the message.
        refused = DeliveryState.REJECTED if unclear is DeliveryState.UNKNOWN else unclear
        asked = False
        try:
            await self._bring(delivery)
            async with uploaded(self._link.objects, delivery.segments) as carried:
                asked = True
                answer = await self._link.ask(
                    delivery.chat_key,
                    request(owned, DeliveryData.of(delivery, carried)),
                    within_s=within_s,
                )
        except AnswerTooLarge as error:
            return _receipt(unclear, f"{error}; it may have arrived")
        except (CallTooLarge, ObjectTooLarge, OSError) as error:
            return _receipt(refused, str(error))
        except ClusterError as error:
            self._accounts.miss(delivery.chat_key)
            if not asked or isinstance(error, _NOT_MADE):
                return _receipt(DeliveryState.PENDING, f"the gateway is away: {error}")
            return _receipt(unclear, f"{error}; it may have arrived")
        match answer:
            case Answered(receipt):
                return receipt
            case Refused(reason, lost=lost, later=later) if lost or later:
                if lost:
                    # A gateway that was suspended makes no calls until it has renewed its lease.
                    self._accounts.miss(delivery.chat_key)
                return _receipt(DeliveryState.PENDING, reason)
            case Refused(reason):
                return _receipt(refused, reason)
            case _:
                return _receipt(unclear, "the gateway answers another question")

    async def _ask_first(self, chat_key: ChatKey) -> str:
        """Ask what messages to a chat can carry. Returns the reason for which a message that was
        made without this answer must wait."""
        try:
            await self._accounts.prepare(chat_key)
        except ClusterError as error:
            return f"the gateway is away: {error}"
        self._accounts.on_answer()
        return "it was not known what messages to the chat can carry"

    async def _bring(self, delivery: Delivery) -> None:
        if self._link.bring is not None:
            for medium in media_in(delivery.segments):
                await self._link.bring(medium.path)

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
            return EditRequest(owned.partition, owned.epoch, message_id, data, owned.token)

        return await self._call(delivery, request)


class _Confirms(AccountCaller):
    async def confirm(self, doubt: UncertainDelivery) -> Receipt:
        """See `SupportsConfirmation.confirm`. While the gateway cannot be asked, the state is
        ``pending``: ``unknown`` would mean that the outcome can never be found out."""

        def request(owned: Ownership, data: DeliveryData) -> AccountRequest:
            return ConfirmRequest(
                owned.partition,
                owned.epoch,
                data,
                doubt.since,
                doubt.before,
                doubt.taken,
                owned.token,
            )

        return await self._call(doubt.delivery, request, unclear=DeliveryState.PENDING)


class _Types(AccountCaller):
    async def show_typing(self, chat_key: ChatKey, *, typing: bool) -> None:
        """See `SupportsTyping.show_typing`."""
        await self._show(
            chat_key,
            lambda owned: TypingRequest(
                owned.partition, owned.epoch, str(chat_key), typing, owned.token
            ),
        )


class _Reacts(AccountCaller):
    async def react(self, chat_key: ChatKey, message_id: str, emoji: str) -> None:
        """See `SupportsReactions.react`."""
        await self._show(
            chat_key,
            lambda owned: ReactRequest(
                owned.partition, owned.epoch, str(chat_key), message_id, emoji, owned.token
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

    Args:
        link: Reaches the gateways.
        adapters: Gets the adapters.
        on_answer: Called when a gateway answers of which messages may be waiting. It should send
            them now (`Outbox.retry_now`).
    """

    def __init__(
        self,
        link: GatewayLink,
        adapters: MutableMapping[str, Adapter],
        on_answer: Callable[[], None] = lambda: None,
    ) -> None:
        self._link = link
        self._adapters = adapters
        self.on_answer = on_answer
        self._chats: dict[ChatKey, RemoteChat] = {}
        self._away: dict[str, tuple[float, str]] = {}
        """Until when the gateway of an instance is not asked again, and why. Deleted when the
        gateway answers."""
        self._missed: dict[str, tuple[float, ChatKey]] = {}
        """Until when `watch` asks for the gateway of an instance, and one of the instance's
        chats."""
        self._one_missed = anyio.Event()

    def known(self, chat_key: ChatKey) -> RemoteChat | None:
        """Return the gateway's answer about a chat; None if it was not asked yet."""
        return self._chats.get(chat_key)

    async def prepare(self, chat_key: ChatKey, *, again: bool = False) -> None:
        """Ask the gateway what messages to a chat can carry. With ``again``, ask even if an earlier
        answer is known. A gateway that has not answered is not asked again for a short time: then
        this method fails at once for all chats of its account. Raises `ClusterError`."""
        if chat_key in self._chats and not again:
            return
        try:
            answer = await self._ask(chat_key)
        except ClusterError:
            self.miss(chat_key)
            raise
        match answer:
            case RemoteChatAnswer(chat):
                chat.can.capabilities()  # raises `CannotBeSent` now instead of later
                self._chats[chat_key] = chat
                kind = _caller_class(chat.edits, chat.confirms, chat.types, chat.reacts)
                if type(self._adapters.get(chat.adapter)) is not kind:
                    self._adapters[chat.adapter] = kind(chat.adapter, self._link, self)
            case Refused(reason):
                raise ClusterUnavailable(reason)
            case _:
                raise ClusterUnavailable("the gateway answers another question")

    async def _ask(self, chat_key: ChatKey) -> AccountAnswer:
        instance, request = chat_key.instance, RemoteChatRequest(str(chat_key))
        until, reason = self._away.get(instance, (0.0, ""))
        if anyio.current_time() < until:
            raise ClusterUnavailable(reason)
        within_s = _ASK_AGAIN_S if reason else _ASK_S
        try:
            answer = await self._link.ask(chat_key, request, within_s=within_s)
        except ClusterError as error:
            pause_s = _NOBODY_S if isinstance(error, NobodyServes) else _SILENT_S
            self._away[instance] = (anyio.current_time() + pause_s, str(error))
            raise
        self._away.pop(instance, None)
        if self._missed.pop(instance, None) is not None:
            self.on_answer()
        return answer

    def miss(self, chat_key: ChatKey) -> None:
        """Note that the gateway of a chat's account has not answered."""
        self._missed[chat_key.instance] = (anyio.current_time() + _WATCH_FOR_S, chat_key)
        self._one_missed.set()

    async def watch(self) -> None:
        """Ask for the gateways that were missed until they answer, so that messages need not wait
        for the outbox's next retry. Never returns."""
        while True:
            while not self._missed:
                self._one_missed = anyio.Event()
                await self._one_missed.wait()
            await anyio.sleep(_WATCH_S)
            async with anyio.create_task_group() as tasks:
                for instance, (until, chat_key) in [*self._missed.items()]:
                    if anyio.current_time() > until:
                        del self._missed[instance]
                    else:
                        tasks.start_soon(self._look, chat_key)

    async def _look(self, chat_key: ChatKey) -> None:
        with suppress(ClusterError):
            await self._ask(chat_key)

    def forget(self, partition: int) -> None:
        """Forget the gateway's answers about the chats of a partition. Called when this worker
        gives the partition up, so that the answers for other workers' chats do not fill the
        memory."""
        for chat_key in [*self._chats]:
            if partition_of(chat_key, self._link.partitions) == partition:
                del self._chats[chat_key]


def _receipt(state: DeliveryState, reason: str) -> Receipt:
    return Receipt(state=state, reason=reason)
