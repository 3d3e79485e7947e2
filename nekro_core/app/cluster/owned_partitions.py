"""Does the work on each partition that a worker owns.

A worker begins with what earlier owners left: it sends their waiting messages, resumes their turns,
and answers the messages that they had not answered. Then it takes the partition's records from the
log. When it loses the partition, it ends all of that without answering, so that the next owner can
continue.
"""

from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field

import anyio
from loguru import logger

from nekro_core.agent.session.given_records import GivenRecords
from nekro_core.agent.session.record_takes import RecordTakes
from nekro_core.agent.session.sessions import Sessions
from nekro_core.chat import ChatKey, DeliveryState, Record
from nekro_core.cluster.account_caller import RemoteAccounts
from nekro_core.cluster.errors import ClusterError
from nekro_core.cluster.partition_log import OwnedPartition, partition_of
from nekro_core.cluster.record_items import RecordFeeder
from nekro_core.delivery.outbound.outbox import Outbox
from nekro_core.store import (
    Ownership,
    OwnershipLost,
    Store,
    StoreError,
    StoreUnavailable,
    writing_as,
)
from nekro_core.store.ownership import ChatScope
from nekro_core.timers import TimerService

FINISH_S = 2.5
"""When a worker ends, its turns may go on for this many seconds. A turn that takes longer is cut
off, and the next owner resumes it. Less than the time after which a worker would take a partition
again that it has given up (3 s)."""
_RELEASE_S = 6.0
"""Maximum number of seconds for the end of the sessions of a partition. A turn that is cut off
saves the files of its box within 5 s."""
_RELEASE_TAKES_S = 2.0
"""Maximum number of seconds for storing, after the sessions have ended, that this process lives and
has given up the partition's records. This is one statement. Without it, these records count as in
hand when a worker ended, so they are suspected of having ended it."""
_GATEWAY_S = 2.0
"""Maximum number of seconds that the work of an earlier owner waits until the gateway of its chat
can be asked. A gateway that starts again needs about as long."""
_AGAIN_S = 0.3
_TAKING = 32
"""Number of partitions whose earlier work is read at the same time. They share the large readings
(`SharedReading`), and each has half a dozen small ones."""
_LOOK_S = 60.0
"""An owner looks for unanswered records that nobody has told it of every so many seconds. A gateway
that was killed may have stored a record without publishing it, and may not start again."""
_FINISHED_S = 1.0
"""Pause in seconds between two looks for records that nobody has in hand any more."""
_AWAY_S = 2.0
"""If the gateway of an account has not answered for `_GATEWAY_S`, then for this many seconds the
records of its chats are handed over without asking it, so that they do not hold up other chats."""
_MOST_GIVEN = 10_000
"""Maximum number of records that an owner remembers one by one as given to sessions. At this number
it looks for unanswered records at once. Then one number stands for all records up to it."""
_TOGETHER_S = 0.05
"""Changes of ownership within this time are followed by one reading of the timers."""
_UNDECIDED = (DeliveryState.PENDING, DeliveryState.SENDING, DeliveryState.UNKNOWN)


@dataclass(slots=True, kw_only=True)
class OwnedPartitions:
    """The work on the partitions of one worker.

    Attributes:
        owned: The partitions that the worker owns now. This class writes it.
        count: The number of partitions of the cluster.
        accounts: The accounts of the gateways.
        store: The database.
        outbox: Sends messages.
        sessions: The sessions of all chats.
        timers: Reports the timers of owned chats.
        bring: Copies the files of a record to this machine.
        released: Called with the chats of a partition after their sessions have ended.
    """

    owned: MutableMapping[int, Ownership]
    count: int
    accounts: RemoteAccounts
    store: Store
    outbox: Outbox
    sessions: Sessions
    timers: TimerService
    bring: Callable[[Record], Awaitable[None]]
    released: list[Callable[[ChatScope], Awaitable[None]]] = field(default_factory=list)
    _ending: anyio.Event = field(default_factory=anyio.Event)
    _news: anyio.Event = field(default_factory=anyio.Event)
    _taking: anyio.Semaphore = field(default_factory=lambda: anyio.Semaphore(_TAKING))
    _given: dict[int, GivenRecords] = field(default_factory=dict)
    _failing: dict[str, float] = field(default_factory=dict)
    """Since when the gateway of an instance has not answered."""
    _away: dict[str, float] = field(default_factory=dict)
    """Until when records of an instance do not wait for its gateway."""
    _at_work: int = 0
    _one_ended: anyio.Event = field(default_factory=anyio.Event)

    def __post_init__(self) -> None:
        self.sessions.given_of = self._given_of

    def _given_of(self, chat_key: ChatKey) -> GivenRecords | None:
        return self._given.get(partition_of(chat_key, self.count))

    async def work(self, owned: OwnedPartition) -> None:
        """Do the work of one partition until it is lost or the worker ends. See
        `PartitionWork`."""
        if self._ending.is_set():
            return
        partition = owned.ownership.partition

        def here(chat_key: ChatKey) -> bool:
            return partition_of(chat_key, self.count) == partition

        # If the end of the sessions took too long when the worker lost this partition the last
        # time, wait for it, but not for ever: another worker may take the partition.
        with anyio.move_on_after(_RELEASE_S) as waiting:
            await self.sessions.release(here)
        if waiting.cancelled_caught:
            logger.error("partition {}: an earlier session does not end", partition)
            return
        self._at_work += 1
        self.owned[partition] = owned.ownership
        takes = RecordTakes(self.store.item_takes, owned.ownership)
        given = self._given[partition] = GivenRecords(takes)
        with writing_as(owned.ownership):
            try:
                async with self._taking:
                    await self._take_up(here, given)
                self._news.set()
                await self._feed(owned, here, given)
                with anyio.move_on_after(FINISH_S):
                    await self.sessions.finish_turns(here)
            except ExceptionGroup as group:
                raise group.exceptions[0] from None
            finally:
                try:
                    with anyio.move_on_after(_RELEASE_S, shield=True):
                        await self._release(here)
                finally:
                    with anyio.move_on_after(_RELEASE_TAKES_S, shield=True):
                        await self._release_takes(takes)
                    self._end_work(owned.ownership, given)

    def _end_work(self, ownership: Ownership, given: GivenRecords) -> None:
        """Note that the work of a partition has ended."""
        partition = ownership.partition
        if self.owned.get(partition) == ownership:
            del self.owned[partition]
        if self._given.get(partition) is given:
            del self._given[partition]
        self.accounts.forget(partition)
        self._news.set()
        self._at_work -= 1
        self._one_ended.set()

    async def finish(self) -> None:
        """Let running turns end, for at most `FINISH_S`, and give all partitions up."""
        self._ending.set()
        with anyio.move_on_after(FINISH_S + _RELEASE_S + _RELEASE_TAKES_S):
            while self._at_work:
                self._one_ended = anyio.Event()
                await self._one_ended.wait()

    async def follow(self) -> None:
        """Read the timers whenever other chats are owned than before. Never returns."""
        while True:
            await self._news.wait()
            await anyio.sleep(_TOGETHER_S)
            self._news = anyio.Event()
            try:
                await self.timers.read_again()
            except StoreError as error:
                logger.warning("the timers of owned chats are read again: {}", error)
                self._news.set()

    async def _take_up(self, here: ChatScope, given: GivenRecords) -> None:
        """Continue the work of earlier owners."""
        waiting = await self.store.deliveries.in_state(*_UNDECIDED, chats=here)
        async with anyio.create_task_group() as tasks:
            for chat_key in {row.chat_key for row in waiting}:
                tasks.start_soon(self._prepare, chat_key)
        await self.outbox.resume(here)
        await self.sessions.recover(here, prepare=self._prepare, given=given)

    async def _feed(self, owned: OwnedPartition, here: ChatScope, given: GivenRecords) -> None:
        """Take records from the partitions' log until the worker ends."""

        async def take(chat_key: ChatKey, seq: int) -> bool:
            return await self.sessions.take_shared_record(chat_key, seq, given)

        async def look(_: int) -> None:
            await self.sessions.look(here, prepare=self._prepare, given=given)

        def dropped(seq: int) -> None:
            if given.takes is not None:
                given.takes.finish_one(seq)

        def stored(record: Record, age_s: float) -> None:
            self.sessions.on_shared_record(record, given, age_s=age_s)

        feeder = RecordFeeder(
            store=self.store,
            prepare=self._prepare_for_record,
            take=take,
            dropped=dropped,
            stored=stored,
            recalled=self.sessions.on_recall,
            look=look,
            send=self.outbox.send_stored,
            bring=self.bring,
        )
        async with anyio.create_task_group() as tasks:

            async def look_again() -> None:
                looked = anyio.current_time()
                while True:
                    await anyio.sleep(_FINISHED_S)
                    if given.takes is not None:
                        self.sessions.finish_takes(given.takes)
                    due = anyio.current_time() - looked >= _LOOK_S
                    if not due and len(given) < _MOST_GIVEN:
                        continue
                    try:
                        await look(0)
                    except StoreUnavailable as error:
                        logger.warning("unanswered records are looked for later: {}", error)
                    except OwnershipLost:
                        raise
                    except Exception:  # noqa: BLE001 (a record must not end the partition's work)
                        logger.exception("unanswered records are looked for later")
                    looked = anyio.current_time()

            async def end() -> None:
                await self._ending.wait()
                tasks.cancel_scope.cancel()

            tasks.start_soon(end)
            tasks.start_soon(look_again)
            await feeder.feed(owned)

    async def _prepare_for_record(self, chat_key: ChatKey) -> None:
        """Prepare a chat before a new record of it is handed over. Raises `ClusterError` if this
        should be tried again. Does nothing if the gateway has not answered lately; then messages to
        the chat wait until it has answered."""
        instance, now = chat_key.instance, anyio.current_time()
        if self._away.get(instance, now) > now:
            return
        try:
            await self.accounts.prepare(chat_key)
        except ClusterError:
            if now - self._failing.setdefault(instance, now) >= _GATEWAY_S:
                self._away[instance] = now + _AWAY_S
            raise
        self._failing.pop(instance, None)
        self._away.pop(instance, None)

    async def _prepare(self, chat_key: ChatKey) -> None:
        """Prepare a chat before its earlier work goes on: what this process has read of its history
        is out of date, and its gateway must say what messages can carry."""
        self.store.messages.changed(chat_key)
        until = anyio.current_time() + _GATEWAY_S
        while True:
            try:
                return await self._prepare_for_record(chat_key)
            except ClusterError as error:
                if anyio.current_time() >= until:
                    logger.error("{} cannot be answered now: {}", chat_key, error)
                    return None
            await anyio.sleep(_AGAIN_S)

    async def _release_takes(self, takes: RecordTakes) -> None:
        """Store that this process lives, and has no record of the partition in hand any more."""
        try:
            await takes.release(self.sessions.shared_commands.begun)
        except StoreError as error:
            logger.warning("records count as taken by an owner that ended: {}", error)

    async def _release(self, here: ChatScope) -> None:
        await self.sessions.release(here)
        for release in self.released:
            await release(here)
