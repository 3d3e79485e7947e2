"""Imports messages into the history of chats."""

import msgspec

from nekro_core.chat import (
    Author,
    ChatKey,
    ChatKeyError,
    Record,
    Role,
    Segments,
    Sender,
    plain_text,
)
from nekro_core.memory.scope import MemoryScope
from nekro_core.operator.transfer.exporter import people_in, without_places
from nekro_core.operator.transfer.lines import ExportedMessage, LineRefused
from nekro_core.store import Store, final_seq
from nekro_core.store.limits import MAX_ID

_MAX_NAME = 500
_LAST_TIME = 1e11


class HistoryImporter:
    """Adds messages at the end of the history of chats. No bot may use the store meanwhile.

    The history of a chat is in the order in which its messages were stored. So a message is added
    only if the chat has no newer message, apart from messages of this import. Otherwise an old
    message would be shown as the newest one, and the bot would read an old question as a new one.
    """

    def __init__(self, store: Store, scope: MemoryScope) -> None:
        self._store = store
        self._scope = scope
        self._ends: dict[ChatKey, int] = {}

    async def take(self, line: ExportedMessage, *, write: bool) -> bool:
        """Add a message; without ``write`` only check whether it can be added. Returns False if the
        chat has it already. Raises `LineRefused`."""
        record = _record_of(line)
        key = record.chat_key
        known = await self._known(record, line.id)
        if known is not None:
            self._ends[key] = max(known.seq, self._ends.get(key, 0))
            return False
        text = plain_text(record.segments)
        if self._scope.was_erased(key, people_in(record), text, record.time):
            raise LineRefused("it is of a person who was erased since then, or about one")
        newest = (await self._store.messages.newest_seqs()).get(key, 0)
        if newest != self._ends.get(key, 0):
            raise LineRefused(
                f"{key} has messages of its own already: a history can be put into a chat without "
                "messages, or continued where an import ended"
            )
        if write:
            record = msgspec.structs.replace(record, seq=self._store.messages.reserve())
            if await self._store.transfer.add_message(record, line.id):
                self._ends[key] = final_seq(record.seq)
        return True

    async def _known(self, record: Record, unique_id: str) -> Record | None:
        """Return the stored record of the same message; None if there is none."""
        if unique_id:
            return await self._store.transfer.message_numbered_by(
                record.chat_key.instance, unique_id
            )
        for each in await self._store.transfer.messages_at(record.chat_key, record.time):
            same = (each.author, each.sender.user_id) == (record.author, record.sender.user_id)
            if same and _content(each.segments) == _content(record.segments):
                return each
        return None


def _content(segments: Segments) -> object:
    return without_places(msgspec.to_builtins(segments))


def _record_of(line: ExportedMessage) -> Record:
    """Read a message. Raises `LineRefused`."""
    for name, most in (("id", MAX_ID), ("user_id", MAX_ID), ("message_id", MAX_ID)):
        if len(getattr(line, name)) > most:
            raise LineRefused(f"{name} has {len(getattr(line, name))} characters; at most {most}")
    if not 0 <= line.time < _LAST_TIME:
        raise LineRefused(f"time {line.time}: expected seconds since 1970")
    try:
        segments = msgspec.convert(without_places(line.segments), Segments)
        author = Author(line.author)
        role = Role(line.role) if line.role else Role.MEMBER
        key = ChatKey.parse(line.chat_key)
    except (msgspec.ValidationError, ChatKeyError, ValueError) as error:
        raise LineRefused(f"message: {error}") from None
    return Record(
        seq=0,
        chat_key=key,
        author=author,
        segments=segments,
        time=line.time,
        message_id=line.message_id,
        sender=Sender(line.user_id, line.user_name[:_MAX_NAME], role),
        to_bot=line.to_bot,
        from_history=True,
        recalled=line.recalled,
    )
