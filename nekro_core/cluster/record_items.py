"""Carries stored records and stored messages to the worker that owns their chat.

The items of the partitions' log name a record, or the row of an outgoing message. The record and
the row are in the database.
"""

import time
import uuid
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

import anyio
import anyio.lowlevel
import msgspec
from loguru import logger

from nekro_core.chat import ChatKey, Record
from nekro_core.chat.key import ChatKeyError
from nekro_core.cluster.errors import ClusterError
from nekro_core.cluster.partition_log import OwnedPartition, PartitionLog, partition_of
from nekro_core.delivery.inbound.inbox import (
    Inbox,
    InboxEvent,
    LeftOutRecords,
    RecalledRecord,
    StoredRecord,
)
from nekro_core.store import OwnershipLost, Store, StoreUnavailable

_AGAIN_S = 0.5
"""Pause in seconds before an item is published again, or a record is read again."""
_GATEWAY_S = 2.0
"""Maximum number of seconds that a record waits until the gateway of its account can be asked. Then
it is handed over without that: the gateway may be away for long, and the records of other accounts
wait behind it. Messages to the chat wait until the gateway has answered (`Outbox.send`)."""
_MOST_EVENTS = 2_000
"""Maximum number of events of an inbox that wait to be published while NATS cannot be reached. An
event has a whole message, which takes some KiB, so they take some MiB. Events beyond this are left
out, and the owners of the partitions look for their records in the database."""


class RecordItem(msgspec.Struct, frozen=True, tag="record"):
    """A record was stored or recalled.

    Attributes:
        chat_key: The chat of the record.
        seq: The sequence number of the record.
        recalled: Whether the record's message was recalled; otherwise the record is new.
        age_s: How many seconds before the item was published the message had arrived at the
            gateway. The bot waits for some time whether the sender writes more. This time counts
            from the arrival, as in one process. The gateway measures ``age_s``, so the clocks of
            the machines are not compared.
    """

    chat_key: str
    seq: int
    recalled: bool = False
    age_s: float = 0.0


class LookItem(msgspec.Struct, frozen=True, tag="look"):
    """The partition's owner should look for records that nobody has answered, because they may have
    no item. Either a gateway has started, and its earlier process may have ended after it had
    stored a record and before it had published the record's item. Or NATS was away for so long that
    the gateway could not keep all events."""


class SendItem(msgspec.Struct, frozen=True, tag="send"):
    """Another process has stored or changed the row of a message to this chat. The chat's owner
    should look at the row, and send the message or stop sending it.

    Attributes:
        chat_key: The chat.
        delivery_id: The id of the row.
    """

    chat_key: str
    delivery_id: str


PartitionItemContent = RecordItem | LookItem | SendItem
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(PartitionItemContent).decode


class RecordPublisher:
    """Publishes the events of a process's inbox. It is the only consumer of the inbox.

    Args:
        inbox: The inbox. Its queue is bounded from now on.
        log: The log of the partitions.
        clock: The inbox's clock.
        most_events: Maximum number of events that wait to be published.
    """

    def __init__(
        self,
        inbox: Inbox,
        log: PartitionLog,
        clock: Callable[[], float] = time.monotonic,
        *,
        most_events: int = _MOST_EVENTS,
    ) -> None:
        self._inbox = inbox
        self._log = log
        self._clock = clock
        self._drained = anyio.Event()
        inbox.bound(most_events, lambda chat_key: partition_of(chat_key, log.partitions))

    async def drain(self) -> None:
        """Wait until all events that the inbox has now are published."""
        while not self._inbox.empty or not self._drained.is_set():
            await self._drained.wait()
            await anyio.lowlevel.checkpoint()

    async def live(self) -> None:
        """Publish a `LookItem` to each partition, and then the inbox's events, in the order of
        their commit. Never returns. While NATS cannot be reached, the events wait in the inbox."""
        await self._ask_to_look(range(self._log.partitions))
        while True:
            if self._inbox.empty:
                self._drained.set()
            event = await self._inbox.next_of_bounded()
            self._drained = anyio.Event()
            match event:
                case LeftOutRecords(groups):
                    await self._ask_to_look(sorted(groups))
                case StoredRecord(record) | RecalledRecord(record):
                    partition = partition_of(record.chat_key, self._log.partitions)
                    item = _item_of(event, self._clock())
                    kind = "recall" if item.recalled else "record"
                    item_id = f"{kind}.{item.seq}"
                    await publish_until_stored(self._log, partition, item, item_id)

    async def _ask_to_look(self, partitions: Iterable[int]) -> None:
        """Ask the owners of partitions to look for records without an item."""
        item_id = f"look.{uuid.uuid4().hex}"
        for partition in partitions:
            await publish_until_stored(self._log, partition, LookItem(), item_id)


async def publish_until_stored(
    log: PartitionLog, partition: int, item: PartitionItemContent, item_id: str
) -> None:
    """Publish an item, and repeat this until the log has stored it. The log recognizes a repetition
    by ``item_id`` and stores the item once."""
    told = False
    while True:
        try:
            await log.publish(partition, _encode(item), item_id=item_id)
        except ClusterError as error:
            if not told:
                logger.warning("records wait until they can be published: {}", error)
            told = True
            await anyio.sleep(_AGAIN_S)
        else:
            return


async def _no_send(delivery_id: str) -> None:
    logger.error("delivery {} waits: this process sends no stored messages", delivery_id)


async def _take_each(_: ChatKey, __: int) -> bool:
    return True


def _note_nothing(_: int) -> None:
    """Do nothing: nobody counts which records are in hand."""


async def _no_media(record: Record) -> None:
    """Do nothing: the files of the record are on this machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFeeder:
    """Gives a worker the records of a partition that it owns.

    Attributes:
        store: The database.
        prepare: Called with a chat before each of its records is handed over, for example to ask
            the chat's gateway what messages can carry.
        take: Called with the chat and the sequence number of each stored record, before the
            record's media are copied (``bring``). It stores that this worker has the record in
            hand. If it returns False, the record is not handed over. Raises `OwnershipLost`.
        dropped: Called with the sequence number of a record for which ``take`` returned True, if
            the record will not be handed over because it was erased or because an error came.
        stored: Called with each stored record, and with how many seconds ago its message arrived
            (without the time in the log).
        recalled: Called with each recalled record.
        look: Called with the number of a partition when its unanswered records should be looked
            for.
        send: Called with the id of a row of an outgoing message that another process has stored or
            changed. This is `nekro_core.delivery.outbound.outbox.Outbox.send_stored`.
        bring: Called with each record before it is handed over. It copies the record's files to
            this machine (`nekro_core.delivery.media.store.MediaStore.bring_record`). It does not
            raise, and limits its own time.
    """

    store: Store
    prepare: Callable[[ChatKey], Awaitable[None]]
    stored: Callable[[Record, float], None]
    recalled: Callable[[Record], None]
    look: Callable[[int], Awaitable[None]]
    send: Callable[[str], Awaitable[None]] = _no_send
    bring: Callable[[Record], Awaitable[None]] = _no_media
    take: Callable[[ChatKey, int], Awaitable[bool]] = _take_each
    dropped: Callable[[int], None] = _note_nothing

    async def feed(self, owned: OwnedPartition) -> None:
        """Hand over the records of a partition, in order. Never returns. An item that cannot be
        handled is logged and skipped: if its error ended the work, the next owner would get the
        same item and end too. Raises `OwnershipLost` and `StoreUnavailable`; then the item is given
        out again.

        How many times an item was given out does not matter: a worker that is only slow gets it
        often. For a record, the database counts how many owners really had it in hand (``take``).
        What a look and an outgoing message cause, each new owner does anyway
        (`nekro_core.delivery.outbound.outbox.Outbox.resume`)."""
        async for item in owned.items():
            try:
                decoded = _decode(item.data)
            except msgspec.DecodeError as error:
                logger.error("an item of {} cannot be read: {}", owned.ownership, error)
                continue
            try:
                await self._handle(decoded, owned.ownership.partition)
            except (OwnershipLost, StoreUnavailable):
                raise
            except Exception:  # noqa: BLE001 (one item must not end the work of its partition)
                logger.exception("{} is skipped, because it cannot be handled", decoded)

    async def _handle(self, item: PartitionItemContent, partition: int) -> None:
        match item:
            case RecordItem():
                await self._take(item)
            case LookItem():
                await self.look(partition)
            case SendItem():
                await self._send(item)

    async def _send(self, item: SendItem) -> None:
        chat_key = _chat_of(item)
        if chat_key is None:
            return None
        await self._prepare(chat_key)
        while True:
            try:
                return await self.send(item.delivery_id)
            except StoreUnavailable as error:
                logger.warning("delivery {} is read again: {}", item.delivery_id, error)
                await anyio.sleep(_AGAIN_S)

    async def _take(self, item: RecordItem) -> None:
        chat_key = _chat_of(item)
        if chat_key is None:
            return
        began = anyio.current_time()
        record, taken = await self._read_and_take(chat_key, item)
        if record is None or record.chat_key != chat_key:
            logger.warning("{}: record {} is not there (it may be erased)", chat_key, item.seq)
            if taken:
                self.dropped(item.seq)
            return
        # Another process wrote this record. What this process has read of the chat's history before
        # is out of date, and the store must know that.
        self.store.messages.changed(chat_key, added=record.seq)
        if item.recalled:
            self.recalled(record)
        elif taken:
            try:
                await self._prepare(chat_key)
                await self.bring(record)
                self.stored(record, item.age_s + anyio.current_time() - began)
            except (OwnershipLost, StoreUnavailable):
                raise
            except Exception:
                self.dropped(item.seq)
                raise

    async def _read_and_take(
        self, chat_key: ChatKey, item: RecordItem
    ) -> tuple[Record | None, bool]:
        """Read a record and, at the same time, call ``take`` for it unless it was recalled."""
        if item.recalled:
            return await self._read(item.seq), False
        taken: list[bool] = []

        async def take() -> None:
            taken.append(await self.take(chat_key, item.seq))

        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(take)
                record = await self._read(item.seq)
        except ExceptionGroup as group:
            if taken == [True]:
                self.dropped(item.seq)
            raise group.exceptions[0] from None
        return record, taken == [True]

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


def _chat_of(item: RecordItem | SendItem) -> ChatKey | None:
    try:
        return ChatKey.parse(item.chat_key)
    except ChatKeyError as error:
        logger.error("an item names no chat: {}", error)
        return None


def _item_of(event: InboxEvent, now: float) -> RecordItem:
    record = event.record
    match event:
        case StoredRecord():
            age_s = max(0.0, now - event.arrived)
            return RecordItem(str(record.chat_key), record.seq, age_s=age_s)
        case RecalledRecord():
            return RecordItem(str(record.chat_key), record.seq, recalled=True)
