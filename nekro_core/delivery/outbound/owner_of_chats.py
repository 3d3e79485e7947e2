"""Defines how a process leaves messages to the process that owns their chat."""

from typing import Protocol

from nekro_core.chat import ChatKey
from nekro_core.store import DeliveryRow, Ownership


class OwnerOfChats(Protocol):
    """Knows which chats this process sends to, if several processes share a database. Each chat has
    one owner, which sends all messages to it. So the messages of a chat keep their order."""

    def owns(self, chat_key: ChatKey) -> bool:
        """Return whether this process owns a chat."""

    def ownership(self, chat_key: ChatKey) -> Ownership | None:
        """Return this process's ownership of a chat; None if it does not own the chat."""

    async def prepare(self, chat_key: ChatKey) -> bool:
        """Find out what messages to a chat of this process can carry. Returns False if that cannot
        be found out now."""

    def tell(self, row: DeliveryRow) -> None:
        """Tell the owner of a chat to look at a row that was stored or changed. The owner calls
        `Outbox.send_stored`."""
