"""While the gateway of an account is away, answers wait, and other accounts do not wait with
them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest
from anyio.abc import TaskGroup

from nekro_core.chat import ChatKey, ChatMessage, DeliveryState, Sender, Text, plain_text
from nekro_core.cluster.account_caller import GatewayLink, RemoteAccounts
from nekro_core.cluster.account_messages import account_name
from nekro_core.cluster.account_server import AccountServer
from nekro_core.cluster.errors import CallTimedOut, ClusterError, ClusterUnavailable
from nekro_core.cluster.leases import Leases, LocalLeases
from nekro_core.cluster.local_calls import LocalCalls
from nekro_core.cluster.local_log import LocalPartitionLog
from nekro_core.cluster.local_objects import LocalObjects
from nekro_core.cluster.record_items import RecordPublisher
from nekro_core.delivery.activity import Broadcast
from nekro_core.delivery.adapter import Adapter
from nekro_core.delivery.inbound.inbox import Inbox
from nekro_core.delivery.settings import DeliverySettings
from nekro_core.store import DeliveryRow, Store
from tests.delivery.fakes import FakeAdapter

from .conformance import until
from .echo_worker import SETTINGS, EchoWorker

GROUP = ChatKey.parse("fake-group_1")
OTHER = ChatKey.parse("other-group_7")


@dataclass
class AwayGateways:
    """Two accounts, ``fake`` and ``other``. What people write is stored, but no gateway serves the
    accounts until the test says so."""

    store: Store
    log: LocalPartitionLog
    calls: LocalCalls
    objects: LocalObjects
    folder: Path
    tasks: TaskGroup
    inbox: Inbox = field(init=False)
    adapter: FakeAdapter = field(default_factory=FakeAdapter)
    other: FakeAdapter = field(default_factory=lambda: FakeAdapter("other"))
    said: int = 0

    def __post_init__(self) -> None:
        self.inbox = Inbox(self.store, Broadcast())

    async def hears(self, words: str, chat_key: ChatKey = GROUP) -> None:
        self.said += 1
        message = ChatMessage(
            chat_key=chat_key,
            message_id=f"m{self.said}",
            sender=Sender("lin", "Lin"),
            segments=(Text(words),),
            time=1_000.0 + self.said,
            account="bot",
            to_bot=True,
        )
        await self.inbox.accept(self.inbox.stamp(message))

    def worker(self, name: str = "ada", settings: DeliverySettings = SETTINGS) -> EchoWorker:
        return EchoWorker(name, self.store, self.log, self.calls, self.objects, settings)

    async def come_back(self, instance: str = "fake", leases: Leases | None = None) -> None:
        """A gateway serves the account from now on."""
        adapters: dict[str, Adapter] = {"fake": self.adapter, "other": self.other}
        server = AccountServer(
            name="gateway",
            leases=leases or LocalLeases(),
            calls=self.calls,
            objects=self.objects,
            store=self.store,
            adapters=adapters,
            partitions=1,
            scratch=self.folder / "scratch",
            settings=SETTINGS,
        )
        served = anyio.Event()

        async def serve() -> None:
            async with server.serve(instance):
                served.set()
                await anyio.sleep_forever()

        self.tasks.start_soon(serve)
        await served.wait()

    def shown(self, chat_key: ChatKey = GROUP) -> list[str]:
        both = (*self.adapter.sent, *self.other.sent)
        sent = [each for each in both if each.chat_key == chat_key]
        return [plain_text(each.segments) for each in sent]

    async def rows(self) -> list[DeliveryRow]:
        """The rows of all outgoing messages, oldest first."""
        return [*reversed(await self.store.deliveries.newest(*DeliveryState))]

    async def waiting(self, count: int) -> None:
        """Wait until so many outgoing messages are stored, and check that they are not sent yet."""
        with anyio.fail_after(20):
            while len(rows := await self.rows()) < count:
                await anyio.sleep(0.01)
        assert [row.state for row in rows] == [DeliveryState.PENDING] * count


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[AwayGateways]:
    async with Store.open(f"sqlite://{folder}/nekro.sqlite3") as store:
        await store.accounts.bind("fake", "bot")
        await store.accounts.bind("other", "bot")
        await store.partitions.prepare(1)
        log = LocalPartitionLog(store.partitions, 1, again_s=0.05)
        objects = LocalObjects(folder / "objects")
        async with anyio.create_task_group() as tasks:
            gateways = AwayGateways(store, log, LocalCalls(), objects, folder, tasks)
            tasks.start_soon(RecordPublisher(gateways.inbox, log).live)
            yield gateways
            tasks.cancel_scope.cancel()


@pytest.fixture
async def gateways(tmp_path: Path) -> AsyncIterator[AwayGateways]:
    async with opened(tmp_path) as found:
        yield found


async def test_answers_wait_until_the_gateway_of_the_account_is_back(
    gateways: AwayGateways,
) -> None:
    async with gateways.worker().running():
        for words in ("one", "two", "three"):
            await gateways.hears(words)
        await gateways.waiting(3)
        await gateways.come_back()
        await until(lambda: len(gateways.shown()) == 3, "the answers are sent")
        await gateways.hears("four")
        await until(lambda: len(gateways.shown()) == 4, "the next answer is sent")
    assert gateways.shown() == [f"ada heard {words}" for words in ("one", "two", "three", "four")]
    assert {row.position for row in await gateways.rows()} == {0}


async def test_answers_are_sent_as_soon_as_the_gateway_is_back(gateways: AwayGateways) -> None:
    """The outbox would try again after 10 minutes. The worker finds out that the gateway is
    back."""
    async with gateways.worker(settings=SETTINGS.model_copy(update={"retry_s": 600.0})).running():
        for words in ("one", "two"):
            await gateways.hears(words)
        await gateways.waiting(2)
        await gateways.come_back()
        await until(lambda: len(gateways.shown()) == 2, "the answers are sent")
    assert gateways.shown() == ["ada heard one", "ada heard two"]


class LateLeases(LocalLeases):
    """The leases of a gateway that was suspended. ``renewed`` says whether it has renewed them."""

    def __init__(self) -> None:
        super().__init__()
        self.renewed = False
        self.asked = 0

    def is_current(self, name: str) -> bool:
        self.asked += 1
        return self.renewed and super().is_current(name)


async def test_an_answer_is_sent_as_soon_as_a_gateway_that_was_suspended_has_renewed_its_lease(
    gateways: AwayGateways,
) -> None:
    leases = LateLeases()
    await gateways.come_back(leases=leases)
    async with gateways.worker(settings=SETTINGS.model_copy(update={"retry_s": 600.0})).running():
        await gateways.hears("one")
        await until(lambda: leases.asked, "a call is refused")
        leases.renewed = True
        await until(gateways.shown, "the answer is sent")
    assert gateways.shown() == ["ada heard one"]


async def test_a_long_answer_that_waited_is_split_for_its_platform(gateways: AwayGateways) -> None:
    long = "\n\n".join(f"{number} " + "word " * 15 for number in range(6))
    async with gateways.worker().running():
        await gateways.hears(long)
        await gateways.waiting(1)
        await gateways.come_back()
        await until(lambda: "5 word" in "".join(gateways.shown()), "the whole answer is sent")
    assert len(gateways.shown()) > 3


async def test_the_next_owner_sends_the_answers_that_waited(gateways: AwayGateways) -> None:
    async with gateways.worker("ada").running():
        await gateways.hears("one")
        await gateways.hears("two")
        await gateways.waiting(2)
    async with gateways.worker("bob").running():
        await gateways.come_back()
        await until(lambda: len(gateways.shown()) == 2, "bob sends what ada has stored")
    assert gateways.shown() == ["ada heard one", "ada heard two"]


async def test_an_answer_that_waited_is_in_the_history_of_its_chat_once(
    gateways: AwayGateways,
) -> None:
    async with gateways.worker().running():
        await gateways.hears("one")
        await gateways.waiting(1)
        await gateways.come_back()
        await until(lambda: len(gateways.shown()) == 1, "the answer is sent")
    history = await gateways.store.messages.newest(GROUP, 10)
    assert [plain_text(each.segments) for each in history] == ["one", "ada heard one"]


async def test_an_account_without_a_gateway_does_not_hold_up_another_account(
    gateways: AwayGateways,
) -> None:
    await gateways.come_back("other")
    async with gateways.worker().running():
        await gateways.hears("is anybody there?", GROUP)
        await gateways.hears("hello", OTHER)
        await until(lambda: gateways.shown(OTHER) == ["ada heard hello"], "the other one answers")


async def test_a_gateway_that_did_not_answer_is_not_asked_again_at_once_for_each_chat(
    gateways: AwayGateways,
) -> None:
    asked: list[bytes] = []

    async def suspended(request: bytes) -> bytes:
        asked.append(request)
        await anyio.sleep_forever()
        raise AssertionError

    link = GatewayLink(
        calls=gateways.calls,
        objects=gateways.objects,
        partitions=1,
        ownership=lambda _: None,
        settings=SETTINGS,
    )
    accounts = RemoteAccounts(link, {})
    async with gateways.calls.serve(account_name("fake"), suspended):
        with pytest.raises(CallTimedOut):
            await accounts.prepare(GROUP)
        begun = anyio.current_time()
        for number in range(20):
            with pytest.raises(ClusterUnavailable):
                await accounts.prepare(ChatKey.parse(f"fake-group_{number}"))
        # On a busy machine the loop may take seconds. A gateway may be asked again after two.
        assert len(asked) <= 1 + (anyio.current_time() - begun) / 2.0
    await gateways.come_back()
    with anyio.fail_after(30):
        while accounts.known(GROUP) is None:
            with suppress(ClusterError):
                await accounts.prepare(GROUP)
            await anyio.sleep(0.05)
