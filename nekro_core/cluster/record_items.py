"""Carries stored records from the gateway that stored them to the worker that owns their chat.

The items of the partitions' log name a record. The record itself is in the database.
"""

import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import anyio
import msgspec
from loguru import logger

from nekro_core.chat import ChatKey, Record
from nekro_core.chat.key import ChatKeyError
from nekro_core.cluster.errors import ClusterError, ClusterUnavailable, LogFull
from nekro_core.cluster.partition_log import OwnedPartition, PartitionLog, partition_of
from nekro_core.delivery.inbound.inbox import Inbox, InboxEvent, RecalledRecord, StoredRecord
from nekro_core.store import Store, StoreUnavailable

_AGAIN_S = 0.5
"""Pause in seconds before an item is published again, or a record is read again."""
_GATEWAY_S = 10.0
"""Maximum number of seconds that a record waits until the gateway of its account can be asked."""
_MOST_TRIES = 3
"""Maximum number of times that an item is given out. If no owner has handled it after that, it is
skipped and logged: handling it may be what ends the owners."""


class RecordItem(msgspec.Struct, frozen=True, tag="record"):
    """A record was stored or recalled.

    Attributes:
        chat_key: The chat of the record.
        seq: The sequence number of the record.
        recalled: Whether the record's message was recalled; otherwise the record is new.
    """

    chat_key: str
    seq: int
    recalled: bool = False


class LookItem(msgspec.Struct, frozen=True, tag="look"):
    """A gateway has started. The partition's owner should look for records that nobody has
    answered: the earlier process of the gateway may have ended after it had stored a record and
    before it had published the record's item."""


_Item = RecordItem | LookItem
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Item).decode


class RecordPublisher:
    """Publishes the events of a gateway's inbox. It is the only consumer of the inbox."""

    def __init__(self, inbox: Inbox, log: PartitionLog) -> None:
        self._inbox = inbox
        self._log = log

    async def live(self) -> None:
        """Publish a `LookItem` to each partition, and then the inbox's events, in the order of
        their commit. Never returns. While NATS cannot be reached, the events wait in the inbox."""
        start = uuid.uuid4().hex
        for partition in range(self._log.partitions):
            await self._publish(partition, LookItem(), f"look.{start}")
        while True:
            event = await self._inbox.next_event()
            partition = partition_of(event.record.chat_key, self._log.partitions)
            item = _item_of(event)
            kind = "recall" if item.recalled else "record"
            await self._publish(partition, item, f"{kind}.{item.seq}")

    async def _publish(self, partition: int, item: _Item, item_id: str) -> None:
        """Publish an item, and repeat this until the log has stored it. The log recognizes a
        repetition by ``item_id`` and stores the item once."""
        told = False
        while True:
            try:
                await self._log.publish(partition, _encode(item), item_id=item_id)
            except (ClusterUnavailable, LogFull) as error:
                if not told:
                    logger.warning("records wait until they can be published: {}", error)
                told = True
                await anyio.sleep(_AGAIN_S)
            else:
                return


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFeeder:
    """Gives a worker the records of a partition that it owns.

    Attributes:
        store: The database.
        prepare: Called with a chat before each of its records is handed over, for example to ask
            the chat's gateway what messages can carry.
        stored: Called with each stored record.
        recalled: Called with each recalled record.
        look: Called with the number of a partition when its unanswered records should be looked
            for.
    """

    store: Store
    prepare: Callable[[ChatKey], Awaitable[None]]
    stored: Callable[[Record], None]
    recalled: Callable[[Record], None]
    look: Callable[[int], Awaitable[None]]

    async def feed(self, owned: OwnedPartition) -> None:
        """Hand over the records of a partition, in order. Never returns."""
        async for item in owned.items():
            try:
                decoded = _decode(item.data)
            except msgspec.DecodeError as error:
                logger.error("an item of {} cannot be read: {}", owned.ownership, error)
                continue
            if item.tries > _MOST_TRIES:
                logger.error("{} was given out {} times; it is given up", decoded, item.tries)
                continue
            match decoded:
                case RecordItem():
                    await self._take(decoded)
                case LookItem():
                    await self.look(owned.ownership.partition)

    async def _take(self, item: RecordItem) -> None:
        try:
            chat_key = ChatKey.parse(item.chat_key)
        except ChatKeyError as error:
            logger.error("an item names no chat: {}", error)
            return
        record = await self._read(item.seq)
        if record is None or record.chat_key != chat_key:
            logger.warning("{}: record {} is not there (it may be erased)", chat_key, item.seq)
            return
        # Another process wrote this record. What this process has read of the chat's history before
        # is out of date, and the store must know that.
        self.store.messages.changed(chat_key, added=record.seq)
        await self._prepare(chat_key)
        if item.recalled:
            self.recalled(record)
        else:
            self.stored(record)

    async def _prepare(self, chat_key: ChatKey) -> None:
        """Call ``prepare`` for a chat. If the chat's gateway cannot be asked, for example because
        it is starting again, repeat this for `_GATEWAY_S`. If ``prepare`` still fails, this is
        logged and the record is handed over nevertheless: commands and notes need no gateway."""
        until = anyio.current_time() + _GATEWAY_S
        while True:
            try:
                return await self.prepare(chat_key)
            except ClusterError as error:
                if anyio.current_time() >= until:
                    logger.error("{} cannot be answered now: {}", chat_key, error)
                    return None
            await anyio.sleep(_AGAIN_S)

    async def _read(self, seq: int) -> Record | None:
        while True:
            try:
                return await self.store.messages.get(seq)
            except StoreUnavailable as error:
                logger.warning("record {} is read again: {}", seq, error)
                await anyio.sleep(_AGAIN_S)


def _item_of(event: InboxEvent) -> RecordItem:
    record = event.record
    match event:
        case StoredRecord():
            return RecordItem(str(record.chat_key), record.seq)
        case RecalledRecord():
            return RecordItem(str(record.chat_key), record.seq, recalled=True)
