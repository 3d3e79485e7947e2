"""An adapter in memory for tests that send messages. It passes the suite for adapters."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

import anyio

from nekro_core.chat import (
    ChatKey,
    ChatMessage,
    Delivery,
    DeliveryState,
    File,
    Image,
    Mention,
    Receipt,
    Reply,
    Role,
    Segments,
    Sender,
    Text,
    Voice,
)
from nekro_core.delivery.adapter import Capabilities
from nekro_core.store import Store, StoreUnavailable

Behaviour = Callable[[Delivery], Awaitable[Receipt]]


class FakeAdapter:
    """A platform that answers as the test sets it.

    ``sent`` has the messages that people saw, in order. While ``offline`` is set, the connection is
    lost. If ``behaviour`` is set, it answers each call.
    """

    def __init__(
        self,
        name: str = "fake",
        *,
        accounts: Iterable[str] = ("bot",),
        text_length: int = 100,
        images_per_call: int = 2,
        alone: Iterable[type] = (Voice, File),
    ) -> None:
        self.name = name
        self.accounts = frozenset(accounts)
        self.sent: list[Delivery] = []
        self.calls: list[Delivery] = []
        self.offline = False
        self.behaviour: Behaviour | None = None
        self.started = False
        self._capabilities = Capabilities(
            inline=frozenset({Text, Mention, Reply, Image}),
            alone=frozenset(alone),
            text_length=text_length,
            images_per_call=images_per_call,
        )

    def capabilities(self, chat_key: ChatKey) -> Capabilities:
        return self._capabilities

    async def send(self, delivery: Delivery) -> Receipt:
        if self.offline:
            return Receipt(state=DeliveryState.PENDING, reason="the account is offline")
        self.calls.append(delivery)
        if self.behaviour is not None:
            receipt = await self.behaviour(delivery)
            if receipt.ok:
                self.sent.append(delivery)
            return receipt
        await anyio.sleep(0)
        self.sent.append(delivery)
        return Receipt(state=DeliveryState.SENT, message_id=f"{self.name}-{len(self.sent)}")

    async def own_accounts(self, chat_key: ChatKey) -> frozenset[str]:
        return self.accounts

    async def start(self) -> None:
        self.started = True

    async def aclose(self) -> None:
        self.started = False

    def said(self, chat_key: ChatKey | None = None) -> list[Segments]:
        """The segments of the sent messages, in order."""
        return [d.segments for d in self.sent if chat_key is None or d.chat_key == chat_key]


def message(
    chat_key: ChatKey,
    text: str = "hello",
    *,
    message_id: str = "",
    user: str = "lin",
    time: float = 1_000.0,
    account: str = "bot",
    segments: Segments | None = None,
    to_bot: bool = False,
    from_history: bool = False,
    answered_elsewhere: bool = False,
    role: Role = Role.MEMBER,
) -> ChatMessage:
    """A message from a person, with defaults for everything that a test does not set."""
    return ChatMessage(
        chat_key=chat_key,
        message_id=message_id,
        sender=Sender(user, user.title(), role),
        segments=segments if segments is not None else (Text(text),),
        time=time,
        account=account,
        to_bot=to_bot,
        from_history=from_history,
        answered_elsewhere=answered_elsewhere,
    )


class FullDisk:
    """The store's deliveries. As long as ``full`` is set, no state can be written."""

    def __init__(self, store: Store) -> None:
        self._deliveries = store.deliveries
        self.full = True
        self.marked: list[DeliveryState] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._deliveries, name)

    def mark(self, row: Any, state: DeliveryState, **more: Any) -> Awaitable[Any]:
        async def refused() -> Sequence[Any]:
            raise StoreUnavailable("the disk is full")

        if self.full:
            return refused()
        self.marked.append(state)
        return self._deliveries.mark(row, state, **more)

    async def begin_call(self, *asked: Any) -> Any:
        if self.full:
            raise StoreUnavailable("the disk is full")
        return await self._deliveries.begin_call(*asked)
