"""A message goes from an account of a gateway to a worker and back: in one process, and on a real
NATS server and a real PostgreSQL with several processes."""

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import anyio
import msgspec
import pytest

from nekro_core.chat import (
    ChatKey,
    ChatMessage,
    Delivery,
    DeliveryState,
    File,
    Media,
    Receipt,
    Sender,
    Text,
    plain_text,
)
from nekro_core.cluster.account_caller import GatewayLink, RemoteAccounts
from nekro_core.cluster.account_messages import (
    Answered,
    DeliveryData,
    EditRequest,
    Refused,
    SendRequest,
    account_name,
    decode_answer,
    encode,
)
from nekro_core.cluster.account_server import AccountServer
from nekro_core.cluster.calls import CallCarrier
from nekro_core.cluster.capability_data import CannotBeSent, CapabilityData
from nekro_core.cluster.cluster_url import read_cluster_url
from nekro_core.cluster.errors import ClusterUnavailable
from nekro_core.cluster.leases import Leases, LocalLeases
from nekro_core.cluster.local_calls import LocalCalls
from nekro_core.cluster.local_log import LocalPartitionLog
from nekro_core.cluster.local_objects import LocalObjects
from nekro_core.cluster.nats_calls import NatsCalls
from nekro_core.cluster.nats_connection import NatsConnection
from nekro_core.cluster.nats_leases import NatsLeases
from nekro_core.cluster.nats_log import NatsPartitionLog
from nekro_core.cluster.nats_objects import NatsObjects
from nekro_core.cluster.objects import ObjectStore
from nekro_core.cluster.partition_log import PartitionLog, partition_of
from nekro_core.cluster.record_items import RecordPublisher
from nekro_core.delivery.activity import Broadcast
from nekro_core.delivery.adapter import (
    Adapter,
    BundleLimits,
    Capabilities,
    SupportsConfirmation,
    SupportsEditing,
    UncertainDelivery,
)
from nekro_core.delivery.errors import SignRefused
from nekro_core.delivery.inbound.inbox import Inbox
from nekro_core.delivery.outbound.ledger import DeliveryLedger
from nekro_core.delivery.outbound.outbox import Outbox
from nekro_core.delivery.outbound.split import Piece
from nekro_core.delivery.signs import SupportsReactions, SupportsTyping
from nekro_core.media.limits import PictureLimits, VoiceLimits
from nekro_core.store import Store, StoreSettings, writing_as
from tests.delivery.fakes import FakeAdapter
from tests.peers.nats import NatsServer
from tests.peers.postgres import PostgresServer

from .conformance import until
from .echo_worker import PARTITIONS, SETTINGS, EchoWorker

GROUP = ChatKey.parse("fake-group_1")
ROOT = Path(__file__).parents[2]


class AskedAdapter(FakeAdapter):
    """The adapter of a platform that can be asked whether a message arrived."""

    async def confirm(self, doubt: UncertainDelivery) -> Receipt:
        for number, each in enumerate(self.sent, 1):
            if each.delivery_id == doubt.delivery.delivery_id:
                return Receipt(state=DeliveryState.SENT, message_id=f"fake-{number}")
        return Receipt(state=DeliveryState.REJECTED, reason="it is not in the history")


@dataclass
class Gateway:
    """A gateway with one account."""

    store: Store
    inbox: Inbox
    adapter: FakeAdapter
    log: PartitionLog
    calls: CallCarrier
    objects: ObjectStore
    server: AccountServer | None = None
    said: int = 0

    async def hears(self, words: str, chat_key: ChatKey = GROUP) -> None:
        """Receive a message in which a person writes these words."""
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

    def shown(self, chat_key: ChatKey = GROUP) -> list[str]:
        """Return the messages that people in the chat read, each without the words "NAME heard"
        with which the worker NAME begins its answer."""
        texts = [
            plain_text(each.segments) for each in self.adapter.sent if each.chat_key == chat_key
        ]
        return [text.partition(" heard ")[2] for text in texts]

    async def ask(self, request: SendRequest | EditRequest) -> Answered | Refused:
        answer = decode_answer(
            await self.calls.call(account_name("fake"), encode(request), within_s=10)
        )
        assert isinstance(answer, Answered | Refused)
        return answer

    async def row(self, words: str = "hello") -> Delivery:
        """Store a delivery whose platform call was not made yet, and return the delivery."""
        ledger = DeliveryLedger(self.store, Broadcast())
        (entry,), written = ledger.open(GROUP, [Piece((Text(words),))], run_id="", record=True)
        await written
        return entry.delivery


@asynccontextmanager
async def gateway_on(
    store: Store,
    log: PartitionLog,
    calls: CallCarrier,
    leases: Leases,
    objects: ObjectStore,
    scratch: Path,
    adapter: FakeAdapter | None = None,
    adapters: dict[str, Adapter] | None = None,
) -> AsyncIterator[Gateway]:
    """Run a gateway. ``adapters`` gets its adapter; a test can take the adapter away."""
    await store.accounts.bind("fake", "bot")
    adapter = adapter or AskedAdapter()
    adapters = {} if adapters is None else adapters
    adapters["fake"] = adapter
    inbox = Inbox(store, Broadcast())
    server = AccountServer(
        name="gateway",
        leases=leases,
        calls=calls,
        objects=objects,
        store=store,
        adapters=adapters,
        partitions=log.partitions,
        scratch=scratch,
        settings=SETTINGS,
    )
    async with server.serve("fake"), anyio.create_task_group() as tasks:
        tasks.start_soon(RecordPublisher(inbox, log).live)
        yield Gateway(store, inbox, adapter, log, calls, objects, server)
        tasks.cancel_scope.cancel()


@pytest.fixture
async def local(tmp_path: Path) -> AsyncIterator[Gateway]:
    """A gateway in this process, on SQLite."""
    async with Store.open(f"sqlite://{tmp_path}/nekro.sqlite3") as store:
        await store.partitions.prepare(PARTITIONS)
        log, objects = (
            LocalPartitionLog(store.partitions, PARTITIONS, again_s=0.05),
            LocalObjects(tmp_path / "o"),
        )
        scratch = tmp_path / "scratch"
        async with gateway_on(store, log, LocalCalls(), LocalLeases(), objects, scratch) as gateway:
            yield gateway


@pytest.fixture
async def on_servers(
    nats_server: NatsServer, postgres: PostgresServer, tmp_path: Path
) -> AsyncIterator[tuple[Gateway, list[str]]]:
    """A gateway on NATS and PostgreSQL, and the command line that starts a worker if the worker's
    name is added to it."""
    database = await postgres.database()
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(Store.open(database, StoreSettings(node="gateway")))
        await store.partitions.prepare(PARTITIONS)
        connection = await stack.enter_async_context(
            NatsConnection.open(read_cluster_url(nats_server.url), name="gateway", role="gateway")
        )
        log = await NatsPartitionLog.open(connection, store.partitions, partitions=PARTITIONS)
        leases = NatsLeases(connection)
        await leases.prepare()
        gateway = await stack.enter_async_context(
            gateway_on(
                store,
                log,
                NatsCalls(connection),
                leases,
                await NatsObjects.open(connection),
                tmp_path / "scratch",
            )
        )
        yield (
            gateway,
            [sys.executable, "-m", "tests.cluster.echo_worker", nats_server.url, database],
        )


@contextmanager
def worker_process(words: list[str], name: str) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a worker as a process of its own, until the block ends."""
    process = subprocess.Popen(
        [*words, name],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == b"ready"
        yield process
    finally:
        process.kill()
        process.wait(10)
        process.stdout.close()


async def test_a_worker_in_the_process_of_the_gateway_answers_each_chat_in_order(
    local: Gateway,
) -> None:
    other = ChatKey.parse("fake-group_2")
    worker = EchoWorker("ada", local.store, local.log, local.calls, local.objects)
    async with worker.running():
        for number in range(5):
            await local.hears(f"one {number}")
            await local.hears(f"two {number}", other)
        await until(lambda: len(local.adapter.sent) == 10, "all messages are answered")
        with anyio.fail_after(30):
            while await local.store.deliveries.count(DeliveryState.SENT) < 10:
                await anyio.sleep(0.01)
    assert local.shown() == [f"one {number}" for number in range(5)]
    assert local.shown(other) == [f"two {number}" for number in range(5)]
    states = Counter(row.state for row in await local.store.deliveries.newest(*DeliveryState))
    assert states == {DeliveryState.SENT: 10}


class SuspendedLeases(LocalLeases):
    """Leases of a process that was suspended for so long that it may have lost them."""

    suspended = True

    def is_current(self, name: str) -> bool:
        return not self.suspended and super().is_current(name)


async def test_a_gateway_that_was_suspended_makes_no_call_until_it_has_its_lease_again(
    tmp_path: Path,
) -> None:
    async with Store.open(f"sqlite://{tmp_path}/nekro.sqlite3") as store:
        await store.partitions.prepare(PARTITIONS)
        log = LocalPartitionLog(store.partitions, PARTITIONS, again_s=0.05)
        objects, leases, calls = LocalObjects(tmp_path / "o"), SuspendedLeases(), LocalCalls()
        async with gateway_on(store, log, calls, leases, objects, tmp_path / "scratch") as gateway:
            worker = EchoWorker("ada", store, log, calls, objects)
            async with worker.running():
                await gateway.hears("hello")

                async def waits() -> bool:
                    return bool(await store.deliveries.in_state(DeliveryState.PENDING))

                with anyio.fail_after(30):
                    while not await waits():
                        await anyio.sleep(0.01)
                assert gateway.adapter.sent == []
                leases.suspended = False
                await until(lambda: len(gateway.adapter.sent) == 1, "the message is sent now")


async def test_messages_that_were_stored_before_a_worker_came_are_answered(local: Gateway) -> None:
    await local.hears("is anybody here?")
    await anyio.sleep(0.1)
    worker = EchoWorker("ada", local.store, local.log, local.calls, local.objects)
    async with worker.running():
        await until(lambda: local.shown() == ["is anybody here?"], "the message is answered")


async def test_a_gateway_refuses_an_older_owner(local: Gateway) -> None:
    partition = partition_of(GROUP, PARTITIONS)
    old = await local.store.partitions.take(partition, "ada")
    new = await local.store.partitions.take(partition, "bob")
    delivery = await local.row()
    data = DeliveryData.of(delivery, delivery.segments)
    answer = await local.ask(SendRequest(partition, old.epoch, data, old.token))
    assert isinstance(answer, Refused)
    assert answer.lost
    assert local.adapter.calls == []
    row = await local.store.deliveries.get(delivery.delivery_id)
    assert row is not None
    assert row.state is DeliveryState.PENDING
    done = await local.ask(SendRequest(partition, new.epoch, data, new.token))
    assert isinstance(done, Answered)
    assert done.receipt == Receipt(state=DeliveryState.SENT, message_id="fake-1")
    row = await local.store.deliveries.get(delivery.delivery_id)
    assert row is not None
    assert (row.state, row.message_id) == (DeliveryState.SENT, "fake-1")


async def test_a_row_is_sent_once_however_often_a_worker_asks_for_it(local: Gateway) -> None:
    partition = partition_of(GROUP, PARTITIONS)
    owned = await local.store.partitions.take(partition, "ada")
    delivery = await local.row()
    data = DeliveryData.of(delivery, delivery.segments)
    request = SendRequest(partition, owned.epoch, data, owned.token)
    assert isinstance(await local.ask(request), Answered)
    again = await local.ask(request)
    assert isinstance(again, Refused)
    assert "is sent already" in again.reason
    assert len(local.adapter.sent) == 1


async def test_a_stolen_password_sends_nothing_but_rows_of_its_partition(
    local: Gateway, tmp_path: Path
) -> None:
    partition = partition_of(GROUP, PARTITIONS)
    owned = await local.store.partitions.take(partition, "ada")
    delivery = await local.row()
    data = DeliveryData.of(delivery, delivery.segments)
    secret = tmp_path / "secret.txt"
    secret.write_text("the gateway's own file")
    stolen = (File(Media(path=str(secret), name="a.txt")),)
    refused = {
        "has no delivery": DeliveryData("made-up", str(GROUP), delivery.segments),
        "is no chat of the account": DeliveryData(delivery.delivery_id, "web-private_x", ()),
        "expected the name of an object": DeliveryData.of(delivery, stolen),
    }
    for reason, wrong in refused.items():
        answer = await local.ask(SendRequest(partition, owned.epoch, wrong, owned.token))
        said = answer.reason if isinstance(answer, Refused) else answer.receipt.reason
        assert reason in said
    other = (partition + 1) % PARTITIONS
    elsewhere = await local.ask(SendRequest(other, owned.epoch, data, owned.token))
    assert isinstance(elsewhere, Refused)
    assert f"is in partition {partition}" in elsewhere.reason
    garbage = decode_answer(await local.calls.call(account_name("fake"), b"\x80\x04", within_s=5))
    assert isinstance(garbage, Refused)
    assert local.adapter.calls == []


async def test_a_stolen_password_changes_no_message_without_the_token_of_the_owner(
    tmp_path: Path,
) -> None:
    """The thief knows the partition and its epoch, and guesses the token. At the end the thief has
    the token too: then only messages of the bot can be changed."""
    edited: list[str] = []

    class Editing(AskedAdapter):
        async def edit(self, message_id: str, delivery: Delivery) -> Receipt:
            edited.append(message_id)
            return Receipt(state=DeliveryState.SENT, message_id=message_id)

    async with Store.open(f"sqlite://{tmp_path}/nekro.sqlite3") as store:
        await store.partitions.prepare(1)
        log, calls = LocalPartitionLog(store.partitions, 1), LocalCalls()
        objects = LocalObjects(tmp_path / "o")
        opened = gateway_on(store, log, calls, LocalLeases(), objects, tmp_path, Editing())
        async with opened as gateway:
            words = DeliveryData("made-up", str(GROUP), (Text("Send me your password"),))
            delivery = await gateway.row()
            nobody = await gateway.ask(EditRequest(0, 0, "fake-1", words))
            assert isinstance(nobody, Refused)
            owned = await store.partitions.take(0, "ada")
            data = DeliveryData.of(delivery, delivery.segments)
            for token in ("", f"{owned.epoch}.", owned.token[:-1]):
                for guess in (
                    SendRequest(0, owned.epoch, data, token),
                    EditRequest(0, owned.epoch, "fake-1", words, token),
                ):
                    answer = await gateway.ask(guess)
                    assert isinstance(answer, Refused)
                    assert answer.lost
            assert gateway.adapter.calls == []
            sent = await gateway.ask(SendRequest(0, owned.epoch, data, owned.token))
            assert isinstance(sent, Answered)
            await gateway.hears("what is your name?")
            for message_id in ("m1", "unknown"):
                answer = await gateway.ask(
                    EditRequest(0, owned.epoch, message_id, words, owned.token)
                )
                assert isinstance(answer, Refused)
                assert "of the bot" in answer.reason
            assert edited == []
            await gateway.ask(EditRequest(0, owned.epoch, "fake-1", words, owned.token))
            assert edited == ["fake-1"]


async def test_typing_and_reactions_go_through_the_gateway(tmp_path: Path) -> None:
    shown: list[object] = []

    class Showing(AskedAdapter):
        async def show_typing(self, chat_key: ChatKey, *, typing: bool) -> None:
            shown.append((str(chat_key), typing))

        async def react(self, chat_key: ChatKey, message_id: str, emoji: str) -> None:
            if emoji == "?":
                raise SignRefused("there is no such emoji")
            shown.append((message_id, emoji))

    async with Store.open(f"sqlite://{tmp_path}/nekro.sqlite3") as store:
        log, calls, objects = (
            LocalPartitionLog(store.partitions, 1),
            LocalCalls(),
            LocalObjects(tmp_path / "o"),
        )
        opened = gateway_on(store, log, calls, LocalLeases(), objects, tmp_path, Showing())
        async with opened:
            owned = {0: await store.partitions.take(0, "ada")}
            adapters: dict[str, Adapter] = {}
            link = GatewayLink(
                calls=calls,
                objects=objects,
                partitions=1,
                ownership=owned.get,
                settings=SETTINGS,
            )
            await RemoteAccounts(link, adapters).prepare(GROUP)
            remote = adapters["fake"]
            assert isinstance(remote, SupportsTyping)
            assert isinstance(remote, SupportsReactions)
            assert isinstance(remote, SupportsConfirmation)
            assert not isinstance(remote, SupportsEditing)
            assert await remote.own_accounts(GROUP) == {"bot"}
            await remote.show_typing(GROUP, typing=True)
            await remote.react(GROUP, "m1", "+")
            assert shown == [(str(GROUP), True), ("m1", "+")]
            with pytest.raises(SignRefused, match="no such emoji"):
                await remote.react(GROUP, "m1", "?")
            await store.partitions.take(0, "bob")
            with pytest.raises(ClusterUnavailable):
                await remote.show_typing(GROUP, typing=False)
            assert len(shown) == 2


def test_the_capabilities_of_a_platform_arrive_at_a_worker_unchanged() -> None:
    can = Capabilities(
        inline=frozenset({Text, File}),
        alone=frozenset(),
        text_length=7,
        measure=lambda text: len(text.encode("utf-16-le")) // 2,
        voice=VoiceLimits(formats=("silk", "wav"), max_seconds=60),
        picture=PictureLimits(max_bytes=5, max_side=100),
        bundle=BundleLimits(messages=3),
        edit_every_s=1.5,
        typing_s=5.0,
    )
    data = msgspec.json.decode(msgspec.json.encode(CapabilityData.of(can)), type=CapabilityData)
    arrived = data.capabilities()
    assert arrived.measure("a😀") == 3
    assert replace(arrived, measure=len) == replace(can, measure=len)
    with pytest.raises(CannotBeSent, match="counts the characters"):
        CapabilityData.of(replace(can, measure=lambda text: 2 * len(text)))


async def test_a_file_reaches_the_platform_through_the_object_store(
    local: Gateway, tmp_path: Path
) -> None:
    seen: list[tuple[str, bytes]] = []

    async def look(delivery: Delivery) -> Receipt:
        (part,) = delivery.segments
        assert isinstance(part, File)
        seen.append((part.media.name, Path(part.media.path).read_bytes()))
        return Receipt(state=DeliveryState.SENT, message_id="f1")

    local.adapter.behaviour = look
    partition = partition_of(GROUP, PARTITIONS)
    owned = {partition: await local.store.partitions.take(partition, "ada")}
    adapters: dict[str, Adapter] = {}
    link = GatewayLink(
        calls=local.calls,
        objects=local.objects,
        partitions=PARTITIONS,
        ownership=owned.get,
        settings=SETTINGS,
    )
    await RemoteAccounts(link, adapters).prepare(GROUP)
    file = tmp_path / "report.pdf"
    file.write_bytes(b"%PDF and more")
    async with Outbox(local.store, adapters, Broadcast(), SETTINGS) as outbox:
        with writing_as(owned[partition]):
            (receipt,) = await outbox.send(GROUP, [File(Media(path=str(file), name="report.pdf"))])
    assert receipt.ok
    assert seen == [("report.pdf", b"%PDF and more")]
    assert await local.objects.names() == []
    assert [*(tmp_path / "scratch").iterdir()] == []


@pytest.mark.long
async def test_a_killed_owner_is_replaced_and_nothing_is_lost_or_doubled(
    on_servers: tuple[Gateway, list[str]],
) -> None:
    gateway, words = on_servers
    with worker_process(words, "ada") as ada:
        await gateway.hears("0")
        await until(lambda: gateway.shown() == ["0"], "ada answers")
        with worker_process(words, "bob"):
            for number in range(1, 20):
                await gateway.hears(str(number))
                if number == 10:
                    ada.kill()
                    killed = anyio.current_time()
            await until(lambda: len(gateway.shown()) >= 20, "bob answers the rest")
            took = anyio.current_time() - killed
            await anyio.sleep(1.0)
    print(f"all answered {took:.2f} s after the kill")
    assert gateway.shown() == [str(number) for number in range(20)]


@pytest.mark.long
async def test_a_suspended_owner_that_goes_on_sends_no_message_twice_or_out_of_order(
    on_servers: tuple[Gateway, list[str]],
) -> None:
    gateway, words = on_servers
    partition = partition_of(GROUP, PARTITIONS)
    with worker_process(words, "ada") as ada, worker_process(words, "bob") as bob:
        processes = {"ada": ada, "bob": bob}
        await gateway.hears("0")
        await until(lambda: gateway.shown() == ["0"], "one of them answers")
        owner = (await gateway.store.partitions.all())[partition].worker
        held = anyio.Event()

        async def slow(delivery: Delivery) -> Receipt:
            held.set()
            await anyio.sleep(0.3)
            number = len(gateway.adapter.sent) + 1
            return Receipt(state=DeliveryState.SENT, message_id=f"fake-{number}")

        gateway.adapter.behaviour = slow
        for number in range(1, 10):
            await gateway.hears(str(number))
        await held.wait()
        processes[owner].send_signal(signal.SIGSTOP)
        try:
            await until(lambda: len(gateway.shown()) >= 10, "the other worker answers the rest")
        finally:
            processes[owner].send_signal(signal.SIGCONT)
        await gateway.hears("10")
        await until(lambda: len(gateway.shown()) >= 11, "the chat goes on")
        await anyio.sleep(3.0)
    answers = [plain_text(each.segments) for each in gateway.adapter.sent]
    assert {text.split()[0] for text in answers} == {"ada", "bob"}
    assert gateway.shown() == [str(number) for number in range(11)]
