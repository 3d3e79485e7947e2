"""Sends the whole messages that are stored for a chat (`UNSPLIT`), in their order.

Such a message must wait until it is known what messages to its chat can carry. In a cluster that is
not known while the gateway of the chat's account is away.
"""

from collections.abc import Callable
from typing import Protocol

import anyio
from anyio.abc import TaskGroup
from loguru import logger

from nekro_core.chat import ChatKey
from nekro_core.store import DeliveryRow, OwnershipLost
from nekro_core.system.keyed_queue import KeyedLimiter


class IsPrepared(Protocol):
    """Waits until a stored message can be split."""

    async def __call__(self, row: DeliveryRow) -> bool:
        """Wait until it is known what messages to the chat of this row can carry. Returns False if
        the message is too old by then. Raises `OwnershipLost` if another process owns the chat by
        then."""


class SendStored(Protocol):
    """Sends a stored message, or drops it."""

    async def __call__(
        self, row: DeliveryRow, prepared: bool, replaced: Callable[[], None], /
    ) -> None:
        """Split and send the message, or drop it if it is not ``prepared``. Call ``replaced`` when
        the message has its place in the chat's queue and its row is replaced by those of its calls.
        Does not raise for failures of the message."""


class StoredMessages:
    """The stored messages that wait. Those of a chat wait one after another, so that they keep
    their order."""

    def __init__(self, is_prepared: IsPrepared, send: SendStored) -> None:
        self._is_prepared = is_prepared
        self._send = send
        self._turns = KeyedLimiter(1)

    def waiting(self, chat_key: ChatKey) -> int:
        """Return how many messages to a chat wait because they cannot be split yet."""
        return self._turns.callers(chat_key)

    def add(self, row: DeliveryRow, tasks: TaskGroup) -> None:
        """Send a message after the messages to its chat that wait already. Its rows are written
        with the present ownership (`writing_as`)."""
        name = f"stored message to {row.chat_key}"
        tasks.start_soon(self._send_in_turn, row, tasks, name=name)

    async def _send_in_turn(self, row: DeliveryRow, tasks: TaskGroup) -> None:
        async with self._turns.of(row.chat_key):
            try:
                prepared = await self._is_prepared(row)
            except OwnershipLost as error:
                logger.info("delivery {} is left to its owner: {}", row.delivery_id, error)
                return
            # In a task of its own: the next message takes its place in the chat's queue while this
            # one is being sent. Until this one's row is replaced, the next message must wait:
            # otherwise it would be sent first if the database cannot be written for a moment.
            replaced = anyio.Event()
            tasks.start_soon(
                self._send_stored, row, prepared, replaced, name=f"send to {row.chat_key}"
            )
            await replaced.wait()

    async def _send_stored(self, row: DeliveryRow, prepared: bool, replaced: anyio.Event) -> None:
        try:
            await self._send(row, prepared, replaced.set)
        finally:
            replaced.set()
