"""Records go from a gateway's inbox to the owner of their chat."""

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from nekro_core.chat import ChatKey, ChatMessage, Record, Sender, Text
from nekro_core.cluster.errors import ClusterUnavailable
from nekro_core.cluster.local_log import LocalPartitionLog
from nekro_core.cluster.partition_log import OwnedPartition, partition_of
from nekro_core.cluster.record_items import RecordFeeder, RecordPublisher
from nekro_core.delivery.activity import Broadcast
from nekro_core.delivery.inbound.inbox import Inbox
from nekro_core.store import Store

from .conformance import until

GROUP = ChatKey.parse("fake-group_1")
PARTITIONS = 4


class UnreachableLog(LocalPartitionLog):
    """A log that cannot be reached by the first three calls of `publish`."""

    failures = 3

    async def publish(self, partition: int, item: bytes, *, item_id: str) -> None:
        if self.failures:
            self.failures -= 1
            raise ClusterUnavailable("NATS does not answer")
        await super().publish(partition, item, item_id=item_id)


class Listener:
    """Plays a worker. It notes what the `RecordFeeder` gives it: stored and recalled records,
    partitions to look through, and chats to prepare."""

    def __init__(self, store: Store) -> None:
        self.stored: list[Record] = []
        self.recalled: list[Record] = []
        self.looked: list[int] = []
        self.prepared: list[ChatKey] = []
        self.away = 0
        self._store = store

    async def prepare(self, chat_key: ChatKey) -> None:
        if self.away:
            self.away -= 1
            raise ClusterUnavailable("the gateway starts again")
        self.prepared.append(chat_key)

    async def look(self, partition: int) -> None:
        self.looked.append(partition)

    async def work(self, owned: OwnedPartition) -> None:
        feeder = RecordFeeder(
            store=self._store,
            prepare=self.prepare,
            stored=self.stored.append,
            recalled=self.recalled.append,
            look=self.look,
        )
        await feeder.feed(owned)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with Store.open(f"sqlite://{tmp_path}/nekro.sqlite3") as opened:
        await opened.accounts.bind("fake", "bot")
        await opened.partitions.prepare(PARTITIONS)
        yield opened


@pytest.fixture
def inbox(store: Store) -> Inbox:
    return Inbox(store, Broadcast())


async def hears(inbox: Inbox, message_id: str, words: str) -> None:
    message = ChatMessage(
        chat_key=GROUP,
        message_id=message_id,
        sender=Sender("lin", "Lin"),
        segments=(Text(words),),
        time=1_000.0,
        account="bot",
    )
    await inbox.accept(inbox.stamp(message))


async def test_records_wait_while_the_log_is_away_and_keep_their_order(
    store: Store, inbox: Inbox
) -> None:
    log, listener = UnreachableLog(store.partitions, PARTITIONS), Listener(store)
    listener.away = 2
    for number in range(3):
        await hears(inbox, f"m{number}", f"line {number}")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(RecordPublisher(inbox, log).live)
        tasks.start_soon(log.own, "ada", listener.work)
        await until(lambda: len(listener.stored) == 3, "all records arrive")
        await inbox.recall(GROUP, "m1")
        await until(lambda: len(listener.recalled) == 1, "the recall arrives")
        tasks.cancel_scope.cancel()
    assert [each.message_id for each in listener.stored] == ["m0", "m1", "m2"]
    assert listener.recalled[0].message_id == "m1"
    assert sorted(listener.looked) == [0, 1, 2, 3]
    assert {*listener.prepared} == {GROUP}


async def test_items_that_cannot_be_used_do_not_stop_the_others(store: Store, inbox: Inbox) -> None:
    log, listener = LocalPartitionLog(store.partitions, PARTITIONS), Listener(store)
    partition = partition_of(GROUP, PARTITIONS)
    await hears(inbox, "m0", "hello")
    seq = inbox.queued[0].record.seq
    for number, item in enumerate(
        [
            b"\x80\x04 no JSON",
            b'{"type":"other"}',
            b'{"type":"record","chat_key":"no key","seq":1}',
            b'{"type":"record","chat_key":"fake-group_1","seq":999}',
            b'{"type":"record","chat_key":"fake-group_2","seq":%d}' % seq,
            b'{"type":"record","chat_key":"fake-group_1","seq":%d}' % seq,
        ]
    ):
        await log.publish(partition, item, item_id=f"{number}")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(log.own, "ada", listener.work)
        await until(lambda: len(listener.stored) == 1, "the good item arrives")
        tasks.cancel_scope.cancel()
    assert listener.stored[0].message_id == "m0"


async def test_a_record_that_ends_each_owner_is_given_up(store: Store, inbox: Inbox) -> None:
    """Three owners of the partition in turn begin to handle the record "bad", and end with an
    error. The fourth owner skips this record and handles the next one."""
    log, listener = LocalPartitionLog(store.partitions, PARTITIONS, again_s=0.01), Listener(store)
    partition = partition_of(GROUP, PARTITIONS)
    for message_id in ("bad", "good"):
        await hears(inbox, message_id, message_id)
    for event in inbox.queued:
        item = b'{"type":"record","chat_key":"fake-group_1","seq":%d}' % event.record.seq
        await log.publish(partition, item, item_id=event.record.message_id)
    begun: list[str] = []

    async def work(owned: OwnedPartition) -> None:
        def take(record: Record) -> None:
            begun.append(record.message_id)
            if record.message_id == "bad":
                raise MemoryError("the owner ends")

        async def look(_: int) -> None:
            return

        await RecordFeeder(
            store=store,
            prepare=listener.prepare,
            stored=take,
            recalled=lambda _: None,
            look=look,
        ).feed(owned)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(log.own, "ada", work)
        await until(lambda: "good" in begun, "the record behind it arrives")
        tasks.cancel_scope.cancel()
    assert begun == ["bad", "bad", "bad", "good"]
