"""A process that owns no chat stores its messages. The worker that owns their chat sends them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest

from nekro_core.chat import ChatKey, DeliveryState, Text, plain_text
from nekro_core.cluster.errors import ClusterUnavailable
from nekro_core.cluster.owner_notices import OwnerNotices
from nekro_core.delivery.activity import Broadcast
from nekro_core.delivery.errors import NothingToSend
from nekro_core.delivery.media.store import MediaStore
from nekro_core.delivery.outbound.outbox import Outbox
from nekro_core.store import DeliveryRow

from .conformance import until
from .echo_worker import SETTINGS, EchoWorker
from .test_message_path import GROUP, Gateway, local, on_servers, worker_process

__all__ = ["local", "on_servers"]


@asynccontextmanager
async def outbox_elsewhere(
    gateway: Gateway, media: MediaStore | None = None
) -> AsyncIterator[Outbox]:
    """The outbox of a process that owns no chat, such as that of a gateway's console."""
    notices = OwnerNotices(gateway.log, owns=lambda _: False)
    async with (
        anyio.create_task_group() as tasks,
        Outbox(
            gateway.store,
            {},
            Broadcast(),
            SETTINGS,
            media=media,
            chats=lambda _: False,
            owner=notices,
        ) as outbox,
    ):
        tasks.start_soon(notices.live)
        yield outbox
        tasks.cancel_scope.cancel()


def shown(gateway: Gateway, chat_key: ChatKey = GROUP) -> list[str]:
    return [plain_text(each.segments) for each in gateway.adapter.sent if each.chat_key == chat_key]


async def all_sent(gateway: Gateway) -> None:
    """Wait until every row is stored as sent."""
    with anyio.fail_after(60):
        while {row.state for row in await rows(gateway)} != {DeliveryState.SENT}:
            await anyio.sleep(0.01)


async def rows(gateway: Gateway) -> list[DeliveryRow]:
    return await gateway.store.deliveries.newest(*DeliveryState)


async def test_the_owner_sends_what_another_process_says_in_order(local: Gateway) -> None:
    worker = EchoWorker("ada", local.store, local.log, local.calls, local.objects)
    async with worker.running(), outbox_elsewhere(local) as outbox:
        await local.hears("before")
        await until(lambda: len(shown(local)) == 1, "the first message is answered")
        for number in range(5):
            (receipt,) = await outbox.send(GROUP, [Text(f"notice {number}")])
            assert receipt.state is DeliveryState.PENDING
            assert "the process that owns the chat" in receipt.reason
        await until(lambda: len(shown(local)) == 6, "the notices are sent")
        await all_sent(local)
    assert shown(local) == ["ada heard before", *(f"notice {number}" for number in range(5))]
    found = await rows(local)
    assert [row.state for row in found] == [DeliveryState.SENT] * 6
    assert min(row.position for row in found) == 0
    history = await local.store.messages.newest(GROUP, 20)
    said = [plain_text(each.segments) for each in history if plain_text(each.segments) != "before"]
    assert said == shown(local)


async def test_a_long_text_is_split_by_the_owner(local: Gateway) -> None:
    long = "\n\n".join(f"{number} " + "word " * 40 for number in range(12)) + "the end"
    worker = EchoWorker("ada", local.store, local.log, local.calls, local.objects)
    async with worker.running(), outbox_elsewhere(local) as outbox:
        await outbox.send(GROUP, [Text(long)], record=False)
        await until(lambda: "the end" in "".join(shown(local)), "the whole text is sent")
        await all_sent(local)
    assert len(shown(local)) > 10
    assert [row.position for row in reversed(await rows(local))] == [*range(len(shown(local)))]
    assert await local.store.messages.newest(GROUP, 20) == []


async def test_a_message_whose_item_is_given_out_twice_is_sent_once(local: Gateway) -> None:
    worker = EchoWorker("ada", local.store, local.log, local.calls, local.objects)
    async with outbox_elsewhere(local) as outbox:
        await outbox.send(GROUP, [Text("once")])
        (row,) = await rows(local)
        again = OwnerNotices(local.log, owns=lambda _: False)
        again.tell(row)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(again.live)
            async with worker.running():
                await until(lambda: shown(local) == ["once"], "it is sent")
                await local.hears("and now?")
                await until(lambda: len(shown(local)) == 2, "the later item is handled")
            tasks.cancel_scope.cancel()
    assert shown(local) == ["once", "ada heard and now?"]


async def test_a_message_whose_item_was_lost_is_sent_by_the_next_owner(local: Gateway) -> None:
    """The process that stored the message ended before it could tell the owner."""

    class Silent:
        def owns(self, chat_key: ChatKey) -> bool:
            return False

        async def prepare(self, chat_key: ChatKey) -> bool:
            return True

        def tell(self, row: DeliveryRow) -> None:
            pass

    async with Outbox(local.store, {}, Broadcast(), SETTINGS, owner=Silent()) as outbox:
        await outbox.send(GROUP, [Text("still there")])
    worker = EchoWorker("ada", local.store, local.log, local.calls, local.objects)
    async with worker.running():
        await until(lambda: shown(local) == ["still there"], "the next owner sends it")


async def test_the_notice_to_the_owner_waits_while_nats_is_away(local: Gateway) -> None:
    class Away:
        """The partition log of the test. The first two calls of `publish` cannot reach it."""

        partitions = local.log.partitions
        failures = 2

        async def publish(self, partition: int, item: bytes, *, item_id: str) -> None:
            if self.failures:
                self.failures -= 1
                raise ClusterUnavailable("NATS does not answer")
            await local.log.publish(partition, item, item_id=item_id)

        own = local.log.own

    gateway = Gateway(local.store, local.inbox, local.adapter, Away(), local.calls, local.objects)
    worker = EchoWorker("ada", local.store, local.log, local.calls, local.objects)
    async with worker.running(), outbox_elsewhere(gateway) as outbox:
        await outbox.send(GROUP, [Text("one")])
        await outbox.send(GROUP, [Text("two")])
        await until(lambda: shown(local) == ["one", "two"], "both are sent when NATS is back")


async def test_an_operator_of_a_process_without_chats_can_resend_one_message_and_drop_another(
    local: Gateway,
) -> None:
    worker = EchoWorker("ada", local.store, local.log, local.calls, local.objects)
    async with outbox_elsewhere(local) as outbox:
        await outbox.send(GROUP, [Text("never")])
        (row,) = await rows(local)
        await outbox.admin.drop(row.delivery_id)
        lost = await local.row("lost")
        found = await local.store.deliveries.get(lost.delivery_id)
        assert found is not None
        await local.store.deliveries.mark(found, DeliveryState.REJECTED)
        async with worker.running():
            await until(lambda: bool(worker.adapters) or bool(worker.owned), "the worker works")
            await outbox.admin.resend(lost.delivery_id)
            await until(lambda: "lost" in shown(local), "it is sent again")
    assert shown(local) == ["lost"]


async def test_a_message_without_words_is_refused_at_once(local: Gateway) -> None:
    async with outbox_elsewhere(local) as outbox:
        with pytest.raises(NothingToSend):
            await outbox.send(GROUP, [Text("")])
    assert await rows(local) == []


@pytest.mark.long
async def test_an_owner_that_is_another_process_on_real_servers_sends_notices_and_answers_in_order(
    on_servers: tuple[Gateway, list[str]],
) -> None:
    gateway, words = on_servers
    with worker_process(words, "ada"):
        async with outbox_elsewhere(gateway) as outbox:
            await gateway.hears("hello")
            await until(lambda: len(shown(gateway)) == 1, "the message is answered")
            for number in range(10):
                await outbox.send(GROUP, [Text(f"notice {number}")])
            await until(lambda: len(shown(gateway)) == 11, "the notices are sent")
            await gateway.hears("bye")
            await until(lambda: len(shown(gateway)) == 12, "the last message is answered")
    assert shown(gateway) == [
        "ada heard hello",
        *(f"notice {number}" for number in range(10)),
        "ada heard bye",
    ]
