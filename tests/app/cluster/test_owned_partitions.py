"""A worker answers in the chats of its partitions. It reads from the log of each partition which
records are new. Here the log is in the test's process; tests/e2e/test_cluster.py has the whole
cluster.

An owner has a record *in hand* from the plugins' hooks until a turn is stored. The database counts
the owners that ended with a record in hand. If there were two, the record is a *suspect* and is
handled while no other suspect is; after three it is given up (`RecordTakes`).
"""

import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import TaskGroup

from nekro_core.agent.session.given_records import GivenRecords
from nekro_core.agent.session.record_takes import GIVEN_UP, RecordTakes, SuspectGate
from nekro_core.app.cluster.owned_partitions import OwnedPartitions
from nekro_core.chat import ChatKey, DeliveryState, Record, plain_text
from nekro_core.cluster.errors import ClusterUnavailable
from nekro_core.cluster.local_log import LocalPartitionLog
from nekro_core.cluster.owner_notices import OwnerNotices
from nekro_core.cluster.partition_log import partition_of
from nekro_core.cluster.record_items import RecordPublisher
from nekro_core.delivery.outbound.ledger import UNSPLIT
from nekro_core.llm.scripted import ScriptedModel
from nekro_core.plugins.authoring.commands import Command, CommandExecutionContext
from nekro_core.plugins.authoring.declarations import MsgSignal
from nekro_core.policy.settings import TriggerSettings
from nekro_core.store import DecisionReason, MessageDecision, Ownership
from nekro_core.store.ownership import ChatScope
from tests.agent.bot import LIN, LONG, Bot, answer, running_bot, until
from tests.agent.conftest import BoxCache
from tests.agent.shared_work import REST, EchoCommand, HaltingReply

PARTITIONS = 4


@dataclass
class Accounts:
    """Stands in for the accounts of gateways: the bot of these tests has its own adapter."""

    prepared: list[ChatKey] = field(default_factory=list)
    forgotten: list[int] = field(default_factory=list)
    away: int = 0

    async def prepare(self, chat_key: ChatKey) -> None:
        if self.away:
            self.away -= 1
            raise ClusterUnavailable("the gateway starts again")
        self.prepared.append(chat_key)

    def forget(self, partition: int) -> None:
        self.forgotten.append(partition)


@dataclass
class Timers:
    """Counts how often the timers are read again."""

    readings: int = 0

    async def read_again(self) -> None:
        self.readings += 1


@dataclass
class Worker:
    """A worker whose sessions and outbox are those of a test's bot."""

    bot: Bot
    log: LocalPartitionLog
    accounts: Any = field(default_factory=Accounts)
    timers: Any = field(default_factory=Timers)
    owned: dict[int, Ownership] = field(default_factory=dict)
    work: OwnedPartitions = field(init=False)

    def __post_init__(self) -> None:
        self.begin_anew()

    def begin_anew(self) -> None:
        """Be a new process, as far as the partitions are concerned."""
        self.work = OwnedPartitions(
            owned=self.owned,
            count=PARTITIONS,
            accounts=self.accounts,
            store=self.bot.store,
            outbox=self.bot.outbox,
            sessions=self.bot.sessions,
            timers=self.timers,
            bring=self.bot.media.bring_record,
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[TaskGroup]:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.log.own, "ada", self.work.work)
            tasks.start_soon(self.work.follow)
            yield tasks
            tasks.cancel_scope.cancel()


@asynccontextmanager
async def worker_on(
    folder: Path, boxes: BoxCache, model: ScriptedModel, **more: Any
) -> AsyncIterator[Worker]:
    async with running_bot(folder, boxes, model, feeds=False, **more) as bot:
        log = LocalPartitionLog(bot.store.partitions, PARTITIONS, again_s=0.01)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(RecordPublisher(bot.inbox, log).live)
            yield Worker(bot, log)
            tasks.cancel_scope.cancel()


async def until_async(true: Callable[[], Awaitable[object]]) -> None:
    """Wait until a condition that must be awaited is true."""
    with anyio.fail_after(30):
        while not await true():
            await anyio.sleep(0.01)


async def test_a_worker_answers_each_message_once(folder: Path, boxes: BoxCache) -> None:
    model = ScriptedModel([answer("first"), answer("second")])
    async with worker_on(folder, boxes, model) as worker:
        bot = worker.bot
        record = await bot.say("stored before a worker came")
        async with worker.running():
            await until(lambda: bot.said() == ["first"])
            # The log names the record once more, as after a crash of its publisher.
            item = b'{"type":"record","chat_key":"%s","seq":%d}' % (str(LIN).encode(), record.seq)
            await worker.log.publish(partition_of(LIN, PARTITIONS), item, item_id="again")
            await bot.say("and another one")
            await until(lambda: bot.said() == ["first", "second"])
            await bot.settled()
            await anyio.sleep(0.1)
        assert bot.said() == ["first", "second"]
        assert LIN in worker.accounts.prepared
        assert worker.timers.readings


async def test_the_next_owner_resumes_a_turn_and_answers_what_waited(
    folder: Path, boxes: BoxCache
) -> None:
    halting = HaltingReply()
    model = ScriptedModel([halting.chunks(), REST, answer("three")])
    async with worker_on(folder, boxes, model) as worker:
        bot = worker.bot
        async with worker.running():
            await bot.say("count")
            await halting.begun.wait()
            await until(lambda: bot.said() == ["one"])
        assert worker.owned == {}
        assert bot.sessions.live_count == 0
        assert (await bot.last_turn()).running
        async with worker.running():
            await until(lambda: bot.said() == ["one", "two"])
            await bot.say("go on")
            await until(lambda: bot.said() == ["one", "two", "three"])
            await bot.settled()


async def test_an_owner_that_lost_its_partition_sends_nothing(
    folder: Path, boxes: BoxCache
) -> None:
    go_on, asked = anyio.Event(), anyio.Event()

    async def slow() -> AsyncIterator[str]:
        asked.set()
        await go_on.wait()
        yield answer("too late")

    async with worker_on(folder, boxes, ScriptedModel([slow()])) as worker:
        bot = worker.bot
        async with worker.running():
            await bot.say("hello")
            await asked.wait()
            # Another process takes the partition. This one has been stopped and does not know it.
            await bot.store.partitions.take(partition_of(LIN, PARTITIONS), "bob")
            go_on.set()
            await until(lambda: bot.sessions.live_count == 0)
        assert bot.said() == []
        # The row of the turn may have been stored before the partition was lost.
        left = await bot.store.turns.interrupted() or await bot.store.turns.unanswered(since=0.0)
        assert [each.chat_key for each in left] == [LIN], "the new owner answers"


async def test_a_worker_that_ends_lets_running_turns_finish_and_begins_no_others(
    folder: Path, boxes: BoxCache
) -> None:
    asked = anyio.Event()

    async def slow() -> AsyncIterator[str]:
        asked.set()
        await anyio.sleep(0.3)
        yield "in time"

    model = ScriptedModel([slow()])
    async with worker_on(folder, boxes, model) as worker:
        bot = worker.bot
        async with worker.running():
            await bot.say("hello")
            await asked.wait()
            await worker.work.finish()
            assert bot.said() == ["in time"]
            assert worker.owned == {}
            await bot.say("too late for this one")
            await anyio.sleep(0.1)
            assert bot.said() == ["in time"]


async def test_a_command_runs_once_however_often_it_is_given_out(
    folder: Path, boxes: BoxCache
) -> None:
    echo = EchoCommand()
    async with worker_on(folder, boxes, ScriptedModel([])) as worker:
        bot = worker.bot
        bot.commands.book.add_builtin(echo.command)
        # The command waits in the log while the partition has no owner.
        record = await bot.say("/echo one")
        async with worker.running():
            await until(lambda: echo.calls == ["one"])
            bot.sessions.on_shared_record(record, GivenRecords())
            await anyio.sleep(0.05)
        async with worker.running():
            await anyio.sleep(0.1)
        assert echo.calls == ["one"]


async def workers_ended_with(worker: Worker, record: Record, times: int) -> None:
    """Store that this number of processes took a record up and ended with it in hand."""
    store = worker.bot.store
    for number in range(times):
        owned = await store.partitions.take(partition_of(LIN, PARTITIONS), f"ended-{number}")
        await store.item_takes.take(owned, [f"record.{record.seq}"])


async def test_only_the_message_that_ended_three_workers_is_given_up_and_its_chat_is_told(
    folder: Path, boxes: BoxCache
) -> None:
    heard: list[str] = []

    def hook(message: Any) -> MsgSignal:
        heard.append(plain_text(message.segments))
        return MsgSignal.CONTINUE

    model = ScriptedModel([answer("to the others")])
    async with worker_on(folder, boxes, model, trigger=LONG) as worker:
        bot = worker.bot
        bot.plugins.signal = hook
        before = await bot.say("an innocent message")
        deadly = await bot.say("a message that ends workers")
        await bot.say("a message behind it")
        await workers_ended_with(worker, deadly, 3)
        await workers_ended_with(worker, before, 1)
        async with worker.running():
            await until(lambda: len(heard) == 2)
            bot.typed()
            await until(lambda: len(bot.said()) == 2)
            await bot.settled()
        assert sorted(heard) == ["a message behind it", "an innocent message"]
        told, answered = bot.said()
        assert "ended the process that handled it three times" in told
        assert answered == "to the others"
        decision = await bot.store.decisions.of(deadly.seq)
        assert decision == MessageDecision(reason=DecisionReason.FAILED, detail=GIVEN_UP)
        assert await bot.store.condition.failed_since(GIVEN_UP, 0.0) == 1
        async with worker.running():
            await anyio.sleep(0.1)
        assert len(heard) == 2
        assert len(bot.said()) == 2


async def test_owners_that_give_a_partition_up_as_planned_do_not_count_against_a_message_in_hand(
    folder: Path, boxes: BoxCache
) -> None:
    """A message is in a plugin's hook each time when one of five owners gives the partition up."""
    async with worker_on(folder, boxes, ScriptedModel([answer("at last")])) as worker:
        bot = worker.bot
        record = await bot.say("hello")
        for _ in range(5):
            bot.plugins.looked = anyio.Event()
            entered = len(bot.plugins.contexts)
            async with worker.running():
                await until(lambda: len(bot.plugins.contexts) > entered)  # noqa: B023
        owned = await bot.store.partitions.take(partition_of(LIN, PARTITIONS), "looks")
        assert await bot.store.item_takes.unfinished(owned, since=0.0) == {}
        bot.plugins.looked = None
        async with worker.running():
            await until(lambda: bot.said() == ["at last"])
            await bot.settled()
        assert (await bot.last_turn()).trigger_seq == record.seq


async def test_an_owner_that_meets_an_error_when_it_ends_does_not_count_against_a_message_in_hand(
    folder: Path, boxes: BoxCache
) -> None:
    async def fail(_: ChatScope) -> None:
        raise OSError("the disk is full")

    async with worker_on(folder, boxes, ScriptedModel([])) as worker:
        bot = worker.bot
        worker.work.released.append(fail)
        record = await bot.say("hello")
        bot.plugins.looked = anyio.Event()
        async with worker.running():
            await until(lambda: bool(bot.plugins.contexts))
        assert worker.owned == {}
        owned = await bot.store.partitions.take(partition_of(LIN, PARTITIONS), "looks")
        left = await bot.store.item_takes.unfinished(owned, since=0.0)
        assert left == {}, f"record {record.seq} counts as in hand when a worker ended"


async def test_an_end_of_an_owner_still_counts_after_a_day_if_messages_are_recovered_for_two_days(
    folder: Path, boxes: BoxCache
) -> None:
    day_s = 86_400.0
    days = TriggerSettings(recover_age_s=2 * day_s)
    async with worker_on(folder, boxes, ScriptedModel([]), trigger=days) as worker:
        store, partition = worker.bot.store, partition_of(LIN, PARTITIONS)
        owned = await store.partitions.take(partition, "ended")
        await store.item_takes.take(owned, ["record.7"])
        with closing(sqlite3.connect(folder / "nekro.sqlite3")) as connection, connection:
            connection.execute("UPDATE item_takes SET taken = taken - ?", (day_s,))
        owned = await store.partitions.take(partition, "next")
        takes = RecordTakes(store.item_takes, owned)
        await worker.bot.sessions.recover(given=GivenRecords(takes))
        assert takes.earlier(7) == 1


async def test_a_suspect_from_the_log_that_waits_for_another_one_is_not_in_hand(
    folder: Path, boxes: BoxCache
) -> None:
    async with worker_on(folder, boxes, ScriptedModel([answer("one"), answer("two")])) as worker:
        bot, partition = worker.bot, partition_of(LIN, PARTITIONS)
        bot.plugins.looked = anyio.Event()
        first, second = await bot.say("first suspect"), await bot.say("second suspect")
        for record in (first, second):
            await workers_ended_with(worker, record, 2)
        owned = await bot.store.partitions.take(partition, "ada")
        takes = RecordTakes(bot.store.item_takes, owned)
        await takes.begin(since=0.0)
        given = GivenRecords(takes)
        bot.sessions.given_of = lambda _: given

        async def feed() -> None:
            for record in (first, second):
                assert await bot.sessions.take_shared_record(LIN, record.seq, given)
                bot.sessions.on_shared_record(record, given)

        async def ended_with() -> list[int]:
            found = await bot.store.item_takes.unfinished(Ownership(partition, 99), since=0.0)
            return [found[f"record.{each.seq}"] for each in (first, second)]

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(feed)
            await until(lambda: bool(bot.plugins.contexts))
            await anyio.sleep(0.3)
            assert await ended_with() == [3, 2], "only the first one is in a hook"
            bot.plugins.looked.set()
            await until(lambda: second.seq in given)
        await until(lambda: len(bot.said()) >= 1)
        await bot.settled()


async def test_an_owner_has_a_message_in_hand_from_its_hooks_until_its_turn_is_stored(
    folder: Path, boxes: BoxCache
) -> None:
    go_on, partition = anyio.Event(), partition_of(LIN, PARTITIONS)

    async def slow() -> AsyncIterator[str]:
        await go_on.wait()
        yield answer("here")

    async with worker_on(folder, boxes, ScriptedModel([slow()])) as worker:
        bot = worker.bot
        bot.plugins.looked = anyio.Event()
        record = await bot.say("hello")

        async def in_hand() -> bool:
            # The epoch of a later owner, without taking the partition.
            found = await bot.store.item_takes.unfinished(Ownership(partition, 99), since=0.0)
            return bool(found[f"record.{record.seq}"])

        async with worker.running():
            with anyio.fail_after(30):
                while not await in_hand():
                    await anyio.sleep(0.01)
            bot.plugins.looked.set()
            with anyio.fail_after(30):
                while await in_hand():
                    await anyio.sleep(0.01)
            assert (await bot.last_turn()).running
            go_on.set()
            await until(lambda: bot.said() == ["here"])
            await bot.settled()


async def test_messages_that_ended_two_workers_are_handled_one_at_a_time(
    folder: Path, boxes: BoxCache
) -> None:
    heard: list[str] = []
    go_on, model = anyio.Event(), ScriptedModel([answer("one"), answer("two")])

    async def wait() -> None:
        await go_on.wait()

    def hook(message: Any) -> MsgSignal:
        heard.append(plain_text(message.segments))
        return MsgSignal.CONTINUE

    async with worker_on(folder, boxes, model) as worker:
        bot = worker.bot
        bot.plugins.signal, bot.plugins.asked = hook, [wait]
        first = await bot.say("first suspect")
        second = await bot.say("second suspect", user="ada")
        for record in (first, second):
            await workers_ended_with(worker, record, 2)
        async with worker.running():
            # The prompt for the first message is not made yet, so it may still end the process.
            await until(lambda: heard == ["first suspect"])
            await anyio.sleep(0.3)
            assert heard == ["first suspect"]
            go_on.set()
            await until(lambda: bot.said() == ["one", "two"])
            await bot.settled()
        assert heard == ["first suspect", "second suspect"]


class PatientGate(SuspectGate):
    """A suspect waits for the other one until that one is handled, and not only for 10 s."""

    @property
    def free(self) -> bool:
        return self._settled()


async def test_the_turn_of_a_suspect_is_resumed_before_the_next_suspect_of_its_chat_is_heard(
    folder: Path, boxes: BoxCache
) -> None:
    halting = HaltingReply()
    model = ScriptedModel([halting.chunks(), REST, answer("three")])
    async with worker_on(folder, boxes, model) as worker:
        bot = worker.bot
        bot.sessions._suspects = PatientGate()
        async with worker.running():
            first = await bot.say("count")
            await halting.begun.wait()
            await until(lambda: bot.said() == ["one"])
        second = await bot.say("and me?", user="ada")
        for record in (first, second):
            await workers_ended_with(worker, record, 2)
        async with worker.running():
            # If one suspect waited for the other one, this would never happen.
            await until(lambda: bot.said() == ["one", "two", "three"])
            await bot.settled()


async def epoch(bot: Bot, partition: int) -> int:
    """How often the owner of a partition has changed."""
    return (await bot.store.partitions.all())[partition].epoch


@pytest.mark.long
async def test_a_session_that_does_not_end_does_not_keep_its_partition(
    folder: Path, boxes: BoxCache
) -> None:
    """A hook catches each cancellation. The worker gives the partition up again and again, so that
    another worker can take it, until the hook ends."""
    hangs, partition = anyio.Event(), partition_of(LIN, PARTITIONS)

    class Hanging:
        async def wait(self) -> None:
            with anyio.CancelScope(shield=True):
                await hangs.wait()

    async with worker_on(folder, boxes, ScriptedModel([answer("at last")])) as worker:
        bot = worker.bot
        hanging: Any = Hanging()
        bot.plugins.looked = hanging
        await bot.say("hello")
        async with worker.running():
            await until(lambda: bool(bot.plugins.contexts))
        try:
            async with worker.running():
                first = await epoch(bot, partition)
                with anyio.move_on_after(60):
                    while (now := await epoch(bot, partition)) < first + 3:
                        await anyio.sleep(0.05)
                bot.plugins.looked = None
                hangs.set()
                with anyio.move_on_after(60):
                    while bot.said() != ["at last"]:
                        await anyio.sleep(0.05)
                await bot.settled()
        finally:
            hangs.set()
        assert now >= first + 3, "taken, given up, taken"
        assert bot.said() == ["at last"]


async def test_the_answer_of_a_command_whose_chat_moved_meanwhile_is_left_to_the_new_owner(
    folder: Path, boxes: BoxCache
) -> None:
    begun, go_on = anyio.Event(), anyio.Event()

    async def slow(context: CommandExecutionContext) -> str:
        begun.set()
        await go_on.wait()
        return "done"

    async with worker_on(folder, boxes, ScriptedModel([])) as worker:
        bot, partition = worker.bot, partition_of(LIN, PARTITIONS)
        bot.commands.book.add_builtin(Command(name="slow", handler=slow, description="Take long."))
        notices = OwnerNotices(
            worker.log,
            owns=lambda chat: partition_of(chat, PARTITIONS) in worker.owned,
            ownership=lambda chat: worker.owned.get(partition_of(chat, PARTITIONS)),
        )
        bot.outbox.owner = notices
        async with worker.running():
            await bot.say("/slow")
            await begun.wait()
            await bot.store.partitions.take(partition, "bob")
            go_on.set()
            await until_async(lambda: bot.store.deliveries.newest(DeliveryState.PENDING))
        (row,) = await bot.store.deliveries.newest(*DeliveryState)
        assert (row.position, plain_text(row.segments)) == (UNSPLIT, "done")
        assert bot.said() == [], "the new owner sends it"


@pytest.mark.long
async def test_a_chat_is_told_that_the_end_of_a_worker_cut_its_command_off(
    folder: Path, boxes: BoxCache
) -> None:
    calls: list[str] = []

    async def echo(context: CommandExecutionContext) -> str:
        calls.append("echo")
        return "done"

    async with worker_on(folder, boxes, ScriptedModel([])) as worker:
        bot = worker.bot
        bot.commands.book.add_builtin(Command(name="echo", handler=echo, description="Say it."))
        record = await bot.say("/echo")
        await workers_ended_with(worker, record, 1)
        assert await bot.store.decisions.claim_command(record.seq)
        async with worker.running():
            with anyio.fail_after(90):
                while not bot.said():
                    await anyio.sleep(0.1)
            await anyio.sleep(0.1)
        (told,) = bot.said()
        assert told.startswith("This command was cut off")
        async with worker.running():
            await anyio.sleep(0.1)
        assert calls == []


@pytest.mark.slow
@pytest.mark.long
async def test_a_chat_is_not_told_that_a_command_was_cut_off_while_its_worker_runs_it(
    folder: Path, boxes: BoxCache
) -> None:
    """The partition moves while the command runs. The old owner renews the row of the command every
    10 s. The new owner would tell the chat if the row was not renewed for 30 s."""
    begun, go_on = anyio.Event(), anyio.Event()

    async def slow(context: CommandExecutionContext) -> str:
        begun.set()
        await go_on.wait()
        return "done"

    async with worker_on(folder, boxes, ScriptedModel([])) as worker:
        bot = worker.bot
        bot.commands.book.add_builtin(Command(name="slow", handler=slow, description="Take long."))
        async with worker.running():
            await bot.say("/slow")
            await begun.wait()
        async with worker.running():
            await anyio.sleep(40)
            assert bot.said() == []
            go_on.set()
            await until(lambda: bot.said() == ["done"])


@pytest.mark.parametrize("away", [0, 2])
async def test_work_waits_until_the_gateway_of_a_chat_can_be_asked(
    folder: Path, boxes: BoxCache, away: int
) -> None:
    async with worker_on(folder, boxes, ScriptedModel([answer("here")])) as worker:
        worker.accounts.away = away
        await worker.bot.say("hello")
        async with worker.running():
            await until(lambda: worker.bot.said() == ["here"])
            await worker.bot.settled()


async def test_work_begins_soon_although_the_gateway_of_its_chat_stays_away(
    folder: Path, boxes: BoxCache
) -> None:
    model = ScriptedModel([answer("one"), answer("two")])
    async with worker_on(folder, boxes, model) as worker:
        worker.accounts.away = 1_000_000
        await worker.bot.say("stored before a worker came")
        async with worker.running():
            await until(lambda: worker.bot.said() == ["one"])
            # It asks every 0.3 s for 2 s. On a busy machine it asks less often.
            assert 1_000_000 - worker.accounts.away <= 20
            await worker.bot.say("and another one")
            await until(lambda: worker.bot.said() == ["one", "two"])
            assert 1_000_000 - worker.accounts.away <= 40
            await worker.bot.settled()
