"""A worker stops waiting for a message that the gateway is sending, because its partition moves.
The gateway ends the call and stores its outcome."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest

from nekro_core.chat import Delivery, DeliveryState, File, Media, Receipt, Text, plain_text
from nekro_core.cluster.account_caller import GatewayLink, RemoteAccounts
from nekro_core.cluster.account_messages import DeliveryData, SendRequest
from nekro_core.cluster.local_calls import LocalCalls
from nekro_core.cluster.local_log import LocalPartitionLog
from nekro_core.cluster.local_objects import LocalObjects
from nekro_core.cluster.objects import OBJECT_BYTES
from nekro_core.delivery.activity import Broadcast
from nekro_core.delivery.adapter import Adapter
from nekro_core.delivery.outbound.outbox import Outbox
from nekro_core.store import Store, writing_as

from .conformance import until
from .echo_worker import SETTINGS
from .test_message_path import GROUP, Gateway, SuspendedLeases, gateway_on

PICTURE = "outgoing/a/0.png"


@dataclass
class SlowObjects(LocalObjects):
    """An object store that gives a file out only when the test says so."""

    folder: Path
    asked: anyio.Event = field(default_factory=anyio.Event)
    goes_on: anyio.Event = field(default_factory=anyio.Event)

    def __post_init__(self) -> None:
        super().__init__(self.folder)

    async def fetch(self, name: str, target: Path, *, most_bytes: int = OBJECT_BYTES) -> int:
        self.asked.set()
        await self.goes_on.wait()
        return await super().fetch(name, target, most_bytes=most_bytes)


@dataclass
class Case:
    """A gateway on which the sending of a message takes as long as the test wants."""

    gateway: Gateway
    objects: SlowObjects
    leases: SuspendedLeases

    async def send(self, delivery: Delivery, data: DeliveryData, *, until: anyio.Event) -> None:
        """As the worker ``ada``, have the gateway send a message. When the event ``until`` comes,
        stop waiting for the outcome."""
        owned = await self.gateway.store.partitions.take(0, "ada")
        async with anyio.create_task_group() as tasks:
            request = SendRequest(0, owned.epoch, data, owned.token)
            tasks.start_soon(self.gateway.ask, request)
            await until.wait()
            tasks.cancel_scope.cancel()

    async def state(self, delivery: Delivery) -> DeliveryState:
        row = await self.gateway.store.deliveries.get(delivery.delivery_id)
        assert row is not None
        return row.state

    @asynccontextmanager
    async def owner(self) -> AsyncIterator[Outbox]:
        """The outbox of ``bob``, who owns the chats from now on."""
        owned = {0: await self.gateway.store.partitions.take(0, "bob")}
        adapters: dict[str, Adapter] = {}
        link = GatewayLink(
            calls=self.gateway.calls,
            objects=self.objects,
            partitions=1,
            ownership=owned.get,
            settings=SETTINGS,
        )
        await RemoteAccounts(link, adapters).prepare(GROUP)
        with writing_as(owned[0]):
            async with Outbox(self.gateway.store, adapters, Broadcast(), SETTINGS) as outbox:
                yield outbox


@pytest.fixture
async def case(tmp_path: Path) -> AsyncIterator[Case]:
    async with Store.open(f"sqlite://{tmp_path}/nekro.sqlite3") as store:
        await store.partitions.prepare(1)
        log, objects = LocalPartitionLog(store.partitions, 1), SlowObjects(tmp_path / "o")
        leases = SuspendedLeases()
        leases.suspended = False
        opened = gateway_on(store, log, LocalCalls(), leases, objects, tmp_path / "scratch")
        async with opened as gateway:
            yield Case(gateway, objects, leases)


async def test_a_message_that_the_platform_refuses_meanwhile_does_not_hold_up_the_next_ones(
    case: Case,
) -> None:
    adapter, calling, refuses = case.gateway.adapter, anyio.Event(), anyio.Event()

    async def slow(_: Delivery) -> Receipt:
        calling.set()
        await refuses.wait()
        adapter.behaviour = None
        return Receipt(state=DeliveryState.REJECTED, reason="the group is muted")

    adapter.behaviour = slow
    refused = await case.gateway.row("refused")
    data = DeliveryData.of(refused, refused.segments)
    async with anyio.create_task_group() as tasks:

        async def ada() -> None:
            await case.send(refused, data, until=moved)

        moved = anyio.Event()
        tasks.start_soon(ada)
        await calling.wait()
        async with case.owner() as outbox:
            moved.set()
            assert await case.state(refused) is DeliveryState.UNKNOWN
            tasks.start_soon(outbox.send, GROUP, (Text("later"),))
            await anyio.sleep(0.1)
            assert adapter.sent == []
            refuses.set()
            await until(lambda: len(adapter.sent) == 1, "the later message is sent")
            assert await case.state(refused) is DeliveryState.REJECTED
    assert [plain_text(each.segments) for each in adapter.calls] == ["refused", "later"]


async def picture_of(case: Case, tmp_path: Path) -> tuple[Delivery, DeliveryData]:
    """Store a message with a file, whose content is in the object store."""
    file = tmp_path / "a.png"
    file.write_bytes(b"picture")
    await case.objects.put(PICTURE, file)
    delivery = await case.gateway.row("a picture")
    return delivery, DeliveryData.of(delivery, (File(Media(path=PICTURE, name="a.png")),))


async def test_a_message_whose_media_the_worker_has_deleted_was_certainly_not_sent(
    case: Case, tmp_path: Path
) -> None:
    delivery, data = await picture_of(case, tmp_path)
    async with anyio.create_task_group() as tasks:

        async def ada() -> None:
            await case.send(delivery, data, until=case.objects.asked)

        tasks.start_soon(ada)
        await case.objects.asked.wait()
        await anyio.sleep(0.05)
        await case.objects.delete(PICTURE)
        case.objects.goes_on.set()
    assert await case.state(delivery) is DeliveryState.PENDING
    assert case.gateway.adapter.calls == []


async def test_a_gateway_that_has_lost_the_account_meanwhile_stores_nothing(
    case: Case, tmp_path: Path
) -> None:
    delivery, data = await picture_of(case, tmp_path)
    async with anyio.create_task_group() as tasks:

        async def ada() -> None:
            await case.send(delivery, data, until=case.objects.asked)

        tasks.start_soon(ada)
        await case.objects.asked.wait()
        await anyio.sleep(0.05)
        case.leases.suspended = True
        case.objects.goes_on.set()
    assert await case.state(delivery) is DeliveryState.SENDING
    assert case.gateway.adapter.calls == []
