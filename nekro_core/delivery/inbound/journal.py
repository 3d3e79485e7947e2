"""A chat's record as plugins see it."""

from nekro_core.chat import ChatKey, Record
from nekro_core.delivery.inbound.inbox import Inbox
from nekro_core.store import Store


class ChatJournal:
    """See `nekro_core.plugins.authoring.services.Journal`."""

    def __init__(self, store: Store, inbox: Inbox) -> None:
        self._store = store
        self._inbox = inbox

    async def note(
        self, chat_key: ChatKey, text: str, *, run_id: str = "", trigger: bool = False
    ) -> None:
        """Add a system line; with ``trigger`` the agent of the chat answers it."""
        await self._inbox.note(chat_key, text, run_id=run_id, to_bot=trigger)

    async def newest(self, chat_key: ChatKey, limit: int) -> list[Record]:
        """The newest records that were not taken back, oldest first: nothing of before the
        conversation began anew."""
        records = await self._store.messages.newest(chat_key, limit)
        begun = max((place for place, each in enumerate(records) if each.begins_anew), default=-1)
        records = records[begun + 1 :]
        return [record for record in records if not record.recalled]
