"""Faults between a worker and the gateway that sends its messages. A message is sent once, however
the call ends, and a fault that passes does not give a message up."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio

from nekro_core.chat import Delivery, DeliveryState, File, Media, Receipt, Segment, Text
from nekro_core.cluster.account_caller import GatewayLink, RemoteAccounts
from nekro_core.cluster.account_messages import (
    Refused,
    SendRequest,
    account_name,
    decode_answer,
    decode_request,
)
from nekro_core.cluster.calls import CALL_BYTES
from nekro_core.cluster.errors import ClusterUnavailable
from nekro_core.cluster.leases import LocalLeases
from nekro_core.cluster.local_calls import LocalCalls
from nekro_core.cluster.local_log import LocalPartitionLog
from nekro_core.cluster.local_objects import LocalObjects
from nekro_core.cluster.objects import OBJECT_BYTES
from nekro_core.delivery.activity import Broadcast
from nekro_core.delivery.adapter import (
    Adapter,
    PlatformMessage,
    SupportsConfirmation,
    SupportsEditing,
    UncertainDelivery,
)
from nekro_core.delivery.outbound.match_delivery import match_delivery
from nekro_core.delivery.outbound.outbox import Outbox
from nekro_core.delivery.settings import DeliverySettings
from nekro_core.store import DeliveryRow, Store, writing_as
from tests.delivery.fakes import FakeAdapter, FullDisk

from .test_message_path import GROUP, Gateway, gateway_on

QUICK = DeliverySettings(retry_s=0.05, call_s=10.0, settle_s=0.2)
SENT, PENDING = DeliveryState.SENT, DeliveryState.PENDING


class LossyCalls(LocalCalls):
    """Loses the answers to requests for which ``loses`` is true. The calls are made."""

    def __init__(self) -> None:
        super().__init__()
        self.loses: Callable[[bytes], bool] = lambda _: False

    async def call(self, name: str, request: bytes, *, within_s: float) -> bytes:
        answer = await super().call(name, request, within_s=within_s)
        if self.loses(request):
            raise ClusterUnavailable("the connection is lost")
        return answer


class FaultyObjects(LocalObjects):
    """An object store from which a file is fetched late, or not at all because NATS does not answer
    (``down``) or the disk is full (``full``)."""

    slow_s = 0.0
    down = False
    full = False

    async def fetch(self, name: str, target: Path, *, most_bytes: int = OBJECT_BYTES) -> int:
        await anyio.sleep(self.slow_s)
        if self.full:
            raise OSError("No space left on device")
        if self.down:
            raise ClusterUnavailable("NATS does not answer")
        return await super().fetch(name, target, most_bytes=most_bytes)


class HistoryAdapter(FakeAdapter):
    """The adapter of a platform that shows the chat's history. In front of the bot's messages, the
    history has one that the bot has sent before, and that certainly arrived."""

    async def confirm(self, doubt: UncertainDelivery) -> Receipt:
        shown = [
            PlatformMessage(
                message_id=f"fake-{number}", own=True, segments=each.segments, time=doubt.since
            )
            for number, each in enumerate(self.sent, 1)
        ]
        return match_delivery(doubt, shown)


@dataclass
class Cluster:
    """A gateway, and a worker's outbox, which owns all chats."""

    gateway: Gateway
    calls: LossyCalls
    objects: FaultyObjects
    adapters: dict[str, Adapter]
    gateway_adapters: dict[str, Adapter]
    outbox: Outbox

    @property
    def store(self) -> Store:
        return self.gateway.store

    async def says(self, *segments: Segment) -> Receipt:
        (receipt,) = await self.outbox.send(GROUP, segments)
        return receipt

    async def row(self) -> DeliveryRow:
        """The newest delivery."""
        (row,) = await self.store.deliveries.newest(*DeliveryState, limit=1)
        return row

    async def becomes(self, state: DeliveryState) -> DeliveryRow:
        """Wait until the newest delivery has this state."""
        with anyio.fail_after(30):
            while (row := await self.row()).state is not state:
                await anyio.sleep(0.01)
        return row


@asynccontextmanager
async def cluster_on(
    folder: Path, adapter: FakeAdapter | None = None, settings: DeliverySettings = QUICK
) -> AsyncIterator[Cluster]:
    calls, objects = LossyCalls(), FaultyObjects(folder / "objects")
    async with Store.open(f"sqlite://{folder}/nekro.sqlite3") as store:
        await store.partitions.prepare(1)
        log = LocalPartitionLog(store.partitions, 1)
        opened = gateway_on(
            store,
            log,
            calls,
            LocalLeases(),
            objects,
            folder,
            adapter or HistoryAdapter(),
            served := dict[str, Adapter](),
        )
        async with opened as gateway:
            owned = {0: await store.partitions.take(0, "ada")}
            adapters: dict[str, Adapter] = {}
            link = GatewayLink(
                calls=calls, objects=objects, partitions=1, ownership=owned.get, settings=settings
            )
            await RemoteAccounts(link, adapters).prepare(GROUP)
            async with Outbox(store, adapters, Broadcast(), settings) as outbox:
                with writing_as(owned[0]):
                    yield Cluster(gateway, calls, objects, adapters, served, outbox)


async def test_a_message_is_not_sent_again_if_the_answer_of_the_gateway_is_lost(
    tmp_path: Path,
) -> None:
    async with cluster_on(tmp_path) as cluster:
        assert (await cluster.says(Text("first"))).ok
        cluster.calls.loses = lambda request: isinstance(decode_request(request), SendRequest)
        receipt = await cluster.says(Text("hello"))
        await anyio.sleep(3 * QUICK.settle_s)
        assert receipt == Receipt(state=SENT, message_id="fake-2")
        row = await cluster.row()
        record = await cluster.store.messages.get(row.record_seq)
        assert record is not None
        assert (row.state, row.message_id) == (SENT, "fake-2")
        assert (record.state, record.message_id) == (SENT, "fake-2")
        assert len(cluster.gateway.adapter.sent) == 2


async def test_an_unknown_delivery_is_found_on_the_platform_by_its_message_id(
    tmp_path: Path,
) -> None:
    async with cluster_on(tmp_path) as cluster:
        adapter = cluster.gateway.adapter
        assert (await cluster.says(Text("first"))).ok

        async def unclear(_: Delivery) -> Receipt:
            adapter.sent.append(_)
            return Receipt(state=DeliveryState.UNKNOWN, message_id="fake-2", reason="no answer")

        adapter.behaviour = unclear
        await cluster.says(Text("hello"))
        assert (await cluster.becomes(SENT)).message_id == "fake-2"
        await anyio.sleep(3 * QUICK.settle_s)
        assert len(adapter.sent) == 2


async def test_the_worker_waits_until_the_gateway_has_fetched_a_medium(tmp_path: Path) -> None:
    settings = QUICK.model_copy(update={"call_s": 0.3})
    async with cluster_on(tmp_path, settings=settings) as cluster:
        cluster.objects.slow_s = 0.8
        file = tmp_path / "report.pdf"
        file.write_bytes(b"%PDF and more")
        receipt = await cluster.says(File(Media(path=str(file), name="report.pdf")))
        assert receipt == Receipt(state=SENT, message_id="fake-1")


async def test_a_message_waits_while_its_medium_cannot_be_fetched(tmp_path: Path) -> None:
    async with cluster_on(tmp_path) as cluster:
        cluster.objects.down = True
        file = tmp_path / "report.pdf"
        file.write_bytes(b"%PDF and more")
        receipt = await cluster.says(File(Media(path=str(file), name="report.pdf")))
        assert receipt.state is PENDING
        assert "NATS does not answer" in receipt.reason
        assert (await cluster.row()).state in {PENDING, DeliveryState.SENDING}
        cluster.objects.down = False
        await cluster.becomes(SENT)
        assert len(cluster.gateway.adapter.sent) == 1


async def test_a_message_waits_while_the_gateway_has_no_adapter(tmp_path: Path) -> None:
    async with cluster_on(tmp_path) as cluster:
        adapter = cluster.gateway_adapters.pop("fake")
        assert (await cluster.says(Text("hello"))).state is PENDING
        cluster.gateway_adapters["fake"] = adapter
        await cluster.becomes(SENT)
        assert len(cluster.gateway.adapter.sent) == 1


async def test_a_message_waits_while_the_gateway_cannot_write_its_state(tmp_path: Path) -> None:
    async with cluster_on(tmp_path) as cluster:
        delivery = await cluster.gateway.row()
        cluster.store.deliveries = disk = FullDisk(cluster.store)  # type: ignore[assignment]
        receipt = await cluster.adapters["fake"].send(delivery)
        assert receipt.state is PENDING
        assert "the disk is full" in receipt.reason
        assert cluster.gateway.adapter.calls == []
        disk.full = False
        assert (await cluster.adapters["fake"].send(delivery)).ok


async def test_a_request_that_a_gateway_cannot_read_is_to_be_repeated_later(
    tmp_path: Path,
) -> None:
    async with cluster_on(tmp_path) as cluster:
        answer = decode_answer(
            await cluster.calls.call(account_name("fake"), b'{"type": "newer"}', within_s=5)
        )
        assert isinstance(answer, Refused)
        assert answer.later


async def test_a_message_that_is_being_sent_now_is_not_given_up(tmp_path: Path) -> None:
    async with cluster_on(tmp_path) as cluster:
        adapter, began, goes_on = cluster.gateway.adapter, anyio.Event(), anyio.Event()

        async def slow(_: Delivery) -> Receipt:
            began.set()
            await goes_on.wait()
            return Receipt(state=SENT, message_id="fake-1")

        adapter.behaviour = slow
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(cluster.says, Text("hello"))
            await began.wait()
            delivery = adapter.calls[0]
            again = await cluster.adapters["fake"].send(delivery)
            assert again == Receipt(state=DeliveryState.UNKNOWN, reason="it is being sent now")
            goes_on.set()
        assert (await cluster.row()).state is SENT
        assert len(adapter.calls) == 1


class EditingAdapter(HistoryAdapter):
    """The adapter of a platform on which messages can be changed."""

    def __init__(self) -> None:
        super().__init__()
        self.edits: list[Delivery] = []

    async def edit(self, message_id: str, delivery: Delivery) -> Receipt:
        self.edits.append(delivery)
        return Receipt(state=SENT, message_id=message_id)


async def test_an_edit_whose_medium_finds_no_room_at_the_gateway_is_not_made(
    tmp_path: Path,
) -> None:
    adapter = EditingAdapter()
    async with cluster_on(tmp_path, adapter) as cluster:
        assert (await cluster.says(Text("hello"))).ok
        file = tmp_path / "report.pdf"
        file.write_bytes(b"%PDF and more")
        changed = Delivery(
            delivery_id="made-up",
            chat_key=GROUP,
            segments=(File(Media(path=str(file), name="report.pdf")),),
        )
        remote = cluster.adapters["fake"]
        assert isinstance(remote, SupportsEditing)
        cluster.objects.full = True
        receipt = await remote.edit("fake-1", changed)
        assert (receipt.state, adapter.edits) == (PENDING, [])
        assert "No space left on device" in receipt.reason
        cluster.objects.full = False
        assert (await remote.edit("fake-1", changed)).ok


async def test_the_outcome_of_a_message_is_unknown_if_the_answer_of_the_gateway_is_too_large(
    tmp_path: Path,
) -> None:
    async with cluster_on(tmp_path) as cluster:
        delivery = await cluster.gateway.row()
        long = "x" * CALL_BYTES

        async def tell_much(delivery: Delivery) -> Receipt:
            return Receipt(state=SENT, message_id="fake-1", reason=long)

        cluster.gateway.adapter.behaviour = tell_much
        receipt = await cluster.adapters["fake"].send(delivery)
        assert receipt.state is DeliveryState.UNKNOWN
        assert "it may have arrived" in receipt.reason


async def test_a_medium_that_cannot_be_read_does_not_cause_a_doubtful_message_to_be_sent_again(
    tmp_path: Path,
) -> None:
    """The worker cannot ask for the outcome. That must not look as if the platform had said that
    the message did not arrive."""
    async with cluster_on(tmp_path) as cluster:
        missing = File(Media(path=str(tmp_path / "missing.pdf"), name="missing.pdf"))
        delivery = Delivery(delivery_id="some id", chat_key=GROUP, segments=(missing,))
        remote = cluster.adapters["fake"]
        assert isinstance(remote, SupportsConfirmation)
        doubt = UncertainDelivery(
            delivery=delivery, since=0.0, before=frozenset(), taken=frozenset()
        )
        assert (await remote.confirm(doubt)).state is PENDING
        assert (await remote.send(delivery)).state is DeliveryState.REJECTED


async def test_a_gateway_that_ends_lets_a_call_end_and_begins_no_other(tmp_path: Path) -> None:
    async with cluster_on(tmp_path) as cluster:
        adapter, server = cluster.gateway.adapter, cluster.gateway.server
        began, goes_on = anyio.Event(), anyio.Event()
        ended: list[bool] = []
        assert server is not None

        async def slow(_: Delivery) -> Receipt:
            began.set()
            await goes_on.wait()
            return Receipt(state=SENT, message_id="fake-1")

        async def end() -> None:
            ended.append(await server.running.finish(10.0))

        adapter.behaviour = slow
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(cluster.says, Text("hello"))
            await began.wait()
            assert not await server.running.finish(0.05), "the call still runs"
            tasks.start_soon(end)
            later = await cluster.adapters["fake"].send(await cluster.gateway.row("later"))
            assert later.state is PENDING
            assert "the gateway ends" in later.reason
            assert ended == []
            goes_on.set()
        assert ended == [True]
        assert len(adapter.calls) == 1


class SilentAboutThePast(HistoryAdapter):
    """A platform that cannot be asked whether a message has arrived."""

    async def confirm(self, doubt: UncertainDelivery) -> Receipt:
        return Receipt(state=DeliveryState.UNKNOWN, reason="there is no history")


async def test_a_call_whose_worker_stops_waiting_ends_with_the_answer_of_the_platform(
    tmp_path: Path,
) -> None:
    """A partition moved to another worker while the call was under way. The next owner gets the
    outcome from the gateway, and need not ask the platform."""
    async with cluster_on(tmp_path, SilentAboutThePast()) as cluster:
        adapter, began, goes_on = cluster.gateway.adapter, anyio.Event(), anyio.Event()

        async def slow(_: Delivery) -> Receipt:
            began.set()
            await goes_on.wait()
            return Receipt(state=SENT, message_id="fake-1")

        adapter.behaviour = slow
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(cluster.says, Text("hello"))
            await began.wait()
            tasks.cancel_scope.cancel()
            with anyio.CancelScope(shield=True):
                asked = cluster.adapters["fake"]
                assert isinstance(asked, SupportsConfirmation)
                doubt = UncertainDelivery(delivery=adapter.calls[0], since=0.0)
                async with anyio.create_task_group() as next_owner:
                    receipts: list[Receipt] = []

                    async def ask() -> None:
                        receipts.append(await asked.confirm(doubt))

                    next_owner.start_soon(ask)
                    await anyio.sleep(0.05)
                    goes_on.set()
        assert receipts == [Receipt(state=SENT, message_id="fake-1")]
        assert (await cluster.row()).state is SENT
        assert len(adapter.calls) == 1
