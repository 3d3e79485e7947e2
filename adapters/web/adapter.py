"""The adapter for the web chat."""

import anyio

from nekro_core.api.adapter import Capabilities, Host, OperatorHost
from nekro_core.api.chat import (
    ChatKey,
    ChatKind,
    Delivery,
    DeliveryState,
    File,
    Image,
    Mention,
    Receipt,
    Reply,
    Text,
    Video,
    Voice,
)

from .http_api import INSTANCE
from .posts import new_message_id
from .rooms import BOT_ID
from .settings import MAX_TEXT

_CAPABILITIES = Capabilities(
    inline=frozenset({Text, Mention, Reply, Image}),
    alone=frozenset({Voice, Video, File}),
    text_length=MAX_TEXT,
    edit_every_s=0.3,
    markdown=True,
)


class WebAdapter:
    """`Adapter` for the page and the HTTP API. Both show the stored records, so `send` only makes a
    message id."""

    name = "web"

    def __init__(
        self,
        host: Host,
        operator: OperatorHost,
        closing: anyio.Event,
    ) -> None:
        self._host = host
        self._operator = operator
        self._closing = closing

    def capabilities(self, chat_key: ChatKey) -> Capabilities:  # noqa: ARG002 - the same everywhere
        """Return what one message can carry. It is the same for all rooms."""
        return _CAPABILITIES

    async def send(self, delivery: Delivery) -> Receipt:
        """Report a message as sent. Pages and streams show it when the outbox stores its record."""
        return await self._receipt(delivery, new_message_id())

    async def edit(self, message_id: str, delivery: Delivery) -> Receipt:
        """Report a message as changed. Pages and streams get the changed record."""
        return await self._receipt(delivery, message_id)

    async def _receipt(self, delivery: Delivery, message_id: str) -> Receipt:
        key = delivery.chat_key
        if key.instance != INSTANCE or key.kind is ChatKind.CHANNEL:
            return Receipt(state=DeliveryState.REJECTED, reason=f"{key} is no room of the web chat")
        if self._closing.is_set():
            return Receipt(state=DeliveryState.PENDING, reason="the web chat is closed")
        carried = _CAPABILITIES.inline | _CAPABILITIES.alone
        for segment in delivery.segments:
            if type(segment) not in carried:
                reason = f"the web chat cannot show {type(segment).__name__.lower()}"
                return Receipt(state=DeliveryState.REJECTED, reason=reason)
            if isinstance(segment, Image | Voice | Video | File):
                media = segment.media
                if media.problem or await self._operator.media.read(key, media.path) is None:
                    reason = media.problem or f"{media.name or 'the file'} is not there"
                    return Receipt(state=DeliveryState.REJECTED, reason=reason)
        return Receipt(state=DeliveryState.SENT, message_id=message_id)

    async def own_accounts(self, chat_key: ChatKey) -> frozenset[str]:  # noqa: ARG002 - as above
        """Return the bot's only account."""
        return frozenset({BOT_ID})

    async def start(self) -> None:
        """Bind the instance ``web``, to which every ``web-`` chat belongs.

        Raises `RuntimeError` if another account has the instance.
        """
        instance = await self._host.instance_of(self.name, BOT_ID)
        if instance != INSTANCE:
            raise RuntimeError(
                f"the web chat got the instance {instance!r}, expected {INSTANCE!r}: "
                "another account of this adapter is in the database"
            )

    async def aclose(self) -> None:
        """End the open streams and pages, so that the web server can stop."""
        self._closing.set()
