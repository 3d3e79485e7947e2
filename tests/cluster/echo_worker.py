"""A worker that answers each message by repeating the words of the message.

In a cluster, the *gateway* is the process that holds the connections to the chat platforms. A
*worker* is a process that answers the messages of some chats. Chats are divided into partitions,
and a worker owns some partitions. The gateway writes each stored message into the log of its
partition, and the owner reads it from there.

A test runs the worker in the process of the test, or starts it as a program:
``python -m tests.cluster.echo_worker NATS_URL DATABASE_URL NAME``.

This worker has no sessions and no model. It has everything else that a real worker has: the logs of
its partitions, an outbox, calls to the accounts that the gateway holds, and writes to the database
that carry its ownership of a partition.
"""

import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field

import anyio

from nekro_core.chat import ChatKey, DeliveryState, Record, Text, plain_text
from nekro_core.cluster.account_caller import GatewayLink, RemoteAccounts
from nekro_core.cluster.calls import CallCarrier
from nekro_core.cluster.cluster_url import read_cluster_url
from nekro_core.cluster.errors import ClusterError
from nekro_core.cluster.nats_calls import NatsCalls
from nekro_core.cluster.nats_connection import NatsConnection
from nekro_core.cluster.nats_log import NatsPartitionLog
from nekro_core.cluster.nats_objects import NatsObjects
from nekro_core.cluster.objects import ObjectStore
from nekro_core.cluster.owner_notices import OwnerNotices
from nekro_core.cluster.partition_log import OwnedPartition, PartitionLog, partition_of
from nekro_core.cluster.record_items import RecordFeeder
from nekro_core.delivery.activity import Broadcast
from nekro_core.delivery.adapter import Adapter
from nekro_core.delivery.outbound.outbox import Outbox
from nekro_core.delivery.settings import DeliverySettings
from nekro_core.store import Ownership, Store, StoreSettings, writing_as

SETTINGS = DeliverySettings(retry_s=0.1, call_s=10.0, sends_per_window=1000, settle_s=1.0)
UNDECIDED = (DeliveryState.PENDING, DeliveryState.SENDING, DeliveryState.UNKNOWN)
PARTITIONS = 8


@dataclass
class EchoWorker:
    """A worker that uses the log, the carrier of calls and the object store that it is given: those
    of NATS, or those that work in one process."""

    name: str
    store: Store
    log: PartitionLog
    calls: CallCarrier
    objects: ObjectStore
    settings: DeliverySettings = SETTINGS
    owned: dict[int, Ownership] = field(default_factory=dict)
    adapters: dict[str, Adapter] = field(default_factory=dict)

    def owns(self, chat_key: ChatKey) -> bool:
        """Whether this worker owns a chat now."""
        return partition_of(chat_key, self.log.partitions) in self.owned

    @asynccontextmanager
    async def running(self) -> AsyncIterator["EchoWorker"]:
        """Work until the block ends."""
        link = GatewayLink(
            calls=self.calls,
            objects=self.objects,
            partitions=self.log.partitions,
            ownership=self.owned.get,
            settings=self.settings,
        )
        outbox = Outbox(
            self.store, self.adapters, Broadcast(), self.settings, chats=lambda _: False
        )
        accounts = RemoteAccounts(link, self.adapters, outbox.retry_now)
        outbox.owner = OwnerNotices(self.log, self.owns, accounts.prepare)

        async def prepare(chat_key: ChatKey) -> None:
            """While the gateway cannot be asked, go on without it, as a worker does."""
            with suppress(ClusterError):
                await accounts.prepare(chat_key)

        async def work(owned: OwnedPartition) -> None:
            partition = owned.ownership.partition

            def here(chat_key: ChatKey) -> bool:
                return partition_of(chat_key, self.log.partitions) == partition

            async def answer(record: Record) -> None:
                run_id = f"answer-{record.seq}"
                if not await self.store.deliveries.of_run(run_id):
                    words = f"{self.name} heard {plain_text(record.segments)}"
                    await outbox.send(record.chat_key, [Text(words)], run_id=run_id)

            async def look(partition: int) -> None:
                for chat in await self.store.turns.unanswered(since=0.0, chats=here):
                    await prepare(chat.chat_key)
                    for record in chat.records:
                        await answer(record)

            queue: list[Record] = []
            feeder = RecordFeeder(
                store=self.store,
                prepare=accounts.prepare,
                stored=lambda record, _: queue.append(record),
                recalled=lambda _: None,
                look=look,
                send=outbox.send_stored,
            )
            self.owned[partition] = owned.ownership
            try:
                with writing_as(owned.ownership):
                    for row in await self.store.deliveries.in_state(*UNDECIDED):
                        if here(row.chat_key):
                            await prepare(row.chat_key)
                    await outbox.resume(here)
                    await feeder.feed(_Answering(owned, queue, answer))
            finally:
                if self.owned.get(partition) == owned.ownership:
                    del self.owned[partition]
                accounts.forget(partition)

        async with outbox, anyio.create_task_group() as tasks:
            tasks.start_soon(self.log.own, self.name, work)
            tasks.start_soon(accounts.watch)
            yield self
            tasks.cancel_scope.cancel()


class _Answering:
    """An owned partition that gives out the next item only after the record of the current item was
    answered. Asking for the next item marks the current one as handled."""

    def __init__(self, owned: OwnedPartition, queue: list[Record], answer: object) -> None:
        self._owned = owned
        self._queue = queue
        self._answer = answer
        self.ownership = owned.ownership

    async def items(self):
        async for item in self._owned.items():
            yield item
            while self._queue:
                await self._answer(self._queue.pop(0))


async def main(nats: str, database: str, name: str) -> None:
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(Store.open(database, StoreSettings(node=name)))
        connection = await stack.enter_async_context(
            NatsConnection.open(read_cluster_url(nats), name=name, role="worker")
        )
        worker = EchoWorker(
            name,
            store,
            await NatsPartitionLog.open(
                connection, store.partitions, partitions=PARTITIONS, make=False
            ),
            NatsCalls(connection),
            await NatsObjects.open(connection, make=False),
        )
        await stack.enter_async_context(worker.running())
        print("ready", flush=True)
        await anyio.sleep_forever()


if __name__ == "__main__":
    anyio.run(main, *sys.argv[1:])
