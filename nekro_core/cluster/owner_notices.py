"""Tells the worker that owns a chat about messages to this chat that another process has stored."""

import uuid
from collections import deque
from collections.abc import Awaitable, Callable

import anyio
from loguru import logger

from nekro_core.chat import ChatKey
from nekro_core.cluster.errors import ClusterError
from nekro_core.cluster.partition_log import PartitionLog, partition_of
from nekro_core.cluster.record_items import SendItem, publish_until_stored
from nekro_core.store import DeliveryRow, Ownership
from nekro_core.store.ownership import ChatScope

_MOST_WAITING = 10_000
"""Maximum number of notices that wait while NATS cannot be reached. An announcement has at most
10,000 chats. If there are more notices, the oldest is dropped. Its message is sent when the
chat's partition changes its owner, or never, if it is too old by then."""


class OwnerNotices:
    """Implements `nekro_core.delivery.outbound.owner_of_chats.OwnerOfChats` in the cluster.

    Args:
        log: The log of the partitions.
        owns: Returns whether this process owns a chat. For a gateway, that is always False.
        prepare: Asks a chat's gateway what messages to the chat can carry
            (`RemoteAccounts.prepare`). None for a gateway.
        ownership: Returns this process's ownership of a chat; None if it does not own the chat.
    """

    def __init__(
        self,
        log: PartitionLog,
        owns: ChatScope,
        prepare: Callable[[ChatKey], Awaitable[None]] | None = None,
        ownership: Callable[[ChatKey], Ownership | None] = lambda _: None,
    ) -> None:
        self._log = log
        self._owns = owns
        self._prepare = prepare
        self._ownership = ownership
        self._waiting: deque[DeliveryRow] = deque()
        self._came = anyio.Event()

    def owns(self, chat_key: ChatKey) -> bool:
        """See `OwnerOfChats`."""
        return self._owns(chat_key)

    def ownership(self, chat_key: ChatKey) -> Ownership | None:
        """See `OwnerOfChats`."""
        return self._ownership(chat_key)

    async def prepare(self, chat_key: ChatKey) -> bool:
        """See `OwnerOfChats`."""
        if self._prepare is None:
            return True
        try:
            await self._prepare(chat_key)
        except ClusterError as error:
            logger.debug("messages to {} wait: {}", chat_key, error)
            return False
        return True

    def tell(self, row: DeliveryRow) -> None:
        """See `OwnerOfChats`."""
        if len(self._waiting) >= _MOST_WAITING:
            dropped = self._waiting.popleft()
            logger.error("the owner is not told of delivery {}", dropped.delivery_id)
        self._waiting.append(row)
        self._came.set()

    async def live(self) -> None:
        """Publish the notices, in order. Never returns."""
        while True:
            while self._waiting:
                row = self._waiting[0]
                await publish_until_stored(
                    self._log,
                    partition_of(row.chat_key, self._log.partitions),
                    SendItem(str(row.chat_key), row.delivery_id),
                    f"send.{uuid.uuid4().hex}",
                )
                if self._waiting and self._waiting[0] is row:
                    self._waiting.popleft()
            self._came = anyio.Event()
            await self._came.wait()
