"""Records go from a gateway's inbox to the owner of their chat."""

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from nekro_core.agent.session.record_takes import RecordTakes
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
    """A partition log that cannot be reached by the first three calls of `publish`."""

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
        self.ages: list[float] = []
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

    def hear(self, record: Record, age_s: float) -> None:
        self.stored.append(record)
        self.ages.append(age_s)

    async def work(self, owned: OwnedPartition) -> None:
        feeder = RecordFeeder(
            store=self._store,
            prepare=self.prepare,
            stored=self.hear,
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


async def test_the_owner_learns_how_long_ago_a_message_arrived_at_its_gateway(store: Store) -> None:
    now = 100.0
    inbox = Inbox(store, Broadcast(), clock=lambda: now)
    log, listener = LocalPartitionLog(store.partitions, PARTITIONS), Listener(store)
    await hears(inbox, "m0", "hello")
    now = 102.5  # the message waited in the inbox
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(RecordPublisher(inbox, log, lambda: now).live)
        tasks.start_soon(log.own, "ada", listener.work)
        await until(lambda: len(listener.stored) == 1, "the record arrives")
        tasks.cancel_scope.cancel()
    (age_s,) = listener.ages
    assert 2.5 <= age_s < 60


async def test_owners_look_for_the_records_for_which_there_was_no_room_while_the_log_was_away(
    store: Store, inbox: Inbox
) -> None:
    log, listener = UnreachableLog(store.partitions, PARTITIONS), Listener(store)
    publisher = RecordPublisher(inbox, log, most_events=2)
    log.failures = 1_000_000
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(publisher.live)
        tasks.start_soon(log.own, "ada", listener.work)
        for number in range(5):
            await hears(inbox, f"m{number}", f"line {number}")
        assert len(inbox.queued) == 2
        log.failures = 0
        await until(lambda: len(listener.looked) == PARTITIONS + 1, "the owner looks once more")
        assert [each.message_id for each in listener.stored] == ["m0", "m1"]
        assert listener.looked[-1] == partition_of(GROUP, PARTITIONS)
        await hears(inbox, "m5", "and now?")
        await until(lambda: len(listener.stored) == 3, "the next record has an item again")
        await publisher.drain()
        tasks.cancel_scope.cancel()
    assert listener.stored[-1].message_id == "m5"


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
    """Three owners of the partition in turn begin to handle the record "bad", and end in the middle
    of it. The database counts these owners. The fourth owner skips this record and handles the next
    one."""
    log, listener = LocalPartitionLog(store.partitions, PARTITIONS, again_s=0.01), Listener(store)
    partition = partition_of(GROUP, PARTITIONS)
    for message_id in ("bad", "good"):
        await hears(inbox, message_id, message_id)
    for event in inbox.queued:
        item = b'{"type":"record","chat_key":"fake-group_1","seq":%d}' % event.record.seq
        await log.publish(partition, item, item_id=event.record.message_id)
    begun: list[str] = []

    async def work(owned: OwnedPartition) -> None:
        life = anyio.CancelScope()

        async def bring(record: Record) -> None:
            begun.append(record.message_id)
            if record.message_id == "bad":
                life.cancel()
                await anyio.sleep_forever()

        async def look(_: int) -> None:
            return

        takes = RecordTakes(store.item_takes, owned.ownership)
        await takes.begin(since=0.0)

        async def take_up(chat_key: ChatKey, seq: int) -> bool:
            if takes.is_deadly(seq):
                return False
            await takes.take(chat_key, seq)
            return True

        feeder = RecordFeeder(
            store=store,
            prepare=listener.prepare,
            take=take_up,
            stored=lambda _, __: None,
            recalled=lambda _: None,
            look=look,
            bring=bring,
        )
        with life:
            await feeder.feed(owned)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(log.own, "ada", work)
        await until(lambda: "good" in begun, "the record behind it arrives")
        tasks.cancel_scope.cancel()
    assert begun == ["bad", "bad", "bad", "good"]


async def test_an_item_whose_handling_fails_is_skipped_and_its_record_is_not_in_hand(
    store: Store, inbox: Inbox
) -> None:
    """The media of the record "bad" cannot be brought, and the record 999 is not stored. The
    partition keeps its owner, and the record behind these two arrives."""
    log, listener = LocalPartitionLog(store.partitions, PARTITIONS, again_s=0.01), Listener(store)
    for message_id in ("bad", "good"):
        await hears(inbox, message_id, message_id)
    bad, good = (event.record.seq for event in inbox.queued)
    for seq in (bad, 999, good):
        item = b'{"type":"record","chat_key":"fake-group_1","seq":%d}' % seq
        await log.publish(partition_of(GROUP, PARTITIONS), item, item_id=f"{seq}")
    brought: list[str] = []
    dropped: list[int] = []

    async def bring(record: Record) -> None:
        brought.append(record.message_id)
        if record.message_id == "bad":
            raise ValueError("this picture has no size")

    async def work(owned: OwnedPartition) -> None:
        await RecordFeeder(
            store=store,
            prepare=listener.prepare,
            stored=listener.hear,
            recalled=listener.recalled.append,
            look=listener.look,
            bring=bring,
            dropped=dropped.append,
        ).feed(owned)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(log.own, "ada", work)
        await until(lambda: bool(listener.stored), "the record behind them arrives")
        tasks.cancel_scope.cancel()
    assert brought == ["bad", "good"]
    assert dropped == [bad, 999]


async def test_an_item_that_asks_owners_to_look_is_given_out_until_one_has_looked(
    store: Store,
) -> None:
    log, listener = LocalPartitionLog(store.partitions, PARTITIONS, again_s=0.01), Listener(store)
    await log.publish(0, b'{"type":"look"}', item_id="look")
    tries = 0

    async def work(owned: OwnedPartition) -> None:
        nonlocal tries
        if owned.ownership.partition == 0 and tries < 4:
            async for _ in owned.items():  # it is given out, and the owner loses the partition
                tries += 1
                return
        await listener.work(owned)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(log.own, "ada", work)
        await until(lambda: listener.looked == [0], "the fifth owner looks")
        tasks.cancel_scope.cancel()
    assert tries == 4


async def test_the_item_of_an_outgoing_message_is_given_out_until_an_owner_has_looked_at_its_row(
    store: Store,
) -> None:
    log, listener = LocalPartitionLog(store.partitions, PARTITIONS, again_s=0.01), Listener(store)
    partition = partition_of(GROUP, PARTITIONS)
    item = b'{"type":"send","chat_key":"fake-group_1","delivery_id":"d1"}'
    await log.publish(partition, item, item_id="send")
    tries, sent = 0, list[str]()

    async def send(delivery_id: str) -> None:
        sent.append(delivery_id)

    async def work(owned: OwnedPartition) -> None:
        nonlocal tries
        if owned.ownership.partition == partition and tries < 9:
            async for _ in owned.items():  # it is given out, and the owner loses the partition
                tries += 1
                return
        await RecordFeeder(
            store=store,
            prepare=listener.prepare,
            stored=listener.hear,
            recalled=listener.recalled.append,
            look=listener.look,
            send=send,
        ).feed(owned)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(log.own, "ada", work)
        await until(lambda: bool(sent), "the tenth owner looks at the row")
        tasks.cancel_scope.cancel()
    assert sent == ["d1"]
    assert tries == 9
